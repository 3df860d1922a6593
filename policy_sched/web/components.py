"""View models of components: what a macro below ``templates/components`` takes.

They hold texts that are ready to be shown, and compute shares and widths; they know nothing of
clusters and policies.
"""

from __future__ import annotations

import json
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
"""What a colour means; a text says the same."""

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
"""What a cell of a table or a fact shows."""


class Link(msgspec.Struct, frozen=True):
    """An entry of a navigation; ``current``: the page that is shown."""

    text: str
    href: str
    current: bool = False


class Fact(msgspec.Struct, frozen=True):
    """A name and its value, with a remark below."""

    name: str
    value: Value
    note: str = ""


class Facts(msgspec.Struct, frozen=True):
    """Names and values. ``big``: they come first on a page."""

    component: ClassVar[str] = "facts"
    facts: Sequence[Fact]
    big: bool = False


class Column(msgspec.Struct, frozen=True):
    """A column of a table; numbers are aligned to the right. ``wide``: it holds long texts."""

    name: str
    number: bool = False
    note: str = ""
    wide: bool = False


class Table(msgspec.Struct, frozen=True):
    """Rows under columns. The first column names the row.

    ``more`` says what is left out, ``empty`` what is written instead of no rows. ``sortable``: a
    click on a heading sorts. ``caption_hidden``: the heading above says the same.
    """

    component: ClassVar[str] = "table"
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Value]]
    more: str = ""
    empty: str = ""
    sortable: bool = False
    caption_hidden: bool = False


class Part(msgspec.Struct, frozen=True):
    """A part of a bar: the share of a plugin in a score, for instance.

    ``quiet``: it is there for completeness, and grey.
    """

    name: str
    value: float
    text: str = ""
    quiet: bool = False


class Segment(msgspec.Struct, frozen=True):
    """A part as it is drawn."""

    x: float
    width: float
    colour: int
    title: str


class Bar(msgspec.Struct, frozen=True):
    """A bar of parts, with a label before and a text after it."""

    label: Value
    parts: Sequence[Part]
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
    """A filter: what it removes of what is left, what it would remove alone, and what stays."""

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
    """Which part of a list is shown; an empty address: there is no such page."""

    first: int
    last: int
    total: int
    previous: str = ""
    following: str = ""


class Problem(msgspec.Struct, frozen=True):
    """A diagnostic with the line of the source in three parts: before, marked and after."""

    component: ClassVar[str] = "diagnostic"
    place: str
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
    def of(cls, diagnostic: Diagnostic, href: str = "") -> Problem:
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
