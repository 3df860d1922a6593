"""All or nothing: whatever happens around them, gangs are never bound in part."""

from __future__ import annotations

from itertools import count
from typing import Final

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from policy_sched.model.pod_info import PodInfo
from policy_sched.scheduler import event_handlers
from tests.examples import scaled
from tests.scheduler.pod_groups import GANG, Groups, member, pod_group

RACK: Final = "example.com/rack"
GATES: Final = (
    GANG,
    {**GANG, "TopologyAwareWorkloadScheduling": True},
    {**GANG, "WorkloadAwarePreemption": True},
    {**GANG, "TopologyAwareWorkloadScheduling": True, "WorkloadAwarePreemption": True},
)


class GangMachine(RuleBasedStateMachine):
    """Two gangs, one of which wants one rack, and single pods, on nodes that come late."""

    SIZES: Final = {"ring": 3, "line": 2}

    @initialize(gates=st.sampled_from(GATES))
    def begin(self, gates: dict[str, bool]) -> None:
        """Start with two small racks."""
        self.run = Groups(gates=gates)
        self.pods: dict[str, PodInfo] = {}
        self.torn: set[str] = set()
        self.there: set[str] = set()
        self.numbers = count()
        for name in ("a0", "a1", "b0"):
            self.run.node(name, 2, **{RACK: name[0]})

    @rule(name=st.sampled_from(["ring", "line"]), priority=st.sampled_from([0, 5]))
    def a_group_comes(self, name: str, priority: int) -> None:
        """Its PodGroup may come before its pods or after them."""
        if name not in self.there:
            self.there.add(name)
            topology = RACK if name == "line" else ""
            group = pod_group(name, self.SIZES[name], priority=priority, topology=topology)
            event_handlers.object_seen(self.run.scheduler, None, group)

    @rule(
        of=st.sampled_from(["ring", "line"]),
        cpu=st.sampled_from(["1", "2"]),
        priority=st.sampled_from([0, 5]),
    )
    def a_pod_comes(self, of: str, cpu: str, priority: int) -> None:
        """A member of a gang; gangs may have more pods than they need."""
        name = f"{of}-{next(self.numbers)}"
        self.pods[name] = member(name, of=of, cpu=cpu, priority=priority)
        self.run.add(self.pods[name])

    @rule(node=st.sampled_from(["a0", "a1", "b0"]))
    def a_stranger_runs(self, node: str) -> None:
        """A pod of no group takes room, if there is some."""
        if self.free(node) >= 1:
            self.run.run(f"s-{next(self.numbers)}", node)

    @rule()
    def a_pod_goes(self) -> None:
        """A pod is deleted; its gang may be smaller than it should be from then on."""
        if self.pods:
            name, pod = self.pods.popitem()
            if name in self.run.bound:
                self.torn.add(pod.pod_group)
            event_handlers.pod_gone(self.run.scheduler, pod)
            self.run.client.bindings.pop(pod.uid, None)

    @rule()
    def victims_go(self) -> None:
        """Evicted pods leave their nodes."""
        for uid in list(self.run.client.deleted):
            pod = self.run.scheduler.cache.pod(uid)
            if pod is not None:
                if pod.pod_group:
                    self.torn.add(pod.pod_group)
                    self.pods.pop(pod.name, None)
                    self.run.client.bindings.pop(pod.uid, None)
                event_handlers.pod_gone(self.run.scheduler, pod)
        self.run.client.deleted.clear()

    @rule(seconds=st.sampled_from([0, 1, 11, 301]))
    def time_passes(self, seconds: int) -> None:
        """Everything that is due is done."""
        self.run.clock.advance(seconds)
        self.run.go_once()

    def free(self, node: str) -> int:
        """Return the free cpus of a node."""
        table = self.run.scheduler.cache.nodes
        row = table.row_of[node]
        return int(table.lookup(("free", "cpu")).values[row]) // 1000

    @invariant()
    def gangs_are_whole(self) -> None:
        """No gang is bound in part, but for pods that were deleted or evicted since."""
        if not hasattr(self, "run"):
            return
        bound = set(self.run.bound)
        for name, size in self.SIZES.items():
            mine = {pod for pod in bound if pod.startswith(name)}
            assert not mine or len(mine) >= size or name in self.torn

    @invariant()
    def no_node_is_overcommitted(self) -> None:
        """Trials leave nothing behind, and nominated pods take no room."""
        if not hasattr(self, "run"):
            return
        assert all(self.free(node) >= 0 for node in ("a0", "a1", "b0"))
        assert self.run.scheduler.cache.check() == []


TestGangs = GangMachine.TestCase
TestGangs.settings = settings(max_examples=scaled(15), stateful_step_count=20, deadline=None)
