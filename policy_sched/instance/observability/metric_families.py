"""Families of metrics that cost pod time next to nothing, as collectors of prometheus_client.

Theory of operation. Pod time adds a number in a dictionary, or appends a value to a list; lists
become buckets at a scrape, or when they have grown.
"""

from __future__ import annotations

import tomllib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

Labels = tuple[str, ...]
"""Values of a family's labels, in their order."""

COUNTER: Final = "counter"
HISTOGRAM: Final = "histogram"
EACH: Final = 50
"""Samples that are written at a time."""


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return the upper ends of ``count`` buckets, each ``factor`` times the one before."""
    ends = []
    for _ in range(count):
        ends.append(start)
        start *= factor
    return tuple(ends)


class _Known(Collector):
    """A family that is collected already."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric


def pieces(metric: Metric) -> Iterator[str]:
    """Yield a family in Prometheus' text format, `EACH` samples at a time."""
    samples = metric.samples
    for start in range(0, max(len(samples), 1), EACH):
        metric.samples = samples[start : start + EACH]
        text = generate_latest(_Known(metric)).decode()
        yield text.split("\n", 2)[2] if start else text  # the head has two lines


def cumulative(ends: Iterable[float], counts: Iterable[int]) -> list[tuple[str, float]]:
    """Return a histogram's buckets: the text of each upper end, and how many values are below."""
    totals = map(float, accumulate(counts))
    return list(zip((*map(floatToGoString, ends), "+Inf"), totals, strict=True))


class MetricFamily(Collector):
    """Series of one name that differ in their labels."""

    def __init__(self, name: str, kind: str, help_: str, labels: Iterable[str] = ()) -> None:
        self.name = name
        self.kind = kind
        self.help = help_
        self.labels = tuple(labels)

    def collect(self) -> Iterator[Metric]:
        """Yield the family."""
        # A counter's name has no suffix in prometheus_client, the names of its samples have it.
        name = self.name.removesuffix("_total") if self.kind == COUNTER else self.name
        metric = Metric(name, self.help, self.kind)
        metric.samples.extend(self._samples())
        yield metric

    def text(self) -> str:
        """Return the family in Prometheus' text format."""
        return "".join(self.pieces())

    def pieces(self) -> Iterator[str]:
        """Yield the text in pieces of some milliseconds each."""
        for metric in self.collect():
            yield from pieces(metric)

    def _samples(self) -> Iterator[Sample]:
        raise NotImplementedError

    def _named(self, values: Labels) -> dict[str, str]:
        return dict(zip(self.labels, values, strict=True))


class NumberFamily(MetricFamily):
    """Counters or gauges: callers read and write ``values``."""

    def __init__(self, name: str, kind: str, help_: str, labels: Iterable[str] = ()) -> None:
        super().__init__(name, kind, help_, labels)
        self.values: defaultdict[Labels, float] = defaultdict(int)
        if not self.labels:
            self.values[()] = 0

    def replace(self, values: Mapping[Labels, float]) -> None:
        """Set these values; series that are left out become 0."""
        for labels in self.values:
            self.values[labels] = 0
        self.values.update(values)

    def _samples(self) -> Iterator[Sample]:
        for values, value in self.values.items():
            yield Sample(self.name, self._named(values), value)


class _Series:
    """One histogram: counts by bucket (not cumulative), the sum, and values not yet counted."""

    __slots__ = ("counts", "sum", "waiting")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * buckets
        self.sum = 0.0
        self.waiting: list[float] = []


class _AllSeries(dict[Labels, _Series]):
    """The series of a histogram by the values of its labels; each begins when it is asked for."""

    def __init__(self, buckets: int) -> None:
        super().__init__()
        self._buckets = buckets

    def __missing__(self, values: Labels) -> _Series:
        series = self[values] = _Series(self._buckets)
        return series


class Histogram(MetricFamily):
    """Histograms with the same buckets; ``ends`` are their upper ends, the last is infinity.

    ``series[labels].waiting.append(value)`` records a value without a call, as several times a pod.
    """

    def __init__(
        self, name: str, help_: str, ends: Sequence[float], labels: Iterable[str] = ()
    ) -> None:
        super().__init__(name, HISTOGRAM, help_, labels)
        self.ends = tuple(ends)
        self._bounds = np.array(self.ends, np.float64)
        self.series = _AllSeries(len(self.ends) + 1)
        if not self.labels:
            self.series[()]  # it is shown without a value, too

    def taker(self, *values: str) -> Callable[[float], None]:
        """Return a function that records a value of one series in some 40 ns."""
        return self.series[values].waiting.append

    def observe(self, values: Labels, observed: float) -> None:
        """Count a value at once: one of few, or of which none may wait for a scrape."""
        series = self.series[values]
        series.counts[bisect_left(self.ends, observed)] += 1
        series.sum += observed

    def take(self, values: Labels, observed: Iterable[float]) -> None:
        """Record values of one series."""
        self.series[values].waiting.extend(observed)

    def fold(self) -> None:
        """Count the recorded values, which frees their list."""
        for series in self.series.values():
            if series.waiting:
                observed = np.array(series.waiting, np.float64)
                series.waiting.clear()
                places = np.searchsorted(self._bounds, observed)
                added = np.bincount(places, minlength=len(self.ends) + 1).tolist()
                series.counts = [a + b for a, b in zip(series.counts, added, strict=True)]
                series.sum += float(observed.sum())

    def count(self, *values: str) -> int:
        """Return the number of values of one series."""
        self.fold()
        return sum(self.series[values].counts)

    def total(self, *values: str) -> float:
        """Return the sum of the values of one series."""
        self.fold()
        return self.series[values].sum

    def _samples(self) -> Iterator[Sample]:
        self.fold()
        for values, series in self.series.items():
            named = self._named(values)
            for end, total in cumulative(self.ends, series.counts):
                yield Sample(f"{self.name}_bucket", {**named, "le": end}, total)
            yield Sample(f"{self.name}_sum", named, series.sum)
            yield Sample(f"{self.name}_count", named, sum(series.counts))


class Families(Collector):
    """A table of metrics.toml: the families in their order, and each as an attribute.

    The attribute has the metric's name without ``scheduler_`` or ``policy_sched_``.
    """

    _table: ClassVar[str]

    def __init_subclass__(cls, *, table: str) -> None:
        cls._table = table

    def __init__(self) -> None:
        self.all: list[MetricFamily] = []
        for definition in _definitions()[self._table]:
            family = _family(**definition)
            self.all.append(family)
            attribute = family.name.removeprefix("scheduler_").removeprefix("policy_sched_")
            setattr(self, attribute, family)

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        for family in self.all:
            yield from family.collect()

    def text(self) -> str:
        """Return all families in Prometheus' text format."""
        return "".join(family.text() for family in self.all)

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
) -> MetricFamily:
    if kind != HISTOGRAM:
        return NumberFamily(name, kind, help, labels)
    ends = exponential(**buckets) if isinstance(buckets, Mapping) else buckets
    return Histogram(name, help, ends, labels)
