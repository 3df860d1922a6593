"""A page: an address, a pure function that makes its values, and a template."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from urllib.parse import quote, urlencode

from aiohttp import web
from msgspec.structs import replace

from policy_sched.console.sources import ClusterSource
from policy_sched.errors import PolicySchedError
from policy_sched.web import Block, Link, Pager, Section, Table, Text, Value

View: TypeAlias = Mapping[str, Any]
"""The values of a template."""
Action: TypeAlias = Callable[[ClusterSource | None, web.Request], Awaitable[web.StreamResponse]]
"""Handles a request that is no page: a form, or a fragment."""


class Missing(PolicySchedError):  # noqa: N818 - a response
    """There is nothing at the address."""


@dataclass(frozen=True, slots=True)
class Results:
    """Directories of experiments' results."""

    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Query:
    """The address of a page: its path, the parameters after ``?``, and those in the path."""

    path: str
    parameters: Mapping[str, str]
    arguments: Mapping[str, str] = field(default_factory=dict)

    def get(self, name: str, default: str = "") -> str:
        """Return a parameter; an empty one is the default."""
        return self.parameters.get(name) or default

    def number(self, name: str, default: int) -> int:
        """Return a parameter that is a number from 0; the default for anything else."""
        text = self.parameters.get(name, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else default

    def url(self, **changes: str | int | None) -> str:
        """Return this address with other parameters; None and "" remove one."""
        values = {**self.parameters, **changes}
        left = {name: value for name, value in values.items() if value not in (None, "")}
        return address(self.path, **left)


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the console."""

    path: str
    title: str
    """Its name in the navigation, empty if it is not there."""
    template: str
    view: Callable[[Any, Query, Results], View]
    """Returns the values of the template."""
    section: str = ""
    """The path of the entry of the navigation that is marked."""
    needs: str = "cluster"
    """cluster, running (a scheduler that decides), results or nothing."""
    actions: Mapping[str, Action] = field(default_factory=dict)
    """Other paths that belong to the page."""

    def link(self, section: str) -> Link:
        """Return the entry of the navigation."""
        return Link(self.title, self.path, current=self.path == section)


def address(path: str, **parameters: object) -> str:
    """Return a path with parameters."""
    return f"{path}?{urlencode(parameters)}" if parameters else path


def pod_href(key: str) -> str:
    """Return the address of a pod, whose name may be anything."""
    namespace, _, name = key.partition("/")
    return f"/pods/{quote(namespace, safe='')}/{quote(name, safe='')}"


def node_href(name: str) -> str:
    """Return the address of a node."""
    return f"/nodes/{quote(name, safe='')}"


def pager(query: Query, total: int, size: int) -> tuple[int, Pager]:
    """Return where the shown part of a list begins, and the links to the other parts."""
    page = min(query.number("page", 1) or 1, max(1, -(-total // size)))
    start = (page - 1) * size
    return start, Pager(
        min(start + 1, total),
        min(start + size, total),
        total,
        query.url(page=page - 1 if page > 2 else None) if page > 1 else "",
        query.url(page=page + 1) if start + size < total else "",
    )


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
