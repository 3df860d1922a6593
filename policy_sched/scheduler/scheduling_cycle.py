"""Decide: one pod, all nodes, one decision; nothing is changed here.

The order of functions is a pod's order: evaluate (filter and score), select host, or, when
nothing fits, run PostFilter and put the diagnosis into kube-scheduler's words.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.tables import NodeTable
from policy_sched.errors import PluginError, TakesLong
from policy_sched.framework import NO_NODES, Code, Diagnosis, Status
from policy_sched.framework.evaluate import Evaluation
from policy_sched.model import PodInfo
from policy_sched.scheduler.attempt import Attempt, Bind, Decision, Preempt, Reject

Rows: TypeAlias = Sequence[int] | NDArray[np.intp]
_NO_ROOM: Final = "no node has room"


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
        attempt.state = evaluation.state
        row = select_host(evaluation, rng, pod)
        if row is not None:
            return Bind(table.names[row], row, evaluation)
        return no_node_fits(attempt, evaluation, table.live_count)
    except TakesLong:
        raise
    except PluginError as error:
        return broken(str(error))


def decide_without_reasons(attempt: Attempt, table: NodeTable, rng: Random) -> Decision:
    """Decide as `decide` does; a rejection does not name what each node lacks.

    For simulations that try each pod once. PostFilter plugins need the reasons, so where there are
    any nothing is saved.
    """
    pod = attempt.queued.info
    if not table.row_of or attempt.profile.runner.pipeline.at("post_filter"):
        return decide(attempt, table, rng)
    try:
        evaluation = attempt.profile.evaluator.evaluate(pod)
    except PluginError as error:
        return broken(str(error))
    row = select_host(evaluation, rng, pod)
    if row is None:
        return Reject(Status(Code.UNSCHEDULABLE, (_NO_ROOM,)), _NO_ROOM, None)
    attempt.state = evaluation.state
    return Bind(table.names[row], row, evaluation)


class Ties(Random):
    """A random source that breaks ties among the nodes for a pod itself."""

    def choose(self, pod: PodInfo, best: Rows) -> int:  # noqa: ARG002 - for subclasses
        """Return one of the best rows, which are ascending; each has the same chance."""
        return int(best[self.randrange(len(best))])


def select_host(evaluation: Evaluation, rng: Random, pod: PodInfo) -> int | None:
    """Return one of the best rows for a pod, each with the same chance unless ``rng`` has `Ties`;
    None if no node is feasible."""
    scoring = evaluation.scoring
    if scoring is None:
        return None
    if scoring.only is not None:
        return scoring.only
    totals = scoring.totals
    best = evaluation.best() if totals is None else totals.best()
    count = len(best)
    if count > 1 and isinstance(rng, Ties):
        return rng.choose(pod, best)
    return int(best[0 if count == 1 else rng.randrange(count)])


def diagnosed(evaluation: Evaluation, nodes: int) -> Diagnosis:
    """Return why a pod fits none of the nodes it was evaluated on."""
    return Diagnosis(
        node_count=nodes,
        statuses=evaluation.filtering.statuses(),
        pre_filter=evaluation.rejection,
        narrowed_by=evaluation.filtering.narrowed_by,
    )


def no_node_fits(attempt: Attempt, evaluation: Evaluation, nodes: int) -> Preempt | Reject:
    """Run PostFilter: return what makes room, or the rejection with its whole message.

    ``nodes``: how many the pod was evaluated on. The plugins get the attempt's state.
    """
    diagnosis = diagnosed(evaluation, nodes)
    pod, runner = attempt.queued.info, attempt.profile.runner
    if not runner.pipeline.at("post_filter"):
        return rejected(diagnosis, nominated=False)
    filtering = evaluation.filtering
    if attempt.brief and filtering.filter_dry_run.node_by_node:
        raise TakesLong("victims are searched node by node")
    attempt.state.write(filtering)
    result = runner.run("post_filter", attempt.state, pod, diagnosis).made_room
    if result is None:
        return rejected(diagnosis, nominated=True)
    diagnosis.post_filter = result.status
    if not result.status.ok or not result.nominated_node:
        return rejected(diagnosis, nominated=result.nominated_node is None)
    message = diagnosis.message()
    status, plugin = Status(Code.UNSCHEDULABLE, (message,)), result.status.plugin
    node, victims = result.nominated_node, result.victims
    return Preempt(status, message, diagnosis, node, victims, plugin, result.elsewhere)


def rejected(diagnosis: Diagnosis, *, nominated: bool) -> Reject:
    """Return the rejection that a diagnosis is; ``nominated``: an earlier nomination stays."""
    message = diagnosis.message()
    return Reject(Status(Code.UNSCHEDULABLE, (message,)), message, diagnosis, nominated=nominated)


def broken(message: str) -> Reject:
    """Return the rejection of a pod whose attempt met an error."""
    return Reject(Status(Code.ERROR, (message,)), message)
