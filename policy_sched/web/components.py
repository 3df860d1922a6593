"""View models of components: what a macro below ``templates/components`` takes.

They hold texts that are ready to be shown, and compute shares and widths; they know nothing of
clusters and policies.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import ClassVar, Final, Literal, TypeAlias

import msgspec

from policy_sched.errors import Diagnostic

_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f"  # controls but the tab
    "\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"  # what is not seen, or turns text
    "\ud800-\udfff]"  # halves of characters
)
_UNSEEN_IN_LINES: Final = re.compile(_UNSEEN.pattern.replace("\x0a-\x1f", "\x0b\x0c\x0e-\x1f"))
LONGEST: Final = 40
"""Characters after which a line may end in a word that is longer."""
_PIECE: Final = re.compile(rf"\S{{1,{LONGEST}}}\s*|\s+")
_NAMED: Final = {"\n": "\\n", "\r": "\\r", "\x1b": "\\e"}


def visible(text: str) -> str:
    """Return a text on one line, in which characters that cannot be seen are escapes."""
    return _UNSEEN.sub(_escape, text)


def visible_lines(text: str) -> str:
    """Return a text of several lines, in which characters that cannot be seen are escapes."""
    return _UNSEEN_IN_LINES.sub(_escape, text.replace("\r\n", "\n").replace("\r", "\n"))


def pieces(text: str) -> list[str]:
    """Return a text in pieces between which a line may end, although it has no blank there."""
    return _PIECE.findall(text)


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    code = ord(char)
    return _NAMED.get(char) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def json_for_script(data: object) -> str:
    """Return plain data as JSON that may stand in a script element: nothing in it ends one."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


Tone: TypeAlias = Literal["", "good", "bad", "warn", "info", "dim"]
"""The meaning of a colour; a text says the same."""

PALETTE: Final = 8
"""Colours that parts and curves have, the last of them grey; then they begin again."""
NAMED: Final = 60
LARGE: Final = 600
"""Up to so many cells have their names, or are larger."""
WIDTH: Final = 1000
"""The width of a bar in its own units."""


class Text(msgspec.Struct, frozen=True):
    """A text with a link, a tone, or a remark after it."""

    text: str
    href: str = ""
    tone: Tone = ""
    note: str = ""
    code: bool = False


class Badge(msgspec.Struct, frozen=True):
    """A word in a coloured field."""

    text: str
    tone: Tone = ""


class Meter(msgspec.Struct, frozen=True):
    """A share of a whole as a short bar with its text; ``share`` is from 0 to 1."""

    share: float
    text: str
    tone: Tone = ""

    @property
    def width(self) -> int:
        """Return the width of the bar, of 100."""
        return round(100 * min(1.0, max(0.0, self.share)))


Value: TypeAlias = str | Text | Badge | Meter
"""The value of a cell or a fact."""


class Link(msgspec.Struct, frozen=True):
    """An entry of a navigation."""

    text: str
    href: str
    current: bool = False
    """Whether it is the page that is shown."""


class Fact(msgspec.Struct, frozen=True):
    """A name and its value, with a remark below."""

    name: str
    value: Value
    note: str = ""


class Facts(msgspec.Struct, frozen=True):
    """Names and values."""

    component: ClassVar[str] = "facts"
    facts: Sequence[Fact]
    big: bool = False
    """Whether they come first on a page."""


class Column(msgspec.Struct, frozen=True):
    """A column of a table; numbers are aligned to the right."""

    name: str
    number: bool = False
    note: str = ""
    wide: bool = False
    """Whether it holds long texts."""


class Table(msgspec.Struct, frozen=True):
    """Rows under columns.

    The first column names the row.

    ``more`` says what is left out, ``empty`` what is written instead of no rows.
    """

    component: ClassVar[str] = "table"
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Value]]
    more: str = ""
    empty: str = ""
    sortable: bool = False
    """Whether a click on a heading sorts."""
    caption_hidden: bool = False
    """Whether the heading above says the same."""


class BarPart(msgspec.Struct, frozen=True):
    """A part of a bar: the share of a plugin in a score, for instance."""

    name: str
    value: float
    text: str = ""
    quiet: bool = False
    """Whether it is grey: there for completeness."""


class Segment(msgspec.Struct, frozen=True):
    """A part as it is drawn."""

    x: float
    width: float
    colour: int
    title: str


class Bar(msgspec.Struct, frozen=True):
    """A bar of parts, with a label before and a text after it."""

    label: Value
    parts: Sequence[BarPart]
    text: str

    @property
    def total(self) -> float:
        """Return the length."""
        return sum(max(0.0, part.value) for part in self.parts)


class Bars(msgspec.Struct, frozen=True):
    """Bars over one scale, whose parts have the colours of a legend."""

    component: ClassVar[str] = "bars"
    caption: str
    bars: Sequence[Bar]
    note: str = ""
    scale: float = 0.0

    @property
    def names(self) -> list[str]:
        """Return the names of parts, in the order in which they occur."""
        return list(dict.fromkeys(part.name for bar in self.bars for part in bar.parts))

    @property
    def legend(self) -> dict[str, int]:
        """Return the colours of the parts that are drawn, by name."""
        drawn = {part.name: part.quiet for bar in self.bars for part in bar.parts if part.value > 0}
        names = [name for name in self.names if name in drawn]
        loud = [name for name in names if not drawn[name]]
        colours = {name: i % (PALETTE - 1) for i, name in enumerate(loud)}
        return {name: colours.get(name, PALETTE - 1) for name in names}

    def segments(self, bar: Bar) -> list[Segment]:
        """Return the parts of a bar as they are drawn."""
        scale = self.scale or max((bar_above.total for bar_above in self.bars), default=0.0) or 1.0
        parts, x = [], 0.0
        colours = self.legend
        for part in bar.parts:
            width = round(WIDTH * max(0.0, part.value) / scale, 2)
            if width:
                title = f"{part.name}: {part.text or f'{part.value:g}'}"
                parts.append(Segment(round(x, 2), width, colours[part.name], title))
            x += width
        return parts

    @property
    def table(self) -> Table:
        """Return the bars as a table."""
        names = self.names
        rows: list[list[Value]] = []
        for bar in self.bars:
            of = {part.name: part.text or f"{part.value:g}" for part in bar.parts}
            rows.append([bar.label, *(of.get(name, "") for name in names), bar.text])
        columns = [Column(""), *(Column(name, number=True) for name in names)]
        return Table(self.caption, [*columns, Column("total", number=True)], rows)


class FunnelStep(msgspec.Struct, frozen=True):
    """A filter: how many it removes of those left, how many it removes alone, and how many stay."""

    name: Value
    removed: int
    alone: int
    left: int
    reasons: Sequence[str] = ()


class Funnel(msgspec.Struct, frozen=True):
    """Filters in their order, over a number of things (nodes, devices)."""

    component: ClassVar[str] = "funnel"
    caption: str
    things: str
    total: int
    steps: Sequence[FunnelStep]
    note: str = ""

    def width(self, count: int) -> float:
        """Return the width for a number of things."""
        return round(WIDTH * count / self.total, 2) if self.total else 0.0


class Cell(msgspec.Struct, frozen=True):
    """A thing as a small field; ``share`` from 0 to 1 is its colour, None: unknown."""

    name: str
    share: float | None
    text: str = ""
    href: str = ""
    tone: Tone = ""

    @property
    def level(self) -> str:
        """Return the colour as a number from 0 to 10, or x if it is unknown."""
        return "x" if self.share is None else str(round(10 * min(1.0, max(0.0, self.share))))

    @property
    def title(self) -> str:
        """Return the name with its text."""
        return f"{self.name}: {self.text}" if self.text else self.name


class CellGroup(msgspec.Struct, frozen=True):
    """Cells with a heading."""

    name: str
    cells: Sequence[Cell]
    text: str = ""


class Cells(msgspec.Struct, frozen=True):
    """One cell for each thing, in groups; ``low`` and ``high`` label the ends of the scale."""

    component: ClassVar[str] = "cells"
    caption: str
    groups: Sequence[CellGroup]
    low: str = "0 %"
    high: str = "100 %"
    unknown: str = ""

    @property
    def size(self) -> str:
        """Return how large a cell is: where they are few, it has room for its name."""
        count = sum(len(group.cells) for group in self.groups)
        return "named" if count <= NAMED else "large" if count <= LARGE else ""


class Pager(msgspec.Struct, frozen=True):
    """The shown part of a list; an address is empty if there is no such page."""

    first: int
    last: int
    total: int
    previous: str = ""
    following: str = ""


class DiagnosticView(msgspec.Struct, frozen=True):
    """A diagnostic with the line of the source in three parts: before, marked and after."""

    component: ClassVar[str] = "diagnostic"
    position: str
    severity: str
    code: str
    message: str
    line: int
    before: str = ""
    marked: str = ""
    after: str = ""
    hints: Sequence[str] = ()
    href: str = ""

    @classmethod
    def of(cls, diagnostic: Diagnostic, href: str = "") -> DiagnosticView:
        """Return a diagnostic as it is shown; ``href``: where its source is."""
        line, column = diagnostic.excerpt()
        start = min(column - 1, len(line))
        end = min(len(line), start + max(1, diagnostic.width))
        return cls(
            f"{diagnostic.file}:{diagnostic.line}:{diagnostic.column}",
            str(diagnostic.severity),
            diagnostic.code,
            diagnostic.message,
            diagnostic.line,
            line[:start],
            line[start:end] or (" " if line else ""),
            line[end:],
            tuple(text for text in (diagnostic.context, diagnostic.hint) if text),
            href,
        )

    @property
    def tone(self) -> Tone:
        """Return the tone of the severity."""
        return "bad" if self.severity == "error" else "warn"

    @property
    def caret(self) -> str:
        """Return the line that marks the place below the source."""
        indent = "".join("\t" if char == "\t" else " " for char in self.before)
        return f"{indent}^{'~' * (len(self.marked) - 1)}"


SMALLEST: Final = 1e-300
"""Of a smaller value parts would be 0, and no line could be drawn between them."""
CHART_WIDTH: Final = 720
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
    """Curves over one axis.

    ``name`` is the chart's name in the page.
    """

    component: ClassVar[str] = "chart"
    name: str
    title: str
    x_name: str
    x: Sequence[float]
    series: Sequence[Series]
    unit: str = ""
    kind: Kind = "number"
    """Unit of x: a number or seconds; values in s are durations."""
    stepped: bool = False
    """Whether a value holds until the next one."""
    high: float = 0.0
    """The least end of the y axis."""
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
        highest = max([*filter(math.isfinite, values), self.high, 0.0])
        top = highest if highest > SMALLEST else 1.0
        step = _duration_step(top / 4) if self.unit == "s" else _step(top / 4)
        step = max(1.0, math.ceil(step)) if self.whole else step
        return step, step * math.ceil(top / step - 1e-9)

    def _x(self, value: float) -> float:
        low, high = self.x[0], self.x[-1]
        share = (value - low) / (high - low) if high > low else 0.0
        return round(LEFT + share * (CHART_WIDTH - LEFT - RIGHT), 1)


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
