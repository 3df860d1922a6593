"""Tables that an experiment names: orders of pods and nodes, and the kinds of rows."""

from __future__ import annotations

import csv
import io
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from policy_sched.errors import Diagnostic
from policy_sched.experiments.reading import MAX_KINDS, MAX_PODS, LoadedExperiment
from policy_sched.profiles.models import BAD_VALUE, DUPLICATE, WRONG_TYPE, Path, did_you_mean
from policy_sched.source import decode_text, read_bytes

_DIGITS: Final = 19
"""Characters of a cell that is a number; a longer one is a text."""
SEED: Final = "${seed}"
"""The seed of a run, in the name of a column."""


@dataclass(frozen=True, slots=True)
class RowTable:
    """A CSV file: its path, its header, and its rows."""

    file: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def column(self, name: str) -> tuple[str, ...]:
        """Return the cells of a column."""
        position = self.columns.index(name)
        return tuple(row[position] for row in self.rows)


def computed_params(loaded: LoadedExperiment) -> dict[str, dict[str, Any]]:
    """Return the parameters of policies that come from tables, by policy and name."""
    params: dict[str, dict[str, Any]] = {}
    for i, computed in enumerate(loaded.spec.computed):
        at: Path = ("spec", "computed", i)
        table = read_table(loaded, computed.file, (*at, "file"))
        if table is None or not has_columns(loaded, table, computed.by, (*at, "by")):
            continue
        columns = [_zeros(table.column(name)) for name in computed.by]
        counts = Counter(zip(*columns, strict=True))
        value = _groups(counts, computed.by, computed.cover)
        if len(value) > MAX_KINDS:
            message = f"{len(value):,} kinds of rows are more than {MAX_KINDS:,}"
            loaded.problem((*at, "by"), BAD_VALUE, message, "fewer columns, or a smaller cover")
            continue
        params.setdefault(computed.policy, {})[computed.param] = value
    return params


def _groups(
    counts: Counter[tuple[str, ...]], by: Sequence[str], cover: float
) -> list[dict[str, Any]]:
    """Return the kinds of rows that cover enough of them, the most frequent first."""
    whole = counts.total()
    kinds = [(count, tuple(_number(cell) for cell in cells)) for cells, count in counts.items()]
    kinds.sort(key=lambda kind: tuple(map(_sortable, (kind[0], *kind[1]))), reverse=True)
    kept: list[tuple[int, tuple[Any, ...]]] = []
    covered = 0
    for kind in kinds:
        if covered * 100 >= cover * whole:
            break
        kept.append(kind)
        covered += kind[0]
    return [
        {
            **dict(zip(by, cells, strict=True)),
            "count": count,
            "share": (count / whole) / (covered / whole),
        }
        for count, cells in kept
    ]


def _number(cell: str) -> int | str:
    is_number = cell.isascii() and cell.removeprefix("-").isdecimal() and len(cell) < _DIGITS
    return int(cell) if is_number else cell


def _zeros(cells: tuple[str, ...]) -> tuple[str, ...]:
    """Return the cells of a column; empty ones are 0 where all others are numbers."""
    written = set(cells) - {""}
    if "" not in cells or not written or any(isinstance(_number(cell), str) for cell in written):
        return cells
    return tuple(cell or "0" for cell in cells)


def _sortable(value: int | str) -> tuple[int, int, str]:
    return (0, value, "") if isinstance(value, int) else (1, 0, value)


def read_table(loaded: LoadedExperiment, reference: str, path: Path) -> RowTable | None:
    """Read a CSV file that the experiment names; None if something is wrong with it."""
    file = loaded.file(reference, path)
    if file is None:
        return None
    try:
        text = decode_text(file, read_bytes(file))
    except (OSError, EOFError, zlib.error) as error:
        hint = "a table is CSV, plain or with .gz"
        loaded.problem(path, BAD_VALUE, f"{reference} cannot be read: {error}", hint)
        return None
    if isinstance(text, Diagnostic):
        loaded.diagnostics.append(text)
        return None
    reader = csv.reader(io.StringIO(text))
    try:
        rows = [tuple(row) for row in reader if row]
    except csv.Error as error:
        message = f"this is no CSV: {error}"
        loaded.diagnostics.append(Diagnostic(file, max(reader.line_num, 1), 1, WRONG_TYPE, message))
        return None
    if not rows:
        loaded.problem(path, BAD_VALUE, f"{reference} is empty", "the first line is a header")
        return None
    for i, row in enumerate(rows):
        if len(row) != len(rows[0]):
            message = f"{len(row)} cells, where the header has {len(rows[0])}"
            hint = "each row has a cell for each column"
            loaded.diagnostics.append(Diagnostic(file, i + 1, 1, WRONG_TYPE, message, hint))
            return None
    twice = next((name for name, count in Counter(rows[0]).items() if count > 1), None)
    if twice is not None:
        message, hint = f"two columns are called {twice}", "names of columns differ"
        loaded.diagnostics.append(Diagnostic(file, 1, 1, DUPLICATE, message, hint))
        return None
    return RowTable(file, rows[0], tuple(rows[1:]))


def has_columns(
    loaded: LoadedExperiment, table: RowTable, names: Sequence[str], path: Path
) -> bool:
    """Return whether a table has all columns; report the missing ones."""
    missing = [(i, name) for i, name in enumerate(names) if name not in table.columns]
    for i, name in missing:
        columns = ", ".join(table.columns)
        hint = did_you_mean(name, table.columns) or f"columns: {columns}"
        loaded.problem((*path, i) if len(names) > 1 else path, BAD_VALUE, f"no column {name}", hint)
    return not missing


def orders_of(
    loaded: LoadedExperiment,
    reference: str,
    column: str,
    at: Path,
    seeds: Sequence[int],
    count: int,
) -> dict[str, tuple[int, ...]]:
    """Return the numbers in the columns that the seeds need."""
    table = read_table(loaded, reference, (*at, "file"))
    if table is None:
        return {}
    orders: dict[str, tuple[int, ...]] = {}
    names = list(dict.fromkeys(column.replace(SEED, str(seed)) for seed in seeds))
    missing = [name for name in names if name not in table.columns]
    if missing:
        word = "column" if len(missing) == 1 else "columns"
        message = f"{reference} has no {word} {_first_names(missing)}"
        hint = f"its columns: {_first_names(table.columns)}"
        loaded.problem((*at, "column"), BAD_VALUE, message, hint)
    for name in names:
        if name in missing:
            continue
        cells = table.column(name)
        end = next((i for i, cell in enumerate(cells) if not cell.strip()), len(cells))
        wrong = next((i for i, cell in enumerate(cells[:end]) if not _is_below(cell, count)), None)
        if wrong is not None:
            message = f'column {name}: "{cells[wrong]}" is not a whole number below {count}'
            hint = "a row is the number of a pod or a node, counted from 0"
            loaded.diagnostics.append(
                Diagnostic(table.file, wrong + 2, 1, BAD_VALUE, message, hint)
            )
            continue
        if end > MAX_PODS:
            message = f"column {name}: {end:,} rows are more than {MAX_PODS:,}"
            loaded.diagnostics.append(
                Diagnostic(table.file, MAX_PODS + 2, 1, BAD_VALUE, message, "take a part of it")
            )
            continue
        if not end:
            message, hint = f"column {name} is empty", "rows are numbers, from 0"
            loaded.diagnostics.append(Diagnostic(table.file, 1, 1, BAD_VALUE, message, hint))
            continue
        orders[name] = tuple(map(int, cells[:end]))
    return orders


def _first_names(names: Sequence[str]) -> str:
    """Return the first of many names."""
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def _is_below(cell: str, count: int) -> bool:
    return cell.isascii() and cell.isdecimal() and len(cell) < 12 and int(cell) < count
