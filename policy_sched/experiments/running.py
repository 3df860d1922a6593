"""Runs a sweep: what has a result already is not run, and what ends is kept at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from policy_sched.experiments.engine import Engine, Failure, Order, Work
from policy_sched.experiments.results import Store
from policy_sched.experiments.runs import RunResult
from policy_sched.experiments.sweep import Sweep, Task


@dataclass(slots=True)
class Outcome:
    """The results of tasks in their order, those that failed, and how many were known already."""

    results: list[tuple[Task, RunResult]] = field(default_factory=list)
    failures: list[tuple[Task, str]] = field(default_factory=list)
    found: int = 0


def run_tasks(
    sweep: Sweep,
    tasks: Sequence[Task],
    store: Store,
    engine: Engine,
    advance: Callable[[int], None] = lambda _more: None,
) -> Outcome:
    """Run the tasks that have no result; ``advance`` is called with how many more are done.

    Raises PolicySchedError if a result cannot be written.
    """
    known = {task.key: store.known(task.key, sweep.spec) for task in tasks}
    outcome = Outcome(found=sum(known[task.key] is not None for task in tasks))
    advance(outcome.found)
    missing = {task.key: task for task in tasks if known[task.key] is None}
    orders = [Order(task.number, task.variant, task.seed) for task in missing.values()]
    keys = {task.number: key for key, task in missing.items()}
    failed: dict[str, str] = {}
    if orders:
        variants = {order.variant: sweep.variants[order.variant] for order in orders}
        work = Work(sweep.inputs, sweep.spec, variants)
        for order, result in engine(work, orders):
            key = keys[order.number]
            if isinstance(result, Failure):
                failed[key] = result.message
            else:
                store.keep(key, result)
                known[key] = result
            advance(1)
    for task in tasks:
        found = known[task.key]
        if found is None:
            outcome.failures.append((task, failed[task.key]))
        else:
            outcome.results.append((task, found))
    return outcome
