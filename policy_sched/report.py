"""Reports: lines for people and plain data for programs, and the texts that both become.

Every result that a command or an endpoint shows is a `Report`. The texts are the same bytes for
the same report.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import msgspec
import yaml

Document = dict[str, Any]
"""Plain data, as JSON and YAML hold it."""
Advance = Callable[[int], None]
"""Shows progress; called with the number of further steps."""


def unshown(_steps: int) -> None:
    """Show no progress."""


class Report(Protocol):
    """A result that can be shown."""

    def text_lines(self) -> Iterable[str]:
        """Return the lines for people."""
        ...

    def document(self) -> Document:
        """Return the result as plain data."""
        ...


class RecordReport(Report, Protocol):
    """A report about many things of one kind, each of which is a record of its own."""

    def records(self) -> Iterable[Document]:
        """Return the records in their order."""
        ...


class MarkdownReport(Report, Protocol):
    """A report that can be a comment on a pull request."""

    def markdown_lines(self) -> Iterable[str]:
        """Return the lines of the comment."""
        ...


class CaseResult(msgspec.Struct, frozen=True):
    """One case for a build server.

    ``title`` is its name in a plain list; in a tree of suites it is ``name``, in the group
    ``group`` of the suite ``file``. ``failure`` says in short what is wrong, empty if nothing is;
    ``problems`` is that at length, ``notes`` what is worth reading and no failure.
    """

    file: str
    group: str
    name: str
    title: str
    seconds: float = 0.0
    failure: str = ""
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class CaseReport(Report, Protocol):
    """A report about cases that pass or fail."""

    def cases(self) -> Iterable[CaseResult]:
        """Return the cases, those of a file one after the other."""
        ...


def json_text(document: object) -> str:
    """Return plain data as JSON that people can read."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def jsonl_text(records: Iterable[Document]) -> str:
    """Return one line of JSON for each record."""
    encode = msgspec.json.Encoder().encode
    return b"".join(encode(record) + b"\n" for record in records).decode()


def yaml_text(document: Document) -> str:
    """Return plain data as YAML in which every text is on one line."""
    return yaml.dump(document, Dumper=_OneLine, sort_keys=False, allow_unicode=True, width=10**6)


class _OneLine(yaml.SafeDumper):
    """Writes every text on one line: a line of a message may look like a command to a log."""

    def represent_str(self, data: str) -> yaml.nodes.ScalarNode:
        """Return a text, in double quotes if it has line breaks, which are escaped there."""
        style = '"' if len(data.splitlines()) > 1 or data.endswith("\n") else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style)


_OneLine.add_representer(str, _OneLine.represent_str)


def table(
    rows: Sequence[Sequence[str]], right: Iterable[int] = (), gap: str = "   "
) -> Iterator[str]:
    """Yield the lines of a table; the columns ``right`` are aligned to the right."""
    numbers = frozenset(right)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.rjust(width) if i in numbers else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield gap.join(cells).rstrip()
