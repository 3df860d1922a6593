"""What is measured of the two sides of a rollout.

Theory of operation. The scheduler counts into one `Counts` for each side. Counts of two moments
add up, also those of two processes, and have a bounded size: times are in buckets whose edges grow
by a fourth root of two, which keeps a percentile within a tenth of its value. `Measures` are
what abort rules read; they follow from the counts of the step.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

_PER_DOUBLING: Final = 4
_LEAST: Final = 1e-6
"""Seconds of the first bucket's upper edge."""
_BUCKETS: Final = 160
"""The last one ends at 11 days."""
MAX_COUNT: Final = 2**31 - 1
"""Counts stop here, as those that rules read of nodes."""

Times = dict[int, int]
"""How many of a kind took how long, by bucket."""


def _bucket(seconds: float) -> int:
    if not seconds > _LEAST:
        return 0
    return min(_BUCKETS - 1, math.ceil(math.log2(min(seconds, 1e9) / _LEAST) * _PER_DOUBLING))


def percentile(times: Times, part: float, missing: float = 0.0) -> float:
    """Return the seconds within which ``part`` (0 to 1) of the times are; ``missing`` of none."""
    total = sum(times.values())
    left = math.ceil(part * total)
    for bucket in sorted(times):
        left -= times[bucket]
        if left <= 0 and total:
            middle = _LEAST * 2.0 ** ((bucket - 0.5) / _PER_DOUBLING)
            return float(f"{middle:.3g}") if bucket else 0.0
    return missing


class Counts(msgspec.Struct, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """What was counted of one side, from one moment to another.

    In an audit both sides have decided the same pods; in a canary each has pods of its own.
    """

    decisions: int = 0
    scheduled: int = 0
    """Decisions that chose a node."""
    unschedulable: int = 0
    """Decisions that found no node."""
    errors: int = 0
    """Decisions that a failing rule or plugin ended."""
    victims: int = 0
    same: int = 0
    moved: int = 0
    tie: int = 0
    schedulable: int = 0
    long: int = 0
    """Decisions that an audit gave up, as they take long; they are not among ``decisions``."""
    skipped: int = 0
    """Decisions that no audit compares."""
    waiting: Times = msgspec.field(default_factory=dict)
    """Times from the queue to a node."""
    deciding: Times = msgspec.field(default_factory=dict)
    """Times of decisions."""

    def waited(self, seconds: float) -> None:
        """Count the time that a pod spent in the queue until a node was chosen."""
        bucket = _bucket(seconds)
        self.waiting[bucket] = self.waiting.get(bucket, 0) + 1

    def decided(self, seconds: float) -> None:
        """Count the time that a decision took."""
        bucket = _bucket(seconds)
        self.deciding[bucket] = self.deciding.get(bucket, 0) + 1

    def plus(self, other: Counts) -> Counts:
        """Return the counts of both together."""
        return Counts(
            **{name: min(MAX_COUNT, getattr(self, name) + getattr(other, name)) for name in _SUMS},
            waiting=_merged(self.waiting, other.waiting),
            deciding=_merged(self.deciding, other.deciding),
        )

    def measures(self, missing: float = 0.0) -> Measures:
        """Return what is measured; ``missing`` is a share or a time of which there is no sample."""
        return Measures(
            decisions=self.decisions,
            scheduled=self.scheduled,
            unschedulable=self.unschedulable / self.decisions if self.decisions else missing,
            errors=self.errors,
            victims=self.victims,
            waiting_p50=percentile(self.waiting, 0.5, missing),
            waiting_p99=percentile(self.waiting, 0.99, missing),
            deciding_p50=percentile(self.deciding, 0.5, missing),
            deciding_p99=percentile(self.deciding, 0.99, missing),
            same=self.same,
            moved=self.moved,
            tie=self.tie,
            schedulable=self.schedulable,
            long=self.long,
            skipped=self.skipped,
        )

    def fault(self) -> str:
        """Return what counts that were read from outside cannot be, or nothing."""
        numbers = [getattr(self, name) for name in _SUMS]
        for times in (self.waiting, self.deciding):
            if any(not 0 <= bucket < _BUCKETS for bucket in times):
                return "a bucket of times is none of ours"
            numbers += times.values()
        return "" if all(0 <= number <= MAX_COUNT for number in numbers) else "a count is no count"


_SUMS: Final = tuple(
    name for name in Counts.__struct_fields__ if name not in ("waiting", "deciding")
)


def _merged(times: Times, other: Times) -> Times:
    buckets = sorted({*times, *other})
    return {b: min(MAX_COUNT, times.get(b, 0) + other.get(b, 0)) for b in buckets}


class Measures(msgspec.Struct, frozen=True, rename="camel"):
    """One side of a rollout, since the step began: the record Measures of the rule language."""

    decisions: int = 0
    scheduled: int = 0
    unschedulable: float = 0.0
    errors: int = 0
    victims: int = 0
    waiting_p50: float = msgspec.field(default=0.0, name="waitingP50")
    waiting_p99: float = msgspec.field(default=0.0, name="waitingP99")
    deciding_p50: float = msgspec.field(default=0.0, name="decidingP50")
    deciding_p99: float = msgspec.field(default=0.0, name="decidingP99")
    same: int = 0
    moved: int = 0
    tie: int = 0
    schedulable: int = 0
    long: int = 0
    skipped: int = 0

    @property
    def asked(self) -> int:
        """Decisions that were wanted of this side, made or given up."""
        return self.decisions + self.long

    def by_name(self) -> dict[str, float]:
        """Return the measures by the names that rules have for them."""
        named: dict[str, float] = msgspec.to_builtins(self)
        return named


MEASURES: Final = Measures.__struct_encode_fields__
"""The names of the measures, in the order in which they are shown."""


class Observed(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What was counted of both sides."""

    stable: Counts = msgspec.field(default_factory=Counts)
    candidate: Counts = msgspec.field(default_factory=Counts)

    def read_by_rules(self) -> tuple[Measures, Measures]:
        """Return the measures of both sides: no comparison holds with one without a sample."""
        return self.stable.measures(math.nan), self.candidate.measures(math.nan)

    def plus(self, other: Observed) -> Observed:
        """Return the counts of both together."""
        return Observed(self.stable.plus(other.stable), self.candidate.plus(other.candidate))
