"""Every family of metrics changes in some scenario, or is excused with a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aiohttp import web

from policy_sched.framework.results import PermitResult
from policy_sched.framework.status import WAIT
from policy_sched.instance.observability.metric_families import Families, Histogram, NumberFamily
from policy_sched.instance.observability.registry import Metrics
from policy_sched.instance.observability.scheduling_metrics import FOLDED_AFTER
from policy_sched.model.cluster_event import NODE_ADD
from policy_sched.profiles.reload.inputs import PolicyFiles
from policy_sched.queue.backoff import SECOND
from policy_sched.scheduler.setup.factory import EPOCH
from policy_sched.testing import FakeClock, make_node
from tests.instance.app import test_inputs, test_polled_inputs
from tests.instance.app.test_cluster_instance import World, acted, node, pod, until
from tests.instance.observability.test_scheduling_metrics import Measured
from tests.scheduler.pod_groups import group
from tests.scheduler.test_pod_group_cycle import Run, member
from tests.scheduler.world import Recorder, pod_of

NEVER = {
    "scheduler_volume_binder_cache_requests_total": (
        "upstream has it in its registry and counts nothing under it, either: what it counted is"
        " no cache any more"
    ),
    "workqueue_retries_total": "no event is refused for a while: test_component_metrics",
    "policy_sched_events_lost_total": "moves where events cannot be written: test_event_writer",
    "policy_sched_quota_status_writes_total": "moves where quotas publish: test_published_quotas",
    "policy_sched_input_schema_differences": "moves where a definition changes: test_inputs",
    "policy_sched_evictions_total": "moves where policies evict: tests/instance/app/test_evictions",
    "policy_sched_audit_decisions_total": "moves where policies are audited: test_audit",
    "policy_sched_audit_skipped_total": "moves where policies are audited: test_audit",
    "policy_sched_rollout_step": "moves where there is a Rollout: test_rollouts",
    "policy_sched_rollout_phase": "moves where there is a Rollout: test_rollouts",
    "policy_sched_rollout_decisions_total": "moves where there is a Rollout: test_rollouts",
    "policy_sched_decision_log_lost_lines": "moves where the disk is full: test_decision_records",
    "policy_sched_recording_bytes_total": "moves where traffic is recorded: test_traffic",
    "policy_sched_recording_lost_lines": "moves where the disk is full: test_traffic",
    "scheduler_resourceclaim_creates_total": "moves where pods claim devices: test_claim_metrics",
    "scheduler_dra_bindingconditions_allocations_total": "as above",
    "scheduler_dra_bindingconditions_wait_duration_seconds": "as above",
    "policy_sched_unreadable_objects": "moves where an object cannot be read: test_unreadable",
}
"""Families that no scenario here changes, and why."""

MOMENTARY = {
    "workqueue_depth",
    "workqueue_longest_running_processor_seconds",
    "workqueue_unfinished_work_seconds",
}
"""Families of the current state, which may be empty: test_component_metrics."""


def moved(families: Families) -> set[str]:
    """Return the names of the families with a value other than zero."""
    found = set()
    for family in families.all:
        if isinstance(family, Histogram):
            family.fold()
            if any(sum(series.counts) for series in family.series.values()):
                found.add(family.name)
        elif isinstance(family, NumberFamily) and any(family.values.values()):
            found.add(family.name)
    return found


def both(metrics: Metrics) -> set[str]:
    """Return the families with values on a page."""
    metrics.text()
    return moved(metrics.upstream) | moved(metrics.policies)


def on_a_cluster() -> set[str]:
    """A leader binds, rejects and evicts, and is reloaded, with and without success."""
    found: set[str] = set()

    async def play(world: World) -> None:
        world.apply(node("a"), pod("low", "3"), pod("huge", "64"))
        world.apply({**pod("gated"), "spec": _gated()})
        async with world.served(), world.scheduler("one") as instance:
            await until(lambda: "low" in world.bound())
            world.apply(pod("high", "3", priority=10))
            await until(lambda: ("low", "Preempted") in world.events())
            world.apply({**node("b"), "metadata": {"name": "b", "labels": {"x": "y"}}})
            await until(lambda: {"high"} <= world.bound().keys())
            instance.reload(instance.reloader.store.prepare(), "http")
            found.update(both(instance.metrics))

    def _gated() -> dict[str, Any]:
        return {**pod("gated")["spec"], "schedulingGates": [{"name": "g"}]}

    acted(play)
    return found


def in_process() -> set[str]:
    """Slow and rare operations: Permit, timeouts, bindings in flight."""
    swept = Measured(cpu="1")
    swept.schedule(pod_of("p", cpu="2"))
    swept.scheduler.cache.add_node(make_node("big", cpu="8"))
    swept.pass_time(400)
    swept.tick()
    for number in range(20):
        swept.schedule(pod_of(f"p{number}", cpu="1m"))
    waiting = Measured(Recorder("a", [], permit=PermitResult(WAIT, 60)))
    waiting.schedule(pod_of("p"))
    found = both(waiting.metrics)
    held = waiting.scheduler.handle.waiting_pods.get("default/p")
    assert held is not None
    held.allow("x0")
    waiting.tick()
    return found | both(waiting.metrics) | both(swept.metrics)


def of_a_group() -> set[str]:
    """The pods of a group are decided together."""
    run, clock = Run(group("ring", 2), a=[4]), FakeClock(EPOCH)
    metrics = Metrics(lambda: clock.ns / SECOND)
    metrics.watch(run.scheduler)
    run.add(member("p"), member("q"))
    while (outcome := run.scheduler.schedule_one()) is not None:
        for one in (outcome, *outcome.others):
            metrics.decided(one, clock.ns)
    return both(metrics)


def of_broken_volumes() -> set[str]:
    """The volume binder fails."""
    world = Measured()
    world.schedule(pod_of("p"))
    world.metrics.attempts._recorders["default-scheduler"].broken["VolumeBinding", "Filter"] += 1
    return both(world.metrics)


def of_inputs(folder: Path) -> set[str]:
    """Rules read objects of a kind and the answers of a URL; one object has another type."""
    found: set[str] = set()
    quotas, loads = folder / "quotas", folder / "loads"

    def respond(_request: web.Request) -> web.StreamResponse:
        return web.json_response(test_polled_inputs.answer(1))

    async def play(world: World) -> None:
        async with test_polled_inputs.serving(respond) as url, world.served():
            read = test_inputs.written(quotas, test_inputs.POLICY)
            polled = test_polled_inputs.written(loads, url).policies
            world.policies = PolicyFiles(None, (*read, *polled))
            world.apply(test_inputs.definition(test_inputs.ANY), node("a"))
            await test_inputs.established(world)
            world.apply(test_inputs.quota(1), test_inputs.quota("many", "other"), pod("p"))
            async with world.scheduler() as instance:
                await until(lambda: "p" in world.bound())
                found.update(both(instance.metrics))

    for part in (quotas, loads):
        part.mkdir()
    acted(play)
    return found


def test_every_metric_changes_in_a_scenario(tmp_path: Path) -> None:
    """In one of the scenarios; and excused families never change."""
    seen = on_a_cluster() | in_process() | of_a_group() | of_broken_volumes() | of_inputs(tmp_path)
    empty = Metrics()
    names = {family.name for family in (*empty.upstream.all, *empty.policies.all)}
    assert names - seen - MOMENTARY == NEVER.keys()


def test_a_standby_does_not_accumulate_events() -> None:
    """Nothing reads its metrics, and it decides nothing: they are folded all the same."""
    world = Measured()
    attempts = world.metrics.attempts
    for _ in range(3 * FOLDED_AFTER):
        attempts.happened((NODE_ADD,), 0.001)
        attempts.requested("200", "GET", "host", 0.001)
        attempts.hint("Fit", "NodeAdd", "Queue", 0.001)
    for family in world.metrics.upstream.all:
        if isinstance(family, Histogram):
            assert all(len(series.waiting) <= FOLDED_AFTER for series in family.series.values())
