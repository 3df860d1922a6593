"""One pass over the queue: every pod that is ready is decided, and none is retried for its own."""

from __future__ import annotations

from collections.abc import Iterator

from policy_sched.scheduler.attempt import Outcome
from policy_sched.scheduler.scheduler import Scheduler


def single_pass(scheduler: Scheduler) -> Iterator[Outcome]:
    """Decide the pods that are ready, and those that become ready meanwhile, in queue order.

    The pass ends when every ready pod was decided: pods that were requeued are not retried.
    """
    scheduler.run_due()
    decided: set[str] = set()
    left = _ready(scheduler)
    while left:
        found = scheduler.schedule_one()
        if found is None:
            return
        for outcome in (found, *found.others):
            decided.add(outcome.pod.uid)
            left.discard(outcome.pod.uid)
            yield outcome
        if not left:
            left = _ready(scheduler) - decided


def _ready(scheduler: Scheduler) -> set[str]:
    return {queued.info.uid for queued in scheduler.queue.active()}
