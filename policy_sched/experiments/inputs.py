"""The inputs of an experiment's runs: cluster, pods, and the tables of their order.

Everything is read once, by the process that starts the runs; workers get it as it is.

Devices of nodes may be counted one by one. A node has so much of a resource, in devices of one
size. Each device is a resource of the node as well, RESOURCE-0, RESOURCE-1 and so on, so that rules
read what is free of it as `node.free["RESOURCE-0"]`, and a change of it is a change of the node's
columns. Pods request the resource as a whole. When one is bound, the rule of a policy says how much
of each device it gets; from then on it counts there, as if an agent on the node had handed the
devices out. The rule sees the node as it was without the pod.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from policy_sched import simulate
from policy_sched.cluster.tables import NodeTable, PodTable
from policy_sched.errors import PolicyError, PolicySchedError, Severity
from policy_sched.experiments.measures import compiled_rule, source_of
from policy_sched.experiments.reading import (
    MAX_PODS,
    UNREADABLE,
    LoadedExperiment,
    check_work,
    rule_text,
)
from policy_sched.experiments.tables import has_columns, orders_of, read_table
from policy_sched.experiments.variants import CompiledVariant
from policy_sched.framework import Scope, Signature
from policy_sched.framework.evaluate import key_getter
from policy_sched.language import Expression
from policy_sched.language.runtime import Activation
from policy_sched.manifests import (
    NO_STRUCTS,
    Admission,
    Structs,
    decode_object,
    load,
    unknown_fields,
    with_claims,
)
from policy_sched.model import DURATION_ANNOTATION, ApiObject, Node, Pod, PodInfo, units
from policy_sched.profiles.check import selectors_of
from policy_sched.profiles.models import BAD_VALUE, DUPLICATE, CountedDevices, Path, did_you_mean
from policy_sched.recording import Recording
from policy_sched.scheduler import Scheduler

RULE: Final = "variables.devices"
MOST: Final = 1024
"""Devices of a node."""
_KEPT: Final = 4096
_CELL: Final = re.compile(r"\$\{row\.([^}]*)\}")
MAX_CELLS: Final = 1 << 26
"""Characters that cells of a table make in pods, all of them together."""


def with_devices(loaded: LoadedExperiment, objects: Sequence[ApiObject]) -> list[ApiObject]:
    """Return the objects, where nodes have each device as a resource, too."""
    devices = loaded.spec.cluster.devices
    if devices is None:
        return list(objects)
    split: list[ApiObject] = []
    for decoded in objects:
        if not isinstance(decoded, Node):
            split.append(decoded)
            continue
        count = _count(decoded, devices)
        if count is None:
            amount = decoded.status.allocatable.get(devices.resource)
            message = f"node {decoded.metadata.name} has {amount} of {devices.resource}"
            hint = f"at most {MOST} devices of {devices.size}"
            loaded.problem(("spec", "cluster", "devices"), BAD_VALUE, message, hint)
            return list(objects)
        named = {f"{devices.resource}-{i}": str(devices.size) for i in range(count)}
        status = replace(
            decoded.status,
            allocatable={**decoded.status.allocatable, **named},
            capacity={**decoded.status.capacity, **named},
        )
        split.append(replace(decoded, status=status))
    return split


def _count(node: Node, devices: CountedDevices) -> int | None:
    """Return how many devices a node has; None if that is no number of them."""
    amount = node.status.allocatable.get(devices.resource)
    count, rest = divmod(units(devices.resource, amount) if amount else 0, devices.size)
    return None if rest or count > MOST else count


def compiled_devices(loaded: LoadedExperiment, variant: CompiledVariant) -> Expression | None:
    """Return the rule of a variant that gives pods their devices; None if there is none.

    What is wrong is added to the problems of the experiment.
    """
    name, at = variant.changes.devices, variant.changes.devices_at
    if loaded.spec.cluster.devices is None:
        if name is not None:
            message = "no devices are counted"
            loaded.problem(at, BAD_VALUE, message, "cluster.devices says which")
        return None
    if name is None:
        message = f"nothing says which devices pods of {variant.name} get"
        policies = [
            key
            for key, policy in variant.policies.items()
            if any(variable.name == "devices" for variable in policy.variables)
        ]
        hint = (
            f"devices names a policy with a variable `devices`: {', '.join(policies) or 'none has'}"
        )
        loaded.problem(variant.changes.at, BAD_VALUE, message, hint)
        return None
    source = source_of(loaded, variant, name, at)
    if source is None:
        return None
    return compiled_rule(loaded, rule_text(loaded, at, RULE), source, "variants.devices")


@dataclass(slots=True)
class DeviceAgent:
    """Gives bound pods of a scheduler their devices."""

    scheduler: Scheduler
    resource: str
    rule: Expression
    taken: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """The devices of pods, by key."""
    _with: dict[tuple[int, tuple[int, ...]], _WithDevices] = field(default_factory=dict)
    _amounts: RuleValues = field(init=False)

    def __post_init__(self) -> None:
        """Bind the rule."""
        cache = self.scheduler.cache
        self._amounts = RuleValues(self.rule, cache.nodes, cache.pods)

    def give(self, pod: PodInfo, node: str) -> PodInfo:
        """Give a bound pod its devices; return the pod as it counts from then on.

        Raises PolicySchedError if the rule fails.
        """
        cache = self.scheduler.cache
        bound = cache.pod(pod.uid)
        if bound is not None:
            cache.remove_pod(bound)
        info = self.given(pod, node)
        cache.add_pod(info.on(node))
        return info

    def given(self, pod: PodInfo, node: str) -> PodInfo:
        """Choose the devices of a pod on a node that does not count it yet; return it with them.

        Raises PolicySchedError if the rule fails.
        """
        amounts, error = self._amounts(pod, self.scheduler.cache.nodes.row_of[node])
        if error or any(amount < 0 for amount in amounts):
            what = f"PS{error}" if error else f"{amounts} is below zero"
            raise PolicySchedError(f"no devices for pod {pod.key} on node {node}: {what}")
        self.taken[pod.key] = tuple([i for i, amount in enumerate(amounts) if amount])
        if not any(amounts):
            return pod
        shape = id(pod.pod.spec), tuple(amounts)
        kept = self._with.get(shape)
        if kept is not None and kept.without.pod.status == pod.pod.status:
            return kept.info.like(replace(pod.pod, spec=kept.info.pod.spec))
        given = {f"{self.resource}-{i}": str(amount) for i, amount in enumerate(amounts) if amount}
        info = _with_requests(pod, given)
        if len(self._with) >= _KEPT:
            self._with.clear()
        self._with[shape] = _WithDevices(pod, info)
        return info


class _WithDevices(NamedTuple):
    """A pod without and with its devices; others of the same spec differ in metadata alone."""

    without: PodInfo
    info: PodInfo


def _with_requests(pod: PodInfo, amounts: Mapping[str, str]) -> PodInfo:
    """Return a pod that requests more, in a container of its own."""
    spec = pod.pod.spec
    first = spec.containers[0]
    more = replace(
        first, name="devices", resources=replace(first.resources, requests=dict(amounts))
    )
    more = replace(more, ports=(), resources=replace(more.resources, limits={}))
    return PodInfo.of(replace(pod.pod, spec=replace(spec, containers=(*spec.containers, more))))


# Values of rules.

NO_CYCLE: Final = Activation()
_KEPT_VALUES: Final = 100_000


class RuleValues:
    """A rule over the tables of one cluster; the values that it returns are shared.

    Many pods of a trace are alike, and so are many nodes. What a rule returns follows from fields
    of the pod and columns of the row; the compiler says which. So it is evaluated once for each
    combination of their values, whatever pod and row have them.
    """

    def __init__(self, rule: Expression, nodes: NodeTable, pods: PodTable) -> None:
        self._evaluate = rule.bind(nodes, pods).scalar
        self._columns = None if rule.columns is None else [nodes.column(k) for k in rule.columns]
        self._of_pod = key_getter(Signature(rule.reads.pod, Scope.NODE))
        self._kept: dict[tuple[object, ...], tuple[Any, int]] = {}

    def __call__(self, pod: PodInfo, row: int) -> tuple[Any, int]:
        """Return the value and the error (0 for none) for a pod on a row."""
        columns = self._columns
        if columns is None:
            return self._evaluate(pod, NO_CYCLE, row)
        key = (self._of_pod(pod), *[column.view[row] for column in columns])
        value = self._kept.get(key)
        if value is None:
            if len(self._kept) >= _KEPT_VALUES:
                self._kept.clear()
            value = self._kept[key] = self._evaluate(pod, NO_CYCLE, row)
        return value


START: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""Second 0 of a table."""
_MOST: Final = 100_000_000


@dataclass(frozen=True, slots=True)
class Inputs:
    """The objects of an experiment, and its tables."""

    cluster: tuple[ApiObject, ...]
    """Everything that is there before the first pod, nodes in the order of the files."""
    pods: tuple[Pod, ...]
    """The arriving pods."""
    others: tuple[ApiObject, ...] = ()
    """Claims and pod groups of the pods."""
    arrivals: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Numbers of pods, by column."""
    ranks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Numbers of nodes, by column."""
    traffic: simulate.Traffic | None = None
    """What was recorded, in place of arriving pods."""


def read_inputs(
    loaded: LoadedExperiment, seeds: Sequence[int], custom: Structs = NO_STRUCTS
) -> Inputs | None:
    """Read the files of an experiment; None if something is wrong, which is added to its problems.

    ``seeds``: those for which the tables have columns. ``custom``: how kinds are decoded that the
    policies read.
    """
    before = len(loaded.diagnostics)
    spec = loaded.spec
    if spec.workload.recording is not None:
        return _of_recording(loaded, spec.workload.recording, custom)
    cluster = _objects(loaded, spec.cluster.files, ("spec", "cluster", "files"), custom)
    try:
        cluster = [*simulate.generated_nodes(spec.cluster.generate), *cluster]
    except PolicySchedError as error:
        text = str(error).removeprefix("--nodes ")
        loaded.problem(("spec", "cluster", "generate"), BAD_VALUE, text)
    workload = _objects(loaded, spec.workload.files, ("spec", "workload", "files"), custom, cluster)
    workload += _of_rows(loaded, Admission([*cluster, *workload]))
    cluster = with_devices(loaded, cluster)
    nodes = [node for node in cluster if isinstance(node, Node)]
    cluster += [pod for pod in workload if isinstance(pod, Pod) and not simulate.waits(pod)]
    pods = [pod for pod in workload if isinstance(pod, Pod) and simulate.waits(pod)]
    others = [other for other in workload if not isinstance(other, Pod)]
    if any(isinstance(other, Node) for other in others):
        at: Path = ("spec", "workload", "files")
        loaded.problem(at, BAD_VALUE, "there are nodes among the pods", "cluster.files has nodes")
    arrivals, tie = spec.workload.arrivals, spec.tie_break
    orders: Mapping[str, tuple[int, ...]] = {}
    ranks: Mapping[str, tuple[int, ...]] = {}
    if arrivals is not None and arrivals.file is not None:
        at = ("spec", "workload", "arrivals")
        orders = orders_of(loaded, arrivals.file, arrivals.column, at, seeds, len(pods))
    if tie.file is not None:
        ranks = orders_of(loaded, tie.file, tie.column, ("spec", "tieBreak"), seeds, len(nodes))
        for column, ranking in ranks.items():
            if sorted(ranking) != list(range(len(nodes))):
                message = f"column {column} does not have every node once"
                hint = f"a row for each of the {len(nodes)} nodes: its number, from 0"
                loaded.problem(("spec", "tieBreak", "file"), BAD_VALUE, message, hint)
    said = {diagnostic.severity for diagnostic in loaded.diagnostics[before:]}
    if Severity.ERROR in said:
        return None
    if Severity.WARNING not in said:
        _check_objects(loaded, nodes, pods)
    if loaded.sound:
        check_work(loaded, nodes, pods)
    if not nodes or not pods or not loaded.sound:
        return None
    return Inputs(tuple(cluster), tuple(pods), tuple(others), orders, ranks)


def _of_recording(loaded: LoadedExperiment, reference: str, custom: Structs) -> Inputs | None:
    """Return the inputs of a recording."""
    at: Path = ("spec", "workload", "recording")
    path = loaded.file(reference, at)
    if path is None or not loaded.sound:
        return None
    loaded.data["workload"] = [path]
    try:
        recording = Recording.open(path, custom)
        end = recording.ended + 1
        traffic = simulate.traffic_of(recording.events(), recording.began, end)
    except PolicyError as error:
        loaded.diagnostics += error.diagnostics
        return None
    except PolicySchedError as error:
        loaded.problem(at, BAD_VALUE, str(error))
        return None
    except OSError as error:
        loaded.problem(at, UNREADABLE, f"{reference}: {error.strerror}")
        return None
    for note in recording.notes:
        loaded.problem(at, BAD_VALUE, note)
        loaded.weaken()
    pods = [step.what for step in traffic.steps if step.kind is simulate.StepKind.ARRIVES]
    waiting = tuple(pod for pod in pods if isinstance(pod, Pod) and simulate.waits(pod))
    nodes = [thing for thing in traffic.objects if isinstance(thing, Node)]
    if not nodes or not waiting:
        message = "no pod of it waits for a node" if nodes else "it has no node at its beginning"
        loaded.problem(at, BAD_VALUE, message)
        return None
    check_work(loaded, nodes, waiting, traffic.end - traffic.start)
    return Inputs(traffic.objects, waiting, traffic=traffic) if loaded.sound else None


def _check_objects(loaded: LoadedExperiment, nodes: Sequence[Node], pods: Sequence[Pod]) -> None:
    """Check that there are nodes and pods, each once, and the resources that are named."""
    spec = loaded.spec
    if not nodes:
        hint = 'generate: ["10*cpu=4,memory=32Gi"] makes some'
        loaded.problem(("spec", "cluster"), BAD_VALUE, "no node is in the files", hint, on_key=True)
    if not pods:
        hint = "pods with spec.nodeName are there already"
        loaded.problem(
            ("spec", "workload"), BAD_VALUE, "no pod waits for a node", hint, on_key=True
        )
    for what, objects, key in (("nodes", nodes, "cluster"), ("pods", pods, "workload")):
        times = Counter((item.metadata.namespace, item.metadata.name) for item in objects)
        twice = next((name for name, count in times.items() if count > 1), None)
        if twice is not None:
            names = "/".join(filter(None, twice)) if what == "pods" else twice[1]
            message = f"{times[twice]} {what} are called {names}"
            at: Path = ("spec", key)
            hint = "names differ"
            if key == "workload" and spec.workload.rows is not None:
                at, hint = (*at, "rows", "pod"), "${row.number} makes names that differ"
            loaded.problem(at, DUPLICATE, message, hint, on_key=True)
    resources = sorted({name for node in nodes for name in node.status.allocatable})
    arrivals, curve = spec.workload.arrivals, spec.curve
    named: dict[Path, str | None] = {
        ("spec", "measures", i, "allocation"): measure.allocation
        for i, measure in enumerate(spec.measures)
    }
    named["spec", "curve", "arrived"] = None if curve is None else curve.arrived
    if arrivals is not None and arrivals.inflate is not None:
        at_inflate = ("spec", "workload", "arrivals", "inflate", "resource")
        named[at_inflate] = arrivals.inflate.resource
        if pods and not any(PodInfo.of(pod).requests.get(named[at_inflate] or "") for pod in pods):
            hint = "pods are drawn until they request enough of it"
            loaded.problem(at_inflate, BAD_VALUE, f"no pod requests {named[at_inflate]}", hint)
    for path, name in named.items():
        if name is not None and nodes and name not in resources:
            hint = did_you_mean(name, resources) or f"resources: {', '.join(resources)}"
            loaded.problem(
                path, BAD_VALUE, f"no node has {name or 'a resource without a name'}", hint
            )


def _objects(
    loaded: LoadedExperiment,
    references: Sequence[str],
    at: Path,
    custom: Structs,
    cluster: Sequence[ApiObject] = (),
) -> list[ApiObject]:
    """Return the objects of files, workloads expanded; ``cluster`` has classes for their pods."""
    resolved = [loaded.file(reference, (*at, i)) for i, reference in enumerate(references)]
    paths = [path for path in resolved if path is not None]
    loaded.data[str(at[1])] = paths
    traces = simulate.load_traces(path for path in paths if simulate.is_trace(path))
    files = [path for path in paths if not simulate.is_trace(path)]
    manifests = load(files, cluster=cluster, custom=custom)
    loaded.diagnostics += [*manifests.diagnostics, *selectors_of(manifests), *traces.diagnostics]
    objects = [*manifests.objects, *traces.objects]
    try:
        return with_claims(simulate.expand(objects, cluster))
    except simulate.ExpansionError as error:
        loaded.problem(at, BAD_VALUE, str(error))
        return []


# Pods of rows.


def _of_rows(loaded: LoadedExperiment, admission: Admission) -> list[ApiObject]:
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
        if name is not None and not has_columns(loaded, table, [name], (*at, key)):
            return []
    names = Counter(_row_names(rows.pod))
    unknown = sorted(names.keys() - {*table.columns, "number"})
    for name in unknown:
        hint = did_you_mean(name, table.columns) or f"columns: {', '.join(table.columns)}, number"
        loaded.problem((*at, "pod"), BAD_VALUE, f"no column {name}", hint, on_key=True)
    if unknown:
        return []
    if len(table.rows) > MAX_PODS:
        message = f"{rows.file}: {len(table.rows):,} rows are more than {MAX_PODS:,} pods"
        loaded.problem((*at, "file"), BAD_VALUE, message, "take a part of it")
        return []
    for path, code, message, hint in unknown_fields("v1", "Pod", rows.pod):
        loaded.problem((*at, "pod", *path), code, message, hint, on_key=True)
    pods: list[ApiObject] = []
    made = 0
    for index, row in enumerate(table.rows):
        cells = {**dict(zip(table.columns, row, strict=True)), "number": str(index)}
        made += sum(times * len(cells[name]) for name, times in names.items())
        if made > MAX_CELLS:
            message = (
                f"row {index + 1} of {rows.file}: cells make more than {MAX_CELLS:,} characters"
            )
            loaded.problem((*at, "pod"), BAD_VALUE, message, "name fewer columns", on_key=True)
            return []
        pod = _pod_of(loaded, cells, index, at, admission)
        if pod is None:
            return []
        pods.append(pod)
    return pods


def _row_names(value: Any) -> Iterator[str]:
    """Yield the columns of a row that are named, as often as they are."""
    if isinstance(value, dict):
        value = [part for entry in value.items() for part in entry]
    if isinstance(value, list):
        for item in value:
            yield from _row_names(item)
    elif isinstance(value, str):
        yield from _CELL.findall(value)


def _pod_of(
    loaded: LoadedExperiment, cells: Mapping[str, str], index: int, at: Path, admission: Admission
) -> Pod | None:
    rows = loaded.spec.workload.rows
    assert rows is not None, "the caller has them"
    value = {"apiVersion": "v1", "kind": "Pod", **_with_cells(rows.pod, cells)}
    problems: list[str] = []

    def report(path: Path, _code: str, message: str, _hint: str) -> None:
        problems.append(f"{_dotted(path)}{message}")

    pod = decode_object(value, report)
    if pod is not None:
        admission.admit(pod, report)
    line = f"row {index + 1} of {rows.file}"
    if problems or not isinstance(pod, Pod):
        message = f"{line}: {problems[0] if problems else 'this is no pod'}"
        hint = 'for example pod: {metadata: {name: "job-${row.number}"}, spec: ...}'
        loaded.problem((*at, "pod"), BAD_VALUE, message, hint, on_key=True)
        return None
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
            loaded.problem((*at, key), BAD_VALUE, message, "a number that is not negative")
            return None
    return _timed(pod, seconds)


def _timed(pod: Pod, seconds: Mapping[str, float]) -> Pod:
    metadata = pod.metadata
    if "submit" in seconds:
        created = START + timedelta(seconds=seconds["submit"])
        metadata = replace(metadata, creation_timestamp=created)
    if "duration" in seconds:
        annotations = {**metadata.annotations, DURATION_ANNOTATION: f"{seconds['duration']:g}s"}
        if seconds["duration"] == int(seconds["duration"]):
            annotations[DURATION_ANNOTATION] = f"{int(seconds['duration'])}s"
        metadata = replace(metadata, annotations=annotations)
    return replace(pod, metadata=metadata)


def _dotted(path: Sequence[str | int]) -> str:
    text = ".".join(map(str, path))
    return f"{text}: " if text else ""


def _with_cells(value: Any, cells: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _with_cells(item, cells) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_cells(item, cells) for item in value]
    if not isinstance(value, str) or "${row." not in value:
        return value
    return _CELL.sub(lambda match: cells[match[1]], value)


def without_departure(pod: Pod) -> Pod:
    """Return a pod that never leaves."""
    if DURATION_ANNOTATION not in pod.metadata.annotations:
        return pod
    kept = {k: v for k, v in pod.metadata.annotations.items() if k != DURATION_ANNOTATION}
    metadata = replace(pod.metadata, annotations=kept)
    return replace(pod, metadata=metadata)


def renamed(pod: Pod, suffix: str) -> Pod:
    """Return a pod of another name."""
    metadata = replace(pod.metadata, name=f"{pod.metadata.name}{suffix}", uid="")
    return replace(pod, metadata=metadata)


def ranked(inputs: Inputs, column: str) -> Inputs:
    """Return the inputs with their nodes in the order of a table's column."""
    ranks = inputs.ranks.get(column)
    if ranks is None:
        return inputs
    nodes = [node for node in inputs.cluster if isinstance(node, Node)]
    rest = [other for other in inputs.cluster if not isinstance(other, Node)]
    return dataclasses.replace(inputs, cluster=(*(nodes[i] for i in ranks), *rest))


def each_seed(loaded: LoadedExperiment) -> tuple[int, ...]:
    """Return the seeds of an experiment."""
    seeds = loaded.spec.seeds
    if isinstance(seeds, tuple):
        return seeds
    return tuple(range(seeds.first, seeds.first + seeds.count))
