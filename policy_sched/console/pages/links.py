"""Links from the tables of reports to the pages of their pods and nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from policy_sched.console.pages.page import node_href, pod_href
from policy_sched.web import Block, Section, Table, Text, Value

_HREFS: Final[dict[str, Callable[[str], str]]] = {
    "Pod": pod_href,
    "Node": node_href,
    "Takes node": node_href,
}
"""By the name of a column: the page of what its cells name."""


def linked(sections: Iterable[Section]) -> list[Section]:
    """Return sections of a report whose tables lead to pods and nodes."""
    return [
        replace(section, blocks=[_block(block) for block in section.blocks]) for section in sections
    ]


def _block(block: Block) -> Block:
    if not isinstance(block, Table):
        return block
    hrefs = [_HREFS.get(column.name) for column in block.columns]
    return replace(block, rows=[_row(row, hrefs) for row in block.rows])


def _row(row: Sequence[Value], hrefs: Sequence[Callable[[str], str] | None]) -> list[Value]:
    return [
        Text(cell, href(cell)) if href is not None and isinstance(cell, str) and cell else cell
        for cell, href in zip(row, hrefs, strict=True)
    ]
