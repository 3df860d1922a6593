"""The life of pods under every possible failure: none is lost, and none is in two places.

Scheduler, queue, cache and cluster are driven together under one clock, step by step and out of
step; plugins, calls of the client and reloads fail at random moments, and another scheduler binds
pods at any time, even in the middle of a turn. A witness lists the accepted conflicts.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from policy_sched.client.apimachinery.object import Key
from policy_sched.client.apimachinery.resources import NODE, POD
from policy_sched.errors import ClusterError
from policy_sched.framework.status import SUCCESS
from policy_sched.model.pod import Pod
from policy_sched.model.pod_info import PodInfo, QueueState
from tests.examples import scaled
from tests.queue.pods import by_state
from tests.scheduler.chaos import CALLS, LOOKING, LOST, POINTS
from tests.scheduler.life import Life

NODES = st.sampled_from(["n0", "n1", "n2"])
PODS = st.sampled_from([f"p{i}" for i in range(8)])
KINDS = st.sampled_from(["raise", "reject", "error", "slow"])
MOMENTS = st.sampled_from((*POINTS, *LOOKING, *(f"call {call}" for call in CALLS)))
MANY = st.integers(0, 7)
"""An index of the existing ones, modulo their number."""


class LifeMachine(RuleBasedStateMachine):
    """Actions of a cluster, of its users, of time, and failures."""

    life: Life

    @initialize(latency=st.sampled_from([0.0, 0.5]), looking=st.booleans())
    def begin(self, latency: float, looking: bool) -> None:
        """Two nodes of 4 cpus."""
        self.life = Life(latency=latency, looking=looking)
        for name in ("n0", "n1"):
            self.life.node(name)
        for name in ("p0", "p1", "p2"):
            self.life.pod(name, 2, high=False, gated=False)

    # Actions of users.

    @rule(name=PODS, cpu=st.integers(1, 4), high=st.booleans(), gated=st.booleans())
    def create_pod(self, name: str, cpu: int, high: bool, gated: bool) -> None:
        self.life.pod(name, cpu, high=high, gated=gated)

    @rule(name=PODS, cpu=st.integers(1, 2))
    def create_plain_pod(self, name: str, cpu: int) -> None:
        self.life.pod(name, cpu, high=False, gated=False)

    @rule(name=PODS)
    def delete_pod(self, name: str) -> None:
        self.life.cluster.delete(Key(POD, "default", name))

    @rule(name=PODS, kept=st.booleans())
    def keep_pod(self, name: str, kept: bool) -> None:
        """A finalizer keeps a deleted pod, or no longer does."""
        self.life.keep(name, *["example.com/keep"] * kept)

    @rule(name=PODS, cpu=st.integers(1, 3), point=st.sampled_from(["permit", "pre_bind"]))
    def a_pod_comes_and_is_deleted_at_once(self, name: str, cpu: int, point: str) -> None:
        """It waits for something then; and a finalizer keeps it."""
        self.life.chaos.faults[point] = "slow"
        self.life.pod(name, cpu, high=False, gated=False)
        self.life.go_on()
        self.life.keep(name, "example.com/keep")
        self.delete_pod(name)

    @rule(name=PODS)
    def open_gates(self, name: str) -> None:
        stored = self.life.store.find(POD, "default", name)
        if stored is not None and not _pod(stored.typed).spec.node_name:
            self.life.patch(name, {"spec": {"schedulingGates": None}})

    @rule(name=PODS, value=st.sampled_from("ab"))
    def label_pod(self, name: str, value: str) -> None:
        self.life.patch(name, {"metadata": {"labels": {"a": value}}})

    @rule(name=NODES, closed=st.booleans())
    def make_node(self, name: str, closed: bool) -> None:
        self.life.node(name, closed=closed)

    @rule(name=NODES)
    def delete_node(self, name: str) -> None:
        self.life.cluster.delete(Key(NODE, "", name))

    @rule(which=MANY, where=MANY, careful=st.booleans())
    def another_scheduler_binds(self, which: int, where: int, careful: bool) -> None:
        """Another scheduler binds a pod without regard to other schedulers."""
        self.life.bind_elsewhere(which, where, careful=careful)

    @rule(which=MANY, where=MANY, careful=st.booleans(), point=MOMENTS)
    def another_scheduler_will_bind(
        self, which: int, where: int, careful: bool, point: str
    ) -> None:
        """Another scheduler binds a pod at some point of an attempt."""
        self.life.meanwhile(point, which, where, careful=careful)

    @rule(name=PODS, cpu=st.integers(1, 3), high=st.booleans(), where=MANY, point=MOMENTS)
    def a_pod_arrives_and_another_scheduler_binds(
        self, name: str, cpu: int, high: bool, where: int, point: str
    ) -> None:
        """It is the newest: the pod itself if no other was faster."""
        self.life.meanwhile(point, -1, where, careful=True)
        self.life.pod(name, cpu, high=high, gated=False)
        self.life.go_on()

    @rule(name=PODS, cpu=st.integers(1, 3), high=st.booleans(), where=MANY)
    def a_pod_waits_and_another_scheduler_fills_its_node(
        self, name: str, cpu: int, high: bool, where: int
    ) -> None:
        self.life.chaos.faults["permit"] = "slow"
        self.life.pod(name, cpu, high=high, gated=False)
        self.life.go_on()
        self.life.bind_elsewhere(0, where, careful=True)
        self.life.hear()

    # Events over time.

    @rule()
    def cluster_acts(self) -> None:
        self.life.cluster.step()

    @rule()
    def scheduler_hears(self) -> None:
        self.life.hear()

    @rule()
    def scheduler_ticks(self) -> None:
        self.life.tick()

    @rule(times=st.integers(1, 4))
    def scheduler_decides(self, times: int) -> None:
        for _ in range(times):
            self.life.schedule()

    @rule(seconds=st.sampled_from([0.2, 1, 3, 12, 40]))
    def time_passes(self, seconds: float) -> None:
        self.life.clock.advance(seconds)

    @rule()
    def everything_goes_on(self) -> None:
        self.life.go_on()

    @rule(seconds=st.sampled_from([0.5, 2, 12]))
    def everything_goes_on_for_a_while(self, seconds: float) -> None:
        for _ in range(3):
            self.life.go_on()
            self.life.clock.advance(seconds / 3)
        self.life.go_on()

    @rule(
        name=PODS,
        cpu=st.integers(1, 3),
        high=st.booleans(),
        point=st.sampled_from(POINTS),
        kind=KINDS,
    )
    def a_pod_comes_and_something_goes_wrong(
        self, name: str, cpu: int, high: bool, point: str, kind: str
    ) -> None:
        self.life.chaos.faults[point] = kind
        self.life.pod(name, cpu, high=high, gated=False)
        self.life.go_on()

    @rule(
        name=PODS, cpu=st.integers(1, 3), high=st.booleans(), call=st.sampled_from((*CALLS, LOST))
    )
    def a_pod_comes_and_a_call_fails(self, name: str, cpu: int, high: bool, call: str) -> None:
        self.life.calls[call] = "raise"
        self.life.pod(name, cpu, high=high, gated=False)
        self.life.go_on()

    # Actions of plugins.

    @precondition(lambda self: len(self.life.scheduler.handle.waiting_pods) > 0)
    @rule(data=st.data(), how=st.sampled_from(["allow", "reject", "preempt"]))
    def permit_plugin_answers(self, data: st.DataObject, how: str) -> None:
        waiting = data.draw(st.sampled_from(list(self.life.scheduler.handle.waiting_pods)))
        if how == "allow":
            waiting.allow("Chaos")
        elif how == "reject":
            waiting.reject("Chaos", "no")
        else:
            self.life.scheduler.handle.waiting_pods.preempt(waiting.pod.uid, "Chaos")

    @precondition(lambda self: bool(self.life.chaos.work))
    @rule()
    def slow_work_ends(self) -> None:
        self.life.chaos.work.pop(0).finish(SUCCESS)

    @rule(name=PODS)
    def plugin_calls_a_pod(self, name: str) -> None:
        stored = self.life.store.find(POD, "default", name)
        self.life.chaos.called = "" if stored is None else stored.uid

    # Failures.

    @rule(point=st.sampled_from(POINTS + LOOKING), kind=KINDS)
    def plugin_will_fail(self, point: str, kind: str) -> None:
        self.life.chaos.faults[point] = kind

    @rule(call=st.sampled_from((*CALLS, LOST)), kind=st.sampled_from(["raise", "answer"]))
    def client_will_fail(self, call: str, kind: str) -> None:
        self.life.calls[call] = kind

    @rule()
    def stopping(self) -> None:
        """Waiting attempts are abandoned, and the scheduler continues."""
        self.life.shutdown()

    @rule(name=st.sampled_from(["plain", "keep", "gate", "gone", "broken"]))
    def reload(self, name: str) -> None:
        self.life.reload(name)

    # Invariants.

    @invariant()
    def the_columns_equal_a_recount(self) -> None:
        assert self.life.scheduler.cache.check() == []

    @invariant()
    def each_pod_is_in_exactly_one_place(self) -> None:
        for state, queued in by_state(self.life.scheduler.queue):
            under_way = state in (QueueState.IN_FLIGHT, QueueState.BINDING)
            node = self.life.scheduler.cache.node_of(queued.info.uid)
            assert under_way or not node, f"{queued.info.key} waits, and is on {node}"

    @invariant()
    def no_reservation_is_without_a_pod(self) -> None:
        """Waiting attempts hold a node, and no others do."""
        life = self.life
        bindings = list(life.scheduler._bindings)
        uids = {binding.attempt.queued.info.uid for binding in bindings}
        queue = life.scheduler.queue
        assert uids == {q.info.uid for q in (*queue.in_flight(), *queue.binding())}
        assert life.chaos.held == uids
        pods = life.scheduler.handle.waiting_pods
        assert {waiting.pod.uid for waiting in pods} | set(pods.pre_binding) <= uids
        assert life.scheduler.in_flight == len(uids)

    @invariant()
    def decisions_fit_what_was_known(self) -> None:
        assert self.life.witness.complaints == []

    @invariant()
    def the_cache_holds_events_and_decisions(self) -> None:
        cache = self.life.scheduler.cache
        held = {uid: cache.node_of(uid) for uid in cache.held()}
        assert held == self.life.witness.counted()

    @invariant()
    def no_node_holds_more_than_it_can(self) -> None:
        """Except for bindings unaware of each other: kubelets reject those."""
        life = self.life
        for node in life.nodes():
            if life.free(node) < 0:
                name = node.metadata.name
                there = [p.metadata.uid for p in life.pods() if p.spec.node_name == name]
                assert life.witness.excuses(there), f"{name} is overcommitted"

    @invariant()
    def no_pod_is_bound_twice(self) -> None:
        assert max(Counter(self.life.chaos.bound).values(), default=1) == 1

    def teardown(self) -> None:
        """Without further failures everything ends, and every pod that can run runs."""
        if hasattr(self, "life"):
            self.life.settle()
            self.each_pod_is_in_exactly_one_place()
            self.no_reservation_is_without_a_pod()
            self.no_node_holds_more_than_it_can()
            assert self.life.scheduler.in_flight == 0
            assert_no_pod_is_lost(self.life)


def assert_no_pod_is_lost(life: Life) -> None:
    """Every pod runs, or is gated, or no node could run it even with preemption."""
    queue = life.scheduler.queue
    for pod in life.pods():
        info = PodInfo.of(pod)
        cached = life.scheduler.cache.node_of(info.uid)
        assert cached == info.node_name, "the cache follows the cluster"
        if info.node_name:
            continue
        queued = queue.get(info.uid)
        assert queued is not None, f"{info.key} is nowhere"
        if info.scheduling_gates:
            assert queued.place is QueueState.GATED
            continue
        for node in life.nodes():
            if node.spec.unschedulable:
                continue
            room = life.free(node, info.priority)
            assert room < info.requests["cpu"], (
                f"{info.key} is {queued.place.name} by {sorted(queued.rejected_by)}, "
                f"and {node.metadata.name} has {room}"
            )


def _pod(value: Any) -> Pod:
    assert isinstance(value, Pod)
    return value


TestLifeMachine = LifeMachine.TestCase
TestLifeMachine.settings = settings(
    max_examples=max(40, scaled(40)),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


def test_a_day_without_trouble() -> None:
    """Pods that fit are bound, and the others get a condition."""
    life = Life()
    life.node("n0")
    for number in range(3):
        life.pod(f"p{number}", 2, high=False, gated=number == 0)
    life.settle()
    assert_no_pod_is_lost(life)
    assert life.clock.ns > 0
    names = {pod.metadata.name for pod in life.pods() if pod.spec.node_name}
    assert names == {"p1", "p2"}
    with pytest.raises(ClusterError):
        life.store.bind("default", "p1", {"metadata": {"name": "p1"}, "target": {"name": "n0"}})
    assert life.scheduler.idle()


def test_an_impossible_nomination_blocks_no_pod() -> None:
    """Another pod uses the capacity freed by an eviction: the nominee gives up its node."""
    life = Life()
    life.pod("victim", 2, high=False, gated=False)
    life.node("n0")
    life.go_on()
    life.pod("nominee", 3, high=True, gated=False)
    life.go_on()
    assert life.scheduler.handle.nominator.nominated()
    container = {"name": "c", "image": "app", "resources": {"requests": {"cpu": "2"}}}
    spec = {"priorityClassName": "high", "nodeName": "n0", "containers": [container]}
    head = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": "default"}}
    life.store.create({**head, "spec": spec})
    life.pod("small", 1, high=False, gated=False)
    life.settle()
    assert_no_pod_is_lost(life)


def test_a_pod_leaves_before_its_profile_is_back() -> None:
    """Its binding was sent, and the pods of the new profile are read before the watch tells."""
    life = Life(latency=0.5)
    life.node("n0")
    life.pod("p0", 2, high=False, gated=False)
    life.go_on()
    life.reload("gone")
    life.keep("p0", "example.com/keep")
    life.cluster.delete(Key(POD, "default", "p0"))
    life.reload("plain")
    assert not life.scheduler.cache.held()
    assert not life.witness.counted()
    life.settle()
    assert_no_pod_is_lost(life)
