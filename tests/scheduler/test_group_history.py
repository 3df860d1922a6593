"""What rules can read of a pod group besides its counts, as pods come, wait, fail and go."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from policy_sched.cluster.tables import MAX_SUM
from policy_sched.errors import PolicyError
from policy_sched.framework.pod_groups import PodGroups
from policy_sched.model.meta import ObjectMeta
from policy_sched.model.pod_group import (
    POD_GROUP_LABEL,
    CoschedulingGroup,
    CoschedulingSpec,
    GroupCounts,
)
from policy_sched.model.pod_info import PodInfo
from policy_sched.scheduler import event_handlers
from policy_sched.scheduler.setup.factory import build
from policy_sched.testing import FakeClock, make_node, make_pod
from tests.scheduler.pod_groups import Driven

GANG = str(Path(__file__).parents[2] / "policies" / "gang")
RING = ("default", "ring")
CREATED = datetime(1970, 1, 1, second=1, tzinfo=UTC)
BY_FAILURE = """
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: ByFailure}
spec:
  queueSort:
  - expression: podGroup.failedAt.orValue(podGroup.creationTime.orValue(queue.firstEnqueuedAt))
  - expression: pod.name
"""
SORTED: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "plugins": {
                "queueSort": {"enabled": [{"name": "ByFailure"}], "disabled": [{"name": "*"}]}
            }
        }
    ],
}


def ring(name: str = "ring", count: int = 2, **spec: Any) -> CoschedulingGroup:
    """Return a group of the coscheduling plugin."""
    meta = ObjectMeta(name=name, namespace="default", creation_timestamp=CREATED)
    return CoschedulingGroup(metadata=meta, spec=CoschedulingSpec(min_member=count, **spec))


def member(name: str, of: str = "ring", cpu: str = "3", **spec: Any) -> PodInfo:
    """Return a pod of a group that needs a whole node."""
    return PodInfo.of(make_pod(name, cpu=cpu, labels={POD_GROUP_LABEL: of} if of else {}, **spec))


class Run(Driven):
    """A scheduler with the gang policy and some nodes with room for one member."""

    def __init__(
        self,
        *groups: CoschedulingGroup,
        nodes: int = 1,
        policies: tuple[str, ...] = (GANG,),
        config: dict[str, Any] | None = None,
    ) -> None:
        clock = FakeClock()
        super().__init__(build(config, policies, now=clock, objects=groups), clock)
        for i in range(nodes):
            event_handlers.node_seen(self.scheduler, make_node(f"n{i}"))

    @property
    def groups(self) -> PodGroups:
        """What is counted of groups."""
        return self.scheduler.handle.groups

    @property
    def ring(self) -> GroupCounts:
        """The group."""
        return self.groups.of(RING)


def test_the_object_says_when_it_was_created_and_what_the_group_needs() -> None:
    """A rule could ask how many pods a group needs, but not what they need nor how old it is."""
    run = Run(ring(min_resources={"cpu": "4", "memory": "1Ki"}))
    assert run.ring.min_resources == {"cpu": 4000, "memory": 1024}
    assert run.ring.creation_time == int(CREATED.timestamp()) * 10**9
    assert run.groups.of(("default", "star")).creation_time is None


def test_pods_with_gates_and_requests_are_summed_as_they_come_and_go() -> None:
    """Only pods that have a node request something of the cluster."""
    run = Run(ring(count=1), nodes=2)
    run.add(member("a"), member("b", scheduling_gates=[{"name": "example.com/wait"}]))
    assert (run.ring.gated, dict(run.ring.requested)) == (1, {})
    run.go()
    assert dict(run.ring.requested) == dict(member("a").requests)
    event_handlers.pod_gone(run.scheduler, member("a"))
    event_handlers.pod_gone(run.scheduler, member("b"))
    assert run.ring == GroupCounts(
        "ring", 1, exists=True, creation_time=run.ring.creation_time, object=run.ring.object
    )


def test_sums_of_a_group_are_no_more_than_others_can_be() -> None:
    """A rule that added what the cluster has to it failed with an overflow."""
    run = Run(ring(min_resources={"memory": "-1"}), nodes=1)
    assert run.ring.min_resources == {"memory": 0}
    pods = [member(name, requests={"memory": str(2**61)}, node_name="n0") for name in "abc"]
    for pod in pods:
        run.scheduler.cache.add_pod(pod)
    assert run.ring.requested["memory"] == MAX_SUM
    assert run.groups.counts_without(RING, pods[:1]).requested["memory"] == MAX_SUM
    assert run.groups.counts_without(RING, pods[:2]).requested["memory"] == 2**61


def test_pods_that_had_a_node_when_they_were_seen_are_members() -> None:
    """Others bound them, or an earlier run did: they never waited here."""
    run = Run(ring(count=1), nodes=2)
    event_handlers.pod_seen(run.scheduler, member("a", node_name="n0"))
    run.add(member("b"))
    run.go()
    assert (run.ring.members, run.ring.scheduled) == (2, 2)


def test_the_pod_that_is_decided_is_not_among_what_its_group_requests() -> None:
    """As with `scheduled` and `waiting`: Permit asks about the others."""
    run = Run(ring(), nodes=2)
    pod = member("a")
    run.add(pod, member("b"))
    run.scheduler.schedule_one()
    assert run.ring.requested
    assert run.groups.counts(pod, apart=True).requested == {}


def test_failures_count_while_pods_wait() -> None:
    """A failure from before counts no more when the first pod of the group begins to wait."""
    run = Run(ring(), nodes=1)
    run.add(member("a"), member("b"))
    begun = run.clock.ns
    run.scheduler.schedule_one()
    assert (run.ring.waiting, run.ring.failures) == (1, 0)
    assert run.ring.waiting_since == run.ring.tried_since == begun
    run.clock.advance(1)
    run.scheduler.schedule_one()
    assert (run.ring.failures, run.ring.failed_at) == (1, run.clock.ns)
    assert run.ring.tried_since is None


def test_a_group_whose_time_was_up_was_sent_back_and_has_not_failed() -> None:
    """It rested as if a pod had found no node, which the coscheduling plugin lets no group do."""
    run = Run(ring(), nodes=1)
    run.add(member("a"), member("b"))
    run.go()
    failed = run.ring.failed_at
    run.clock.advance(130)
    run.scheduler.run_due()
    assert (run.ring.waiting, run.ring.waiting_since) == (0, None)
    assert (run.ring.failed_at, run.ring.sent_back_at) == (failed, run.clock.ns)
    assert run.ring.tried_since is None
    run.clock.advance(20)
    run.scheduler.run_due()
    run.scheduler.schedule_one()
    assert (run.ring.waiting, run.ring.failures) == (1, 0)


def test_a_group_without_pods_is_forgotten() -> None:
    """A group of the same name next year has not failed."""
    run = Run(ring(count=1), nodes=0)
    event_handlers.node_seen(run.scheduler, make_node("small", cpu="1"))
    run.add(member("a"))
    run.go()
    assert run.ring.failed_at is not None
    event_handlers.pod_gone(run.scheduler, member("a"))
    assert run.ring.failed_at is None


@pytest.mark.parametrize("end", ["deleted", "succeeded"])
def test_a_group_whose_last_pod_ran_is_forgotten(end: str) -> None:
    """Only a pod that went while it was pending took its group's history with it."""
    run = Run(ring(count=1), nodes=1)
    pod = member("a")
    run.groups.failed(pod, run.clock.ns)
    run.add(pod)
    run.go()
    assert (run.ring.scheduled, run.ring.failed_at is not None) == (1, True)
    if end == "deleted":
        event_handlers.pod_gone(run.scheduler, pod)
    else:
        event_handlers.pod_ended(run.scheduler, pod.on("n0"))
    assert (run.ring.members, run.ring.failed_at) == (0, None)


@pytest.mark.parametrize(("failing", "last"), [("a", "a"), ("b", "b")])
def test_a_group_that_failed_goes_behind_the_others(
    tmp_path: Path, failing: str, last: str
) -> None:
    """A group whose first pod failed kept its turn, with pods that were in the queue before."""
    policy = tmp_path / "by-failure.yaml"
    policy.write_text(BY_FAILURE, "utf-8")
    run = Run(ring("a"), ring("b"), policies=(str(policy),), config=SORTED)
    pods = [member(f"{name}{i}", name, cpu="99") for name in ("a", "b") for i in range(2)]
    run.add(*pods)
    run.clock.advance(60)
    run.groups.failed(member("x", failing), run.clock.ns)
    order = [queued.info.pod_group for queued in run.scheduler.queue.active()]
    assert order[2:] == [last, last]
    popped = []
    while (attempt := run.scheduler.pop()) is not None:
        popped.append(attempt.queued.info.pod_group)
    assert popped == order


@pytest.mark.parametrize("field", ["failures", "gated", "requested.names().size()"])
def test_what_changes_with_every_pod_is_no_sort_key(tmp_path: Path, field: str) -> None:
    """The queue would not be in order after the next pod of the group."""
    policy = tmp_path / "by-failures.yaml"
    text = BY_FAILURE.replace("pod.name", f"podGroup.{field}")
    policy.write_text(text, "utf-8")
    with pytest.raises(PolicyError, match="PS313"):
        build(SORTED, [str(policy)])


RESTS = """
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Rests}
spec:
  preEnqueue:
  - expression: podGroup.failedAt.optMap(t, now - t >= duration("90s")).orValue(true)
    message: its group rests
  - expression: podGroup.members - podGroup.gated >= podGroup.minCount
    message: some have gates
"""


def rests(tmp_path: Path) -> Run:
    """Return a scheduler whose groups rest after a failure."""
    policy = tmp_path / "rests.yaml"
    policy.write_text(RESTS, "utf-8")
    run = Run(ring(), nodes=2, policies=(str(policy),))
    run.clock.advance(1000)
    return run


def test_a_group_that_rests_is_tried_at_the_moment_when_it_has_rested(tmp_path: Path) -> None:
    """Without requeue.every its pods stayed in the queue until something else happened."""
    run = rests(tmp_path)
    run.groups.failed(member("x"), run.clock.ns)
    failed = run.clock.ns
    run.add(member("a"), member("b"))
    assert run.go() == []
    assert run.scheduler.next_wakeup() == failed + 90 * 10**9
    run.clock.ns = failed + 90 * 10**9 - 1
    assert run.go() == []
    run.clock.ns += 1
    run.go()
    assert sorted(run.bound) == ["a", "b"]


def test_a_pod_that_loses_its_gates_wakes_its_group(tmp_path: Path) -> None:
    """The others of the group waited for another event."""
    run = rests(tmp_path)
    run.add(member("a"), member("b", scheduling_gates=[{"name": "example.com/wait"}]))
    assert run.go() == []
    run.add(member("b"))
    run.go()
    assert sorted(run.bound) == ["a", "b"]
