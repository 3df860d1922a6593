"""The results of a sweep: one file for each run by its key, and tables of all of them.

Theory of operation. A run's file is written as soon as the run has ended, beside its place first,
so there is never half of one. A file with the key of a run is its result, and a run that has one
is not run again. Tables are made anew from the files, in the order of the experiment, so they are
the same bytes however the runs came about.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from policy_sched.errors import PolicySchedError
from policy_sched.experiments.engine import Engine, Order, RunFailure, Work, require
from policy_sched.experiments.runs import RunResult
from policy_sched.experiments.statistics import Paired, distribution, paired
from policy_sched.experiments.sweep import Sweep, Task
from policy_sched.profiles.models import ExperimentSpec
from policy_sched.report import Advance, unshown
from policy_sched.source import read_bytes, write_file

RUNS: Final = "runs"
_CELL = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class ResultTable:
    """Rows of a result, with their columns' names."""

    name: str
    columns: tuple[str, ...]
    rows: list[list[_CELL]]

    def csv(self) -> str:
        """Return the table as CSV; a float has all digits that tell it from others."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([["" if cell is None else cell for cell in row] for row in self.rows])
        return text.getvalue()


class _Kept(msgspec.Struct, forbid_unknown_fields=True):
    """The form of a file with a result."""

    values: dict[str, int | float | None]
    curve: dict[str, list[int | float]]
    pods: list[dict[str, _CELL]]


_KEPT: Final = msgspec.json.Decoder(_Kept)
MAX_RESULT: Final = 128 << 20
"""Bytes of a file with a result."""


@dataclass(frozen=True, slots=True)
class ResultStore:
    """The folder of results."""

    folder: Path

    def result(self, key: str, spec: ExperimentSpec) -> RunResult | None:
        """Return the result of a run; None if it has none, or none that sweep can have written."""
        try:
            kept = _KEPT.decode(read_bytes(self._file(key), MAX_RESULT))
        except (OSError, ValueError, msgspec.MsgspecError):
            return None
        result = RunResult(dict(kept.values), dict(kept.curve), list(kept.pods))
        needed = {"x", *curve_names(spec)} if spec.curve is not None else set()
        lengths = {len(column) for column in result.curve.values()}
        return result if needed <= result.curve.keys() and len(lengths) < 2 else None

    def keep(self, key: str, result: RunResult) -> None:
        """Write the result of a run. Raises PolicySchedError if that is not possible."""
        text = json.dumps(asdict(result), ensure_ascii=False, separators=(",", ":"))
        write(self._file(key), text.encode())

    def size(self, key: str) -> int:
        """Return the bytes of a run's result, 0 for none."""
        try:
            return self._file(key).stat().st_size
        except OSError:
            return 0

    def _file(self, key: str) -> Path:
        return self.folder / RUNS / f"{key}.json"


def write(path: Path, data: bytes) -> None:
    """Write a file, and the folders on the way to it. Raises PolicySchedError."""
    try:
        write_file(path, data, parents=True)
    except OSError as error:
        raise PolicySchedError(f"{path}: {error.strerror}") from None


Results = Sequence[tuple[Task, RunResult]]


def tables(spec: ExperimentSpec, results: Results) -> list[ResultTable]:
    """Return all tables of the results, which are in the experiment's order."""
    made = [runs_table(spec, results), summary_table(spec, results)]
    if len({task.variant for task, _ in results}) > 1:
        made.append(comparison_table(spec, results))
    if spec.curve is not None:
        made += [curves_table(spec, results), bands_table(spec, results)]
    if "Pods" in spec.record:
        made.append(_pods_table(results))
    return made


def runs_table(spec: ExperimentSpec, results: Results) -> ResultTable:
    """Return the values of each run."""
    axes = axis_names(results)
    names = [measure.name for measure in spec.measures]
    rows: list[list[_CELL]] = [
        [task.variant, *(cell(task.axes.get(axis)) for axis in axes), task.seed, task.key]
        + [result.values.get(name) for name in names]
        for task, result in results
    ]
    return ResultTable("runs", ("variant", *axes, "seed", "key", *names), rows)


def cell(value: Any) -> _CELL:
    """Return a value of an axis as a cell."""
    plain = value is None or isinstance(value, str | int | float | bool)
    return value if plain else json.dumps(value, sort_keys=True)


def axis_names(results: Results) -> tuple[str, ...]:
    """Return the names of the axes."""
    return tuple(dict.fromkeys(name for task, _ in results for name in task.axes))


def by_variant(results: Results) -> dict[str, dict[int, RunResult]]:
    """Return the results by variant and seed."""
    by_seed: dict[str, dict[int, RunResult]] = {}
    for task, result in results:
        by_seed.setdefault(task.variant, {})[task.seed] = result
    return by_seed


def values_of(runs: Mapping[int, RunResult], name: str) -> list[float]:
    """Return the values of a measure over the seeds, those that there are."""
    values = (result.values.get(name) for result in runs.values())
    return [value for value in values if value is not None]


def summary_table(spec: ExperimentSpec, results: Results) -> ResultTable:
    """Return the distribution of each measure over the seeds, by variant."""
    rows: list[list[_CELL]] = []
    for variant, runs in by_variant(results).items():
        for measure in spec.measures:
            values = values_of(runs, measure.name)
            if values:
                spread = distribution(values)
                rows.append(
                    [
                        variant,
                        measure.name,
                        spread.count,
                        spread.mean,
                        spread.median,
                        spread.p25,
                        spread.p75,
                    ]
                )
    return ResultTable(
        "summary", ("variant", "measure", "runs", "mean", "median", "p25", "p75"), rows
    )


def comparisons(
    spec: ExperimentSpec, results: Results
) -> Iterator[tuple[str, str, str, int, Paired]]:
    """Yield baseline, variant, measure, number of pairs, and the comparison over equal seeds."""
    variants = by_variant(results)
    first = next(iter(variants), "")
    for variant, runs in variants.items():
        for measure in spec.measures if variant != first else ():
            pairs = [
                (old, new)
                for seed, result in runs.items()
                if seed in variants[first]
                and (old := variants[first][seed].values.get(measure.name)) is not None
                and (new := result.values.get(measure.name)) is not None
            ]
            if pairs:
                old_values, new_values = zip(*pairs, strict=True)
                comparison = paired(old_values, new_values)
                yield first, variant, measure.name, len(pairs), comparison


def comparison_table(spec: ExperimentSpec, results: Results) -> ResultTable:
    """Return the paired differences of each variant from the first one."""
    columns = ("baseline", "variant", "measure", "pairs", "baseline_mean", "mean", "difference")
    rows: list[list[_CELL]] = [
        [
            first,
            variant,
            measure,
            pairs,
            comparison.old,
            comparison.new,
            comparison.difference.mean,
            comparison.difference.low,
            comparison.difference.high,
            str(comparison.verdict),
        ]
        for first, variant, measure, pairs, comparison in comparisons(spec, results)
    ]
    return ResultTable("comparison", (*columns, "low", "high", "verdict"), rows)


def curves_table(spec: ExperimentSpec, results: Results) -> ResultTable:
    """Return the points of every run's curve."""
    names = curve_names(spec)
    rows: list[list[_CELL]] = []
    for task, result in results:
        columns = [result.curve[name] for name in ("x", *names)]
        rows += ([task.variant, task.seed, *point] for point in zip(*columns, strict=True))
    return ResultTable("curves", ("variant", "seed", "x", *names), rows)


def curve_names(spec: ExperimentSpec) -> list[str]:
    """Return the measures that curves have: those over events."""
    return [measure.name for measure in spec.measures if measure.time is None]


def bands_table(spec: ExperimentSpec, results: Results) -> ResultTable:
    """Return the distribution over the seeds at each point of the curves."""
    rows: list[list[_CELL]] = []
    for variant, runs in by_variant(results).items():
        for name in curve_names(spec):
            for x, values in points(runs, name):
                spread = distribution(values)
                rows.append(
                    [
                        variant,
                        name,
                        x,
                        spread.count,
                        spread.mean,
                        spread.median,
                        spread.p25,
                        spread.p75,
                    ]
                )
    columns = ("variant", "measure", "x", "runs", "mean", "median", "p25", "p75")
    return ResultTable("bands", columns, rows)


def points(runs: Mapping[int, RunResult], name: str) -> Iterator[tuple[float, list[float]]]:
    """Yield each point of a measure's curves, with the values of the runs that have it."""
    by_x: dict[float, list[float]] = {}
    for result in runs.values():
        for x, value in zip(result.curve["x"], result.curve[name], strict=True):
            by_x.setdefault(x, []).append(value)
    yield from sorted(by_x.items())


def _pods_table(results: Results) -> ResultTable:
    columns = tuple(
        dict.fromkeys(name for _, result in results for record in result.pods for name in record)
    )
    rows: list[list[_CELL]] = [
        [task.variant, task.seed, *(record.get(name) for name in columns)]
        for task, result in results
        for record in result.pods
    ]
    return ResultTable("pods", ("variant", "seed", *columns), rows)


def write_tables(made: Sequence[ResultTable], folder: Path, *, parquet: bool) -> list[Path]:
    """Write the tables as CSV, and as Parquet if asked for; return the files."""
    files = []
    for table in made:
        file = folder / f"{table.name}.csv"
        write(file, table.csv().encode())
        files.append(file)
        if parquet:
            file = file.with_suffix(".parquet")
            write(file, parquet_of(table))
            files.append(file)
    return files


def parquet_of(table: ResultTable) -> bytes:
    """Return a table as Parquet. Raises PolicySchedError without pyarrow."""
    arrow, form = require("pyarrow", "parquet"), require("pyarrow.parquet", "parquet")
    columns = {
        name: arrow.array([row[i] for row in table.rows], from_pandas=True)
        if _of_one_kind(row[i] for row in table.rows)
        else arrow.array([None if row[i] is None else str(row[i]) for row in table.rows])
        for i, name in enumerate(table.columns)
    }
    sink = arrow.BufferOutputStream()
    form.write_table(arrow.table(columns), sink)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _of_one_kind(cells: Iterator[_CELL]) -> bool:
    kinds = {float if type(cell) is int else type(cell) for cell in cells if cell is not None}
    return len(kinds) <= 1


# Runs whose results are kept.


@dataclass(slots=True)
class SweepOutcome:
    """The results of tasks in their order, those that failed, and how many were known already."""

    results: list[tuple[Task, RunResult]] = field(default_factory=list)
    failures: list[tuple[Task, str]] = field(default_factory=list)
    reused: int = 0


def run_tasks(
    sweep: Sweep,
    tasks: Sequence[Task],
    store: ResultStore,
    engine: Engine,
    advance: Advance = unshown,
) -> SweepOutcome:
    """Run the tasks that have no result; ``advance`` is called with how many more are done.

    Raises PolicySchedError if a result cannot be written.
    """
    by_key = {task.key: store.result(task.key, sweep.spec) for task in tasks}
    outcome = SweepOutcome(reused=sum(by_key[task.key] is not None for task in tasks))
    advance(outcome.reused)
    missing = {task.key: task for task in tasks if by_key[task.key] is None}
    orders = [Order(task.number, task.variant, task.seed) for task in missing.values()]
    keys = {task.number: key for key, task in missing.items()}
    failed: dict[str, str] = {}
    if orders:
        variants = {order.variant: sweep.variants[order.variant] for order in orders}
        work = Work(sweep.inputs, sweep.spec, variants)
        for order, result in engine(work, orders):
            key = keys[order.number]
            if isinstance(result, RunFailure):
                failed[key] = result.message
            else:
                store.keep(key, result)
                by_key[key] = result
            advance(1)
    for task in tasks:
        kept = by_key[task.key]
        if kept is None:
            outcome.failures.append((task, failed[task.key]))
        else:
            outcome.results.append((task, kept))
    return outcome
