"""The log of an instance: records, verbosity, and the rate limit of repeated messages.

Keys and messages of decisions are those that kube-scheduler logs; ``generation`` and
``contentHash`` tell which policies decided. The verbosity is a number as kube-scheduler's -v, which
may change while the process runs.
"""

from __future__ import annotations

import asyncio
import errno
import io
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, BinaryIO, Final

import numpy as np

from policy_sched.client.kube.time import SECOND
from policy_sched.cluster.tables import NodeTable
from policy_sched.errors import Diagnostic, Severity, as_data, bounded
from policy_sched.framework import Handle
from policy_sched.framework.evaluate import FEASIBLE
from policy_sched.model import ApiObject, Node, Pod, PodInfo
from policy_sched.scheduler import (
    Attempt,
    Bind,
    Decision,
    Happened,
    Outcome,
    Preempt,
    Reject,
    Scheduler,
)

USUAL: Final = 2
"""Decisions, but not each step towards them (where upstream's operators begin to read)."""

LEVELS: Final[Mapping[str, int]] = {
    "Failed to bind pod": 1,
    "Successfully bound pod to node": 2,
    "Unable to schedule pod; no fit; waiting": 2,
    "Unable to schedule pod; no nodes are registered to the cluster; waiting": 2,
    "Preemptor Pod preempted victim Pod": 2,
    "healthz check failed": 2,
    "livez check failed": 2,
    "readyz check failed": 2,
    "Pod waits before it is bound": 3,
    "Attempting to schedule pod": 3,
    "Attempting to bind pod to node": 3,
    "Skip schedule deleting pod": 3,
    "Handlers synced": 3,
    "Add event for node": 3,
    "Delete event for node": 3,
    "Update event for node": 4,
    "Add event for unscheduled pod": 3,
    "Delete event for unscheduled pod": 3,
    "Update event for unscheduled pod": 4,
    "Add event for scheduled pod": 3,
    "Delete event for scheduled pod": 3,
    "Update event for scheduled pod": 4,
    "Status after running PostFilter plugins for pod": 5,
    "Plugin scored node for pod": 10,
    "Calculated node's final score for pod": 10,
}
"""From which verbosity on a message is written (kube-scheduler's numbers); others always are."""


class Verbosity:
    """The verbosity in force. ``changed`` are told after it was set."""

    def __init__(self, level: int = USUAL) -> None:
        self.level = level
        self.changed: list[Callable[[], None]] = []

    def set(self, level: int) -> None:
        """Log so much from now on."""
        self.level = level
        for tell in self.changed:
            tell()

    def wants(self, message: str) -> bool:
        """Tell whether a message is written."""
        return LEVELS.get(message, 0) <= self.level


Record = dict[str, Any]
Write = Callable[[Record], None]

INFO: Final = "info"
WARNING: Final = "warning"
ERROR: Final = "error"
REMEMBERED: Final = 50
"""Decisions that are remembered."""
BINDING: Final = "Attempting to bind pod to node"
NO_NODES: Final = "no nodes available to schedule pods"
"""How an attempt fails in a cluster without nodes (upstream's ErrNoNodesAvailable)."""
FAILURES: Final = 10_000
"""Pods whose last failure is remembered."""
_PLUGINS_NAMED: Final = 3
"""Plugins that are named as reasons for a node."""


@dataclass(frozen=True, slots=True)
class Decided:
    """One decision: when (ns since 1970), about which pod, where it goes ("" nowhere), why."""

    time: int
    pod: str
    node: str
    why: str
    generation: int


class DecisionLog:
    """Hands records to `write` and remembers the last decisions; ``now`` is in ns since 1970.

    What `verbosity` does not want is not written.
    """

    def __init__(self, write: Write, now: Callable[[], int]) -> None:
        self._write = write
        self._now = now
        self.verbosity = Verbosity()
        self.last: deque[Decided] = deque(maxlen=REMEMBERED)
        self.failures: dict[str, str] = {}
        """Why pods were rejected the last time, by namespace/name; the newest come last."""
        self._sent: dict[str, Record] = {}

    def say(self, level: str, message: str, **facts: object) -> None:
        """Write one record, if it is wanted; ``ts`` is in seconds since 1970."""
        if not self.verbosity.wants(message):
            return
        self._write({"ts": self._now() / 1e9, "level": level, "msg": message, **facts})

    def problems(self, found: Iterable[Diagnostic]) -> None:
        """Write a record for each problem of files, with its place."""
        for one in bounded(found):
            level = ERROR if one.severity is Severity.ERROR else WARNING
            facts = {key: value for key, value in as_data(one).items() if value}
            facts.pop("severity")
            self.say(level, facts.pop("message"), **facts)

    def decided(self, outcome: Outcome, nodes: int = 0) -> None:
        """Write and remember what became of a pod.

        ``nodes``: how many there were to choose from; 0 if the node was chosen before, and what
        was found then may have changed since. A pod that only waits for the cluster's answer is
        told of when that has come, with what spoke for its node when it was chosen.
        """
        uid, decision = outcome.pod.uid, outcome.decision
        chosen = _choice(decision, nodes) if nodes and isinstance(decision, Bind) else {}
        if outcome.waiting and outcome.attempt is not None and outcome.attempt.sent:
            self._sent[uid] = chosen
            self.say(INFO, BINDING, pod=outcome.pod.key, node=outcome.node)
            return
        level, message, why, facts = _told(outcome, self._sent.pop(uid, chosen))
        if level is ERROR and outcome.attempt is not None and outcome.attempt.sent:
            self.say(INFO, "Failed to bind pod", pod=outcome.pod.key)
        made_by = {"generation": outcome.generation, "contentHash": outcome.content_hash}
        self.say(level, message, pod=outcome.pod.key, **facts, **made_by)
        decided = Decided(self._now(), outcome.pod.key, outcome.node, why, outcome.generation)
        self.last.append(decided)
        self.failures.pop(outcome.pod.key, None)
        if not outcome.node:
            self.failures[outcome.pod.key] = why
            if len(self.failures) > FAILURES:
                del self.failures[next(iter(self.failures))]


def _told(outcome: Outcome, chosen: Record) -> tuple[str, str, str, Record]:
    """Return level, message, the reason for people, and the facts of an outcome."""
    decision, node = outcome.decision, outcome.node
    if outcome.waiting or node:
        facts = {"node": node, **chosen}
        if outcome.waiting:
            why = f"waits before it is bound; {_why(facts)}"
            return INFO, "Pod waits before it is bound", why, facts
        return INFO, "Successfully bound pod to node", _why(facts), facts
    if isinstance(decision, Preempt):
        victims = sorted(victim.key for victim in decision.victims)
        facts = {"err": outcome.message, "nominatedNode": decision.node, "victims": victims}
        why = f"makes room on {decision.node}: evicts {', '.join(victims)}"
        return INFO, "Unable to schedule pod; no fit; waiting", why, facts
    if outcome.attempt is None and outcome.pod.terminating:
        return INFO, "Skip schedule deleting pod", outcome.message, {}
    if outcome.message == NO_NODES:
        message = "Unable to schedule pod; no nodes are registered to the cluster; waiting"
        return INFO, message, outcome.message, {}
    if outcome.status.rejected:
        message = "Unable to schedule pod; no fit; waiting"
        return INFO, message, outcome.message, {"err": outcome.message}
    return ERROR, "Error scheduling pod; retrying", outcome.message, {"err": outcome.message}


def _choice(decision: Bind, nodes: int) -> Record:
    """Return how many nodes there were, and what spoke for the chosen one."""
    filtering, scoring = decision.evaluation.filtering, decision.evaluation.scoring
    feasible = int(np.count_nonzero(filtering.first == FEASIBLE))
    facts: Record = {"evaluatedNodes": nodes, "feasibleNodes": feasible}
    if scoring is None:
        return facts
    row = np.array([decision.row], np.intp)
    shares = {plugin: shares[0] for plugin, shares in scoring.weighted(row).items()}
    facts["score"] = scoring.total.item(decision.row)
    facts["scores"] = shares
    return facts


def _why(facts: Record) -> str:
    if "feasibleNodes" not in facts:
        return "bound after a wait"
    found = f"{facts['feasibleNodes']} of {facts['evaluatedNodes']} nodes fit"
    if "score" not in facts:
        return found
    best = sorted(facts["scores"].items(), key=lambda share: -share[1])[:_PLUGINS_NAMED]
    named = ", ".join(f"{plugin} {share}" for plugin, share in best if share)
    return f"{found}; score {facts['score']}" + (f": {named}" if named else "")


AGAIN: Final = 60 * SECOND
"""How long a cause is not said again."""
CAUSES: Final = 1000
"""Causes that are remembered; beyond that all are forgotten, and said again."""


@dataclass(slots=True)
class _Cause:
    said: int
    unsaid: int = 0


class LogThrottle:
    """Limits repeated messages by cause: an outage is one line, not one for each watch.

    A cause is logged when it is new, and again after an interval; the line has the number of
    messages that were left out. ``now`` is monotonic, in nanoseconds.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._causes: dict[str, _Cause] = {}

    def admit(self, what: str) -> int | None:
        """Admit a message of the form ``REQUEST: CAUSE``, unless its cause was logged of late.

        Return the number of messages that were left out since then; None to leave this one out.
        """
        cause, now = what.partition(": ")[2] or what, self._now()
        known = self._causes.get(cause)
        if known is not None and now - known.said < AGAIN:
            known.unsaid += 1
            return None
        if len(self._causes) >= CAUSES:
            self._causes.clear()
        self._causes[cause] = _Cause(now)
        return 0 if known is None else known.unsaid


_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EAGAIN})


class LineWriter:
    """Writes lines to a file; in an event loop they are there when the turn has ended."""

    def __init__(self, file: BinaryIO) -> None:
        # A buffer would keep what could not be written, and write it again and again.
        self._file = file.raw if isinstance(file, io.BufferedWriter) else file
        self._held: list[bytes] = []
        self._due = False
        self._failed: OSError | None = None
        self.lost = 0
        """Lines that could not be written for want of room."""
        self.room = True
        """Whether there was room the last time."""
        self._broken_off = False

    def __call__(self, line: bytes) -> None:
        """Write a line. Raises OSError, if the file cannot be written, now or the next time."""
        if self._failed is not None:
            raise self._failed
        self._held.append(line)
        if self._due:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._write()
            return
        self._due = True
        loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._due = False
        try:
            self._write()
        except OSError as error:
            self._failed = error

    def _write(self) -> None:
        lines, self._held = self._held, []
        data = b"".join(lines)
        begin, written = 0, 0
        if self._broken_off:  # in the middle of a line
            data, begin = b"\n" + data, 1
        try:
            while written < len(data):
                count = self._file.write(data[written:])
                if count is None:  # a pipe that does not block is full
                    raise BlockingIOError(errno.EAGAIN, "no room")
                written += count
            self._file.flush()
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            self.room = False
            self.lost += data.count(b"\n", max(written, begin))
            self._broken_off = self._broken_off or (written > 0 and data[written - 1] != 10)
            return
        self.room, self._broken_off = True, False


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
