"""Promises of a gang that is written as a policy: all of its pods are bound, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import invariant, rule

from policy_sched.client.memory import MemoryClient
from policy_sched.errors import ClusterError
from policy_sched.model import pod_group
from policy_sched.model.meta import ObjectMeta
from policy_sched.model.pod import SchedulingGroup
from policy_sched.model.pod_info import PodInfo
from policy_sched.scheduler import event_handlers
from policy_sched.scheduler.setup.factory import build
from policy_sched.testing import FakeClock, make_node, make_pod
from tests.examples import scaled
from tests.scheduler.pod_groups import Driven, PodsThatGo, group

POLICY = str(Path(__file__).parents[2] / "policies" / "gang")
LATE = "rejected due to timeout after waiting 2m0s at plugin Gang"


def member(name: str, of: str = "ring", **spec: Any) -> PodInfo:
    """Return a pod of a group that needs a whole node of `cluster`."""
    return PodInfo.of(
        make_pod(name, cpu="3", labels={pod_group.POD_GROUP_LABEL: of} if of else {}, **spec)
    )


class Run(Driven):
    """A scheduler with the gang policy, its client, and its clock."""

    def __init__(
        self,
        nodes: int,
        groups: Iterable[pod_group.CoschedulingGroup | pod_group.PodGroup] = (),
        client: MemoryClient | None = None,
    ) -> None:
        clock = FakeClock()
        objects = tuple(groups)
        super().__init__(build(None, [POLICY], client=client, now=clock, objects=objects), clock)
        for i in range(nodes):
            self.add_node(f"n{i}")

    def add_node(self, name: str) -> None:
        """A node comes that has room for one member."""
        event_handlers.node_seen(self.scheduler, make_node(name))

    def advance(self, seconds: float) -> None:
        """Let time go on, and do what is due then."""
        self.clock.advance(seconds)
        self.scheduler.run_due()
        self.go()

    @property
    def waiting(self) -> list[str]:
        """The names of the pods that hold a node and wait."""
        return [waiting.pod.name for waiting in self.scheduler.handle.waiting_pods]

    @property
    def names(self) -> list[str]:
        """The names of the bound pods."""
        return list(self.bound)

    def free_nodes(self) -> int:
        """Return the number of nodes without pods and without waiting pods."""
        table = self.scheduler.cache.nodes
        return sum(not table.pods_on(row) for row in table.row_of.values())


def test_a_gang_is_bound_when_its_last_member_has_a_node() -> None:
    """No pod is bound before the gang is complete, then all are; each reports the progress."""
    run = Run(3, [group("ring", 3)])
    run.add(member("a"), member("b"), member("c"))
    run.scheduler.schedule_one()
    run.scheduler.schedule_one()
    assert (run.waiting, run.names) == (["a", "b"], [])
    run.go()
    assert (run.waiting, run.names) == ([], ["a", "b", "c"])
    notes = [event.note for event in run.client.events if event.reason == "Gang"]
    assert len(notes) == 3
    assert notes[-1] == "pod group ring: 3 of 3 bound"


def test_a_gang_waits_for_its_pods_to_exist() -> None:
    """Until there are enough of them they are gated, and the last one sets them free."""
    run = Run(3, [group("ring", 3)])
    run.add(member("a"), member("b"))
    run.go()
    assert [queued.info.name for queued in run.scheduler.queue.gated()] == ["a", "b"]
    run.add(member("c"))
    run.go()
    assert run.names == ["a", "b", "c"]


def test_a_time_out_frees_the_nodes() -> None:
    """A gang that does not come together gives all of its nodes back at once."""
    run = Run(2, [group("ring", 3)])
    run.add(member("a"), member("b"), member("c"))
    run.go()
    assert (run.waiting, run.free_nodes()) == (["a", "b"], 0)
    assert run.scheduler.next_wakeup() is not None
    run.advance(119)
    assert run.waiting == ["a", "b"]
    run.scheduler.handle.cache.remove_node(make_node("n1"))
    run.clock.advance(1)
    run.scheduler.run_due()
    assert (run.waiting, run.names, run.free_nodes()) == ([], [], 1)
    assert run.message("a") == f"0/1 nodes are available: 1 {LATE}."


def test_a_group_sets_the_timeout_of_its_waiting_pods() -> None:
    """Its scheduleTimeoutSeconds count in place of the policy's time."""
    run = Run(2, [group("ring", 3, timeout=30)])
    run.add(member("a"), member("b"), member("c"))
    run.go()
    run.advance(29)
    assert run.waiting == ["a", "b"]
    run.clock.advance(1)
    run.scheduler.run_due()
    assert run.waiting == []
    late = "rejected due to timeout after waiting 30s at plugin Gang"
    assert run.message("a") == f"0/1 nodes are available: 1 {late}."


def test_the_other_members_go_with_the_one_that_was_late() -> None:
    """Those that began to wait later do not wait for their own time to be up."""
    run = Run(2, [group("ring", 3)])
    run.add(member("a"), member("b"), member("c"))
    run.scheduler.schedule_one()
    run.clock.advance(60)
    run.scheduler.schedule_one()
    assert run.waiting == ["a", "b"]
    run.clock.advance(60)
    run.scheduler.run_due()
    assert run.waiting == []
    text = "pod default/a of pod group ring was sent back"
    assert run.message("b") == f"0/1 nodes are available: 1 {text}."


def test_a_node_that_comes_completes_the_gang() -> None:
    """The missing member is woken by the node, the waiting ones are allowed by the member."""
    run = Run(2, [group("ring", 3)])
    run.add(member("a"), member("b"), member("c"))
    run.go()
    run.advance(5)
    run.add_node("n2")
    run.advance(10)
    assert run.names == ["a", "b", "c"]


def test_two_gangs_that_hold_half_of_the_nodes_each_come_out_of_it() -> None:
    """After a time-out one of them gets all nodes; the other follows when there is room again."""
    run = Run(4, [group("ring", 3), group("star", 3)])
    names = ["a", "b", "c"]
    for priority, name in enumerate(names):
        run.add(member(f"ring-{name}", priority=-priority))
        run.add(member(f"star-{name}", "star", priority=-priority))
    run.go()
    assert len(run.waiting) == 4
    for _ in range(40):
        run.advance(30)
    assert run.names in ([f"ring-{n}" for n in names], [f"star-{n}" for n in names])


def test_pods_without_a_group_are_not_concerned() -> None:
    """They are bound at once, and nothing is said about groups."""
    run = Run(1, [group("ring", 3)])
    run.add(member("alone", of=""))
    run.go()
    assert run.names == ["alone"]
    assert not [event for event in run.client.events if event.reason == "Gang"]


def test_a_gang_whose_group_does_not_exist_waits_for_it() -> None:
    """Its members were bound one by one as they came, so that a gang ran in part."""
    run = Run(3, [])
    run.add(member("a"), member("b"))
    run.go()
    assert run.names == []
    gated = run.scheduler.queue.gated()
    assert [queued.info.name for queued in gated] == ["a", "b"]
    gate = run.scheduler.profiles[gated[0].info.scheduler_name].runner.run(
        "pre_enqueue", gated[0].info
    )
    assert gate.status.message() == "waiting for pod group ring to appear"


def test_a_group_of_the_workload_api() -> None:
    """A pod names its group in its spec, whose PodGroup has a gang policy."""
    spec = pod_group.PodGroupSpec(
        scheduling_policy=pod_group.GroupPolicy(gang=pod_group.GangPolicy(min_count=2))
    )
    meta = ObjectMeta(name="ring", namespace="default")
    run = Run(2, [pod_group.PodGroup(metadata=meta, spec=spec)])
    named = SchedulingGroup(pod_group_name="ring")
    run.add(member("a", of="", scheduling_group=named))
    run.go()
    assert run.names == []
    run.add(member("b", of="", scheduling_group=named))
    run.go()
    assert run.names == ["a", "b"]


def test_a_smaller_gang_lets_the_waiting_go() -> None:
    """A change of the group's object is a reason to ask again about those that wait."""
    run = Run(2, [group("ring", 3)])
    run.add(member("a"), member("b"), member("c"))
    run.go()
    assert run.waiting == ["a", "b"]
    event_handlers.object_seen(run.scheduler, group("ring", 3), group("ring", 2))
    run.go()
    assert run.names == ["a", "b"]


def test_a_waiting_pod_that_is_deleted_sends_the_others_back() -> None:
    """They hold nodes for a pod that was deleted; another pod can replace it."""
    run = Run(2, [group("ring", 3)])
    lost = member("a")
    run.add(lost, member("b"), member("c"))
    run.go()
    event_handlers.pod_gone(run.scheduler, lost)
    run.go()
    assert (run.waiting, run.names) == ([], [])
    run.add_node("n2")
    run.add(member("d"))
    run.advance(15)
    assert run.names == ["b", "c", "d"]


class Refusing(MemoryClient):
    """A cluster that refuses one pod's first binding."""

    refused = "default/c"

    def bind(
        self, pod: PodInfo, node: str, done: Callable[[ClusterError | None], None] | None = None
    ) -> None:
        """Refuse once."""
        if pod.uid == self.refused:
            self.refused = ""
            raise ClusterError("the cluster is busy")
        super().bind(pod, node, done)


def test_a_binding_that_fails_sends_the_waiting_back() -> None:
    """The last member is bound first; if that fails no member is bound, and all are retried."""
    run = Run(3, [group("ring", 3)], Refusing())
    run.add(member("a"), member("b"), member("c"))
    for _ in range(3):
        run.scheduler.schedule_one()
    run.scheduler.run_due()
    assert run.names == []
    for _ in range(6):
        run.advance(5)
    assert run.names == ["a", "b", "c"]


class GangMachine(PodsThatGo):
    """Pods of three groups come and go, nodes come, bindings fail, time passes."""

    SIZES: ClassVar = {"one": 1, "two": 2, "four": 4}

    def __init__(self) -> None:
        super().__init__()
        self.run = Run(2, [group(name, size) for name, size in self.SIZES.items()])

    @rule(of=st.sampled_from(["", "one", "two", "four"]))
    def pod_comes(self, of: str) -> None:
        self.count += 1
        pod = member(f"{of}-{self.count}", of)
        self.pods[pod.uid] = pod
        self.run.add(pod)

    @rule()
    def node_comes(self) -> None:
        self.count += 1
        self.run.add_node(f"m{self.count}")

    @rule()
    def one_is_scheduled(self) -> None:
        self.run.scheduler.schedule_one()
        self.run.scheduler.run_due()

    @rule(seconds=st.sampled_from([1, 10, 60, 130]))
    def time_passes(self, seconds: int) -> None:
        self.run.advance(seconds)

    @invariant()
    def a_gang_runs_whole(self) -> None:
        """No group is bound in part, but for members that were deleted since."""
        assert self.run.scheduler.cache.check() == []
        for name, size in self.SIZES.items():
            members = [uid for uid, pod in self.pods.items() if pod.pod_group == name]
            bound = self.run.client.bindings.keys() & members
            assert not bound or len(bound) >= size or name in self.torn

    @invariant()
    def counts_are_those_of_a_recount(self) -> None:
        """Members, scheduled and waiting pods are what the cluster and the queue hold."""
        handle = self.run.scheduler.handle
        for name in self.SIZES:
            members = [pod for pod in self.pods.values() if pod.pod_group == name]
            counts = handle.groups.of(("default", name))
            waiting = [pod for pod in members if handle.waiting_pods.get(pod.uid) is not None]
            bound = [pod for pod in members if pod.uid in self.run.client.bindings]
            assert counts.members == len(members)
            assert counts.waiting == len(waiting)
            assert counts.scheduled == len(bound)

    def teardown(self) -> None:
        """With room for everybody, every gang that is complete is bound in the end."""
        for i in range(len(self.pods)):
            self.run.add_node(f"last{i}")
        for _ in range(12):
            self.run.advance(130)
        for name, size in {"": 0, **self.SIZES}.items():
            members = [uid for uid, pod in self.pods.items() if pod.pod_group == name]
            if len(members) >= size:
                assert set(members) <= self.run.client.bindings.keys()


TestGangMachine = pytest.mark.filterwarnings("error")(GangMachine.TestCase)
TestGangMachine.settings = settings(max_examples=scaled(40), stateful_step_count=30, deadline=None)
