"""kube-scheduler's log messages at -v 3 and above, to the letter.

Theory of operation. Lines that are off cost nothing: below -v 3 the scheduler calls what
it would call anyway, and only evictions are logged. When the verbosity rises, VerboseLogging
wraps those calls; when it falls, the wrapper is removed.
"""

from __future__ import annotations

from random import Random
from typing import Final

import numpy as np

from policy_sched.cluster.tables import NodeTable
from policy_sched.framework import Handle
from policy_sched.framework.evaluate import FEASIBLE
from policy_sched.instance.observability.log import INFO, DecisionLog
from policy_sched.model import ApiObject, Node, Pod, PodInfo
from policy_sched.scheduler import (
    Attempt,
    Bind,
    Decision,
    Happened,
    Preempt,
    Reject,
    Scheduler,
)

EVICTIONS: Final = 2
STEPS: Final = 3
"""Verbosity from which on attempts and events are told."""
REASONS: Final = 5
"""Verbosity from which on it is told what became of a search for victims."""
SCORES: Final = 10
"""Verbosity from which on each plugin's score of each node is told."""


class VerboseLogging:
    """Tells of a scheduler's attempts, as much as the log's verbosity wants."""

    def __init__(self, scheduler: Scheduler, log: DecisionLog) -> None:
        self._scheduler = scheduler
        self._log = log
        self._decide, self._prepare_candidate = scheduler.decide, scheduler.prepare_candidate
        log.verbosity.changed.append(self.adapt)
        self.adapt()

    def adapt(self) -> None:
        """Step in between where something is wanted, and aside where nothing is."""
        level, scheduler = self._log.verbosity.level, self._scheduler
        scheduler.decide = self._told_decide if level >= STEPS else self._decide
        scheduler.prepare_candidate = (
            self._logged_prepare_candidate if level >= EVICTIONS else self._prepare_candidate
        )

    def happened(self, old: ApiObject | None, new: ApiObject | None, events: Happened) -> None:
        """Tell what the scheduler was told of: an object as it was, and as it is, None if gone."""
        thing = old if new is None else new
        what = _kind_of(thing) if events or new is not None else ""
        if not what or thing is None:
            return
        came = old is None or (isinstance(old, Pod) and _kind_of(old) != what)
        action = "Delete" if new is None else "Add" if came else "Update"
        self._say(f"{action} event for {what}", thing)

    # Inside.

    def _told_decide(self, attempt: Attempt, table: NodeTable, rng: Random) -> Decision:
        pod = attempt.queued.info
        if not attempt.began:  # it is decided a second time where its search takes long
            self._log.say(INFO, "Attempting to schedule pod", pod=pod.key)
        decision = self._decide(attempt, table, rng)
        if not isinstance(decision, Bind):
            self._tell_reasons(pod, decision)
        elif self._log.verbosity.level >= SCORES:
            self._tell_scores(pod, decision, table)
        return decision

    def _tell_reasons(self, pod: PodInfo, decision: Preempt | Reject) -> None:
        if self._log.verbosity.level < REASONS or decision.diagnosis is None:
            return
        status = decision.diagnosis.post_filter
        if status is not None:
            text = "Status after running PostFilter plugins for pod"
            self._log.say(INFO, text, pod=pod.key, status=status.message())

    def _tell_scores(self, pod: PodInfo, decision: Bind, table: NodeTable) -> None:
        filtering, scoring = decision.evaluation.filtering, decision.evaluation.scoring
        if scoring is None:
            return
        rows = np.flatnonzero(filtering.first == FEASIBLE)
        say, names = self._log.say, [table.names[row] for row in rows.tolist()]
        for plugin, scores in scoring.weighted(rows).items():
            for node, score in zip(names, scores, strict=True):
                text = "Plugin scored node for pod"
                say(INFO, text, pod=pod.key, plugin=plugin, node=node, score=score)
        for node, total in zip(names, scoring.total[rows].tolist(), strict=True):
            say(INFO, "Calculated node's final score for pod", pod=pod.key, node=node, score=total)

    def _logged_prepare_candidate(self, pod: PodInfo, decision: Preempt, handle: Handle) -> str:
        error = self._prepare_candidate(pod, decision, handle)
        if not error:
            for victim in decision.victims:
                text = "Preemptor Pod preempted victim Pod"
                facts = {"preemptor": pod.key, "victim": victim.key, "node": decision.node}
                self._log.say(INFO, text, **facts)
        return error

    def _say(self, message: str, thing: ApiObject) -> None:
        if self._log.verbosity.wants(message):
            name, namespace = thing.metadata.name, thing.metadata.namespace
            facts = {"node": name} if isinstance(thing, Node) else {"pod": f"{namespace}/{name}"}
            self._log.say(INFO, message, **facts)


def _kind_of(thing: ApiObject | None) -> str:
    """Return how upstream calls what an object is to a scheduler; "" for what it does not tell."""
    if isinstance(thing, Node):
        return "node"
    if isinstance(thing, Pod):
        return "scheduled pod" if thing.spec.node_name else "unscheduled pod"
    return ""
