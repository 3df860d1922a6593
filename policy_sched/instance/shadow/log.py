"""The file of a shadow: one line of JSON for each record, appended and complete at any time.

Theory of operation. A line is one write to a file that is opened for appending, so readers
see whole lines, and nothing is lost when the process ends. When the file was moved away
(logrotate) a new one is begun, which says first how full the nodes are: each file can be read by
itself. A large file that was not rotated is moved to FILE.1, in place of an older
one, so that no disk is ever full of it. A disk that is full does not stop the shadow: lines are
left out and counted.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec
from msgspec import field
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

Amounts: TypeAlias = dict[str, int]


class Result(StrEnum):
    """How our decision compares with the other scheduler's."""

    AGREE = "agree"
    """The same node, or one that we like as much; or both find none."""
    DIFFER = "differ"
    """Both found a node, and theirs is not among our best."""
    UNSCHEDULABLE = "unschedulable"
    """They found a node, we find none."""
    SCHEDULABLE = "schedulable"
    """They found none, we find one."""
    UNDECIDED = "undecided"
    """They have not answered for a while."""
    ERROR = "error"
    """Our decision broke."""


class Side(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """What one scheduler decided: ``node``, or None and why in ``message``.

    ``victims`` have to leave the node before. ``score`` is the node's total by our policies. Of
    a node that our filters reject, ``rejected_by`` names the plugin and ``reasons`` what it says.
    """

    node: str | None = None
    message: str = ""
    preempts: bool = False
    victims: tuple[str, ...] = ()
    score: int | None = None
    rejected_by: str = ""
    reasons: tuple[str, ...] = ()


class Comparison(
    msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, tag_field="record", tag="pod"
):
    """One decision of another scheduler, and ours for the same pod on the same cluster.

    ``difference``: by plugin, how many points more it gives our node than theirs, where that is
    not zero. ``beforehand``: we decided when the pod came, and not when its binding did.
    ``time`` is in seconds since 1970.
    """

    time: float
    pod: str
    uid: str
    result: Result
    scheduler: str
    profile: str
    theirs: Side
    ours: Side
    difference: dict[str, int] = field(default_factory=dict)
    feasible_nodes: int = 0
    evaluated_nodes: int = 0
    beforehand: bool = False
    requests: Amounts = field(default_factory=dict)
    generation: int = 0
    content_hash: str = ""


class NodeFill(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """How much a node has, and how much of it pods ask for; ``pods`` is how many they are."""

    node: str
    allocatable: Amounts
    requested: Amounts = field(default_factory=dict)


class Start(
    msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, tag_field="record", tag="start"
):
    """From here on the file tells everything; the nodes as they are.

    ``continues``: the file before it ended here, and nothing is missing in between.
    """

    time: float
    scheduler: str
    profile: str
    nodes: tuple[NodeFill, ...]
    continues: bool = False


class NodeSeen(
    msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, tag_field="record", tag="node"
):
    """A node came, changed, or went (``allocatable`` is None)."""

    node: str
    allocatable: Amounts | None = None


class PodPlaced(msgspec.Struct, rename="camel", frozen=True, tag_field="record", tag="placed"):
    """A pod that is not compared has come to a node."""

    uid: str
    node: str
    requests: Amounts


class PodGone(msgspec.Struct, rename="camel", frozen=True, tag_field="record", tag="gone"):
    """A pod has left its node ("" if it had none)."""

    uid: str
    node: str
    requests: Amounts


ShadowRecord: TypeAlias = Start | Comparison | NodeSeen | PodPlaced | PodGone


LARGEST: Final = 256 << 20
"""Bytes of a file at which the next is begun; some million decisions."""
_MODE: Final = 0o640
"""Names of pods and nodes are not for everybody."""


class ShadowLog:
    """Appends records to the file at ``path``.

    ``begin`` makes the first record of a file, and is told whether it goes on where another one
    ended. ``trouble`` is told once when writing begins to fail, and why. Raises OSError when it
    is made if the file cannot be written at all.
    """

    def __init__(
        self,
        path: str,
        begin: Callable[[bool], Start],
        trouble: Callable[[str], None],
        largest: int = LARGEST,
    ) -> None:
        self.path = path
        self._largest = largest
        self.lost = 0
        """Lines that could not be written."""
        self._begin = begin
        self._trouble = trouble
        self._encode = msgspec.json.Encoder().encode
        self._begun = False
        self._whole = False
        """Whether all that happened since the first record was written."""
        self._failing = False
        self._file = self._open()

    def begin(self) -> None:
        """Write the first record of the file."""
        self._try(None)

    def write(self, record: ShadowRecord) -> None:
        """Append a record; the file's first one before it, if there is none yet."""
        self._try(record)

    def close(self) -> None:
        """Write no more."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    # Inside.

    def _try(self, record: ShadowRecord | None) -> None:
        try:
            self._write(record)
        except OSError as error:
            self.lost += 1
            self._whole = False
            if not self._failing:
                self._trouble(f"{self.path}: {error.strerror}")
            self._failing = True
            return
        self._failing = False

    def _write(self, record: ShadowRecord | None) -> None:
        if self._moved():
            os.close(self._file)
            self._file = -1
        if self._file < 0:
            self._begun, self._file = False, self._open()
        if not self._begun:
            self._append(self._begin(self._whole))
            self._begun = self._whole = True
        if record is not None:
            self._append(record)

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        return os.open(self.path, flags, _MODE)

    def _moved(self) -> bool:
        """Tell whether another file has the name now, or none; move one that is large."""
        if self._file < 0:
            return False
        ours = os.fstat(self._file)
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            return True
        if (ours.st_ino, ours.st_dev) != (there.st_ino, there.st_dev):
            return True
        if ours.st_size < self._largest or not stat.S_ISREG(ours.st_mode):
            return False
        os.replace(self.path, f"{self.path}.1")
        return True

    def _append(self, record: ShadowRecord) -> None:
        line = self._encode(record) + b"\n"
        if not self._begun and self._broken_off():
            line = b"\n" + line
        written = os.write(self._file, line)
        if written < len(line):  # the disk is full: what comes next begins anew
            self._begun = False
            raise OSError(28, "No space left on device")

    def _broken_off(self) -> bool:
        """Tell whether the file ends within a line, as an earlier process may have left it."""
        size = os.fstat(self._file).st_size
        return size > 0 and os.pread(self._file, 1, size - 1) != b"\n"


BUCKETS: Final = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Points; a plugin of weight 1 gives 100 at most."""


class ShadowMetrics:
    """Registers its numbers in a registry. ``waiting`` and ``lost`` are asked when it is read."""

    def __init__(
        self, registry: CollectorRegistry, waiting: Callable[[], int], lost: Callable[[], int]
    ) -> None:
        self._decisions = Counter(
            "policy_sched_shadow_decisions",
            "Decisions of another scheduler, by how ours compare and by our profile.",
            ("result", "profile"),
            registry=registry,
        )
        self._rejections = Counter(
            "policy_sched_shadow_rejections",
            "Nodes that another scheduler chose and that a filter of ours rejects.",
            ("plugin", "profile"),
            registry=registry,
        )
        self._points = Histogram(
            "policy_sched_shadow_score_difference_points",
            "By how much our policies prefer our node to that of another scheduler.",
            ("profile",),
            buckets=BUCKETS,
            registry=registry,
        )
        self._missed = Counter(
            "policy_sched_shadow_missed_pods",
            "Pods that were bound while a watch was broken, and are not compared.",
            registry=registry,
        )
        pods = Gauge(
            "policy_sched_shadow_pending_pods",
            "Pods of the other scheduler that have no node.",
            registry=registry,
        )
        pods.set_function(waiting)
        lines = Gauge(
            "policy_sched_shadow_log_lost_lines",
            "Lines of the shadow's log that could not be written.",
            registry=registry,
        )
        lines.set_function(lost)

    def profile(self, name: str) -> None:
        """A profile decides: all its results are there, with 0."""
        for result in Result:
            self._decisions.labels(result.value, name)

    def bound(self, *, seen: bool) -> None:
        """A pod that we waited for is bound; ``seen``: in time to be compared."""
        if not seen:
            self._missed.inc()

    def compared(self, found: Comparison) -> None:
        """A decision was compared."""
        self._decisions.labels(found.result.value, found.profile).inc()
        if found.theirs.rejected_by:
            self._rejections.labels(found.theirs.rejected_by, found.profile).inc()
        if found.ours.score is not None and found.theirs.score is not None:
            points = found.ours.score - found.theirs.score
            self._points.labels(found.profile).observe(max(0, points))
