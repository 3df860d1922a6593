"""Gangs in racks, whatever happens around them: whole, in one rack, and with nothing left over."""

from __future__ import annotations

from typing import ClassVar

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import invariant, precondition, rule

from policy_sched.model.pod_info import PodInfo
from policy_sched.scheduler import event_handlers
from policy_sched.testing import make_pod
from tests.examples import scaled
from tests.scheduler.pod_groups import PodsThatGo
from tests.scheduler.test_pod_group_cycle import Run, group, member


class RackMachine(PodsThatGo):
    """Pods with and without groups are added and deleted, nodes join racks, time passes.

    Other schedulers fill nodes, also beside pods that wait for the rest of their gang.
    """

    SIZES: ClassVar = {"one": 1, "two": 2, "four": 4}
    RACKS: ClassVar = ("a", "b", "c")

    def __init__(self) -> None:
        super().__init__()
        self.run = Run(*(group(name, size) for name, size in self.SIZES.items()), a=[2], b=[1, 1])
        self.strangers: list[PodInfo] = []

    def free(self) -> dict[str, int]:
        """Return the free cpu of each node, in millis, negative if others overcommitted it."""
        table = self.run.scheduler.cache.nodes
        left = table.column(("free", "cpu")).values
        return {name: int(left[row]) for name, row in table.row_of.items()}

    @rule(of=st.sampled_from(["", "one", "two", "four"]), priority=st.integers(0, 1))
    def pod_comes(self, of: str, priority: int) -> None:
        self.count += 1
        pod = member(f"{of}-{self.count}", of, priority=priority, preemption_policy="Never")
        self.pods[pod.uid] = pod
        self.run.add(pod)

    @rule(rack=st.sampled_from(["a", "b", "c", ""]), cpu=st.integers(1, 2))
    def node_comes(self, rack: str, cpu: int) -> None:
        self.count += 1
        self.run.node(f"{rack or 'x'}-{self.count}", cpu, rack)

    @rule(data=st.data(), cpu=st.integers(1, 2))
    def another_scheduler_binds(self, data: st.DataObject, cpu: int) -> None:
        node = data.draw(st.sampled_from(sorted(self.free())))
        self.count += 1
        name = f"stranger-{self.count}"
        pod = PodInfo.of(make_pod(name, cpu=cpu, node_name=node, scheduler_name="other"))
        self.strangers.append(pod)
        event_handlers.pod_seen(self.run.scheduler, pod)

    @precondition(lambda self: self.strangers)
    @rule()
    def a_stranger_goes(self) -> None:
        event_handlers.pod_gone(self.run.scheduler, self.strangers.pop(0))

    @rule()
    def one_is_scheduled(self) -> None:
        """No pod is assigned to a node that is known to be full."""
        before = self.free()
        self.run.scheduler.schedule_one()
        after = self.free()
        assert all(after[name] >= min(left, 0) for name, left in before.items())
        self.run.scheduler.run_due()

    @rule(seconds=st.sampled_from([1, 10, 130]))
    def time_passes(self, seconds: int) -> None:
        self.run.clock.advance(seconds)
        self.run.go()

    @invariant()
    def a_gang_runs_whole_and_in_one_rack(self) -> None:
        """No group is bound in part, except for members deleted since."""
        assert self.run.scheduler.cache.check() == []
        bindings = self.run.client.bindings
        for name, size in self.SIZES.items():
            members = [uid for uid, pod in self.pods.items() if pod.pod_group == name]
            bound = bindings.keys() & members
            assert not bound or len(bound) >= size or name in self.torn
            racks = {bindings[uid][0] for uid in bound}
            assert len(racks) <= 1
            assert "x" not in racks

    @invariant()
    def what_is_counted_is_bound_or_waits(self) -> None:
        """A dry run leaves nothing on any node."""
        scheduler = self.run.scheduler
        held = len(self.run.client.bindings) + scheduler.in_flight + len(self.strangers)
        assert scheduler.cache.nodes.pod_total == held
        assert not scheduler.queue.in_flight()

    def teardown(self) -> None:
        """With enough capacity in every rack, every complete gang is bound in the end."""
        for rack in self.RACKS:
            self.run.node(f"{rack}-last", len(self.pods) + 1, rack)
        for _ in range(12):
            self.run.clock.advance(130)
            self.run.go()
        for name, size in {"": 0, **self.SIZES}.items():
            members = [uid for uid, pod in self.pods.items() if pod.pod_group == name]
            if len(members) >= size:
                assert set(members) <= self.run.client.bindings.keys()


TestRackMachine = pytest.mark.filterwarnings("error")(RackMachine.TestCase)
TestRackMachine.settings = settings(max_examples=scaled(30), stateful_step_count=30, deadline=None)
