"""Decide: one pod, all nodes, one answer; nothing is changed here.

The order of functions is a pod's order: evaluate (filter and score), select host, or, when
nothing fits, ask PostFilter and put the diagnosis into kube-scheduler's words.
"""

from __future__ import annotations

from random import Random

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.tables import NodeTable
from policy_sched.errors import PluginError
from policy_sched.framework import NO_NODES, Code, Diagnosis, Status
from policy_sched.framework.evaluate import Evaluation
from policy_sched.scheduler.attempt import (
    Attempt,
    Bind,
    Decision,
    Preempt,
    Reject,
    TakesLong,
)


def decide(attempt: Attempt, table: NodeTable, rng: Random) -> Decision:
    """Return where the attempt's pod goes, or why nowhere. Raises TakesLong; see Attempt.

    ``rng`` breaks ties among the nodes with the highest score, uniformly; it is read only when
    there is more than one.
    """
    pod = attempt.queued.info
    if not table.row_of:
        return Reject(Status(Code.UNSCHEDULABLE, (NO_NODES,)), NO_NODES, Diagnosis(0))
    try:
        evaluation = attempt.profile.evaluator.evaluate(pod)
        rejection = evaluation.filtering.rejection
        if rejection is not None and rejection.code is Code.ERROR:
            return _broken(rejection.message())
        attempt.state = evaluation.state
        best = evaluation.best()
        if best.size:
            row = select_host(best, rng)
            return Bind(table.names[row], row, evaluation)
        return _failure(attempt, evaluation, table)
    except PluginError as error:
        return _broken(str(error))


def select_host(best: NDArray[np.intp], rng: Random) -> int:
    """Return one of the best rows, shape (k,) with k >= 1, each with the same chance."""
    return best.item(0 if best.size == 1 else rng.randrange(best.size))


def _failure(attempt: Attempt, evaluation: Evaluation, table: NodeTable) -> Preempt | Reject:
    """Run PostFilter: return what makes room, or the rejection with its whole message."""
    diagnosis = Diagnosis(
        node_count=table.live_count,
        statuses=evaluation.filtering.statuses(),
        pre_filter=evaluation.rejection,
        narrowed_by=evaluation.filtering.narrowed_by,
    )
    pod, runner = attempt.queued.info, attempt.profile.runner
    if not runner.pipeline.at("post_filter"):
        return _rejected(diagnosis, nominated=True)
    dry_run = evaluation.filtering.filter_dry_run
    if attempt.brief and dry_run.node_by_node:
        raise TakesLong
    evaluation.state.write(dry_run)
    result = runner.run("post_filter", evaluation.state, pod, diagnosis).made_room
    if result is None:
        return _rejected(diagnosis, nominated=True)
    diagnosis.post_filter = result.status
    if not result.status.ok or not result.nominated_node:
        return _rejected(diagnosis, nominated=result.nominated_node is None)
    message = diagnosis.message()
    status, plugin = Status(Code.UNSCHEDULABLE, (message,)), result.status.plugin
    return Preempt(status, message, diagnosis, result.nominated_node, result.victims, plugin)


def _rejected(diagnosis: Diagnosis, *, nominated: bool) -> Reject:
    message = diagnosis.message()
    return Reject(Status(Code.UNSCHEDULABLE, (message,)), message, diagnosis, nominated=nominated)


def _broken(message: str) -> Reject:
    return Reject(Status(Code.ERROR, (message,)), message)
