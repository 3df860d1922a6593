"""Traces of real clusters as API objects: tables in CSV, known by their header.

Theory of operation. Each kind of table is a header, and a function from a row's cells to what it
means. A pod is created so many seconds after EPOCH and runs for what its duration annotation says.
Reading continues after an error: every bad cell is reported with its position.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from policy_sched.errors import Diagnostic
from policy_sched.model import ApiObject
from policy_sched.simulate.trace_rows import (
    BadCellError,
    openb_node,
    openb_pod,
    philly_job,
)
from policy_sched.source import decode_text, read_bytes

SUFFIXES: Final = (".csv", ".csv.gz")
UNREADABLE: Final = "PS701"
WRONG_SHAPE: Final = "PS703"
UNKNOWN_TABLE: Final = "PS706"
BAD_VALUE: Final = "PS707"
DUPLICATE: Final = "PS708"

Row = Callable[[int, Sequence[str]], Iterable[ApiObject]]
"""From the number of a row, counted from 0, and its cells to its objects."""

TABLES: Final[dict[str, Row]] = {
    "sn,cpu_milli,memory_mib,gpu,model": openb_node,
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
    "creation_time,deletion_time,scheduled_time": openb_pod,
    "submit_s,duration_s,num_gpus,vc": philly_job,
}


@dataclass(slots=True)
class Traces:
    """The objects of some tables, in their order, and every problem."""

    objects: list[ApiObject] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)


def is_trace(path: str) -> bool:
    """Tell whether a path names a table rather than manifests."""
    return path.endswith(SUFFIXES)


def load_traces(paths: Iterable[str]) -> Traces:
    """Read tables; those of one kind must not name an object twice."""
    found = Traces()
    seen: dict[tuple[str, str, str], str] = {}
    for path in paths:
        text = _text(path, found.diagnostics)
        if text is not None:
            _read(path, text.splitlines(), found, seen)
    return found


def _text(path: str, problems: list[Diagnostic]) -> str | None:
    try:
        text = decode_text(path, read_bytes(path))
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        message = f"the file cannot be read: {reason}"
        problems.append(Diagnostic(path, 1, 1, UNREADABLE, message))
        return None
    if isinstance(text, str) and "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        text = Diagnostic(path, line, 1, UNREADABLE, "the character U+0000 is not allowed here")
    if isinstance(text, Diagnostic):
        problems.append(text)
        return None
    return text


def _read(
    path: str, lines: Sequence[str], found: Traces, seen: dict[tuple[str, str, str], str]
) -> None:
    header = lines[0].strip() if lines else ""
    table = TABLES.get(header)
    if table is None:
        hint = "known headers: " + "; ".join(TABLES)
        message = "the first line is the header of no known trace"
        source = lines[0] if lines else ""
        found.diagnostics.append(
            Diagnostic(path, 1, 1, UNKNOWN_TABLE, message, hint, source_line=source)
        )
        return
    columns = header.split(",")
    for number, line in enumerate(lines[1:]):
        cells = line.split(",")
        place = _Place(path, number + 2, line, cells)
        if len(cells) != len(columns):
            message = f"{len(cells)} cells, where the header has {len(columns)}"
            found.diagnostics.append(place.diagnostic(0, WRONG_SHAPE, message))
            continue
        try:
            objects = list(table(number, cells))
        except BadCellError as error:
            found.diagnostics += [
                place.diagnostic(column, BAD_VALUE, f"{columns[column]}: {message}")
                for column, message in error.problems
            ]
            continue
        found.objects += _new(objects, place, found, seen)


def _new(
    objects: list[ApiObject], place: _Place, found: Traces, seen: dict[tuple[str, str, str], str]
) -> Iterator[ApiObject]:
    """Yield the objects that were not there before, and report the others."""
    for one in objects:
        key = type(one).__name__, one.metadata.namespace, one.metadata.name
        first = seen.setdefault(key, f"{place.path}:{place.line}")
        if first == f"{place.path}:{place.line}":
            yield one
        else:
            message = f"{key[0]} {key[2]} is there twice"
            hint = f"the first one is at {first}"
            found.diagnostics.append(place.diagnostic(0, DUPLICATE, message, hint))


@dataclass(frozen=True, slots=True)
class _Place:
    """A row of a table."""

    path: str
    line: int
    text: str
    cells: Sequence[str]

    def diagnostic(self, column: int, code: str, message: str, hint: str = "") -> Diagnostic:
        """Return the diagnostic for one cell."""
        start = sum(len(cell) + 1 for cell in self.cells[:column]) + 1
        return Diagnostic(
            self.path,
            self.line,
            start,
            code,
            message,
            hint,
            width=max(1, len(self.cells[column])),
            source_line=self.text,
        )
