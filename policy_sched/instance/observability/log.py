"""The log of an instance: records, verbosity, kube-scheduler's messages, and rate limits.

Keys and messages of decisions are kube-scheduler's; ``generation`` and ``contentHash`` identify the
policies in force. The verbosity is a number as kube-scheduler's -v, and may change at run time.

Theory of operation. Messages of the scheduler's own steps (-v 3 and above) cost nothing while they
are off: VerboseLogging observes the scheduler only while the verbosity asks for it. LineWriter
collects the lines of a turn of the event loop for one system call. A full disk does not stop the
scheduler: lines are dropped and counted.
"""

from __future__ import annotations

import asyncio
import errno
import io
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO, Final, TypeVar

import msgspec
import numpy as np

from policy_sched.client.kube.time import SECOND
from policy_sched.cluster.tables import NodeTable
from policy_sched.errors import Diagnostic, Severity, as_data, bounded
from policy_sched.framework.evaluate import Evaluation
from policy_sched.model import ApiObject, Node, Pod, PodInfo
from policy_sched.scheduler import (
    Attempt,
    Bind,
    ClusterChange,
    Decision,
    Outcome,
    Preempt,
    Reject,
    Scheduler,
)

USUAL: Final = 2
"""Logs decisions, but not the steps of each (the usual -v of upstream's operators)."""

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
"""The verbosity from which a message is logged (kube-scheduler's numbers); others always are."""


class Verbosity:
    """The current verbosity. The functions in ``changed`` are called after it was set."""

    def __init__(self, level: int = USUAL) -> None:
        self.level = level
        self.changed: list[Callable[[], None]] = []

    def set(self, level: int) -> None:
        """Set the verbosity."""
        self.level = level
        for notify in self.changed:
            notify()

    def enabled(self, message: str) -> bool:
        """Return whether a message is logged."""
        return LEVELS.get(message, 0) <= self.level


F = TypeVar("F")
Record = dict[str, Any]
Write = Callable[[Record], None]

INFO: Final = "info"
WARNING: Final = "warning"
ERROR: Final = "error"
SERVING_CONSOLE: Final = "Serving the console"
"""The message that has the URL of the pages of `run --console`."""
REMEMBERED: Final = 50
"""Decisions that are kept."""
BINDING: Final = "Attempting to bind pod to node"
NO_NODES: Final = "no nodes available to schedule pods"
"""How an attempt fails in a cluster without nodes (upstream's ErrNoNodesAvailable)."""
FAILURES: Final = 10_000
"""Pods whose last failure is kept."""
_PLUGINS_NAMED: Final = 3
"""Plugins that are listed in the reason for a node."""


class Decided(msgspec.Struct, frozen=True):
    """One decision: time (ns since 1970), pod, node ("" for none), and why.

    ``reason``: a text, or facts about the node.
    """

    time: int
    pod: str
    node: str
    reason: str | Record
    generation: int

    @property
    def why(self) -> str:
        """The reason; facts are put into words here, as few decisions are looked at."""
        return self.reason if isinstance(self.reason, str) else _why(self.reason)

    def document(self) -> dict[str, object]:
        """Return it as plain data."""
        made = {"why": self.why, "generation": self.generation}
        return {"time": self.time, "pod": self.pod, "node": self.node, **made}


class DecisionLog:
    """Passes records to `write` and keeps the last decisions; ``now`` is in ns since 1970.

    Records above the `verbosity` are dropped.
    """

    def __init__(self, write: Write, now: Callable[[], int]) -> None:
        self._write = write
        self._now = now
        self.verbosity = Verbosity()
        self.last: deque[Decided] = deque(maxlen=REMEMBERED)
        self.count = 0
        """Decisions so far."""
        self.failures: dict[str, str] = {}
        """The reason of each pod's last rejection, by namespace/name; the newest are last."""
        self._sent: dict[str, Record] = {}

    def write(self, level: str, message: str, **facts: object) -> None:
        """Write one record, unless its verbosity is off; ``ts`` is in seconds since 1970."""
        if not self.verbosity.enabled(message):
            return
        self._write({"ts": self._now() / 1e9, "level": level, "msg": message, **facts})

    def problems(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Write a record for each problem of files, with its position."""
        for problem in bounded(diagnostics):
            level = ERROR if problem.severity is Severity.ERROR else WARNING
            facts = {key: value for key, value in as_data(problem).items() if value}
            facts.pop("severity")
            self.write(level, facts.pop("message"), **facts)

    def decided(self, outcome: Outcome, nodes: int = 0) -> None:
        """Log and keep the outcome of an attempt.

        ``nodes``: the number of nodes at the decision; 0 if the node was chosen earlier and the
        cluster may have changed since. A pod whose binding is in flight is logged when the response
        arrives, with the reasons of its choice.
        """
        uid, decision = outcome.pod.uid, outcome.decision
        chosen = _choice(decision, nodes) if nodes and isinstance(decision, Bind) else {}
        if outcome.waiting and outcome.attempt is not None and outcome.attempt.sent:
            self._sent[uid] = chosen
            self.write(INFO, BINDING, pod=outcome.pod.key, node=outcome.node)
            return
        level, message, why, facts = _described(outcome, self._sent.pop(uid, chosen))
        if level is ERROR and outcome.attempt is not None and outcome.attempt.sent:
            self.write(INFO, "Failed to bind pod", pod=outcome.pod.key)
        made_by = {"generation": outcome.generation, "contentHash": outcome.content_hash}
        self.write(level, message, pod=outcome.pod.key, **facts, **made_by)
        decided = Decided(self._now(), outcome.pod.key, outcome.node, why, outcome.generation)
        self.last.append(decided)
        self.count += 1
        self.failures.pop(outcome.pod.key, None)
        if not outcome.node:
            self.failures[outcome.pod.key] = decided.why
            if len(self.failures) > FAILURES:
                del self.failures[next(iter(self.failures))]


def _described(outcome: Outcome, chosen: Record) -> tuple[str, str, str | Record, Record]:
    """Return level, message, the reason (facts for a node that was chosen), and the facts."""
    decision, node = outcome.decision, outcome.node
    if outcome.waiting or node:
        facts = {"node": node, **chosen}
        if outcome.waiting:
            why = f"waits before it is bound; {_why(facts)}"
            return INFO, "Pod waits before it is bound", why, facts
        return INFO, "Successfully bound pod to node", facts, facts
    if isinstance(decision, Preempt):
        victims = sorted(victim.key for victim in decision.victims)
        facts = {"err": outcome.message, "nominatedNode": decision.node, "victims": victims}
        why = f"preempts on {decision.node}: evicts {', '.join(victims)}"
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
    """Return the number of nodes, and the reasons for the chosen one."""
    filtering, scoring = decision.evaluation.filtering, decision.evaluation.scoring
    first = filtering.first
    feasible = first.size - int(np.count_nonzero(first))  # FEASIBLE is 0
    facts: Record = {"evaluatedNodes": nodes, "feasibleNodes": feasible}
    if scoring is None:
        return facts
    facts["score"] = scoring.total.item(decision.row)
    facts["scores"] = scoring.shares_of(decision.row)
    return facts


def _why(facts: Record) -> str:
    if "feasibleNodes" not in facts:
        return "bound after a wait"
    fit = f"{facts['feasibleNodes']} of {facts['evaluatedNodes']} nodes fit"
    if "score" not in facts:
        return fit
    best = sorted(facts["scores"].items(), key=lambda share: -share[1])[:_PLUGINS_NAMED]
    named = ", ".join(f"{plugin} {share}" for plugin, share in best if share)
    return f"{fit}; score {facts['score']}" + (f": {named}" if named else "")


def difference(evaluation: Evaluation, row: int, other: int) -> dict[str, int]:
    """Return each plugin's points of one row minus those of another, where they differ."""
    if evaluation.scoring is None:
        return {}
    shares = evaluation.scoring.weighted(np.array((row, other), np.intp))
    return {plugin: a - b for plugin, (a, b) in shares.items() if a != b}


def points_text(better: str, most: int, node: str, points: int, by: Mapping[str, int]) -> str:
    """Return in words why one node is better than another; ``by``: the difference by plugin."""
    named = sorted(by.items(), key=lambda item: (-abs(item[1]), item[0]))
    shown = ", ".join(f"{plugin} {share:+}" for plugin, share in named)
    return f"{better} has {most} points, {node} {points}: {shown}"


AGAIN: Final = 60 * SECOND
"""Interval in which a cause is logged once."""
CAUSES: Final = 1000
"""Causes that are kept; when there are more, all are dropped."""


class _Cause(msgspec.Struct):
    logged_at: int
    unsaid: int = 0


class LogThrottle:
    """Limits repeated messages by cause: an outage is one line, not one for each watch.

    A new cause is logged, and again after an interval; the line has the number of messages that
    were left out. ``now`` is monotonic, in nanoseconds.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._causes: dict[str, _Cause] = {}

    def admit(self, what: str) -> int | None:
        """Admit a message of the form ``REQUEST: CAUSE``, unless its cause was logged recently.

        Return the number of messages that were left out since then; None to leave this one out.
        """
        cause, now = what.partition(": ")[2] or what, self._now()
        cause_state = self._causes.get(cause)
        if cause_state is not None and now - cause_state.logged_at < AGAIN:
            cause_state.unsaid += 1
            return None
        if len(self._causes) >= CAUSES:
            self._causes.clear()
        self._causes[cause] = _Cause(now)
        return 0 if cause_state is None else cause_state.unsaid


_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EAGAIN})


WAIT: Final = 0.25
"""Seconds for which a line may wait for others (klog: 5 s)."""


class LineWriter:
    """Writes lines to a file; within an event loop, at the end of the turn, or a little later."""

    def __init__(self, file: BinaryIO) -> None:
        # A buffered file would keep failed writes and repeat them.
        self._file = file.raw if isinstance(file, io.BufferedWriter) else file
        self._held: list[bytes] = []
        self._due = False
        self._timer: asyncio.TimerHandle | None = None
        self._failed: OSError | None = None
        self.lost = 0
        """Lines that were dropped because the disk was full."""
        self.writable = True
        """Whether the last write succeeded."""
        self._broken_off = False

    def __call__(self, line: bytes, *, may_wait: bool = False) -> None:
        """Write a line. Raises OSError if the file is not writable, now or at the next call.

        ``may_wait``: a line that comes within `WAIT` shares the write.
        """
        if self._failed is not None:
            raise self._failed
        self._held.append(line)
        if self._due or (may_wait and self._timer is not None):
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._write()
            return
        if may_wait:
            self._timer = loop.call_later(WAIT, self._flush)
        else:
            self._due = True
            loop.call_soon(self._flush)

    def close(self) -> None:
        """Write the lines that wait. Raises OSError."""
        if self._held:
            self._write()

    def _flush(self) -> None:
        self._due = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
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
                if count is None:  # a full pipe that does not block
                    raise BlockingIOError(errno.EAGAIN, "the pipe is full")
                written += count
            self._file.flush()
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            self.writable = False
            self.lost += data.count(b"\n", max(written, begin))
            self._broken_off = self._broken_off or (written > 0 and data[written - 1] != 10)
            return
        self.writable, self._broken_off = True, False


EVICTIONS: Final = 2
STEPS: Final = 3
"""Verbosity of attempts and events."""
REASONS: Final = 5
"""Verbosity of the results of PostFilter."""
SCORES: Final = 10
"""Verbosity of each plugin's score of each node."""


class VerboseLogging:
    """Logs a scheduler's attempts and events at the log's verbosity."""

    def __init__(self, scheduler: Scheduler, log: DecisionLog) -> None:
        self._scheduler = scheduler
        self._log = log
        log.verbosity.changed.append(self.adapt)
        self.adapt()

    def adapt(self) -> None:
        """Observe what the verbosity needs, and nothing else."""
        level, observers = self._log.verbosity.level, self._scheduler.observers
        _include(observers.deciding, self._deciding, level >= STEPS)
        _include(observers.decided, self._decided, level >= STEPS)
        _include(observers.evicted, self._evicted, level >= EVICTIONS)

    def happened(self, old: ApiObject | None, new: ApiObject | None, events: ClusterChange) -> None:
        """Log an event: an object before and after, None if absent."""
        thing = old if new is None else new
        what = _kind_of(thing) if events or new is not None else ""
        if not what or thing is None:
            return
        came = old is None or (isinstance(old, Pod) and _kind_of(old) != what)
        action = "Delete" if new is None else "Add" if came else "Update"
        self._log_event(f"{action} event for {what}", thing)

    # Inside.

    def _deciding(self, attempt: Attempt) -> None:
        if not attempt.began:  # it is decided a second time where its search takes long
            self._log.write(INFO, "Attempting to schedule pod", pod=attempt.queued.info.key)

    def _decided(self, attempt: Attempt, decision: Decision, _start: float) -> None:
        pod = attempt.queued.info
        if not isinstance(decision, Bind):
            self._log_post_filter(pod, decision)
        elif self._log.verbosity.level >= SCORES:
            self._log_scores(pod, decision, self._scheduler.cache.nodes)

    def _log_post_filter(self, pod: PodInfo, decision: Preempt | Reject) -> None:
        if self._log.verbosity.level < REASONS or decision.diagnosis is None:
            return
        status = decision.diagnosis.post_filter
        if status is not None:
            text = "Status after running PostFilter plugins for pod"
            self._log.write(INFO, text, pod=pod.key, status=status.message())

    def _log_scores(self, pod: PodInfo, decision: Bind, table: NodeTable) -> None:
        filtering, scoring = decision.evaluation.filtering, decision.evaluation.scoring
        if scoring is None:
            return
        rows = filtering.feasible_rows() if scoring.only is None else np.array([scoring.only])
        write, names = self._log.write, [table.names[row] for row in rows.tolist()]
        for plugin, scores in scoring.weighted(rows).items():
            for node, score in zip(names, scores, strict=True):
                text = "Plugin scored node for pod"
                write(INFO, text, pod=pod.key, plugin=plugin, node=node, score=score)
        for node, total in zip(names, scoring.total[rows].tolist(), strict=True):
            write(
                INFO, "Calculated node's final score for pod", pod=pod.key, node=node, score=total
            )

    def _evicted(self, pod: PodInfo, decision: Preempt, error: str, _start: float) -> None:
        for victim in () if error else decision.victims:
            text = "Preemptor Pod preempted victim Pod"
            facts = {"preemptor": pod.key, "victim": victim.key, "node": decision.node}
            self._log.write(INFO, text, **facts)

    def _log_event(self, message: str, thing: ApiObject) -> None:
        if self._log.verbosity.enabled(message):
            name, namespace = thing.metadata.name, thing.metadata.namespace
            facts = {"node": name} if isinstance(thing, Node) else {"pod": f"{namespace}/{name}"}
            self._log.write(INFO, message, **facts)


def _include(functions: list[F], function: F, wanted: bool) -> None:
    """Make a function an element of a list, or not."""
    if function in functions:
        functions.remove(function)
    if wanted:
        functions.append(function)


def _kind_of(thing: ApiObject | None) -> str:
    """Return upstream's name for an object in events; "" if it logs none."""
    if isinstance(thing, Node):
        return "node"
    if isinstance(thing, Pod):
        return "scheduled pod" if thing.spec.node_name else "unscheduled pod"
    return ""
