"""Reads published traces: each row becomes nodes or pods.

OpenB (Alibaba, 2023): a node has cpu, memory and GPUs, and 1001 pod slots. GPUs are counted in
thousandths, as pods may request a part of one; that the parts of a pod are on one device is
simulated only where an experiment counts devices. A pod's annotations tell how many devices it
wants and how much of each. It ran from its scheduled time to its deletion; one that was never
scheduled runs from its creation.
Philly (Microsoft, 2017): a job has workers of up to eight GPUs each; several workers are a pod
group that needs all of them, if the policies schedule groups. A virtual cluster is a namespace.
The trace has no requests of cpu and memory.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from policy_sched import model
from policy_sched.errors import Diagnostic, PolicySchedError
from policy_sched.source import decode_text, read_bytes

EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""The time of second 0 of a trace."""

GPU_MILLI: Final = "alibabacloud.com/gpu-milli"
GPU_COUNT: Final = "alibabacloud.com/gpu-count"
GPU_MODEL: Final = "alibabacloud.com/gpu-card-model"
GPU: Final = "nvidia.com/gpu"
WORKER_GPUS: Final = 8
"""The GPUs of Philly's larger machines: a job with more runs on several machines."""
POD_SLOTS: Final = 1001
"""The pod slots of every node in the simulator of OpenB's authors."""

MOST_OBJECTS: Final = 500_000
"""Nodes and pods of all tables."""
MOST_GPUS: Final = 100_000
"""GPUs of a job, or of a node."""
_FOREVER: Final = 10**10
"""Seconds beyond any trace; datetime ends at 2.5e11."""


class BadCellError(Exception):
    """Invalid cells of a row: column indexes with messages."""

    def __init__(self, problems: Sequence[tuple[int, str]]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(message for _, message in problems))


class _Cells:
    """Reads the cells of one row and collects the problems."""

    def __init__(self, cells: Sequence[str]) -> None:
        self._cells = cells
        self.problems: list[tuple[int, str]] = []

    def number(self, column: int, *, least: int = 0, most: int = _FOREVER) -> int:
        """Return a whole number; ``least`` if the cell has none."""
        text = self._cells[column]
        if text.isdecimal() and text.isascii():
            value = int(text if len(text) <= 20 else text.lstrip("0")[:20])
            if least <= value <= most:
                return value
        limits = f"from {least} to {most}" if most < _FOREVER else f"of at least {least}"
        self.problems.append((column, f"{text!r} is not a whole number {limits}"))
        return least

    def name(self, column: int) -> str:
        """Return text that is not empty."""
        text = self._cells[column]
        if not text:
            self.problems.append((column, "a name is missing"))
        return text

    def check(self) -> None:
        """Raise BadCellError if there was a problem."""
        if self.problems:
            raise BadCellError(self.problems)


def openb_node(_number: int, row: Sequence[str]) -> Iterator[model.ApiObject]:
    """Yield the node of a row: sn,cpu_milli,memory_mib,gpu,model."""
    cells = _Cells(row)
    name, cpu, memory, gpus = cells.name(0), cells.number(1), cells.number(2), cells.number(3)
    cells.check()
    amounts = {"cpu": f"{cpu}m", "memory": f"{memory}Mi", "pods": str(POD_SLOTS)}
    labels = {"kubernetes.io/hostname": name}
    if gpus:
        amounts[GPU_MILLI] = str(gpus * 1000)
    if row[4]:
        labels[GPU_MODEL] = row[4]
    yield node_of(name, amounts, labels)


def openb_pod(_number: int, row: Sequence[str]) -> Iterator[model.ApiObject]:
    """Yield the pod of a row of the pod list with times.

    Columns: name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,
    deletion_time,scheduled_time.
    """
    cells = _Cells(row)
    name, spec, annotations = _openb(cells, row)
    created = cells.number(8)
    deleted = cells.number(9, least=created)
    began = cells.number(10, least=created, most=max(created, deleted)) if row[10] else created
    cells.check()
    metadata = model.ObjectMeta(
        name=name,
        namespace="default",
        labels={"qos": row[6]} if row[6] else {},
        annotations={**annotations, model.DURATION_ANNOTATION: f"{deleted - began}s"},
        creation_timestamp=EPOCH + timedelta(seconds=created),
    )
    yield model.Pod(api_version="v1", kind="Pod", metadata=metadata, spec=spec)


def openb_timeless_pod(_number: int, row: Sequence[str]) -> Iterator[model.ApiObject]:
    """Yield the pod of a row without times: name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec.

    It has no time of arrival; once it runs it stays.
    """
    cells = _Cells(row)
    name, spec, annotations = _openb(cells, row)
    cells.check()
    metadata = model.ObjectMeta(name=name, namespace="default", annotations=annotations)
    yield model.Pod(api_version="v1", kind="Pod", metadata=metadata, spec=spec)


def _openb(cells: _Cells, row: Sequence[str]) -> tuple[str, model.PodSpec, dict[str, str]]:
    """Return name, spec and annotations of a pod."""
    name, cpu, memory, gpus = cells.name(0), cells.number(1), cells.number(2), cells.number(3)
    share = cells.number(4, most=1000) if gpus else 0
    milli = ((GPU_MILLI, str(gpus * share)),) if gpus else ()
    spec = _spec(("cpu", f"{cpu}m"), ("memory", f"{memory}Mi"), *milli)
    if row[5]:
        wanted = model.NodeSelectorRequirement(
            key=GPU_MODEL, operator="In", values=tuple(row[5].split("|"))
        )
        terms = model.NodeSelector(
            node_selector_terms=(model.NodeSelectorTerm(match_expressions=(wanted,)),)
        )
        spec = replace(
            spec, affinity=model.Affinity(node_affinity=model.NodeAffinity(required=terms))
        )
    return name, spec, {GPU_COUNT: str(gpus), GPU_MILLI: str(share)}


@lru_cache(maxsize=4096)
def _spec(*requests: tuple[str, str]) -> model.PodSpec:
    """Return the spec of pods with one container, which share it."""
    resources = model.ResourceRequirements(requests=dict(requests))
    return model.PodSpec(containers=(model.ContainerSpec(name="main", resources=resources),))


def philly_job(index: int, row: Sequence[str]) -> Iterator[model.ApiObject]:
    """Yield the workers of a job: submit_s,duration_s,num_gpus,vc."""
    cells = _Cells(row)
    submitted, duration = cells.number(0), cells.number(1)
    gpus, cluster = cells.number(2, least=1, most=MOST_GPUS), cells.name(3)
    cells.check()
    job = f"job-{index:06d}"
    workers = -(-gpus // WORKER_GPUS)
    owner = model.OwnerReference(api_version="batch/v1", kind="Job", name=job, controller=True)
    created = EPOCH + timedelta(seconds=submitted)
    if workers > 1:
        yield _gang(job, cluster, workers)
    for worker in range(workers):
        spec = _spec((GPU, str(gpus // workers + (worker < gpus % workers))))
        if workers > 1:
            spec = replace(spec, scheduling_group=model.SchedulingGroup(pod_group_name=job))
        metadata = model.ObjectMeta(
            name=f"{job}-{worker}",
            namespace=cluster,
            labels={"job-name": job},
            annotations={model.DURATION_ANNOTATION: f"{duration}s"},
            creation_timestamp=created,
            owner_references=(owner,),
        )
        yield model.Pod(api_version="v1", kind="Pod", metadata=metadata, spec=spec)


def _gang(name: str, namespace: str, workers: int) -> model.PodGroup:
    """Return the pod group of a job whose workers run together or not at all."""
    metadata = {"name": name, "namespace": namespace}
    policy = {"gang": {"minCount": workers}}
    group = {"metadata": metadata, "spec": {"schedulingPolicy": policy}}
    return msgspec.convert(
        {"apiVersion": model.SCHEDULING_VERSION, "kind": "PodGroup", **group}, model.PodGroup
    )


def node_of(name: str, amounts: dict[str, str], labels: dict[str, str]) -> model.Node:
    """Return a node with allocatable amounts."""
    return msgspec.convert(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "status": {
                "allocatable": amounts,
                "capacity": amounts,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        },
        model.Node,
    )


SUFFIXES: Final = (".csv", ".csv.gz")
UNREADABLE: Final = "PS701"
WRONG_SHAPE: Final = "PS703"
UNKNOWN_TABLE: Final = "PS706"
BAD_VALUE: Final = "PS707"
DUPLICATE: Final = "PS708"

Row = Callable[[int, Sequence[str]], Iterable[model.ApiObject]]
"""Converts the number of a row, counted from 0, and its cells to objects."""

TABLES: Final[dict[str, Row]] = {
    "sn,cpu_milli,memory_mib,gpu,model": openb_node,
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
    "creation_time,deletion_time,scheduled_time": openb_pod,
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec": openb_timeless_pod,
    "submit_s,duration_s,num_gpus,vc": philly_job,
}


@dataclass(slots=True)
class Traces:
    """The objects of some tables, in their order, and every problem."""

    objects: list[model.ApiObject] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)


def is_trace(path: str) -> bool:
    """Return whether a path names a table rather than manifests."""
    return path.endswith(SUFFIXES)


def load_traces(paths: Iterable[str]) -> Traces:
    """Read tables; an object may occur only once in those of one kind."""
    traces = Traces()
    seen: _Seen = {}
    for path in paths:
        text = _text(path, traces.diagnostics)
        if text is not None:
            _read(path, text.splitlines(), traces, seen)
    return traces


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


_Seen: TypeAlias = dict[tuple[str, str, str], tuple[str, int]]
"""By kind, namespace and name of an object: the file and the number of its first row."""


def _read(path: str, lines: Sequence[str], traces: Traces, seen: _Seen) -> None:
    header = lines[0].strip() if lines else ""
    table = TABLES.get(header)
    if table is None:
        hint = "known headers: " + "; ".join(TABLES)
        message = "the first line is not the header of a known trace"
        source = lines[0] if lines else ""
        traces.diagnostics.append(
            Diagnostic(path, 1, 1, UNKNOWN_TABLE, message, hint, source_line=source)
        )
        return
    columns = header.split(",")
    for index, line in enumerate(lines[1:]):
        cells = line.split(",")
        row = _TraceRow(path, index + 2, line, cells)
        if len(cells) != len(columns):
            message = f"{len(cells)} cells, where the header has {len(columns)}"
            traces.diagnostics.append(row.diagnostic(0, WRONG_SHAPE, message))
            continue
        try:
            objects = list(table(index, cells))
        except BadCellError as error:
            traces.diagnostics += [
                row.diagnostic(column, BAD_VALUE, f"{columns[column]}: {message}")
                for column, message in error.problems
            ]
            continue
        if len(traces.objects) + len(objects) > MOST_OBJECTS:
            message = f"the tables make more than {MOST_OBJECTS:,} objects"
            traces.diagnostics.append(row.diagnostic(0, BAD_VALUE, message, "take a part"))
            return
        for obj in objects:
            metadata = obj.metadata
            key = type(obj).__name__, metadata.namespace, metadata.name
            first = seen.setdefault(key, (path, index))
            if first == (path, index):
                traces.objects.append(obj)
            else:
                hint = f"the first one is at {first[0]}:{first[1] + 2}"
                message = f"duplicate {key[0]} {key[2]}"
                traces.diagnostics.append(row.diagnostic(0, DUPLICATE, message, hint))


class _TraceRow(msgspec.Struct, frozen=True):
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


MOST_NODES: Final = 100_000
"""Nodes that are made; Kubernetes supports 5,000 in a cluster."""
DEFAULT_PODS: Final = "110"
"""Pods of a node unless given: the kubelet's default."""
_FORM: Final = re.compile(r"([0-9]{1,7})\*([^=,]+=[^=,]+(?:,[^=,]+=[^=,]+)*)")


def generated_nodes(texts: Sequence[str]) -> Iterator[model.Node]:
    """Yield the nodes of all texts, numbered through: node-0001, node-0002, ...

    Raises PolicySchedError, before it makes any, if a text is not a number, "*" and
    resource=quantity pairs, or if these are more than `MOST_NODES`.
    """
    kinds = [_parsed(text) for text in texts]
    total = sum(count for count, _ in kinds)
    if total > MOST_NODES:
        raise PolicySchedError(f"--nodes {total:,} nodes are more than {MOST_NODES:,}")
    number = 0
    for count, amounts in kinds:
        for _ in range(count):
            number += 1
            name = f"node-{number:04d}"
            yield node_of(name, amounts, {"kubernetes.io/hostname": name})


def _parsed(text: str) -> tuple[int, dict[str, str]]:
    match = _FORM.fullmatch(text)
    if match is None:
        raise PolicySchedError(
            f'--nodes "{text}": write a number, "*" and amounts, as in "10*cpu=4,memory=32Gi"'
        )
    amounts: dict[str, str] = {}
    for part in match[2].split(","):
        name, _, amount = part.partition("=")
        if name in amounts:
            raise PolicySchedError(f'--nodes "{text}": {name} is stated twice')
        try:
            negative = model.parse(amount).sign() < 0
        except ValueError as error:
            raise PolicySchedError(f'--nodes "{text}": {part!r}: {error}') from None
        if negative:
            raise PolicySchedError(f'--nodes "{text}": {part!r} is negative')
        amounts[name] = amount
    return int(match[1]), {"pods": DEFAULT_PODS, **amounts}
