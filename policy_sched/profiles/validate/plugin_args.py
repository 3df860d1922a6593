"""Checks plugin arguments beyond their shape, as upstream's validation_pluginargs.go does.

Upstream's table of checks spells NodeResourcesFit wrongly, so its bad arguments are found only
at start; here they are found with the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from policy_sched.profiles import models

_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_FIELD_OPERATORS: Final = ("In", "NotIn")


def check_args(
    name: str, args: models.PluginArgs, path: models.Path
) -> Iterator[models.ModelProblem]:
    """Yield the problems of the arguments ``args`` of plugin ``name``, found at ``path``."""
    group = models.API_VERSION.split("/", maxsplit=1)[0]
    if args.kind is not None and args.kind != f"{name}Args":
        text = (
            f"args for plugin {name} were not of type {name}Args.{group}, got {args.kind}.{group}"
        )
        yield models.ModelProblem((*path, "kind"), models.BAD_VALUE, text)
    check = _CHECKS.get(type(args))
    if check is not None:
        yield from check(args, path)


def label_name_faults(name: str) -> list[str]:
    """Return why ``name`` is no qualified name (``prefix/name`` or ``name``), empty if it is."""
    prefix, slash, short = name.rpartition("/")
    faults = []
    if slash and (not prefix or len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix)):
        faults.append("prefix part must be a DNS subdomain of at most 253 characters")
    if not short:
        faults.append("name part must be non-empty")
    elif len(short) > 63:
        faults.append("name part must be no more than 63 bytes")
    elif not _NAME.fullmatch(short):
        faults.append(
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start"
            " and end with an alphanumeric character"
        )
    return faults


def _fit(args: models.PluginArgs, path: models.Path) -> Iterator[models.ModelProblem]:
    assert isinstance(args, models.NodeResourcesFitArgs)
    for i, name in enumerate(args.ignored_resources):
        at = (*path, "ignoredResources", i)
        yield from (models.invalid(at, name, fault) for fault in label_name_faults(name))
    for i, group in enumerate(args.ignored_resource_groups):
        at = (*path, "ignoredResourceGroups", i)
        if "/" in group:
            yield models.invalid(at, group, "resource group name can't contain '/'")
        yield from (models.invalid(at, group, fault) for fault in label_name_faults(group))
    yield from _strategy(args.scoring_strategy, (*path, "scoringStrategy"))


def _strategy(strategy: models.ScoringStrategy, path: models.Path) -> Iterator[models.ModelProblem]:
    for i, resource in enumerate(strategy.resources):
        if not 0 < resource.weight <= 100:
            words = f"resource weight of {resource.name} not in valid range (0, 100]"
            yield models.invalid((*path, "resources", i, "weight"), resource.weight, words)
    at = (*path, "requestedToCapacityRatio")
    if strategy.type == "RequestedToCapacityRatio":
        if strategy.requested_to_capacity_ratio is None:
            yield models.required(at, "must be specified when type is RequestedToCapacityRatio")
        else:
            yield from _shape(strategy.requested_to_capacity_ratio.shape, (*at, "shape"))
    elif strategy.requested_to_capacity_ratio is not None:
        yield models.forbidden(at, "must be nil when type is not RequestedToCapacityRatio")


def _shape(
    shape: Sequence[models.UtilizationShapePoint], path: models.Path
) -> Iterator[models.ModelProblem]:
    if not shape:
        yield models.required(path, "at least one point must be specified")
    for i in range(1, len(shape)):
        if shape[i - 1].utilization >= shape[i].utilization:
            words = "values must be sorted in increasing order"
            yield models.invalid((*path, i, "utilization"), shape[i].utilization, words)
            return


def _balanced(args: models.PluginArgs, path: models.Path) -> Iterator[models.ModelProblem]:
    assert isinstance(args, models.NodeResourcesBalancedAllocationArgs)
    seen: set[str] = set()
    for i, resource in enumerate(args.resources):
        at = (*path, "resources", i)
        if resource.name in seen:
            yield models.duplicate((*at, "name"), resource.name)
        seen.add(resource.name)
        if resource.weight != 1:
            yield models.invalid((*at, "weight"), resource.weight, "must be 1")


def _preemption(args: models.PluginArgs, path: models.Path) -> Iterator[models.ModelProblem]:
    assert isinstance(args, models.DefaultPreemptionArgs)
    if not args.min_candidate_nodes_percentage and not args.min_candidate_nodes_absolute:
        percentage, absolute = "minCandidateNodesPercentage", "minCandidateNodesAbsolute"
        words = "cannot be zero at the same time as "
        yield models.invalid((*path, percentage), 0, words + absolute)
        yield models.invalid((*path, absolute), 0, words + percentage)


def _node_affinity(args: models.PluginArgs, path: models.Path) -> Iterator[models.ModelProblem]:
    assert isinstance(args, models.NodeAffinityArgs)
    if args.added_affinity is not None:
        yield from check_node_affinity(args.added_affinity, (*path, "addedAffinity"))


def check_node_affinity(
    affinity: models.AddedNodeAffinity, path: models.Path
) -> Iterator[models.ModelProblem]:
    """Yield the problems of the selectors of a node affinity found at ``path``."""
    required_terms = affinity.required_during_scheduling_ignored_during_execution
    at: models.Path = (*path, "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    if required_terms is not None:
        for i, term in enumerate(required_terms.node_selector_terms):
            yield from _term(term, (*at, i))
    at = (*path, "preferredDuringSchedulingIgnoredDuringExecution")
    for i, preferred in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        if preferred.weight != 0:
            yield from _term(preferred.preference, (*at, i, "preference"))


def _term(term: models.NodeSelectorTerm, path: models.Path) -> Iterator[models.ModelProblem]:
    for i, condition in enumerate(term.match_expressions):
        at = (*path, "matchExpressions", i)
        yield from (
            models.invalid((*at, "key"), condition.key, fault)
            for fault in label_name_faults(condition.key)
        )
        values, count = (*at, "values"), len(condition.values)
        match condition.operator:
            case "In" | "NotIn" if not count:
                words = "for 'in', 'notin' operators, values set can't be empty"
                yield models.invalid(values, [], words)
            case "Exists" | "DoesNotExist" if count:
                words = "values set must be empty for exists and does not exist"
                yield models.invalid(values, list(condition.values), words)
            case "Gt" | "Lt" if count != 1:
                words = "for 'Gt', 'Lt' operators, exactly one value is required"
                yield models.invalid(values, list(condition.values), words)
            case "Gt" | "Lt" if not _INTEGER.fullmatch(condition.values[0]):
                words = "for 'Gt', 'Lt' operators, the value must be an integer"
                yield models.invalid((*values, 0), condition.values[0], words)
            case _:
                pass
    for i, condition in enumerate(term.match_fields):
        at = (*path, "matchFields", i)
        if condition.operator not in _FIELD_OPERATORS:
            yield models.unsupported((*at, "operator"), condition.operator, _FIELD_OPERATORS)
        elif len(condition.values) != 1:
            yield models.invalid((*at, "values"), list(condition.values), "must have one element")


def _spread(args: models.PluginArgs, path: models.Path) -> Iterator[models.ModelProblem]:
    assert isinstance(args, models.PodTopologySpreadArgs)
    if args.defaulting_type == "System" and args.default_constraints:
        words = "when .defaultConstraints are not empty"
        yield models.invalid((*path, "defaultingType"), args.defaulting_type, words)
    seen: set[tuple[str, str]] = set()
    for i, constraint in enumerate(args.default_constraints):
        at = (*path, "defaultConstraints", i)
        key = constraint.topology_key
        if not key:
            yield models.required((*at, "topologyKey"), "can not be empty")
        else:
            faults = label_name_faults(key)
            yield from (models.invalid((*at, "topologyKey"), key, fault) for fault in faults)
        if constraint.label_selector is not None:
            words = "constraint must not define a selector, as they deduced for each pod"
            yield models.forbidden((*at, "labelSelector"), words)
        pair = (key, constraint.when_unsatisfiable)
        if pair in seen:
            yield models.duplicate(at, f"{{{pair[0]}, {pair[1]}}}")
        seen.add(pair)


def _volume_binding(args: models.PluginArgs, path: models.Path) -> Iterator[models.ModelProblem]:
    assert isinstance(args, models.VolumeBindingArgs)
    if args.shape is not None:
        words = "remove it or turn on the feature gate StorageCapacityScoring"
        yield models.forbidden((*path, "shape"), f"unexpected field `shape`, {words}")


def _dynamic_resources(args: models.PluginArgs, path: models.Path) -> Iterator[models.ModelProblem]:
    assert isinstance(args, models.DynamicResourcesArgs)
    if args.filter_timeout < 0:
        yield models.problem_at((*path, "filterTimeout"), "Invalid value: must be zero or positive")
    if args.binding_timeout < models.SECOND:
        yield models.problem_at(
            (*path, "bindingTimeout"), "Invalid value: must be at least 1 second"
        )


_CHECKS: Final[
    dict[
        type[models.PluginArgs],
        Callable[[models.PluginArgs, models.Path], Iterator[models.ModelProblem]],
    ]
] = {
    models.NodeResourcesFitArgs: _fit,
    models.NodeResourcesBalancedAllocationArgs: _balanced,
    models.DefaultPreemptionArgs: _preemption,
    models.NodeAffinityArgs: _node_affinity,
    models.PodTopologySpreadArgs: _spread,
    models.VolumeBindingArgs: _volume_binding,
    models.DynamicResourcesArgs: _dynamic_resources,
}
