"""What goes into the runs of an experiment: cluster, pods, and the tables of their order.

Everything is read once, by the process that starts the runs; workers get it as it is.
"""

from __future__ import annotations

import csv
import io
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from policy_sched.errors import Diagnostic, PolicySchedError, Severity
from policy_sched.experiments.devices import with_devices
from policy_sched.experiments.reading import Loaded
from policy_sched.manifests import decode_object, fill_in, load, with_claims
from policy_sched.model import DURATION_ANNOTATION, ApiObject, Node, Pod
from policy_sched.profiles.models import BAD_VALUE, WRONG_TYPE, Path, did_you_mean
from policy_sched.simulate import (
    ExpansionError,
    expand,
    generated_nodes,
    is_trace,
    load_traces,
    waits,
)
from policy_sched.source import decode_text, read_bytes

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""Second 0 of a table."""
SEED: Final = "${seed}"
_MOST: Final = 100_000_000


@dataclass(frozen=True, slots=True)
class Inputs:
    """The objects of an experiment, and its tables.

    ``cluster``: everything that is there before the first pod, nodes in the order of the files.
    ``pods`` arrive; ``others`` come with them (claims, pod groups). ``arrivals`` and ``ranks`` are
    numbers of pods and of nodes, by column.
    """

    cluster: tuple[ApiObject, ...]
    pods: tuple[Pod, ...]
    others: tuple[ApiObject, ...] = ()
    arrivals: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    ranks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Table:
    """A CSV file: its path, its header, and its rows."""

    file: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def column(self, name: str) -> tuple[str, ...]:
        """Return the cells of a column."""
        place = self.columns.index(name)
        return tuple(row[place] for row in self.rows)


def read_inputs(loaded: Loaded, seeds: Sequence[int]) -> Inputs | None:
    """Read the files of an experiment; None if something is wrong, which is added to its problems.

    ``seeds``: those for which the tables have columns.
    """
    before = len(loaded.diagnostics)
    spec = loaded.spec
    cluster = _objects(loaded, spec.cluster.files, ("spec", "cluster", "files"))
    try:
        cluster = [*generated_nodes(spec.cluster.generate), *cluster]
    except PolicySchedError as error:
        text = str(error).removeprefix("--nodes ")
        loaded.problem(("spec", "cluster", "generate"), BAD_VALUE, text)
    workload = _objects(loaded, spec.workload.files, ("spec", "workload", "files"))
    workload += _of_rows(loaded)
    cluster = with_devices(loaded, cluster)
    nodes = [one for one in cluster if isinstance(one, Node)]
    cluster += [one for one in workload if isinstance(one, Pod) and not waits(one)]
    pods = [one for one in workload if isinstance(one, Pod) and waits(one)]
    others = [one for one in workload if not isinstance(one, Pod)]
    if any(isinstance(one, Node) for one in others):
        at: Path = ("spec", "workload", "files")
        loaded.problem(at, BAD_VALUE, "there are nodes among the pods", "cluster.files has nodes")
    arrivals, tie = spec.workload.arrivals, spec.tie_break
    orders: Mapping[str, tuple[int, ...]] = {}
    ranks: Mapping[str, tuple[int, ...]] = {}
    if arrivals is not None and arrivals.file is not None:
        at = ("spec", "workload", "arrivals")
        orders = _orders(loaded, arrivals.file, arrivals.column, at, seeds, len(pods))
    if tie.file is not None:
        ranks = _orders(loaded, tie.file, tie.column, ("spec", "tieBreak"), seeds, len(nodes))
        for column, found in ranks.items():
            if sorted(found) != list(range(len(nodes))):
                message = f"column {column} does not have every node once"
                loaded.problem(("spec", "tieBreak", "file"), BAD_VALUE, message)
    said = {one.severity for one in loaded.diagnostics[before:]}
    if Severity.ERROR in said:
        return None
    missing = Severity.WARNING in said
    if not missing and not nodes:
        loaded.problem(("spec", "cluster"), BAD_VALUE, "no node is in the files", on_key=True)
    if not missing and not pods:
        hint = "pods with spec.nodeName are there already"
        loaded.problem(
            ("spec", "workload"), BAD_VALUE, "no pod waits for a node", hint, on_key=True
        )
    if not nodes or not pods:
        return None
    return Inputs(tuple(cluster), tuple(pods), tuple(others), orders, ranks)


def computed_params(loaded: Loaded) -> dict[str, dict[str, Any]]:
    """Return the parameters of policies that come from tables, by policy and name."""
    found: dict[str, dict[str, Any]] = {}
    for i, one in enumerate(loaded.spec.computed):
        at: Path = ("spec", "computed", i)
        table = read_table(loaded, one.file, (*at, "file"))
        if table is None or not _has_columns(loaded, table, one.by, (*at, "by")):
            continue
        columns = [table.column(name) for name in one.by]
        counts = Counter(zip(*columns, strict=True))
        value = _groups(counts, one.by, one.cover)
        found.setdefault(one.policy, {})[one.param] = value
    return found


def _groups(
    counts: Counter[tuple[str, ...]], by: Sequence[str], cover: float
) -> list[dict[str, Any]]:
    """Return the kinds of rows that cover enough of them, the most frequent first."""
    whole = counts.total()
    kinds = [(count, tuple(_number(cell) for cell in cells)) for cells, count in counts.items()]
    kinds.sort(key=lambda one: tuple(map(_sortable, (one[0], *one[1]))), reverse=True)
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
    return int(cell) if cell.removeprefix("-").isdecimal() else cell


def _sortable(value: int | str) -> tuple[int, int, str]:
    return (0, value, "") if isinstance(value, int) else (1, 0, value)


def read_table(loaded: Loaded, reference: str, path: Path) -> Table | None:
    """Read a CSV file that the experiment names; None if something is wrong with it."""
    file = loaded.file(reference, path)
    if file is None:
        return None
    try:
        text = decode_text(file, read_bytes(file))
    except (OSError, EOFError, zlib.error) as error:
        loaded.problem(path, BAD_VALUE, f"{reference} cannot be read: {error}")
        return None
    if isinstance(text, Diagnostic):
        loaded.diagnostics.append(text)
        return None
    rows = [tuple(row) for row in csv.reader(io.StringIO(text)) if row]
    if not rows:
        loaded.problem(path, BAD_VALUE, f"{reference} is empty", "the first line is a header")
        return None
    for i, row in enumerate(rows):
        if len(row) != len(rows[0]):
            message = f"{len(row)} cells, where the header has {len(rows[0])}"
            loaded.diagnostics.append(Diagnostic(file, i + 1, 1, WRONG_TYPE, message))
            return None
    return Table(file, rows[0], tuple(rows[1:]))


def _has_columns(loaded: Loaded, table: Table, names: Sequence[str], path: Path) -> bool:
    missing = [(i, name) for i, name in enumerate(names) if name not in table.columns]
    for i, name in missing:
        known = ", ".join(table.columns)
        hint = did_you_mean(name, table.columns) or f"columns: {known}"
        loaded.problem((*path, i) if len(names) > 1 else path, BAD_VALUE, f"no column {name}", hint)
    return not missing


def _orders(
    loaded: Loaded, reference: str, column: str, at: Path, seeds: Sequence[int], count: int
) -> dict[str, tuple[int, ...]]:
    """Return the numbers in the columns that the seeds need."""
    table = read_table(loaded, reference, (*at, "file"))
    if table is None:
        return {}
    found: dict[str, tuple[int, ...]] = {}
    for name in dict.fromkeys(column.replace(SEED, str(seed)) for seed in seeds):
        if not _has_columns(loaded, table, [name], (*at, "column")):
            continue
        cells = table.column(name)
        end = next((i for i, cell in enumerate(cells) if not cell.strip()), len(cells))
        wrong = next((i for i, cell in enumerate(cells[:end]) if not _is_below(cell, count)), None)
        if wrong is not None:
            message = f'column {name}: "{cells[wrong]}" is not a whole number below {count}'
            loaded.diagnostics.append(Diagnostic(table.file, wrong + 2, 1, BAD_VALUE, message))
            continue
        found[name] = tuple(map(int, cells[:end]))
    return found


def _is_below(cell: str, count: int) -> bool:
    return cell.isascii() and cell.isdecimal() and len(cell) < 12 and int(cell) < count


def _objects(loaded: Loaded, references: Sequence[str], at: Path) -> list[ApiObject]:
    """Return the objects of files, workloads expanded."""
    found = [loaded.file(one, (*at, i)) for i, one in enumerate(references)]
    paths = [one for one in found if one is not None]
    loaded.data[str(at[1])] = paths
    traces = load_traces(path for path in paths if is_trace(path))
    manifests = load([path for path in paths if not is_trace(path)])
    loaded.diagnostics += [*manifests.diagnostics, *traces.diagnostics]
    objects = [*manifests.objects, *traces.objects]
    try:
        return with_claims(expand(objects))
    except ExpansionError as error:
        loaded.problem(at, BAD_VALUE, str(error))
        return []


# Pods of rows.


def _of_rows(loaded: Loaded) -> list[ApiObject]:
    """Return the pods of `rows`; what is wrong with the first bad one is a problem."""
    rows = loaded.spec.workload.rows
    at: Path = ("spec", "workload", "rows")
    if rows is None:
        return []
    table = read_table(loaded, rows.file, (*at, "file"))
    if table is None:
        return []
    loaded.data["rows"] = [table.file]
    times = {"submit": rows.submit, "duration": rows.duration}
    for key, name in times.items():
        if name is not None and not _has_columns(loaded, table, [name], (*at, key)):
            return []
    names = _row_names(rows.pod)
    unknown = sorted(names.difference((*table.columns, "number")))
    for name in unknown:
        hint = did_you_mean(name, table.columns) or f"columns: {', '.join(table.columns)}, number"
        loaded.problem((*at, "pod"), BAD_VALUE, f"no column {name}", hint, on_key=True)
    if unknown:
        return []
    found: list[ApiObject] = []
    for number, row in enumerate(table.rows):
        cells = dict(zip(table.columns, row, strict=True))
        pod = _pod_of(loaded, cells, number, at)
        if pod is None:
            return []
        found.append(pod)
    return found


def _row_names(value: Any) -> set[str]:
    if isinstance(value, dict):
        return {name for one in value.items() for part in one for name in _row_names(part)}
    if isinstance(value, list):
        return {name for one in value for name in _row_names(one)}
    parts = value.split("${row.")[1:] if isinstance(value, str) else []
    return {part.partition("}")[0] for part in parts}


def _pod_of(loaded: Loaded, cells: Mapping[str, str], number: int, at: Path) -> Pod | None:
    rows = loaded.spec.workload.rows
    assert rows is not None, "the caller has them"
    value = {"apiVersion": "v1", "kind": "Pod", **_with_cells(rows.pod, cells, number)}
    problems: list[str] = []
    pod = decode_object(
        value, lambda path, _code, message, _hint: problems.append(f"{_dotted(path)}{message}")
    )
    line = f"row {number + 1} of {rows.file}"
    if problems or not isinstance(pod, Pod):
        message = f"{line}: {problems[0] if problems else 'this is no pod'}"
        loaded.problem((*at, "pod"), BAD_VALUE, message, on_key=True)
        return None
    fill_in(pod)
    seconds: dict[str, float] = {}
    for key, column in (("submit", rows.submit), ("duration", rows.duration)):
        if column is None:
            continue
        try:
            seconds[key] = float(cells[column])
        except ValueError:
            seconds[key] = -1
        if not 0 <= seconds[key] < _MOST:
            message = f'{line}: "{cells[column]}" is no number of seconds'
            loaded.problem((*at, key), BAD_VALUE, message)
            return None
    return _timed(pod, seconds)


def _timed(pod: Pod, seconds: Mapping[str, float]) -> Pod:
    metadata = pod.metadata
    if "submit" in seconds:
        created = START + timedelta(seconds=seconds["submit"])
        metadata = msgspec.structs.replace(metadata, creation_timestamp=created)
    if "duration" in seconds:
        annotations = {**metadata.annotations, DURATION_ANNOTATION: f"{seconds['duration']:g}s"}
        if seconds["duration"] == int(seconds["duration"]):
            annotations[DURATION_ANNOTATION] = f"{int(seconds['duration'])}s"
        metadata = msgspec.structs.replace(metadata, annotations=annotations)
    return msgspec.structs.replace(pod, metadata=metadata)


def _dotted(path: Sequence[str | int]) -> str:
    text = ".".join(map(str, path))
    return f"{text}: " if text else ""


def _with_cells(value: Any, cells: Mapping[str, str], number: int) -> Any:
    if isinstance(value, dict):
        return {key: _with_cells(one, cells, number) for key, one in value.items()}
    if isinstance(value, list):
        return [_with_cells(one, cells, number) for one in value]
    if not isinstance(value, str) or "${row." not in value:
        return value
    text = value.replace("${row.number}", str(number))
    for name in _row_names(text):
        text = text.replace(f"${{row.{name}}}", cells[name])
    return text


def without_departure(pod: Pod) -> Pod:
    """Return a pod that never leaves."""
    if DURATION_ANNOTATION not in pod.metadata.annotations:
        return pod
    kept = {k: v for k, v in pod.metadata.annotations.items() if k != DURATION_ANNOTATION}
    metadata = msgspec.structs.replace(pod.metadata, annotations=kept)
    return msgspec.structs.replace(pod, metadata=metadata)


def renamed(pod: Pod, suffix: str) -> Pod:
    """Return a pod of another name."""
    metadata = msgspec.structs.replace(pod.metadata, name=f"{pod.metadata.name}{suffix}", uid="")
    return msgspec.structs.replace(pod, metadata=metadata)


def ranked(inputs: Inputs, column: str) -> Inputs:
    """Return the inputs with their nodes in the order of a table's column."""
    ranks = inputs.ranks.get(column)
    if ranks is None:
        return inputs
    nodes = [one for one in inputs.cluster if isinstance(one, Node)]
    rest = [one for one in inputs.cluster if not isinstance(one, Node)]
    return replace(inputs, cluster=(*(nodes[i] for i in ranks), *rest))


def each_seed(loaded: Loaded) -> tuple[int, ...]:
    """Return the seeds of an experiment."""
    seeds = loaded.spec.seeds
    if isinstance(seeds, tuple):
        return seeds
    return tuple(range(seeds.first, seeds.first + seeds.count))
