"""Summary of shadow logs: pods with another node, and why.

Theory of operation. A decision log of the other scheduler may stand beside a shadow's log. It has
the decisions that the shadow did not see, and what was masked nowhere else: of a pod the last one.

The records are read once, in order. They give the state of the real cluster;
in the hypothetical cluster every compared pod that still lives counts on the shadow's node. Every
decision of the shadow was made on the real cluster: a shadow cannot know how its own earlier
choices would have changed later decisions.
"""

from __future__ import annotations

import gzip
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec.structs import replace

from policy_sched.diff.placement_diff import Move, PlacementDiff, Side, Spread
from policy_sched.diff.report import placement_document, placement_lines
from policy_sched.errors import PolicySchedError
from policy_sched.instance import shadow
from policy_sched.instance.observability import DecisionRecord
from policy_sched.model import counted
from policy_sched.report import Document
from policy_sched.simulate import MAIN_RESOURCES

PODS: Final = "pods"
MAX_LINE: Final = 1 << 20
"""Bytes of the longest line that is read; records have some hundreds."""
Fill = dict[str, Counter[str]]
"""Amounts by node and resource."""
_DECODER: Final = msgspec.json.Decoder(shadow.ShadowRecord)
_DECISION: Final = msgspec.json.Decoder(DecisionRecord)


@dataclass(frozen=True, slots=True)
class ShadowSummary:
    """The sum of all comparisons; of each pod the last one counts."""

    scheduler: str
    profile: str
    since: float
    """Seconds since 1970, as ``until``."""
    until: float
    results: Counter[shadow.Agreement]
    rejections: Counter[str]
    """Pods whose real node one of the shadow's plugins rejects, by plugin."""
    preferences: Counter[str]
    """Pods with a higher score on another node, by the plugin that adds most to the difference."""
    placements: PlacementDiff
    broken: tuple[str, ...] = ()
    """Positions of invalid lines."""

    def text_lines(self) -> Iterator[str]:
        """Yield the summary as text."""
        yield from self.head_lines()
        yield ""
        yield from placement_lines(self.placements)
        causes = self.causes()
        if causes:
            yield ""
            yield "Why pods would be elsewhere:"
            yield from (f"  {count:>3}  {why}" for why, count in causes)
        for line in self.left_out():
            yield ""
            yield line

    def head_lines(self) -> Iterator[str]:
        """Yield what was compared."""
        yield f"pods of {self.scheduler}, {_time(self.since)} to {_time(self.until)}"
        yield f"OLD is what {self.scheduler} did, NEW what profile {self.profile} would have done"

    def causes(self) -> list[tuple[str, int]]:
        """Return why pods would be elsewhere, with the number of pods."""
        return [
            *((f"{name} rejects the node", count) for name, count in _top(self.rejections)),
            *((f"{name} prefers another node", count) for name, count in _top(self.preferences)),
        ]

    def left_out(self) -> Iterator[str]:
        """Yield which pods are not compared."""
        for result, what in (
            (shadow.Agreement.UNDECIDED, f"{self.scheduler} did not respond to"),
            (shadow.Agreement.ERROR, "could not be decided"),
        ):
            if self.results[result]:
                yield f"Left out: {counted(self.results[result], 'pod')} that {what}"

    def document(self) -> Document:
        """Return the summary as plain data."""
        return {
            "shadow": {
                "scheduler": self.scheduler,
                "profile": self.profile,
                "since": _time(self.since),
                "until": _time(self.until),
                "results": {result.value: self.results[result] for result in shadow.Agreement},
                "rejections": dict(_ordered(self.rejections)),
                "preferences": dict(_ordered(self.preferences)),
            },
            "placements": placement_document(self.placements),
        }


@dataclass(slots=True)
class _Reading:
    """The state of the cluster while the records are read."""

    start: shadow.Start | None = None
    until: float = 0.0
    nodes: dict[str, dict[str, int]] = field(default_factory=dict)
    real: Fill = field(default_factory=dict)
    """Amounts used on the nodes."""
    pods: dict[str, shadow.Comparison] = field(default_factory=dict)
    alive: set[str] = field(default_factory=set)
    moved: dict[str, shadow.Comparison] = field(default_factory=dict)
    """Pods with another node in the shadow, by UID."""

    def take(self, record: shadow.ShadowRecord) -> None:
        """Apply one record."""
        match record:
            case shadow.Start():
                self._begin(record)
            case shadow.NodeSeen(node, allocatable):
                if allocatable is None:
                    self.nodes.pop(node, None)
                else:
                    self.nodes[node] = allocatable
            case shadow.PodPlaced(_, node, requests):
                self._count(self.real, node, requests, 1)
            case shadow.PodGone(uid, node, requests):
                self._count(self.real, node, requests, -1)
                self.alive.discard(uid)
                self.moved.pop(uid, None)
            case shadow.Comparison():
                self._compare(record)

    def decided(self, uid: str, record: DecisionRecord) -> None:
        """Take in what the other scheduler logged about a pod that the shadow did not see."""
        before = self.pods.get(uid)
        if before is None or before.result is not shadow.Agreement.UNDECIDED:
            return
        preempts = record.result == "preempting"
        theirs = shadow.LoggedDecision(
            record.node or None, record.message, preempts, victims=record.victims
        )
        result = shadow.unscored_result(theirs, before.ours)
        self._compare(replace(before, theirs=theirs, result=result))

    def would_be(self) -> Fill:
        """Return the amounts used in the hypothetical cluster."""
        fill = {node: Counter(amounts) for node, amounts in self.real.items()}
        for comparison in self.moved.values():
            if comparison.theirs.node is not None and not comparison.theirs.preempts:
                self._count(fill, comparison.theirs.node, comparison.requests, -1)
            if comparison.ours.node is not None and not comparison.ours.preempts:
                self._count(fill, comparison.ours.node, comparison.requests, 1)
        return fill

    def _begin(self, record: shadow.Start) -> None:
        if self.start is None:
            self.start = record
        self.until = max(self.until, record.time)
        self.nodes = {node.node: node.allocatable for node in record.nodes}
        self.real = {node.node: Counter(node.requested) for node in record.nodes}
        if not record.continues:  # pods may have left in between
            self.moved.clear()

    def _compare(self, record: shadow.Comparison) -> None:
        uid, theirs = record.uid, record.theirs
        self.pods[uid] = record
        self.until = max(self.until, record.time)
        bound = theirs.node is not None and not theirs.preempts
        if bound and uid not in self.alive:
            self.alive.add(uid)
            self._count(self.real, theirs.node or "", record.requests, 1)
        self.moved.pop(uid, None)
        if record.result in (
            shadow.Agreement.DIFFER,
            shadow.Agreement.UNSCHEDULABLE,
            shadow.Agreement.SCHEDULABLE,
        ):
            self.moved[uid] = record

    @staticmethod
    def _count(fill: Fill, node: str, requests: dict[str, int], sign: int) -> None:
        amounts = fill.setdefault(node, Counter())
        for resource, amount in requests.items():
            amounts[resource] += sign * amount
        amounts[PODS] += sign


def summarize(paths: Sequence[str]) -> ShadowSummary:
    """Read the files of one shadow, oldest first, and decision logs of the other scheduler.

    Raises PolicySchedError if a file is neither, OSError if it cannot be read.
    """
    reading, broken = _Reading(), []
    logs = [path for path in paths if _is_decision_log(path)]
    if logs and len(logs) == len(paths):
        message = "a decision log has one side; name the shadow's log beside it"
        raise PolicySchedError(f"{logs[0]}: {message}")
    for path in paths:
        if path in logs:
            continue
        for line_number, line in _lines(path):
            try:
                reading.take(_DECODER.decode(line))
            except msgspec.MsgspecError:
                broken.append(f"{path}:{line_number}")
            if reading.start is None:
                raise PolicySchedError(
                    f"{path}:{line_number}: not a shadow log: it begins with no start"
                )
    if reading.start is None:
        raise PolicySchedError(f"{', '.join(paths)}: there are no records")
    decided = {r.uid: r for path in logs for r in read_decision_log(path) if r.uid}
    for uid, record in decided.items():
        reading.decided(uid, record)
    comparisons = list(reading.pods.values())
    return ShadowSummary(
        scheduler=reading.start.scheduler,
        profile=reading.start.profile,
        since=reading.start.time,
        until=reading.until,
        results=Counter(comparison.result for comparison in comparisons),
        rejections=Counter(
            comparison.theirs.rejected_by
            for comparison in comparisons
            if comparison.result is not shadow.Agreement.AGREE and comparison.theirs.rejected_by
        ),
        preferences=Counter(_preferring(comparisons)),
        placements=_placements(reading, comparisons),
        broken=tuple(broken),
    )


def read_decision_log(path: str) -> Iterator[DecisionRecord]:
    """Yield the records of a decision log. Raises PolicySchedError where it is none."""
    for line_number, line in _lines(path):
        try:
            yield _DECISION.decode(line)
        except msgspec.MsgspecError:
            message = "not a record of a decision log"
            raise PolicySchedError(f"{path}:{line_number}: {message}") from None


def _is_decision_log(path: str) -> bool:
    for _, line in _lines(path):
        try:
            _DECISION.decode(line)
        except msgspec.MsgspecError:
            return False
        return True
    return False


def _lines(path: str) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not empty, with their numbers."""
    with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
        lines = iter(lambda: file.readline(MAX_LINE + 1), b"")
        for line_number, line in enumerate(lines, 1):
            if len(line) > MAX_LINE:
                message = f"line {line_number} is longer than {MAX_LINE} bytes: not a shadow log"
                raise PolicySchedError(f"{path}: {message}")
            if line.strip():
                yield line_number, line


def _preferring(comparisons: Iterable[shadow.Comparison]) -> Iterator[str]:
    for comparison in comparisons:
        if comparison.result is shadow.Agreement.DIFFER and comparison.difference:
            yield min(comparison.difference.items(), key=lambda item: (-item[1], item[0]))[0]


def _placements(reading: _Reading, comparisons: Sequence[shadow.Comparison]) -> PlacementDiff:
    decided = [
        comparison
        for comparison in comparisons
        if comparison.result not in (shadow.Agreement.UNDECIDED, shadow.Agreement.ERROR)
    ]
    both = [(comparison.theirs.score, comparison.ours.score) for comparison in decided]
    scores = [(old, new) for old, new in both if old is not None and new is not None]
    sides = []
    for fill, chosen, points in (
        (reading.real, [comparison.theirs for comparison in decided], [old for old, _ in scores]),
        (
            reading.would_be(),
            [comparison.ours for comparison in decided],
            [new for _, new in scores],
        ),
    ):
        side = Side(
            placed=sum(
                comparison.node is not None and not comparison.preempts for comparison in chosen
            ),
            nodes_in_use=sum(fill.get(node, Counter())[PODS] > 0 for node in reading.nodes),
            score=math.fsum(points) / len(points) if points else 0.0,
            spread=tuple(_spread(reading, fill, name) for name in _resources(reading)),
            preemptions=sum(comparison.preempts for comparison in chosen),
        )
        sides.append(side)
    old, new = sides
    moves = tuple(
        _move(comparison)
        for comparison in decided
        if comparison.result is not shadow.Agreement.AGREE
    )
    return PlacementDiff(len(decided), len(reading.nodes), old, new, moves)


def _move(comparison: shadow.Comparison) -> Move:
    """Return a pod's real and shadow node; a preemptor has no node yet."""
    theirs, ours = comparison.theirs, comparison.ours
    old, new = theirs.node, ours.node
    if comparison.result is shadow.Agreement.SCHEDULABLE:
        old = None
    if comparison.result is shadow.Agreement.UNSCHEDULABLE:
        new = None
    return Move(comparison.pod, old, new, ours.message)


def _resources(reading: _Reading) -> list[str]:
    names = {name for allocatable in reading.nodes.values() for name in allocatable} - {PODS}
    ordered = [name for name in MAIN_RESOURCES if name in names]
    return ordered + sorted(names.difference(ordered))


def _spread(reading: _Reading, fill: Fill, resource: str) -> Spread:
    shares = [
        100.0 * fill.get(node, Counter())[resource] / allocatable[resource]
        for node, allocatable in reading.nodes.items()
        if allocatable.get(resource, 0) > 0
    ]
    return Spread.of(resource, shares)


#: Plugins that the text names at most, of each kind.
NAMED: Final = 10


def _ordered(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _top(counts: Counter[str]) -> list[tuple[str, int]]:
    return _ordered(counts)[:NAMED]


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
