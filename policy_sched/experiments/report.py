"""The report of a sweep, as text and as plain data; also of a folder of results.

The tables of a folder have the runs in the experiment's order; the files of the runs have their
curves. What was measured is in `FILE`.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from pydantic import ValidationError

from policy_sched.errors import PolicySchedError
from policy_sched.experiments.reading import MAX_RUNS
from policy_sched.experiments.results import (
    Results,
    ResultStore,
    by_variant,
    comparisons,
    values_of,
    write,
)
from policy_sched.experiments.statistics import (
    ENOUGH,
    distribution,
    named,
    number_text,
    seeds_to_tell,
    signed,
    told,
    verdict_text,
)
from policy_sched.experiments.sweep import AsRun, Sweep, Task
from policy_sched.model import counted
from policy_sched.profiles.models import ExperimentSpec
from policy_sched.report import Document, table
from policy_sched.source import MAX_BYTES, read_bytes


@dataclass(frozen=True, slots=True)
class SweepReport:
    """The results of an experiment, and the runs that have none.

    ``as_run`` is None if it is not known.
    """

    name: str
    spec: ExperimentSpec
    results: Results
    failures: Sequence[tuple[Task, str]]
    folder: str
    """Folder of the tables."""
    reused: int = 0
    """Number of results from earlier sweeps."""
    as_run: AsRun | None = None

    def text_lines(self) -> Iterator[str]:
        """Yield the report as text."""
        variants = by_variant(self.results)
        runs = counted(len(self.results), "run")
        yield f"{self.name}: {runs} of {counted(len(variants), 'variant')}"
        if self.results:
            yield ""
            yield from self._means()
            yield from self._comparisons()
        if self.failures:
            yield ""
            yield f"{counted(len(self.failures), 'run')} without a result:"
            yield from (f"  {task.variant}, seed {task.seed}: {why}" for task, why in self.failures)
        yield ""
        yield f"tables are in {self.folder}"

    def _means(self) -> Iterator[str]:
        rows = [["VARIANT", "MEASURE", "RUNS", "MEAN", "MEDIAN", "25 %", "75 %"]]
        for variant, runs in by_variant(self.results).items():
            for measure in self.spec.measures:
                values = values_of(runs, measure.name)
                if values:
                    spread = distribution(values)
                    shown = (spread.mean, spread.median, spread.p25, spread.p75)
                    rows.append(
                        [variant, named(measure), str(spread.count), *map(number_text, shown)]
                    )
        yield from table(rows, range(2, 7))

    def _comparisons(self) -> Iterator[str]:
        rows = [["VARIANT", "MEASURE", "DIFFERENCE", "95 % INTERVAL", ""]]
        compared = list(comparisons(self.spec, self.results))
        for _, variant, name, pairs, comparison in compared:
            measure = next(candidate for candidate in self.spec.measures if candidate.name == name)
            interval = comparison.difference
            rows.append(
                [
                    variant,
                    named(measure),
                    signed(interval.mean),
                    f"{signed(interval.low)} .. {signed(interval.high)}",
                    verdict_text(comparison, measure, pairs),
                ]
            )
        if compared:
            first = compared[0][0]
            yield ""
            yield f"Differences from {first}, over equal seeds:"
            yield from table(rows, range(2, 4))
            yield ""
            yield told(first, [(pairs, comparison) for *_, pairs, comparison in compared])

    def document(self) -> Document:
        """Return the report as plain data."""
        compared = list(comparisons(self.spec, self.results))
        return {
            "name": self.name,
            "runs": len(self.results),
            "summary": [
                {
                    "variant": variant,
                    "measure": measure.name,
                    **msgspec.to_builtins(distribution(values)),
                }
                for variant, runs in by_variant(self.results).items()
                for measure in self.spec.measures
                if (values := values_of(runs, measure.name))
            ],
            "comparison": [
                {
                    "baseline": first,
                    "variant": variant,
                    "measure": measure,
                    "pairs": pairs,
                    "difference": comparison.difference.mean,
                    "low": comparison.difference.low,
                    "high": comparison.difference.high,
                    "verdict": str(comparison.verdict),
                }
                for first, variant, measure, pairs, comparison in compared
            ],
            "seedsToTell": {"one": ENOUGH, "all": seeds_to_tell(max(1, len(compared)))},
            "failures": [
                {"variant": task.variant, "seed": task.seed, "message": why}
                for task, why in self.failures
            ],
        }


# Results that lie in a folder.

FILE: Final = "experiment.json"
RUNS: Final = "runs.csv"
MAX_TABLE: Final = 64 << 20
"""Bytes of each of these files."""
_TOO_MUCH: Final = f"the results before it have more than {MAX_BYTES >> 20} MiB"
MOST: Final = 200
"""Folders that are looked at for results."""


def keep_experiment(sweep: Sweep, as_run: AsRun, folder: Path) -> None:
    """Write what was run and measured beside the tables. Raises PolicySchedError."""
    spec = sweep.spec.model_dump(mode="json", by_alias=True)
    document = {"name": sweep.name, "spec": spec, "asRun": msgspec.to_builtins(as_run)}
    write(folder / FILE, (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode())


def folders_of_results(path: Path) -> list[Path]:
    """Return the folders with results at a path: itself, or those in it, sorted."""
    if (path / FILE).is_file():
        return [path]
    try:
        inside = sorted(child for child in path.iterdir() if child.is_dir())[:MOST]
    except OSError as error:
        raise PolicySchedError(f"{path}: {error.strerror}") from None
    return [child for child in inside if (child / FILE).is_file()]


def stored_report(folder: Path) -> SweepReport:
    """Return the report of a folder. Raises PolicySchedError if it cannot be read."""
    try:
        document = json.loads(read_bytes(folder / FILE, MAX_TABLE))
        spec = ExperimentSpec.model_validate(document["spec"])
        name = str(document["name"])
        kept = document.get("asRun")
        as_run = None if kept is None else msgspec.convert(kept, AsRun)
        rows = io.StringIO(read_bytes(folder / RUNS, MAX_TABLE).decode(), newline="")
        tasks = list(_tasks(csv.DictReader(rows), spec))
    except OSError as error:
        raise PolicySchedError(f"{error.filename}: {error.strerror}") from None
    except (
        AttributeError,
        ValueError,
        KeyError,
        TypeError,
        ValidationError,
        RecursionError,
        csv.Error,
        msgspec.ValidationError,
    ):
        raise PolicySchedError(f"{folder} holds no results that sweep has written") from None
    store = ResultStore(folder)
    results, failures, left = [], [], MAX_BYTES
    for task in tasks:
        left -= store.size(task.key)
        result = store.result(task.key, spec) if left >= 0 else None
        if result is None:
            broken = "its file is not there, or broken"
            failures.append((task, broken if left >= 0 else _TOO_MUCH))
        else:
            results.append((task, result))
    return SweepReport(name, spec, results, failures, str(folder), as_run=as_run)


def _tasks(rows: Iterator[Mapping[str, Any]], spec: ExperimentSpec) -> Iterator[Task]:
    columns = {"variant", "seed", "key", *(measure.name for measure in spec.measures)}
    for index, row in enumerate(rows):
        key = row["key"]
        if not key.isalnum() or None in row or None in row.values() or index == MAX_RUNS:
            raise ValueError(key)
        axes = {name: value for name, value in row.items() if name not in columns}
        yield Task(index, row["variant"], axes, int(row["seed"]), key)
