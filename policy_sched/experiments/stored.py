"""Results that lie in a folder: the experiment that made them, and every run.

The tables of a folder have the runs in the experiment's order; the files of the runs have their
curves. What was measured is in `FILE`.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from pydantic import ValidationError

from policy_sched.errors import PolicySchedError
from policy_sched.experiments.limits import MAX_RUNS
from policy_sched.experiments.report import SweepReport
from policy_sched.experiments.results import Store, write
from policy_sched.experiments.sweep import AsRun, Sweep, Task
from policy_sched.profiles.models import ExperimentSpec
from policy_sched.source import MAX_BYTES, read_bytes

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
        inside = sorted(one for one in path.iterdir() if one.is_dir())[:MOST]
    except OSError as error:
        raise PolicySchedError(f"{path}: {error.strerror}") from None
    return [one for one in inside if (one / FILE).is_file()]


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
    store = Store(folder)
    results, failures, left = [], [], MAX_BYTES
    for task in tasks:
        left -= store.size(task.key)
        found = store.known(task.key, spec) if left >= 0 else None
        if found is None:
            broken = "its file is not there, or broken"
            failures.append((task, broken if left >= 0 else _TOO_MUCH))
        else:
            results.append((task, found))
    return SweepReport(name, spec, results, failures, str(folder), as_run=as_run)


def _tasks(rows: Iterator[Mapping[str, Any]], spec: ExperimentSpec) -> Iterator[Task]:
    known = {"variant", "seed", "key", *(measure.name for measure in spec.measures)}
    for number, row in enumerate(rows):
        key = row["key"]
        if not key.isalnum() or None in row or None in row.values() or number == MAX_RUNS:
            raise ValueError(key)
        axes = {name: value for name, value in row.items() if name not in known}
        yield Task(number, row["variant"], axes, int(row["seed"]), key)
