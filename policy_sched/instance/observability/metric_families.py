"""Families of metrics that cost pod time next to nothing, in Prometheus' text format.

Theory of operation. Pod time adds a number in a dictionary, or appends a value to a list; lists
become buckets at a scrape, or when they have grown. The text is written here and not by
prometheus_client, which blocks for 130 ms with 400 histograms: here the names and labels of a
series are formatted once.
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

Labels = tuple[str, ...]
"""Values of a family's labels, in their order."""

HISTOGRAM: Final = "histogram"


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return the upper ends of ``count`` buckets, each ``factor`` times the one before."""
    ends = []
    for _ in range(count):
        ends.append(start)
        start *= factor
    return tuple(ends)


def number(value: float) -> str:
    """Return a number in the format of Go's client: no fraction if it is 0."""
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def escaped(value: str) -> str:
    """Return a label's value, escaped for quotes."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Family:
    """Series of one name that differ in their labels. Text lines end with a line feed."""

    def __init__(self, name: str, kind: str, help_: str, labels: Iterable[str] = ()) -> None:
        self.name = name
        self.kind = kind
        self.labels = tuple(labels)
        escaped_help = help_.replace("\\", "\\\\").replace("\n", "\\n")
        self._head = f"# HELP {name} {escaped_help}\n# TYPE {name} {kind}\n"

    def lines(self) -> Iterator[str]:
        """Yield the text of the family, with its head; series may be added in between."""
        yield self._head
        yield from self._samples()

    def _samples(self) -> Iterator[str]:
        raise NotImplementedError

    def _named(self, values: Labels) -> str:
        pairs = zip(self.labels, values, strict=True)
        return ",".join(f'{name}="{escaped(value)}"' for name, value in pairs)


class Numbers(Family):
    """Counters or gauges: callers read and write ``values``."""

    def __init__(self, name: str, kind: str, help_: str, labels: Iterable[str] = ()) -> None:
        super().__init__(name, kind, help_, labels)
        self.values: defaultdict[Labels, float] = defaultdict(int)
        self._prefixes: dict[Labels, str] = {}
        if not self.labels:
            self.values[()] = 0

    def replace(self, values: Mapping[Labels, float]) -> None:
        """Set these values; series that are left out become 0."""
        for known in self.values:
            self.values[known] = 0
        self.values.update(values)

    def _samples(self) -> Iterator[str]:
        for values, value in list(self.values.items()):
            prefix = self._prefixes.get(values)
            if prefix is None:
                named = self._named(values)
                prefix = f"{self.name}{{{named}}} " if named else f"{self.name} "
                self._prefixes[values] = prefix
            yield f"{prefix}{number(value)}\n"


class _Series:
    """One histogram: counts by bucket (not cumulative), the sum, and values not yet counted."""

    __slots__ = ("counts", "prefixes", "sum", "waiting")

    def __init__(self, buckets: int, prefixes: Sequence[str]) -> None:
        self.counts = [0] * buckets
        self.sum = 0.0
        self.waiting: list[float] = []
        self.prefixes = prefixes


class Histogram(Family):
    """Histograms with the same buckets; ``ends`` are their upper ends, the last is infinity."""

    def __init__(
        self, name: str, help_: str, ends: Sequence[float], labels: Iterable[str] = ()
    ) -> None:
        super().__init__(name, HISTOGRAM, help_, labels)
        self.ends = tuple(ends)
        self._bounds = np.array(self.ends, np.float64)
        self._series: dict[Labels, _Series] = {}
        if not self.labels:
            self._of(())

    def taker(self, *values: str) -> Callable[[float], None]:
        """Return a function that records a value of one series in some 40 ns."""
        return self._of(values).waiting.append

    def take(self, values: Labels, observed: Iterable[float]) -> None:
        """Record values of one series."""
        self._of(values).waiting.extend(observed)

    def fold(self) -> None:
        """Count the recorded values, which frees their list."""
        for series in self._series.values():
            if series.waiting:
                found = np.array(series.waiting, np.float64)
                series.waiting.clear()
                places = np.searchsorted(self._bounds, found)
                added = np.bincount(places, minlength=len(self.ends) + 1).tolist()
                series.counts = [a + b for a, b in zip(series.counts, added, strict=True)]
                series.sum += float(found.sum())

    def count(self, *values: str) -> int:
        """Return the number of values of one series."""
        self.fold()
        return sum(self._of(values).counts)

    def total(self, *values: str) -> float:
        """Return the sum of the values of one series."""
        self.fold()
        return self._of(values).sum

    def _of(self, values: Labels) -> _Series:
        series = self._series.get(values)
        if series is None:
            series = self._series[values] = _Series(len(self.ends) + 1, self._prefixes(values))
        return series

    def _prefixes(self, values: Labels) -> list[str]:
        named = self._named(values)
        before = f"{named}," if named else ""
        ends = [*map(number, self.ends), "+Inf"]
        found = [f'{self.name}_bucket{{{before}le="{end}"}} ' for end in ends]
        alone = f"{{{named}}} " if named else " "
        return [*found, f"{self.name}_sum{alone}", f"{self.name}_count{alone}"]

    def _samples(self) -> Iterator[str]:
        self.fold()
        for series in list(self._series.values()):
            total, parts = 0, []
            *buckets, sum_, count = series.prefixes
            for prefix, added in zip(buckets, series.counts, strict=True):
                total += added
                parts.append(f"{prefix}{total}\n")
            parts.append(f"{sum_}{number(series.sum)}\n{count}{total}\n")
            yield "".join(parts)


class Families:
    """A table of metrics.toml: the families in their order, and each as an attribute.

    The attribute has the metric's name without ``scheduler_`` or ``policy_sched_``.
    """

    _table: ClassVar[str]

    def __init_subclass__(cls, *, table: str) -> None:
        cls._table = table

    def __init__(self) -> None:
        self.all: list[Family] = []
        for definition in _definitions()[self._table]:
            family = _family(**definition)
            self.all.append(family)
            attribute = family.name.removeprefix("scheduler_").removeprefix("policy_sched_")
            setattr(self, attribute, family)

    def text(self) -> str:
        """Return all families in Prometheus' text format."""
        return "".join(line for family in self.all for line in family.lines())

    def fold(self) -> None:
        """Count the recorded values of all histograms."""
        for family in self.all:
            if isinstance(family, Histogram):
                family.fold()


@cache
def _definitions() -> dict[str, list[dict[str, Any]]]:
    return tomllib.loads(Path(__file__).with_name("metrics.toml").read_text(encoding="utf-8"))


def _family(
    name: str,
    kind: str,
    help: str,  # noqa: A002 - the key in the table
    labels: Sequence[str] = (),
    buckets: Sequence[float] | Mapping[str, Any] = (),
) -> Family:
    if kind != HISTOGRAM:
        return Numbers(name, kind, help, labels)
    ends = exponential(**buckets) if isinstance(buckets, Mapping) else buckets
    return Histogram(name, help, ends, labels)
