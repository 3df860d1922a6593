"""Curves: the data that the plotting library takes, and the same as a still picture and a table.

The picture is what a page shows without scripts and on paper; a script puts the interactive chart
in its place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, Final, Literal

import msgspec

from policy_sched.web.components import PALETTE, Column, Table, Value, visible

WIDTH: Final = 720
HEIGHT: Final = 240
LEFT: Final = 56
RIGHT: Final = 12
TOP: Final = 10
BOTTOM: Final = 26
"""The picture's measures, in its own units."""
TABLE_ROWS: Final = 60
"""Rows of the table below a chart, at most."""
_STEPS: Final = (1, 2, 2.5, 5, 10)
_DURATIONS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600,
                     43200, 86400, 172800, 604800, 1209600, 2419200, 4838400,
                     9676800, 31536000)  # fmt: skip

Kind = Literal["number", "duration"]


class Series(msgspec.Struct, frozen=True):
    """A curve; None is a gap. ``low`` and ``high``: a band around it, if it has one."""

    name: str
    values: Sequence[float | None]
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()


class Tick(msgspec.Struct, frozen=True):
    """A line of the grid with its label."""

    at: float
    text: str


class Chart(msgspec.Struct, frozen=True):
    """Curves over one axis. ``kind``: what x is, a number or seconds; values in s are durations.

    ``name`` is the chart's name in the page. ``stepped``: a value holds until the next one.
    ``high``: where the y axis ends, at least.
    """

    component: ClassVar[str] = "chart"
    name: str
    title: str
    x_name: str
    x: Sequence[float]
    series: Sequence[Series]
    unit: str = ""
    kind: Kind = "number"
    stepped: bool = False
    high: float = 0.0
    note: str = ""

    @property
    def data(self) -> dict[str, object]:
        """Return what the script needs."""
        return {
            "title": visible(self.title),
            "x": [_plain(value) for value in self.x],
            "xName": visible(self.x_name),
            "series": [{"name": visible(series.name), **_curves(series)} for series in self.series],
            "unit": visible(self.unit),
            "whole": self.whole,
            "kind": self.kind,
            "stepped": self.stepped,
            "high": self.high,
        }

    @property
    def whole(self) -> bool:
        """Whether all values are whole numbers, so that the lines of the grid should be."""
        values = (v for series in self.series for v in series.values if v is not None)
        return all(math.isfinite(v) and v == int(v) for v in values)

    @property
    def y_ticks(self) -> list[Tick]:
        """Return the lines of the grid across, from 0 up."""
        step, top = self._scale
        return [
            Tick(_y(i * step, top), self.value_text(i * step)) for i in range(round(top / step) + 1)
        ]

    @property
    def x_ticks(self) -> list[Tick]:
        """Return the lines of the grid upwards."""
        if not self.x:
            return []
        low, high = self.x[0], self.x[-1]
        wide = (high - low) / 6
        step = _duration_step(wide) if self.kind == "duration" else _step(wide)
        first = math.ceil(low / step - 1e-9)
        last = math.floor(high / step + 1e-9)
        label = seconds_text if self.kind == "duration" else number_text
        return [Tick(self._x(i * step), label(i * step)) for i in range(first, last + 1)]

    def value_text(self, value: float) -> str:
        """Return a value as text: seconds as a duration."""
        return seconds_text(value) if self.unit == "s" else number_text(value)

    def path(self, series: Series) -> str:
        """Return the curve as the data of an SVG path."""
        parts: list[str] = []
        drawing = False
        top = self._scale[1]
        for x, value in zip(self.x, series.values, strict=True):
            if value is None or not math.isfinite(value):
                drawing = False
                continue
            at, y = self._x(x), _y(value, top)
            if not drawing:
                parts.append(f"M{at} {y}")
            elif self.stepped:
                parts.append(f"H{at}V{y}")
            else:
                parts.append(f"L{at} {y}")
            drawing = True
        return "".join(parts)

    def dots(self, series: Series) -> str:
        """Return the points that no line reaches as the data of an SVG path."""
        top = self._scale[1]
        values = [None, *(_plain(value) for value in series.values), None]
        alone = (
            (x, value)
            for x, before, value, after in zip(
                self.x, values[:-2], values[1:-1], values[2:], strict=True
            )
            if value is not None and before is None and after is None
        )
        return "".join(f"M{self._x(x)} {_y(value, top)}h0" for x, value in alone)

    def band(self, series: Series) -> str:
        """Return the band of a curve as the data of an SVG path; "" without one."""
        points = [
            (x, low, high)
            for x, low, high in zip(self.x, series.low, series.high, strict=False)
            if low is not None and high is not None
        ]
        if not points:
            return ""
        top = self._scale[1]
        above = [f"{self._x(x)} {_y(high, top)}" for x, _, high in points]
        below = [f"{self._x(x)} {_y(low, top)}" for x, low, _ in reversed(points)]
        return f"M{'L'.join([*above, *below])}Z"

    def colour(self, index: int) -> int:
        """Return the number of a curve's colour."""
        return index % PALETTE

    @property
    def table(self) -> Table:
        """Return the values as a table, of long curves every so many."""
        every = max(1, math.ceil(len(self.x) / TABLE_ROWS))
        unit = f" ({self.unit})" if self.unit and self.unit != "s" else ""
        columns = [Column(self.x_name), *(Column(f"{s.name}{unit}", True) for s in self.series)]
        label = seconds_text if self.kind == "duration" else number_text
        rows: list[list[Value]] = []
        for i in range(0, len(self.x), every):
            values = [series.values[i] for series in self.series]
            rows.append(
                [label(self.x[i]), *("" if v is None else self.value_text(v) for v in values)]
            )
        more = f"every {every}th of {len(self.x)} values" if every > 1 else ""
        return Table(self.title, columns, rows, more=more)

    @property
    def _scale(self) -> tuple[float, float]:
        """Return the distance of two lines of the grid, and the value at the top."""
        curves = [curve for series in self.series for curve in (series.values, series.high)]
        values = [v for curve in curves for v in curve if v is not None]
        top = max([*filter(math.isfinite, values), self.high, 0.0]) or 1.0
        step = _duration_step(top / 4) if self.unit == "s" else _step(top / 4)
        step = max(1.0, math.ceil(step)) if self.whole else step
        return step, step * math.ceil(top / step - 1e-9)

    def _x(self, value: float) -> float:
        low, high = self.x[0], self.x[-1]
        share = (value - low) / (high - low) if high > low else 0.0
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)


def _y(value: float, top: float) -> float:
    return round(HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM), 1)


def _curves(series: Series) -> dict[str, list[float | None]]:
    """Return the curve of a series, and the ends of its band if it has one."""
    curves = {"values": series.values, "low": series.low, "high": series.high}
    return {
        name: [_plain(value) for value in values]
        for name, values in curves.items()
        if values or name == "values"
    }


def _plain(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


def _duration_step(least: float) -> float:
    """Return the next round length of time, in seconds, that is at least so much."""
    return next((step for step in _DURATIONS if step >= least), _step(least))


def _step(least: float) -> float:
    """Return the next round number that is at least so much."""
    if least <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in _STEPS if step * power >= least * (1 - 1e-9))


def number_text(value: float) -> str:
    """Return a number with four digits at most, or whole thousands with commas."""
    if abs(value) >= 1000 or value == int(value):
        return f"{round(value):,}"
    return f"{value:.4g}"


def seconds_text(value: float) -> str:
    """Return a time of seconds as in 1d12h, 2h30m, 45s."""
    left = round(value)
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2]) or "0s"
