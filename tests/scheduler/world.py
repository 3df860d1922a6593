"""A scheduler of the default profile with additional plugins of a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from msgspec.structs import replace

from policy_sched.client.memory import MemoryClient
from policy_sched.client.protocol import Client
from policy_sched.framework.evaluate.evaluator import Evaluator
from policy_sched.framework.evaluate.nominated_pods import Nominations
from policy_sched.framework.extension_points import CONFIGURED, POINTS
from policy_sched.framework.hookspecs import hookimpl
from policy_sched.framework.results import PermitResult
from policy_sched.framework.runtime.pipeline import Pipeline, freeze, implementations, points_of
from policy_sched.framework.runtime.runner import Runner
from policy_sched.framework.status import SUCCESS, Status
from policy_sched.model.pod_info import PodInfo
from policy_sched.queue.backoff import Timing
from policy_sched.scheduler.queueing_hints import build_queue
from policy_sched.scheduler.scheduler import Outcome, Scheduler
from policy_sched.scheduler.setup.factory import EPOCH, assemble, read
from policy_sched.testing import FakeClock, make_node, make_pod

PLANS = read(None, ())[0]
SCHEDULER = "default-scheduler"


class Recorder:
    """A plugin of all points after the decision; returns prepared results and records the calls.

    A result that is an exception is raised, one that is a function is called.
    """

    def __init__(self, name: str, log: list[str], **answers: object) -> None:
        self.answers = answers
        self._name = name
        self._log = log

    def _answer(self, point: str, default: object) -> object:
        self._log.append(f"{point} {self._name}")
        answer = self.answers.get(point, default)
        if isinstance(answer, Exception):
            raise answer
        return answer() if callable(answer) else answer

    @hookimpl
    def reserve(self) -> object:
        return self._answer("reserve", SUCCESS)

    @hookimpl
    def unreserve(self) -> object:
        return self._answer("unreserve", None)

    @hookimpl
    def permit(self) -> object:
        return self._answer("permit", PermitResult())

    @hookimpl
    def pre_bind(self) -> object:
        return self._answer("pre_bind", SUCCESS)

    @hookimpl
    def post_bind(self) -> object:
        return self._answer("post_bind", None)


class SlowClient(MemoryClient):
    """Responds to bindings on request."""

    def __init__(self) -> None:
        super().__init__()
        self.pending: dict[str, Callable[[], None]] = {}

    def bind(self, pod: PodInfo, node: str, done: Callable[..., None]) -> None:
        bind = super().bind
        self.pending[pod.name] = lambda: bind(pod, node, done)


def with_plugins(pipeline: Pipeline, plugins: Mapping[str, object]) -> Pipeline:
    """Return a pipeline with more plugins behind its own."""
    order = {
        field: [(name, 1) for name, plugin in plugins.items() if point in points_of(plugin)]
        for field, point in CONFIGURED.items()
    }
    implemented = {name: implementations(plugin, name) for name, plugin in plugins.items()}
    more = freeze(SCHEDULER, implemented, order)
    hooks = dict(pipeline.hooks)
    for point, added in more.hooks.items():
        before = hooks.get(point, ())
        undoing = point in POINTS and POINTS[point].reverse
        hooks[point] = (*added, *before) if undoing else (*before, *added)
    signatures = {**pipeline.signatures, **more.signatures}
    return replace(pipeline, hooks=hooks, signatures=signatures)


def scheduler_of(
    *plugins: object,
    nodes: int = 1,
    cpu: str = "4",
    client: Client | None = None,
    now: Callable[[], int] | None = None,
    timing: Timing | None = None,
    runner_of: Callable[[Pipeline], Runner] = Runner,
) -> Scheduler:
    """Return a scheduler over nodes n0, n1, ... whose profile has the plugins, as x0, x1, ..."""
    plain = assemble(PLANS, client=client, now=now or FakeClock(EPOCH))
    handle, profile = plain.handle, plain.profiles[SCHEDULER]
    named = {f"x{index}": plugin for index, plugin in enumerate(plugins)}
    runner = runner_of(with_plugins(profile.pipeline, named))
    nominations = Nominations(handle.cache, handle.nominator)
    evaluator = Evaluator(runner, handle.nodes, nominations=nominations)
    profiles = {
        SCHEDULER: replace(profile, pipeline=runner.pipeline, runner=runner, evaluator=evaluator)
    }
    for index in range(nodes):
        handle.cache.add_node(make_node(f"n{index}", cpu=cpu))
    return Scheduler(handle, build_queue(profiles, handle.now, timing), profiles, Random(1))


def pod_of(name: str = "p", **pod: object) -> PodInfo:
    """Return a pod of 1 cpu."""
    return PodInfo.of(make_pod(**{"name": name, "cpu": "1", **pod}))  # type: ignore[arg-type]  # keywords of make_pod


def run(scheduler: Scheduler, **pod: object) -> Outcome:
    """Queue one pod of 1 cpu and schedule it."""
    assert scheduler.add_pod(pod_of(**pod)) is None  # type: ignore[arg-type]  # its name is one of them
    outcome = scheduler.schedule_one()
    assert outcome is not None
    return outcome


def client_of(scheduler: Scheduler) -> MemoryClient:
    """Return the client with its records."""
    client = scheduler.handle.client
    assert isinstance(client, MemoryClient)
    return client


def assert_nothing_left(scheduler: Scheduler) -> None:
    """A failed attempt leaves no trace on any node."""
    assert scheduler.cache.nodes.pod_total == 0
    assert scheduler.cache.check() == []
    assert client_of(scheduler).bindings == {}
    assert not scheduler.queue.in_flight()
    assert not scheduler.queue.binding()
    assert scheduler.in_flight == 0
    assert len(scheduler.handle.waiting_pods) == 0
    assert not scheduler.handle.waiting_pods.pre_binding


def refusing(error: Exception) -> Callable[[], Status]:
    """Return a function that raises."""

    def fail() -> Status:
        raise error

    return fail
