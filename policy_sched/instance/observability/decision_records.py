"""The decision log: a line of JSON for each decision of a scheduler, as it is made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
from msgspec import field

from policy_sched.framework import Diagnosis, tally
from policy_sched.instance.observability.rotated_log import RotatedLog
from policy_sched.scheduler import Attempt, Bind, Decision, GroupDecision, Preempt, Scheduler

PLUGINS: Final = 3
"""Plugins whose scores a record has: those that gave the chosen node most."""
REASONS: Final = 10
"""Reasons that a record has: those of most nodes."""
MASKABLE: Final = frozenset({"message", "node", "pod", "reasons", "scores", "uid", "victims"})
"""Fields that can be masked, besides labels, each by its key."""


class DecisionRecord(msgspec.Struct, rename="camel", omit_defaults=True):
    """The decision about a pod; what is absent is empty."""

    time: float
    """Seconds since 1970."""
    pod: str
    """Namespace and name."""
    uid: str
    profile: str
    result: str
    """scheduled, preempting, unschedulable or error, as kube-scheduler's metrics say it."""
    attempt: int
    """How often the pod was tried by then, this time included."""
    content_hash: str
    """Of the policies that decided."""
    generation: int
    seconds: float
    """How long the decision took; of a group, that of all its pods together."""
    node: str = ""
    """The node that was chosen, or that victims have to leave."""
    score: int | None = None
    """The total of the chosen node."""
    scores: dict[str, int] = field(default_factory=dict)
    """By plugin, normalised and weighted: the greatest."""
    evaluated_nodes: int = 0
    feasible_nodes: int = 0
    message: str = ""
    """The message of the pod's condition where it is not bound."""
    reasons: dict[str, int] = field(default_factory=dict)
    """Why nodes were rejected, and how many: the most frequent."""
    victims: tuple[str, ...] = ()
    side: str = ""
    """stable or candidate, while a candidate decides some of the pods."""
    labels: dict[str, str] = field(default_factory=dict)
    """Of the pod."""
    masked: tuple[str, ...] = ()
    """What is left out here because it is masked."""


class DecisionRecorder:
    """Writes a record of each decision of a scheduler, from now on.

    ``masked``: names of `MASKABLE` and ``labels.KEY``. ``now``: ns since 1970.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        log: RotatedLog,
        masked: Sequence[str],
        now: Callable[[], int],
    ) -> None:
        self._scheduler = scheduler
        self._log = log
        self._fields = [name for name in masked if name in MASKABLE]
        self._labels = [name.removeprefix("labels.") for name in masked if name not in MASKABLE]
        self._now = now
        observers = scheduler.observers
        observers.decided.append(self._decided)
        observers.group_decided.append(self._group_decided)

    @property
    def lost(self) -> int:
        """Lines that could not be written."""
        return self._log.lost

    def close(self) -> None:
        """Close the file."""
        self._log.close()

    def _decided(self, attempt: Attempt, decision: Decision, start: float) -> None:
        self._write(attempt, decision, start)

    def _group_decided(self, decision: GroupDecision, start: float) -> None:
        for member in decision.members:
            self._write(member.attempt, member.decision, start)

    def _write(self, attempt: Attempt, decision: Decision, start: float) -> None:
        pod, pipeline = attempt.queued.info, attempt.profile.pipeline
        record = DecisionRecord(
            self._now() / 1e9,
            pod.key,
            pod.uid,
            pipeline.scheduler_name,
            "scheduled",
            attempt.queued.attempts,
            pipeline.content_hash,
            pipeline.generation,
            round(self._scheduler.observers.timer() - start, 6),
            labels=dict(pod.labels),
        )
        canary = self._scheduler.canary
        if canary is not None:
            own = canary.profiles.get(pipeline.scheduler_name) is attempt.profile
            record.side = "candidate" if own else "stable"
        if isinstance(decision, Bind):
            _describe_choice(record, decision, self._scheduler.cache.nodes.live_count)
        else:
            record.message = decision.message
            rejected = "unschedulable" if decision.status.rejected else "error"
            record.result, diagnosis = rejected, decision.diagnosis
            if isinstance(decision, Preempt):
                record.result, record.node = "preempting", decision.node
                record.victims = tuple(sorted(victim.key for victim in decision.victims))
            if diagnosis is not None:
                record.evaluated_nodes, record.reasons = diagnosis.node_count, _reasons(diagnosis)
        self._mask(record)
        self._log.write(record)

    def _mask(self, record: DecisionRecord) -> None:
        """Leave out what is masked, and name it."""
        masked = [
            f"labels.{key}" for key in self._labels if record.labels.pop(key, None) is not None
        ]
        for name in self._fields:
            value = getattr(record, name)
            if value:
                setattr(record, name, type(value)())
                masked.append(name)
        record.masked = tuple(sorted(masked))


def _describe_choice(record: DecisionRecord, decision: Bind, nodes: int) -> None:
    filtering, scoring = decision.evaluation.filtering, decision.evaluation.scoring
    record.node, record.evaluated_nodes = decision.node, nodes
    record.feasible_nodes = filtering.first.size - int(np.count_nonzero(filtering.first))
    if scoring is not None:
        record.score = scoring.total.item(decision.row)
        record.scores = _greatest(scoring.shares_of(decision.row), PLUGINS)


def _reasons(diagnosis: Diagnosis) -> dict[str, int]:
    """Return how many nodes were rejected for each reason."""
    if diagnosis.pre_filter is not None:
        return dict.fromkeys(diagnosis.pre_filter.reasons[:REASONS], diagnosis.node_count)
    counts: Counter[str] = Counter()
    for status, count in tally(diagnosis.statuses).items():
        for reason in status.reasons:
            counts[reason] += count
    return _greatest(counts, REASONS)


def _greatest(amounts: Mapping[str, int], most: int) -> dict[str, int]:
    """Return the greatest amounts that are not 0, equal ones by name."""
    ranked = sorted(amounts.items(), key=lambda item: (-item[1], item[0]))
    return {name: amount for name, amount in ranked[:most] if amount}
