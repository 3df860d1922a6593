"""What a report is made of: sections of components, and the lead in a sentence first."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeAlias

import msgspec

from policy_sched.web import components
from policy_sched.web.charts import Chart


class Prose(msgspec.Struct, frozen=True):
    """Paragraphs, or the points of a list."""

    component: ClassVar[str] = "prose"
    texts: Sequence[components.Value]
    points: bool = False


class Source(msgspec.Struct, frozen=True):
    """A text of several lines. ``marks``: by line, from 1, a tone and a remark.

    ``folded``: it is shown on demand, and on paper; ``numbered``: its lines have numbers.
    """

    component: ClassVar[str] = "source"
    caption: str
    text: str
    marks: Mapping[int, components.Badge] = msgspec.field(default_factory=dict)
    folded: bool = False
    numbered: bool = True

    @property
    def lines(self) -> list[tuple[int, str, components.Badge | None]]:
        """Return the lines with their numbers and marks."""
        split = self.text.replace("\r\n", "\n").removesuffix("\n").split("\n")
        return [(n, line, self.marks.get(n)) for n, line in enumerate(split, start=1)]


class Picture(msgspec.Struct, frozen=True):
    """An SVG picture, with a text that screen readers read."""

    component: ClassVar[str] = "picture"
    text: str
    svg: bytes

    @property
    def address(self) -> str:
        """Return the picture as an address that holds it."""
        return f"data:image/svg+xml;base64,{b64encode(self.svg).decode()}"


Block: TypeAlias = (
    components.Table
    | components.Bars
    | components.Funnel
    | components.Cells
    | components.Problem
    | components.Facts
    | Prose
    | Source
    | Picture
    | Chart
)
"""What a section holds."""


class Section(msgspec.Struct, frozen=True):
    """A heading with what is below it; ``beside``: in columns where there is room."""

    title: str
    blocks: Sequence[Block]
    note: str = ""
    beside: bool = False


class Summary(msgspec.Struct, frozen=True):
    """A page: its heading, the lead in a sentence, the main numbers, and sections.

    ``kind`` says what is reported ("explain"), ``tone`` whether that is good.
    """

    title: str
    lead: str
    sections: Sequence[Section]
    kind: str = ""
    tone: components.Tone = ""
    remarks: Sequence[str] = ()
    facts: components.Facts | None = None
