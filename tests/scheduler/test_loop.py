"""The loop: pop, decide, enact; and whatever fails leaves nothing behind."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from policy_sched.client.memory import MemoryClient
from policy_sched.cluster.cache import Cache
from policy_sched.errors import ClusterError
from policy_sched.framework.cycle_state import CycleState
from policy_sched.framework.evaluation import Evaluator
from policy_sched.framework.handle import Handle
from policy_sched.framework.hookspecs import hookimpl
from policy_sched.framework.pipeline import freeze, plugin_manager, points_of
from policy_sched.framework.points import CONFIGURED, POINTS
from policy_sched.framework.results import PermitResult, Rows, Scores, Verdict
from policy_sched.framework.runner import Runner
from policy_sched.framework.status import SUCCESS, Code, Status
from policy_sched.framework.waiting_pods import WaitingPods
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.queued_pod import QueuedPod
from policy_sched.plugins.default_binder import DefaultBinder
from policy_sched.plugins.default_preemption import DefaultPreemption
from policy_sched.plugins.unbuilt import Refusals
from policy_sched.queue.nominator import Nominator
from policy_sched.scheduler.attempt import Profile
from policy_sched.scheduler.loop import Outcome, Scheduler
from policy_sched.scheduler.queueing import build_queue
from policy_sched.testing import make_node, make_pod
from tests.framework.examples import Cpu

NO = Status(Code.UNSCHEDULABLE, ("no",))


class Sort:
    """Higher priority first."""

    @hookimpl
    def queue_sort(self, queued: QueuedPod) -> tuple[int]:
        return (-queued.info.priority,)


class Recorder:
    """Takes part in everything after the decision, answers as told and remembers the calls."""

    def __init__(self, name: str, log: list[str], **answers: object) -> None:
        self._name = name
        self._log = log
        self._answers = answers

    def _answer(self, point: str, default: object) -> object:
        self._log.append(f"{point} {self._name}")
        answer = self._answers.get(point, default)
        if isinstance(answer, Exception):
            raise answer
        return answer

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


class Broken:
    """A filter that raises."""

    @hookimpl
    def filter(self, state: CycleState, pod: PodInfo, rows: Rows) -> Verdict:
        raise ValueError(f"cannot look at {pod.name}")


class Loud:
    """A score beyond the range."""

    @hookimpl
    def score(self, rows: Rows) -> Scores:
        return np.array([101])


def scheduler_of(*plugins: object, nodes: int = 1, client: MemoryClient | None = None) -> Scheduler:
    """Return a scheduler over `nodes` nodes of 4 cpus whose default profile has the plugins."""
    cache = Cache()
    for index in range(nodes):
        cache.add_node(make_node(f"n{index}", cpu="4"))
    handle = Handle(cache, WaitingPods(), Nominator(), client or MemoryClient(), lambda: 0)
    named = {
        "Sort": Sort(),
        "Cpu": Cpu(handle),
        "DefaultPreemption": DefaultPreemption({}, handle),
        "DefaultBinder": DefaultBinder({}, handle),
        **{f"x{index}": plugin for index, plugin in enumerate(plugins)},
    }
    order = {
        field: [(name, 1) for name, plugin in named.items() if point in points_of(plugin)]
        for field, point in CONFIGURED.items()
    }
    runner = Runner(freeze("default-scheduler", plugin_manager(named), order))
    refusals = Refusals(["VolumeBinding", "DynamicResources"])
    profile = Profile(runner.pipeline, runner, Evaluator(runner, cache.nodes), refusals)
    profiles = {"default-scheduler": profile}
    return Scheduler(handle, build_queue(profiles, handle.now), profiles, Random(1))


def run(scheduler: Scheduler, **pod: object) -> Outcome:
    """Queue one pod of 1 cpu and schedule it."""
    info = PodInfo.of(make_pod(**{"name": "p", "cpu": "1", **pod}))  # type: ignore[arg-type]  # keywords of make_pod
    assert scheduler.add_pod(info) is None
    outcome = scheduler.schedule_one()
    assert outcome is not None
    return outcome


def client_of(scheduler: Scheduler) -> MemoryClient:
    client = scheduler.handle.client
    assert isinstance(client, MemoryClient)
    return client


def assert_nothing_left(scheduler: Scheduler) -> None:
    assert scheduler.cache.nodes.pod_total == 0
    assert scheduler.cache.check() == []
    assert client_of(scheduler).bindings == {}
    assert not scheduler.queue.in_flight()


def test_a_pod_that_fits_is_assumed_bound_and_announced() -> None:
    """The cache counts it, the client binds it, the event has upstream's words."""
    log: list[str] = []
    scheduler = scheduler_of(Recorder("a", log))
    outcome = run(scheduler)
    assert outcome.node == "n0"
    assert client_of(scheduler).bindings == {outcome.pod.uid: "n0"}
    assert [event.note for event in client_of(scheduler).events] == [
        "Successfully assigned default/p to n0"
    ]
    assert scheduler.cache.nodes.pod_total == 1
    assert log == ["reserve a", "permit a", "pre_bind a", "post_bind a"]
    assert scheduler.schedule_one() is None


def test_pods_leave_the_queue_by_the_queue_sort_plugin() -> None:
    """The pod of higher priority is decided first."""
    scheduler = scheduler_of()
    for name, priority in (("low", 1), ("high", 9)):
        scheduler.add_pod(PodInfo.of(make_pod(name, cpu="3", priority=priority)))
    first, second = scheduler.schedule_one(), scheduler.schedule_one()
    assert first is not None
    assert second is not None
    assert (first.pod.name, first.node, second.node) == ("high", "n0", "")


def test_a_pod_that_fits_nowhere_says_why() -> None:
    """Message, condition and event carry kube-scheduler's text, preemption included."""
    scheduler = scheduler_of(nodes=2)
    outcome = run(scheduler, cpu="9")
    message = (
        "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: "
        "2 No preemption victims found for incoming pod."
    )
    assert outcome.message == message
    assert client_of(scheduler).conditions == {outcome.pod.uid: ("Unschedulable", message)}
    (event,) = client_of(scheduler).events
    assert (event.kind, event.reason, event.note) == ("Warning", "FailedScheduling", message)
    assert_nothing_left(scheduler)


def test_a_pod_that_never_preempts_says_so() -> None:
    """preemptionPolicy Never ends the question."""
    outcome = run(scheduler_of(), cpu="9", preemption_policy="Never")
    assert outcome.message.endswith(". preemption: not eligible due to preemptionPolicy=Never.")


def test_without_nodes_there_is_one_sentence() -> None:
    """An empty cluster is not a matter of plugins."""
    assert run(scheduler_of(nodes=0)).message == "no nodes available to schedule pods"


@pytest.mark.parametrize(
    ("pod", "words"), [({"resource_claims": [{"name": "gpu"}]}, "DynamicResources")]
)
def test_a_pod_that_needs_an_unbuilt_plugin_is_refused_by_name(
    pod: dict[str, object], words: str
) -> None:
    """It is never decided wrongly: the message names the plugin that would decide."""
    scheduler = scheduler_of()
    outcome = run(scheduler, **pod)
    assert outcome.status.code is Code.ERROR
    assert f"which plugin {words} decides" in outcome.message
    assert_nothing_left(scheduler)


def test_a_plugin_that_raises_ends_the_attempt_and_names_itself() -> None:
    """The scheduler goes on; the condition is SchedulerError."""
    scheduler = scheduler_of(Broken())
    outcome = run(scheduler)
    assert outcome.message == 'running "x0" filter plugin: cannot look at p'
    assert client_of(scheduler).conditions[outcome.pod.uid][0] == "SchedulerError"
    assert_nothing_left(scheduler)


def test_a_score_out_of_range_is_refused_in_upstreams_words() -> None:
    """A third-party score beyond 0..100 is an error, not a preference."""
    outcome = run(scheduler_of(Loud()))
    assert outcome.message == (
        'plugin "x0" returns an invalid score 101, it should in the range of [0, 100] '
        "after normalizing"
    )


@pytest.mark.parametrize("point", ["reserve", "permit", "pre_bind"])
@pytest.mark.parametrize("answer", [NO, RuntimeError("boom")])
def test_failure_after_the_decision_is_undone_in_reverse(point: str, answer: object) -> None:
    """Unreserve runs for every Reserve plugin, last first, and the cache forgets the pod."""
    log: list[str] = []
    said = PermitResult(answer) if point == "permit" and isinstance(answer, Status) else answer
    scheduler = scheduler_of(Recorder("a", log), Recorder("b", log, **{point: said}))
    outcome = run(scheduler)
    assert outcome.node == ""
    assert outcome.message in {
        "0/1 nodes are available: 1 no.",
        f'running {POINTS[point].name} plugin "x1": boom',
    }
    assert log[-2:] == ["unreserve b", "unreserve a"]
    assert_nothing_left(scheduler)


def test_a_refused_binding_is_undone() -> None:
    """What the cluster says ends up in the message; nothing is half-bound."""

    class Refusing(MemoryClient):
        def bind(self, pod: PodInfo, node: str) -> None:
            raise ClusterError(f"{pod.name} exists on {node}")

    scheduler = scheduler_of(client=Refusing())
    outcome = run(scheduler)
    assert outcome.message == 'running Bind plugin "DefaultBinder": p exists on n0'
    assert_nothing_left(scheduler)


def test_a_waiting_pod_holds_its_node_until_it_is_allowed() -> None:
    """While it waits it counts on the node; then it is bound."""
    wait = PermitResult(Status(Code.WAIT), 60.0)
    scheduler = scheduler_of(Recorder("a", [], permit=wait))
    outcome = run(scheduler)
    assert outcome.waiting
    assert scheduler.cache.nodes.pod_total == 1
    assert scheduler.resolve_waiting(10.0) == []
    held = scheduler.handle.waiting_pods.get(outcome.pod.uid)
    assert held is not None
    held.allow("x0")
    (bound,) = scheduler.resolve_waiting(20.0)
    assert bound.node == "n0"
    assert client_of(scheduler).bindings == {outcome.pod.uid: "n0"}


def test_a_pod_that_waits_too_long_is_undone() -> None:
    """The message is upstream's, and the node is free again."""
    log: list[str] = []
    wait = PermitResult(Status(Code.WAIT), 60.0)
    scheduler = scheduler_of(Recorder("a", log, permit=wait))
    run(scheduler)
    (late,) = scheduler.resolve_waiting(60.0)
    assert late.message == (
        "0/1 nodes are available: 1 rejected due to timeout after waiting 1m0s at plugin x0."
    )
    assert log[-1] == "unreserve a"
    assert_nothing_left(scheduler)


def test_a_pod_that_pre_enqueue_rejects_is_gated() -> None:
    """It never enters the active queue."""

    class Gate:
        @hookimpl
        def pre_enqueue(self, pod: PodInfo) -> Status:
            return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (f"{pod.name} must wait",))

    scheduler = scheduler_of(Gate())
    outcome = scheduler.add_pod(PodInfo.of(make_pod("p")))
    assert outcome is not None
    assert outcome.message == "p must wait"
    assert scheduler.schedule_one() is None
    assert len(scheduler.queue.gated()) == 1


def test_ties_are_broken_by_the_random_source_alone() -> None:
    """Two schedulers with one seed place a hundred pods alike, on all of the best nodes."""

    def places() -> list[str]:
        scheduler = scheduler_of(nodes=5)
        return [run(scheduler, name=f"p{i}", cpu="10m").node for i in range(100)]

    first = places()
    assert first == places()
    assert set(first) == {f"n{i}" for i in range(5)}
