"""Lints of policies against a snapshot of a cluster: names it has not, rules that reject it all.

Theory of operation. Names are compared with those of the snapshot's objects (`lint_snapshot`).
Filter rules are compiled and evaluated, each as if it were alone: one that does not read the pod
once, one that does for the pods of the snapshot for which the policy's matchConditions hold. Of
many pods every n-th is taken, so that there are at most `SAMPLE`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import msgspec
import numpy as np

from policy_sched import language, model
from policy_sched.cluster import ApiObjects, Cache, InputProblem, Inputs
from policy_sched.cluster.tables import InputTable
from policy_sched.errors import Diagnostic, PolicyError, Severity
from policy_sched.language.cel import DeviceNames
from policy_sched.language.check import CheckedPolicy, check_policy, diagnostic, walk
from policy_sched.language.diagnostics import PolicySource, Problem
from policy_sched.language.lint import Trees, Vocabulary, unknown_names
from policy_sched.language.lower import Refusal
from policy_sched.language.runtime import Activation
from policy_sched.language.syntax import ast
from policy_sched.language.values import LimitError, schema_changes
from policy_sched.manifests import Manifests, object_key
from policy_sched.plugins.rules import BoundPolicy, bind, declare_input
from policy_sched.profiles import load
from policy_sched.profiles.build import compiled
from policy_sched.profiles.check.check import selector_problems

SAMPLE: Final = 200
REJECTS_ALL: Final = "PS411"
NOT_THERE: Final = "PS410"
GRANTS_TOO_MUCH: Final = "PS822"
_STANDARD: Final = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})
_SYSTEM: Final = frozenset({"system-node-critical", "system-cluster-critical"})
_OF_THE_POD: Final = frozenset({"pod", "namespaceObject"})
_OF_THE_MOMENT: Final = frozenset({"now", "queue", "podGroup", "cycle", "allocation"})
"""What a snapshot does not hold: rules that read it are not evaluated."""


class Snapshot(msgspec.Struct, frozen=True):
    """A cluster as it was: its names, its nodes with what runs there, and a sample of its pods."""

    vocabulary: Vocabulary
    cache: Cache
    pods: tuple[model.PodInfo, ...]
    objects: ApiObjects = msgspec.field(default_factory=ApiObjects)
    definitions: Mapping[model.Kind, Mapping[str, Any]] = msgspec.field(default_factory=dict)
    """CustomResourceDefinitions of a live cluster, by the kinds of inputs."""

    def lint(
        self,
        policy: load.LoadedPolicy,
        source: PolicySource,
        checked: CheckedPolicy,
        args: Sequence[Mapping[str, Any]],
    ) -> list[Diagnostic]:
        """Return the warnings of the snapshot about a policy without errors.

        ``args``: the parameters that configurations give it, one entry each. A rule is warned
        about if it rejects all with the arguments of each; without configurations, with the
        policy's own values.
        """
        problems = unknown_names(source, checked, self.vocabulary)
        if checked.inputs:
            problems += _of_schemas(checked, self)
            problems += _of_inputs(Trees(source, checked), self)
        rejecting: set[int] | None = None
        for given in args or ({},):
            closed = _closed(policy, given, self)
            rejecting = closed if rejecting is None else rejecting & closed
        trees = Trees(source, checked)
        for index in sorted(rejecting or ()):
            rule = checked.filter[index].expression
            if trees.analyze(rule.core).value is False:
                continue  # no snapshot is needed to see that
            message = "this rule rejects every node of the snapshot"
            if _reads(trees, checked, index) & _OF_THE_POD:
                message += ", for every pod that the policy is about"
            problem = Problem(0, len(rule.text.text), REJECTS_ALL, message, "")
            context = f"policy {checked.name}, {rule.text.path}"
            problems.append(diagnostic(problem, rule.text, context))
        return sorted(problems)


def _of_schemas(policy: CheckedPolicy, snapshot: Snapshot) -> Iterator[Diagnostic]:
    """Yield inputs whose schema in the cluster differs from the policy's in what rules read."""
    for given in language.compiled_inputs(policy):
        definition = snapshot.definitions.get(given.object_kind) if given.custom else None
        if definition is None:
            continue
        changes = schema_changes(given.type, given.api_version, definition)
        if changes:
            source = next(entry.source for entry in policy.inputs if entry.name == given.name)
            place = source.schema or source.name
            what = f"{given.kind} of {given.api_version} in the cluster: {'; '.join(changes)}"
            hint = language.schema_hint(given, source.schema.text if source.schema else "")
            said = Problem(0, len(place.text), language.SCHEMA_DIFFERS, what, hint)
            yield diagnostic(said, place, f"policy {policy.name}")


def _of_inputs(trees: Trees, snapshot: Snapshot) -> Iterator[Diagnostic]:
    """Yield objects that inputs cannot have, and keys by which no pod finds any."""
    policy, nodes = trees.policy, snapshot.cache.nodes
    inputs = Inputs(nodes, snapshot.objects, lambda: 0)
    for given in language.compiled_inputs(policy):
        declare_input(given, inputs, everywhere=True)
    names = {entry.name: entry for entry in policy.inputs}
    for problem in [*inputs.problems.values(), *_of_quotas(policy, snapshot, inputs)]:
        name = names[problem.input].source.name
        what = f"{problem.kind[1]} {'/'.join(filter(None, problem.place))}: {problem.message}"
        said = Problem(0, len(name.text), problem.code, what)
        told = diagnostic(said, name, f"policy {policy.name}")
        yield replace(told, severity=Severity.WARNING)  # the policy is right
    tables = {name: nodes.input_table(entry.identity) for name, entry in names.items()}
    for checked, _ in trees.expressions:
        for part in walk(checked.core):
            source = _finds_nothing(part, trees, snapshot, tables)
            if source:
                span = part.span
                hint = f"keys of it: {', '.join(sorted(tables[source].by_key)[:3]) or 'none'}"
                message = f"no pod of the snapshot finds an object of inputs.{source} by this key"
                said = Problem(span.start, span.end, NOT_THERE, message, hint)
                yield diagnostic(said, checked.text, f"policy {policy.name}, {checked.text.path}")


def _of_quotas(policy: CheckedPolicy, snapshot: Snapshot, inputs: Inputs) -> Iterator[InputProblem]:
    """Yield objects that are wrong as quotas: their parents, or more than can be used."""
    compiled_policy = language.compile_policy(policy)[0] if policy.quotas else None
    if compiled_policy is None:
        return
    before = set(inputs.problems.values())
    bound = bind(compiled_policy, snapshot.cache.nodes, snapshot.cache.pods)
    yield from (problem for problem in inputs.problems.values() if problem not in before)
    for quotas in bound.quotas:
        for (identity, key), why in quotas.excesses.items():
            problem = inputs.problem_of(identity, key, why, GRANTS_TOO_MUCH)
            if problem is not None:
                yield problem


def _finds_nothing(
    part: ast.Core, trees: Trees, snapshot: Snapshot, tables: Mapping[str, InputTable]
) -> str:
    """Return the input of a look-up by the pod by which no pod of the snapshot finds anything."""
    match part:
        case ast.Index(operand=ast.Field(operand=ast.Var(name="inputs"), name=name), index=key):
            pass
        case _:
            return ""
    names = {read.partition(".")[0] for read in trees.reads(key)}
    if not snapshot.pods or name not in tables or names != {"pod"} or not trees.closed(key):
        return ""
    policy = trees.policy
    variables = [(own, variable.core) for own, variable in policy.variables]
    try:
        rule = language.compile_expression(
            key, policy.params, policy.params_type, policy.functions, variables, policy.inputs
        )
    except Refusal:
        return ""
    scalar = rule.bind(snapshot.cache.nodes, snapshot.cache.pods).functions.scalar
    try:
        values = [scalar(pod, Activation(), 0) for pod in snapshot.pods]
    except LimitError:
        return ""
    keys = {value for value, *error in values if value and not any(error)}
    return "" if any(key in tables[name].by_key for key in keys) or not keys else name


def selectors_of(manifests: Manifests) -> list[Diagnostic]:
    """Return the problems of the selectors over devices of manifests."""
    names = device_names(manifests.objects)
    diagnostics: list[Diagnostic] = []
    for obj in manifests.objects:
        if type(obj).__name__ in load.WITH_SELECTORS:
            position = manifests.positions.get(object_key(obj))
            marked = None if position is None else position.look().marked
            if marked is not None:
                selectors, problems = load.device_selectors(marked)
                diagnostics += [*problems, *selector_problems(selectors, names)]
    return diagnostics


def device_names(objects: Iterable[model.ApiObject]) -> DeviceNames | None:
    """Return the names that devices have, None where there is no device."""
    devices = [
        (obj.spec.driver, tuple(device.attributes), tuple(device.capacity))
        for obj in objects
        if isinstance(obj, model.ResourceSlice)
        for device in obj.spec.devices
    ]
    return DeviceNames.of(devices) if devices else None


def snapshot_of(
    objects: Iterable[model.ApiObject],
    definitions: Mapping[model.Kind, Mapping[str, Any]] = MappingProxyType({}),
) -> Snapshot:
    """Return the snapshot that some API objects are; pods that have ended do not count.

    ``definitions`` of a live cluster, by the kinds of inputs.
    """
    every = [
        obj
        for obj in objects
        if not (isinstance(obj, model.Pod) and obj.status.phase in model.ENDED_PHASES)
    ]
    cache = Cache()
    for obj in every:
        if isinstance(obj, model.Node):
            cache.add_node(obj)
        elif isinstance(obj, model.Namespace):
            cache.set_namespace(obj)
    pods = [model.PodInfo.of(obj) for obj in every if isinstance(obj, model.Pod)]
    for pod in pods:
        if pod.node_name:
            cache.add_pod(pod)
    stride = -(-len(pods) // SAMPLE) or 1
    others = ApiObjects(every)
    return Snapshot(_vocabulary(every, pods), cache, tuple(pods[::stride]), others, definitions)


def _vocabulary(objects: Sequence[model.ApiObject], pods: Sequence[model.PodInfo]) -> Vocabulary:
    labels: dict[str, set[str]] = {}
    annotations: dict[str, set[str]] = {}
    taints: set[str] = set()
    resources = set(_STANDARD)
    classes = set(_SYSTEM)
    for obj in objects:
        kind, template = type(obj).__name__, getattr(getattr(obj, "spec", None), "template", None)
        named = [(kind, obj.metadata)]
        if isinstance(template, model.PodTemplate):
            named.append(("Pod", template.metadata))
        for owner, metadata in named:
            labels.setdefault(owner, set()).update(metadata.labels)
            annotations.setdefault(owner, set()).update(metadata.annotations)
        if isinstance(obj, model.Node):
            taints.update(taint.key for taint in obj.spec.taints)
            resources.update(obj.status.capacity, obj.status.allocatable)
        elif isinstance(obj, model.PriorityClass):
            classes.add(obj.metadata.name)
    for pod in pods:
        resources.update(pod.requests, pod.limits)
        classes.add(pod.priority_class_name)
    attributes, capacities = _of_devices(objects)
    has_classes = "PriorityClass" in labels or bool(pods)
    return Vocabulary(
        labels={kind: frozenset(names) for kind, names in labels.items()},
        annotations={kind: frozenset(names) for kind, names in annotations.items()},
        resources=frozenset(resources) if "Node" in labels else None,
        taints=frozenset(taints) if "Node" in labels else None,
        priority_classes=frozenset(classes) if has_classes else None,
        attributes=attributes,
        capacities=capacities,
    )


def _of_devices(
    objects: Iterable[model.ApiObject],
) -> tuple[frozenset[str] | None, frozenset[str] | None]:
    """Return the attributes and the capacities of devices in every spelling; None of no device."""
    attributes: set[str] = set()
    capacities: set[str] = set()
    has_slices = False
    for obj in objects:
        if isinstance(obj, model.ResourceSlice):
            for device in obj.spec.devices:
                has_slices = True
                attributes |= _spellings(obj.spec.driver, device.attributes)
                capacities |= _spellings(obj.spec.driver, device.capacity)
    return (frozenset(attributes), frozenset(capacities)) if has_slices else (None, None)


def _spellings(driver: str, names: Iterable[str]) -> set[str]:
    """Return names with and without the driver's domain."""
    domain = f"{driver}/"
    short = {name.removeprefix(domain) for name in names}
    return {*short, *(name if "/" in name else domain + name for name in short)}


def _reads(trees: Trees, policy: CheckedPolicy, index: int) -> frozenset[str]:
    """Return the variables that a filter rule reads, without their fields."""
    names = trees.reads(policy.filter[index].expression.core)
    if any(name == "node.devices" or name.startswith("node.devices.") for name in names):
        names |= {"allocation"}
    return frozenset(name.partition(".")[0] for name in names)


def _closed(policy: load.LoadedPolicy, args: Mapping[str, Any], snapshot: Snapshot) -> set[int]:
    """Return the numbers of the filter rules that accept no node of the snapshot."""
    try:
        source = load.policy_source(policy, args)
    except PolicyError:
        return set()  # another check reports its problems
    checked, _ = check_policy(source)
    program, _ = compiled(source)
    if checked is None or program is None or not checked.filter or not snapshot.cache.nodes.n:
        return set()
    bound = bind(program, snapshot.cache.nodes, snapshot.cache.pods)
    return _rejecting_all(bound, source, checked, snapshot)


def _rejecting_all(
    bound: BoundPolicy, source: PolicySource, checked: CheckedPolicy, snapshot: Snapshot
) -> set[int]:
    trees = Trees(source, checked)
    numbers = range(len(checked.filter))
    reads = {index: _reads(trees, checked, index) for index in numbers}
    evaluated = {index for index in numbers if not reads[index] & _OF_THE_MOMENT}
    alone = {index for index in evaluated if not reads[index] & _OF_THE_POD}
    any_pod = snapshot.pods[0] if snapshot.pods else model.PodInfo.of(model.Pod())
    closed = alone - _accepting(bound, any_pod, snapshot)
    about = [pod for pod in snapshot.pods if _matches(bound, pod)]
    open_to_some: set[int] = set()
    for pod in about:
        open_to_some |= _accepting(bound, pod, snapshot)
        if evaluated <= open_to_some | alone:
            break
    return closed | (evaluated - alone - open_to_some if about else set())


def _matches(bound: BoundPolicy, pod: model.PodInfo) -> bool:
    try:
        return bound.matches(pod, Activation())
    except language.RuleError:
        return False


def _accepting(bound: BoundPolicy, pod: model.PodInfo, snapshot: Snapshot) -> set[int]:
    """Return the numbers of the filter rules that accept a pod on some node."""
    nodes = snapshot.cache.nodes
    live = nodes.live.values[: nodes.n]
    accepting = set()
    for index, (_, codes) in enumerate(bound.filters().by_rule(pod, Activation())):
        if codes is None or bool(np.any(live & (codes == 0))):
            accepting.add(index)
    return accepting
