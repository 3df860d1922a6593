"""Slices: wherever a turn ends in the middle of something, the same is decided as without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

from hypothesis import example, given, settings
from hypothesis import strategies as st

from policy_sched.client.memory import MemoryClient
from policy_sched.model.cluster_event import ASSIGNED_POD_DELETE
from policy_sched.model.node import Node
from policy_sched.model.pod_info import PodInfo
from policy_sched.profiles.reload.inputs import PolicyFiles
from policy_sched.profiles.reload.store import PolicyStore
from policy_sched.queue.backoff import SECOND
from policy_sched.queue.cooperative_tasks import Work
from policy_sched.scheduler.event_handlers import node_gone, node_seen, pod_gone, pod_seen
from policy_sched.scheduler.scheduler import Outcome, Scheduler
from policy_sched.scheduler.setup.factory import assemble_with_assembly
from policy_sched.scheduler.setup.reload import Reloader
from policy_sched.testing import FakeClock, make_node, make_pod
from tests.scheduler.world import client_of

T = TypeVar("T")
RACK, ZONE = "topology.example.com/rack", "topology.kubernetes.io/zone"
GANGS = Path(__file__).parents[2] / "policies" / "rack-gang"
PLUGINS = {"multiPoint": {"enabled": [{"name": "RackGang"}]}}
CONFIG: dict[str, object] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "plugins": PLUGINS,
            "pluginConfig": [{"name": "RackGang", "args": {"requirePodGroup": False}}],
        }
    ],
}

NODES = st.tuples(st.just("node"), st.integers(0, 5), st.integers(1, 3))
KINDS = st.sampled_from(["plain", "important", "apart", "spread", "gang"])
PODS = st.tuples(st.just("pod"), st.integers(0, 15), KINDS)
ENDS = st.tuples(st.sampled_from(["node gone", "pod gone"]), st.integers(0, 15), st.just(0))
TIMES = st.tuples(st.sampled_from(["decide", "wait", "reload"]), st.integers(1, 40), st.just(0))
STEPS = st.lists(st.one_of(NODES, PODS, PODS, ENDS, TIMES), min_size=5, max_size=40)


def node(number: int, cpu: int) -> Node:
    """Return a node; two of them make a rack, three a zone."""
    labels = {RACK: f"r{number // 2}", ZONE: f"z{number // 3}", "host": f"n{number}"}
    return make_node(f"n{number}", cpu=str(cpu), labels=labels)


def pod(number: int, kind: str) -> PodInfo:
    """Return a pod that wants much or little of the scheduler."""
    labels = {"app": f"a{number % 2}"}
    chosen = {"labelSelector": {"matchLabels": labels}}
    name, cpu = f"p{number}", "1"
    match kind:
        case "important":
            made = make_pod(name, cpu=cpu, labels=labels, priority=100)
        case "apart":
            terms = [{**chosen, "topologyKey": "host"}]
            rule = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
            affinity = {"podAntiAffinity": rule}
            made = make_pod(name, cpu=cpu, labels=labels, priority=50, affinity=affinity)
        case "spread":
            evenly = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
            made = make_pod(
                name,
                cpu=cpu,
                labels=labels,
                priority=60,
                topology_spread_constraints=[{**evenly, **chosen}],
            )
        case "gang":
            group = {"scheduling.x-k8s.io/pod-group": f"g{number % 3}"}
            made = make_pod(name, cpu=cpu, labels={**labels, **group})
        case _:
            made = make_pod(name, cpu=cpu, labels=labels)
    return PodInfo.of(made)


class World:
    """A scheduler with policies for gangs, and what it did; ``over`` ends its slices."""

    def __init__(self, over: Callable[[], bool] | None) -> None:
        self.clock = FakeClock(1_767_225_600 * SECOND)
        store = PolicyStore(PolicyFiles(CONFIG, (str(GANGS),)), self.clock)
        self.scheduler, assembly = assemble_with_assembly(store.current.plans, now=self.clock)
        self.reloader = Reloader(self.scheduler, assembly, store)
        self.outcomes: list[Outcome] = []
        self.cuts = 0
        if over is not None:
            self.scheduler.agenda.over = over

    def settle(self) -> None:
        """Go on as steps do: nothing else is taken up meanwhile."""
        scheduler = self.scheduler
        while scheduler.half_done:
            self.cuts += 1
            assert scheduler.run_due() == []
            before = len(scheduler.queue.in_flight())
            told = scheduler.schedule_one()
            if told is not None:  # of a group that is not done with yet
                self.outcomes.append(told)
            assert len(scheduler.queue.in_flight()) == before
            scheduler.go_on()

    def do(self, what: str, number: int, more: object) -> None:
        """Do one step."""
        scheduler = self.scheduler
        match what, more:
            case "node", int(cpu):
                node_seen(scheduler, node(number, cpu))
            case "node gone", _:
                known = scheduler.cache.nodes.row_of.get(f"n{number}")
                if known is not None:
                    node_gone(scheduler, node(number, 1))
            case "pod", str(kind):
                one = pod(number, kind)
                if scheduler.cache.pod(one.uid) is None and scheduler.queue.get(one.uid) is None:
                    pod_seen(scheduler, one)
            case "pod gone", _:
                pod_gone(scheduler, pod(number, "plain"))
            case "wait", _:
                self.clock.ns += number * 10 * SECOND
                self.tick()
            case "decide", _:
                for _ in range(number):
                    self.tick()
                    self.decide()
            case "reload", _:
                self.reload()
        self.settle()

    def tick(self) -> None:
        """Do what is due, to its end."""
        self.outcomes += self.scheduler.run_due()
        self.settle()
        self.outcomes += self.scheduler.run_due()
        self.settle()

    def decide(self) -> None:
        """Decide one pod, or a group, to its end; victims go at once."""
        client = client_of(self.scheduler)
        outcome = self.scheduler.schedule_one()
        if outcome is not None:
            self.outcomes.append(outcome)
        self.settle()
        while (outcome := self._next_told()) is not None:
            self.outcomes.append(outcome)
        for uid in client.deleted:
            victim = self.scheduler.cache.pod(uid)
            if victim is not None:
                pod_gone(self.scheduler, victim)
                self.settle()
        client.deleted.clear()

    def _next_told(self) -> Outcome | None:
        return self.scheduler._told.popleft() if self.scheduler._told else None

    def reload(self) -> None:
        """Read the policies again, and say that there is room."""

        def work() -> Work:
            yield from self.reloader.committing(self.reloader.prepare())
            yield from self.scheduler.queue.moving(ASSIGNED_POD_DELETE, pod(0, "plain"), None)

        self.scheduler.agenda.begin(work())

    def seen(self) -> tuple[object, ...]:
        """Return everything that came of it."""
        queue = self.scheduler.queue
        places = (queue.active(), queue.backoff(), queue.unschedulable(), queue.gated())
        told = [(o.pod.key, o.node, o.message, o.waiting) for o in self.outcomes]
        client = client_of(self.scheduler)
        assert isinstance(client, MemoryClient)
        done = {k: v for k, v in asdict(client).items() if k != "objects"}
        return told, done, [[p.info.key for p in pods] for pods in places], queue.hints.results


TOLD_IN_BETWEEN = [
    ("node", 0, 1),
    ("pod", 0, "plain"),
    ("pod", 9, "gang"),
    ("pod", 15, "gang"),
    ("decide", 2, 0),
]
"""A gang of which one pod is told of at once, and the next in a later slice."""


@settings(max_examples=100, deadline=None)
@given(STEPS, st.lists(st.booleans(), min_size=1, max_size=7))
@example(TOLD_IN_BETWEEN, [True, False, False, False])
def test_cut_anywhere_the_same_is_decided(
    steps: list[tuple[str, int, object]], pattern: list[bool]
) -> None:
    """Bindings, rejections, evictions, their messages, and every pod's place in the queue."""
    asked = 0

    def over() -> bool:
        nonlocal asked
        asked += 1
        return pattern[asked % len(pattern)]

    whole, sliced = World(None), World(over)
    for step in steps:
        whole.do(*step)
        sliced.do(*step)
        assert whole.cuts == 0
    assert sliced.seen() == whole.seen()
    assert sliced.scheduler.cache.check() == []


def gang(scheduler: Scheduler, size: int) -> None:
    """Let a gang come, and two racks with room for it."""
    for number in range(4):
        node_seen(scheduler, node(number, 8))
    for number in range(size):
        pod_seen(scheduler, pod(number * 3, "gang"))


def test_a_gang_is_placed_in_many_turns_and_nothing_else_happens_in_between() -> None:
    """Until the last of its pods has been told, no other pod is taken up."""
    world = World(lambda: True)
    gang(world.scheduler, 6)
    world.settle()
    pod_seen(world.scheduler, pod(1, "plain"))
    world.settle()
    world.decide()
    assert world.cuts > 12
    nodes = {outcome.node for outcome in world.outcomes}
    assert (len(world.outcomes), nodes in ({"n0", "n1"}, {"n2", "n3"})) == (6, True)
    assert [p.info.name for p in world.scheduler.queue.active()] == ["p1"]


def test_a_long_search_for_victims_takes_many_turns() -> None:
    """A pod that keeps apart from others asks about one node after the other."""
    world = World(lambda: True)
    for number in range(6):
        node_seen(world.scheduler, node(number, 1))
        low = make_pod(f"low{number}", cpu="1", labels={"app": "a0"}, node_name=f"n{number}")
        pod_seen(world.scheduler, PodInfo.of(low))
    pod_seen(world.scheduler, pod(0, "apart"))
    outcome = world.scheduler.schedule_one()
    assert outcome is None
    assert world.scheduler.half_done
    world.settle()
    assert world.cuts > 6
    outcome = world.scheduler.schedule_one()
    assert outcome is not None
    assert world.scheduler.handle.nominator.node_of("default/p0")
