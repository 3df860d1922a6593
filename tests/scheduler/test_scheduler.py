"""The loop: pop, decide, execute."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np
import pytest
from msgspec.structs import replace

from policy_sched.errors import PluginError, TakesLong
from policy_sched.framework import results
from policy_sched.framework.cycle_state import CycleState
from policy_sched.framework.hookspecs import hookimpl
from policy_sched.framework.runtime.pipeline import Hook
from policy_sched.framework.runtime.runner import Runner
from policy_sched.framework.status import Code, Status
from policy_sched.model.pod_info import PodInfo, QueuedPod
from policy_sched.scheduler.attempt import Bind
from policy_sched.scheduler.queueing_hints import build_queue, queue_order
from policy_sched.scheduler.scheduler import Scheduler
from policy_sched.scheduler.setup.factory import assemble, read
from policy_sched.testing import make_node, make_pod
from tests.scheduler import world


class Broken:
    """A filter that raises."""

    @hookimpl
    def filter(self, state: CycleState, pod: PodInfo, rows: results.Rows) -> results.FilterResult:
        raise ValueError(f"cannot look at {pod.name}")


class Loud:
    """A score beyond the range, of so many nodes."""

    def __init__(self, nodes: int = 1) -> None:
        self._nodes = nodes

    @hookimpl
    def score(self, rows: results.Rows) -> results.Scores:
        return np.full(self._nodes if rows is None else rows.size, 101)


def test_a_pod_that_fits_is_assumed_bound_and_announced() -> None:
    """The cache counts it, the client binds it, the event has upstream's words."""
    log: list[str] = []
    scheduler = world.scheduler_of(world.Recorder("a", log))
    outcome = world.run(scheduler)
    assert outcome.node == "n0"
    assert world.client_of(scheduler).bindings == {outcome.pod.uid: "n0"}
    assert [event.note for event in world.client_of(scheduler).events] == [
        "Successfully assigned default/p to n0"
    ]
    assert scheduler.cache.nodes.pod_total == 1
    assert log == ["reserve a", "permit a", "pre_bind a", "post_bind a"]
    assert scheduler.schedule_one() is None


def test_pods_leave_the_queue_by_the_queue_sort_plugin() -> None:
    """The pod of higher priority is decided first."""
    scheduler = world.scheduler_of()
    for name, priority in (("low", 1), ("high", 9)):
        scheduler.add_pod(world.pod_of(name, cpu="3", priority=priority))
    first, second = scheduler.schedule_one(), scheduler.schedule_one()
    assert first is not None
    assert second is not None
    assert (first.pod.name, first.node, second.node) == ("high", "n0", "")


def test_a_pod_that_queue_sort_fails_for_is_decided_last(caplog: pytest.LogCaptureFixture) -> None:
    """The first such pod ended the scheduler."""

    def by_name(queued: QueuedPod) -> tuple[str, ...]:
        if queued.info.name in ("a", "b"):
            raise KeyError("colour")
        return (queued.info.name,)

    plain = world.scheduler_of()
    profile = plain.profiles[world.SCHEDULER]
    hooks = {**profile.pipeline.hooks, "queue_sort": (Hook("Mine", by_name),)}
    pipeline = replace(profile.pipeline, hooks=hooks)
    profiles = {world.SCHEDULER: replace(profile, pipeline=pipeline, runner=Runner(pipeline))}
    queue = build_queue(profiles, plain.handle.now)
    scheduler = Scheduler(plain.handle, queue, profiles, Random(1))
    for name in ("b", "d", "a", "c"):
        scheduler.add_pod(world.pod_of(name))
    outcomes = [scheduler.schedule_one() for _ in range(4)]
    assert [one.pod.name for one in outcomes if one] == ["c", "d", "b", "a"]
    assert "running QueueSort plugin \"Mine\": 'colour' (pod default/a)" in caplog.text


class NoTurns:
    """An order of queues in which everything fails."""

    def fail(self, *_args: object) -> Any:
        """Raise."""
        raise KeyError("turn")

    queue_of = queue_key = strict = take_stale_pods = take_stale_queues = fail
    forget_pod = forget_queue = fail


def test_an_order_of_queues_that_fails_is_one_queue(caplog: pytest.LogCaptureFixture) -> None:
    """The first pod ended the scheduler."""
    plain = world.scheduler_of()
    profile = plain.profiles[world.SCHEDULER]
    hooks = {**profile.pipeline.hooks, "queue_order": (Hook("Mine", NoTurns),)}
    pipeline = replace(profile.pipeline, hooks=hooks)
    profiles = {world.SCHEDULER: replace(profile, pipeline=pipeline, runner=Runner(pipeline))}
    queue = build_queue(profiles, plain.handle.now)
    scheduler = Scheduler(plain.handle, queue, profiles, Random(1))
    for name in ("b", "a"):
        scheduler.add_pod(world.pod_of(name))
    outcomes = [scheduler.schedule_one() for _ in range(2)]
    assert [one.pod.name for one in outcomes if one] == ["b", "a"]
    assert "running QueueOrder plugin \"Mine\": 'turn'" in caplog.text
    order = queue_order(profiles, strict=True)
    assert order is not None
    with pytest.raises(PluginError, match='running QueueOrder plugin "Mine"'):
        order.queue_of(QueuedPod(world.pod_of("c")))


class Colours:
    """Returns an error from PreFilter."""

    @hookimpl
    def pre_filter(self) -> results.PreFilterResult:
        return results.PreFilterResult(Status(Code.ERROR, ("no colour",)))


def test_an_error_that_pre_filter_returns_names_the_plugin() -> None:
    """The condition said "no colour", and nobody knew who."""
    outcome = world.run(world.scheduler_of(Colours()))
    assert outcome.message == 'running PreFilter plugin "x0": no colour'


def test_a_pod_that_fits_nowhere_has_a_reason() -> None:
    """Message, condition and event carry kube-scheduler's text, preemption included."""
    scheduler = world.scheduler_of(nodes=2)
    outcome = world.run(scheduler, cpu="9")
    message = (
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, "
        "preemption: 0/2 nodes are available: "
        "2 Preemption is not helpful for scheduling."
    )
    assert outcome.message == message
    assert world.client_of(scheduler).conditions == {outcome.pod.uid: ("Unschedulable", message)}
    (event,) = world.client_of(scheduler).events
    assert (event.kind, event.reason, event.note) == ("Warning", "FailedScheduling", message)
    world.assert_nothing_left(scheduler)


def test_a_pod_that_never_preempts_has_that_message() -> None:
    """preemptionPolicy Never excludes preemption."""
    outcome = world.run(world.scheduler_of(), cpu="9", preemption_policy="Never")
    assert outcome.message.endswith(", preemption: not eligible due to preemptionPolicy=Never.")


def test_without_nodes_there_is_one_sentence() -> None:
    """An empty cluster has a message of its own."""
    assert world.run(world.scheduler_of(nodes=0)).message == "no nodes available to schedule pods"


def test_a_plugin_that_raises_ends_the_attempt_and_names_itself() -> None:
    """The scheduler continues; the condition is SchedulerError."""
    scheduler = world.scheduler_of(Broken())
    outcome = world.run(scheduler)
    assert outcome.message == 'running "x0" filter plugin: cannot look at p'
    assert world.client_of(scheduler).conditions[outcome.pod.uid][0] == "SchedulerError"
    world.assert_nothing_left(scheduler)


def test_a_score_out_of_range_is_refused_in_upstreams_words() -> None:
    """A third-party score beyond 0..100 is an error, not a preference."""
    outcome = world.run(world.scheduler_of(Loud(2), nodes=2))
    assert outcome.message == (
        'applying score defaultWeights on Score plugins: plugin "x0" returns an invalid score 101, '
        "it should in the range of [0, 100] after normalizing"
    )


def test_the_only_node_is_taken_without_a_score() -> None:
    """kube-scheduler does not score where there is no choice, so nothing can break there."""
    assert world.run(world.scheduler_of(Loud())).node == "n0"


def test_a_pod_that_pre_enqueue_rejects_is_gated() -> None:
    """It never enters the active queue."""

    class Gate:
        @hookimpl
        def pre_enqueue(self, pod: PodInfo) -> Status:
            return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (f"{pod.name} must wait",))

    scheduler = world.scheduler_of(Gate())
    outcome = scheduler.add_pod(world.pod_of("p"))
    assert outcome is not None
    assert outcome.message == "p must wait"
    assert scheduler.schedule_one() is None
    assert len(scheduler.queue.gated()) == 1


def test_ties_are_broken_by_the_random_source_alone() -> None:
    """Two schedulers with one seed place a hundred pods alike, on all of the best nodes."""

    def places() -> list[str]:
        scheduler = world.scheduler_of(nodes=5)
        return [world.run(scheduler, name=f"p{i}", cpu="10m").node for i in range(100)]

    first = places()
    assert first == places()
    assert set(first) == {f"n{i}" for i in range(5)}


def test_a_pod_on_its_way_out_is_passed_over() -> None:
    """It is rejected with a message, and not retried."""
    scheduler = world.scheduler_of()
    pod = world.pod_of().pod
    meta = replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    scheduler.add_pod(PodInfo.of(replace(pod, metadata=meta)))
    outcome = scheduler.schedule_one()
    assert outcome is not None
    assert outcome.message == "skip schedule deleting pod: default/p"
    (event,) = world.client_of(scheduler).events
    assert (event.kind, event.reason, event.action, event.note) == (
        "Warning",
        "FailedScheduling",
        "Scheduling",
        outcome.message,
    )
    assert len(scheduler.queue) == 0
    world.assert_nothing_left(scheduler)


def test_an_outcome_names_the_policies_that_decided() -> None:
    """Generation and hash are those of the pipeline; a gated pod has none."""
    scheduler = world.scheduler_of()
    outcome = world.run(scheduler)
    pipeline = scheduler.profiles["default-scheduler"].pipeline
    assert (outcome.generation, outcome.content_hash) == (1, pipeline.content_hash)
    gated = scheduler.add_pod(world.pod_of("gated", gates=["g"]))
    assert gated is not None
    assert (gated.generation, gated.content_hash) == (0, "")


def test_an_empty_loop_is_idle_and_wakes_never() -> None:
    """A ready pod makes it busy, one in backoff has a time."""
    scheduler = world.scheduler_of(nodes=0)
    assert (scheduler.idle(), scheduler.next_wakeup()) == (True, None)
    scheduler.add_pod(world.pod_of())
    assert not scheduler.idle()
    scheduler.schedule_one()
    assert scheduler.next_wakeup() is not None
    assert scheduler.run_due() == []


LOOPS: Final = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {{name: Loops{number}}}
spec:
  filter:
  - expression: pod.labels.all(a, pod.labels.all(b, pod.labels.all(c, a + b + c != node.name)))
    message: "{number}"
"""


@pytest.mark.parametrize("policies", [1, 3])
def test_the_steps_of_a_brief_attempt_are_those_of_all_its_policies(
    tmp_path: Path, policies: int
) -> None:
    """30 policies, each just below the limit, took 136 ms of the event loop, and leases waited."""
    for number in range(policies):
        (tmp_path / f"{number}.yaml").write_text(LOOPS.format(number=number))
    scheduler = assemble(read(None, [str(tmp_path)])[0])
    scheduler.cache.add_node(make_node("n0", cpu="4"))
    labels = {f"l{i}": "" for i in range(40)}
    scheduler.add_pod(PodInfo.of(make_pod("p", cpu="1", labels=labels)))
    attempt = scheduler.pop()
    assert attempt is not None
    attempt.brief = True
    if policies > 1:
        with pytest.raises(TakesLong):
            scheduler.choose(attempt)
        attempt.brief = False
    assert isinstance(scheduler.choose(attempt), Bind)
