"""What a scheduler keeps from one pod to the next takes no more memory than it is counted as."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from policy_sched.preemption.dry_runs import DryRuns
from policy_sched.scheduler import Scheduler, node_seen, pod_gone, pod_seen
from policy_sched.testing import make_node
from tests.scheduler.world import client_of, pod_of, scheduler_of

PODS = 200


def kept_bytes(scheduler: Scheduler) -> int:
    """Return as how much its evaluations and dry runs are counted."""
    evaluations = scheduler.profiles["default-scheduler"].evaluator._kept
    found = [one for one in gc.get_objects() if isinstance(one, DryRuns)]
    (runs,) = [one for one in found if one._search.cache is scheduler.cache]
    kept = (evaluations.main, evaluations.probation, runs._kept)
    return sum(entry.nbytes for cache in kept for entry in cache.entries.values())


def decide(scheduler: Scheduler, millis: int, times: int) -> None:
    """Decide a pod of some size so many times; each time it is deleted again."""
    for time in range(times):
        pod = pod_of(f"p-{millis}-{time}", cpu=f"{millis}m", priority=5)
        pod_seen(scheduler, pod)
        assert scheduler.schedule_one() is not None
        pod_gone(scheduler, pod)
    client = client_of(scheduler)
    for notes in (client.bindings, client.conditions, client.nominations, client.events):
        notes.clear()


@pytest.mark.parametrize(
    ("millis", "times", "there"),
    [(100, 2, 0), (100_000, 2, 0), (1000, 1, 3)],
    ids=["fits", "too-large", "preempts"],
)
def test_the_limits_hold_on_a_small_cluster(millis: int, times: int, there: int) -> None:
    """On two nodes, arrays are small; the objects around them count as well.

    A cluster of a few nodes had kept millions of evaluations before their limit was reached.
    """
    scheduler = scheduler_of(nodes=0)
    for name in ("a", "b"):
        node_seen(scheduler, make_node(name))
        for number in range(there):
            pod_seen(scheduler, pod_of(f"{name}-{number}", cpu="1200m", node_name=name))
    for number in range(20):
        decide(scheduler, millis + number, times)
    gc.collect()
    before = kept_bytes(scheduler)
    tracemalloc.start()
    for number in range(20, PODS):
        decide(scheduler, millis + number, times)
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    counted = kept_bytes(scheduler) - before
    assert counted > 100_000, "evaluations were kept"
    assert taken < 1.5 * counted
