"""A scheduler with the feature gates of pod groups, and the groups and pods that tests give it."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from policy_sched.client.memory import MemoryClient
from policy_sched.model.meta import ObjectMeta
from policy_sched.model.pod import SchedulingGroup
from policy_sched.model.pod_group import (
    CoschedulingGroup,
    CoschedulingSpec,
    GangPolicy,
    GroupPolicy,
    PodGroup,
    PodGroupSpec,
    SchedulingConstraints,
    TopologyConstraint,
)
from policy_sched.model.pod_info import PodInfo, QueueState
from policy_sched.scheduler import event_handlers
from policy_sched.scheduler.scheduler import Outcome, Scheduler
from policy_sched.scheduler.setup.factory import assemble, read
from policy_sched.testing import FakeClock, make_node, make_pod
from tests.scheduler.world import client_of

WORKLOAD: Final = {"GenericWorkload": True}
GANG: Final = {**WORKLOAD, "GangScheduling": True}
FAILED: Final = "pod group is unschedulable"
WAITS: Final = (
    f"{FAILED}, waiting for minCount pods from a gang to be scheduled,"
    " one or more plugins asked to wait and no plugin rejected pod"
)
TO_COME: Final = f"{FAILED}, pod group is waiting for preemption to complete"


def pod_group(name: str = "ring", count: int = 0, **spec: Any) -> PodGroup:
    """Return a PodGroup: a gang from ``count`` pods on, a basic one without."""
    topology = spec.pop("topology", "")
    if topology:
        constraint = TopologyConstraint(key=topology)
        spec["scheduling_constraints"] = SchedulingConstraints(topology=(constraint,))
    policy = GroupPolicy(gang=GangPolicy(min_count=count) if count else None)
    meta = ObjectMeta(name=name, namespace="default", uid=f"uid-{name}")
    return PodGroup(metadata=meta, spec=PodGroupSpec(scheduling_policy=policy, **spec))


def member(name: str, of: str = "ring", **spec: Any) -> PodInfo:
    """Return a pod of a group; it requests 1 cpu."""
    pod = make_pod(**{"name": name, "cpu": "1", **spec})
    pod.spec.scheduling_group = SchedulingGroup(pod_group_name=of)
    return PodInfo.of(pod)


def group(name: str, count: int, timeout: int | None = None) -> CoschedulingGroup:
    """Return a pod group of the coscheduling plugin."""
    spec = CoschedulingSpec(min_member=count, schedule_timeout_seconds=timeout)
    return CoschedulingGroup(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)


class Driven:
    """A scheduler that is driven step by step, with its clock and its client."""

    def __init__(self, scheduler: Scheduler, clock: FakeClock) -> None:
        self.scheduler = scheduler
        self.clock = clock

    @property
    def client(self) -> MemoryClient:
        """The client, which records the calls."""
        return client_of(self.scheduler)

    def add(self, *pods: PodInfo) -> None:
        """Pods come that have no node, one after the other."""
        for pod in pods:
            self.clock.ns += 1
            event_handlers.pod_seen(self.scheduler, pod)

    def go(self) -> list[Outcome]:
        """Do everything that is to be done now; return what became of the pods."""
        outcomes: list[Outcome] = []
        while True:
            ended = self.scheduler.run_due()
            outcome = self.scheduler.schedule_one()
            outcomes += ended if outcome is None else [*ended, outcome, *outcome.others]
            if outcome is None and not ended:
                return outcomes

    @property
    def bound(self) -> dict[str, str]:
        """The nodes of the bound pods, by name."""
        bindings = self.client.bindings.items()
        return {uid.partition("/")[2]: node for uid, node in sorted(bindings)}

    def message(self, name: str) -> str:
        """Return why a pod was not scheduled."""
        return self.client.conditions[f"default/{name}"][1]


class Groups(Driven):
    """A scheduler whose feature gates decide groups; nodes have so many cpus, by name."""

    def __init__(
        self,
        *objects: object,
        gates: dict[str, bool] | None = None,
        client: MemoryClient | None = None,
        config: dict[str, Any] | None = None,
        **nodes: int,
    ) -> None:
        clock = FakeClock()
        plans, _ = read(config, (), feature_gates=GANG if gates is None else gates)
        super().__init__(assemble(plans, now=clock, client=client), clock)
        for one in objects:
            event_handlers.object_seen(self.scheduler, None, one)  # type: ignore[arg-type]
        for name, cpu in nodes.items():
            self.node(name, cpu)

    def node(self, name: str, cpu: int, **labels: str) -> None:
        """A node comes."""
        labels = {"kubernetes.io/hostname": name, **labels}
        made = make_node(name, cpu=str(cpu), labels=labels)
        event_handlers.node_seen(self.scheduler, made)

    def run(self, name: str, node: str, cpu: int = 1, **spec: Any) -> PodInfo:
        """A pod runs on a node."""
        pod = PodInfo.of(make_pod(name=name, cpu=str(cpu), node_name=node, **spec))
        event_handlers.pod_seen(self.scheduler, pod)
        return pod

    def go_once(self) -> None:
        """Do what is due, and decide every pod that is ready now once."""
        self.scheduler.run_due()
        for _ in range(len(self.scheduler.queue)):
            if self.scheduler.schedule_one() is None:
                break
            self.scheduler.run_due()

    def condition(self, name: str = "ring") -> tuple[str, str] | None:
        """Return reason and message of a group's condition PodGroupScheduled."""
        return self.client.group_conditions.get(f"default/{name}")

    def place(self, name: str) -> QueueState:
        """Return where the queue has a pod."""
        queued = self.scheduler.queue.get(f"default/{name}")
        return QueueState.OUT if queued is None else queued.place


class PodsThatGo(RuleBasedStateMachine):
    """Pods are deleted, bound or not; ``torn``: the groups of those that were bound."""

    run: Any

    def __init__(self) -> None:
        super().__init__()
        self.pods: dict[str, PodInfo] = {}
        self.torn: set[str] = set()
        self.count = 0

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def pod_goes(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        pod = self.pods.pop(uid)
        node = self.run.client.bindings.pop(uid, "")
        if node:
            self.torn.add(pod.pod_group)
        event_handlers.pod_gone(self.run.scheduler, pod.on(node))
        self.run.scheduler.run_due()
