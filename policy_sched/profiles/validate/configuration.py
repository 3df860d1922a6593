"""Checks a configuration beyond its shape, as upstream's validation.go does, and a little more.

More than upstream: removed plugins are refused under every point, and arguments are checked for
every plugin that has any. Names of plugins are checked in resolve.py, where all are known.

More than upstream: addresses, time-outs and TLS settings of extenders are checked before the first
call fails by them.

Upstream's table of checks of arguments (validation_pluginargs.go) spells NodeResourcesFit wrongly,
so its bad arguments are found only at start; here they are found with the others.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from policy_sched.model import LABEL_OPERATORS, requirement
from policy_sched.profiles import models
from policy_sched.source import masked


def check_extenders(extenders: tuple[models.Extender, ...]) -> Iterator[models.ModelProblem]:
    """Yield the problems of the extenders of a configuration."""
    managed: set[str] = set()
    for i, extender in enumerate(extenders):
        path: models.Path = ("extenders", i)
        if extender.prioritize_verb and extender.weight <= 0:
            words = "must have a positive weight applied to it"
            yield models.invalid((*path, "weight"), extender.weight, words)
        yield from _address(extender, path)
        if extender.http_timeout < 0:
            yield models.problem_at((*path, "httpTimeout"), "Invalid value: must not be negative")
        if extender.tls_config is not None:
            yield from _tls(extender.tls_config, (*path, "tlsConfig"))
        if extender.pod_selector is not None:
            yield from _selector(extender.pod_selector, (*path, "podSelector"))
        for j, resource in enumerate(extender.managed_resources):
            at = (*path, "managedResources", j, "name")
            faults = label_name_faults(resource.name)
            yield from (models.invalid(at, resource.name, fault) for fault in faults)
            if not faults and not _is_extended(resource.name):
                yield models.invalid(at, resource.name, "is an invalid extended resource name")
            if resource.name in managed:
                yield models.invalid(at, resource.name, "duplicate extender managed resource name")
            managed.add(resource.name)
    binders = [i for i, extender in enumerate(extenders) if extender.bind_verb]
    if len(binders) > 1:
        text = f"found {len(binders)} extenders implementing bind"
        problem = models.invalid(("extenders",), text, "only one extender can implement bind")
        yield models.ModelProblem(
            ("extenders", binders[1], "bindVerb"), models.BAD_VALUE, problem.message
        )


def _address(extender: models.Extender, path: models.Path) -> Iterator[models.ModelProblem]:
    at = (*path, "urlPrefix")
    address = extender.url_prefix
    if not models.is_address(address):
        yield models.invalid(at, masked(address), "must be an http or https address")
        return
    parts = urlsplit(address)
    if not address.isascii() or any(c.isspace() or not c.isprintable() for c in address):
        yield models.invalid(
            at, masked(address), "must not hold spaces, or characters beyond ASCII"
        )
    if parts.username is not None or parts.query or parts.fragment:
        yield models.invalid(at, masked(address), "must not hold a user, a query or a fragment")
    if extender.enable_https and parts.scheme == "http":
        yield models.problem_at(
            (*path, "enableHTTPS"),
            "urlPrefix begins with http: calls are not encrypted",
            hint="begin urlPrefix with https",
            warning=True,
        )


def _tls(tls: models.ExtenderTLSConfig, path: models.Path) -> Iterator[models.ModelProblem]:
    for field, text in (
        ("certData", tls.cert_data),
        ("keyData", tls.key_data),
        ("caData", tls.ca_data),
    ):
        if decoded(text) is None:
            yield models.problem_at((*path, field), "Invalid value: is not base64")


def _selector(
    selector: models.ExtenderPodSelector, path: models.Path
) -> Iterator[models.ModelProblem]:
    for key, value in selector.match_labels.items():
        try:
            requirement(key, "In", (value,))
        except ValueError as error:
            yield models.problem_at((*path, "matchLabels", key), str(error))
    for i, expression in enumerate(selector.match_expressions):
        try:
            requirement(expression.key, expression.operator, expression.values, LABEL_OPERATORS)
        except ValueError as error:
            at: models.Path = (*path, "matchExpressions", i)
            yield models.ModelProblem(at, models.BAD_VALUE, f"{models.path_text(at)}.{error}")


def decoded(text: str) -> bytes | None:
    """Return what a text is in base64, None if it is not base64; line breaks do not matter."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        return None


def _is_extended(name: str) -> bool:
    """Is this a resource outside kubernetes.io, whose quota name is valid too?"""
    native = "/" not in name or "kubernetes.io/" in name
    return (
        not native
        and not name.startswith("requests.")
        and not label_name_faults(f"requests.{name}")
    )


_SET_FIELDS: Final = {
    point: "".join(f"_{c.lower()}" if c.isupper() else c for c in point)
    for point in (*models.POINTS, models.MULTI_POINT)
}
_REMOVED: Final = (
    f'was invalid in version "{models.API_VERSION}"'
    f' (KubeSchedulerConfiguration is version "{models.API_VERSION}")'
)


def plugin_set(profile: models.KubeSchedulerProfile, point: str) -> models.PluginSet:
    """Return the entry of a profile for ``point``, a field of ``plugins``."""
    plugins = getattr(profile.plugins, _SET_FIELDS[point])
    assert isinstance(plugins, models.PluginSet)
    return plugins


def check_configuration(config: models.KubeSchedulerConfiguration) -> Iterator[models.ModelProblem]:
    """Yield the problems of a configuration of the right shape; arguments not included."""
    if config.leader_election.leader_elect:
        yield from _leader_election(config.leader_election)
    if config.pod_max_backoff_seconds < config.pod_initial_backoff_seconds:
        words = "must be greater than or equal to PodInitialBackoffSeconds"
        yield models.invalid(("podMaxBackoffSeconds",), config.pod_max_backoff_seconds, words)
    for name, text, hint in models.gate_faults(config.feature_gates):
        yield models.ModelProblem(
            ("featureGates", name), models.BAD_VALUE, f"featureGates: {text}", hint
        )
    yield from _profiles(config)
    yield from check_extenders(config.extenders)


def _leader_election(election: models.LeaderElection) -> Iterator[models.ModelProblem]:
    path: models.Path = ("leaderElection",)
    durations = {
        "leaseDuration": election.lease_duration,
        "renewDeadline": election.renew_deadline,
        "retryPeriod": election.retry_period,
    }
    for key, value in durations.items():
        if value <= 0:
            yield models.problem_at((*path, key), "Invalid value: must be greater than zero")
    if election.lease_duration <= election.renew_deadline:
        why = "Invalid value: must be greater than `RenewDeadline`"
        yield models.problem_at((*path, "leaseDuration"), why)
    if election.resource_lock != "leases":
        words = 'resourceLock value must be "leases"'
        yield models.invalid((*path, "resourceLock"), election.resource_lock, words)


def _profiles(config: models.KubeSchedulerConfiguration) -> Iterator[models.ModelProblem]:
    names: set[str] = set()
    for i, profile in enumerate(config.profiles):
        path: models.Path = ("profiles", i)
        name = profile.scheduler_name
        if name == "" or (name is None and len(config.profiles) > 1):
            yield models.required((*path, "schedulerName"))
        elif name is not None:
            if name in names:
                yield models.duplicate((*path, "schedulerName"), name)
            names.add(name)
        yield from _removed(profile, path)
        yield from _plugin_config(profile, path)
    yield from _queue_sort(config)


def _removed(
    profile: models.KubeSchedulerProfile, path: models.Path
) -> Iterator[models.ModelProblem]:
    """Yield empty names and removed plugins; disabling one of those is only worth a warning."""
    for point in (*models.POINTS, models.MULTI_POINT):
        at = (*path, "plugins", point)
        chosen = plugin_set(profile, point)
        for i, plugin in enumerate(chosen.enabled):
            if not plugin.name:
                yield models.required((*at, "enabled", i, "name"))
            if plugin.name in models.REMOVED_PLUGINS:
                yield models.invalid((*at, "enabled", i, "name"), plugin.name, _REMOVED)
        for i, disabled in enumerate(chosen.disabled):
            if disabled.name in models.REMOVED_PLUGINS:
                where = (*at, "disabled", i, "name")
                why = f'plugin "{disabled.name}" was removed: nothing to disable'
                yield models.problem_at(where, why, warning=True)


def _plugin_config(
    profile: models.KubeSchedulerProfile, path: models.Path
) -> Iterator[models.ModelProblem]:
    seen: set[str] = set()
    for i, config in enumerate(profile.plugin_config):
        at = (*path, "pluginConfig", i, "name")
        if config.name in seen:
            yield models.duplicate(at, config.name)
        seen.add(config.name)
        if not config.name:
            yield models.required(at)
        if config.name in models.REMOVED_PLUGINS:
            yield models.invalid(at, config.name, _REMOVED)


def _queue_sort(config: models.KubeSchedulerConfiguration) -> Iterator[models.ModelProblem]:
    """Yield profiles whose queueSort differs from the first one's: they share one queue."""
    if not config.profiles:
        return
    first = config.profiles[0]
    own = first.plugins.queue_sort
    if len(own.enabled) > 1:
        at: models.Path = ("profiles", 0, "plugins", "queueSort", "enabled")
        yield models.invalid(at, len(own.enabled), "only one queue sort plugin can be enabled")
    args = {c.name: c.args for c in first.plugin_config}
    for i, profile in enumerate(config.profiles[1:], start=1):
        if profile.plugins.queue_sort != own:
            at = ("profiles", i, "plugins", "queueSort")
            why = "Invalid value: must be the same for all profiles"
            yield models.problem_at(at, why, models.UNLIKE_QUEUE_SORT)
        for j, entry in enumerate(profile.plugin_config):
            sorts = own.enabled and own.enabled[0].name == entry.name
            if sorts and entry.args != args.get(entry.name, {}):
                at = ("profiles", i, "pluginConfig", j, "args")
                why = "Invalid value: queueSort must be the same for all profiles"
                yield models.problem_at(at, why, models.UNLIKE_QUEUE_SORT)


_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_FIELD_OPERATORS: Final = ("In", "NotIn")


def check_args(
    name: str, args: models.PluginArgs, path: models.Path
) -> Iterator[models.ModelProblem]:
    """Yield the problems of the arguments ``args`` of plugin ``name``, found at ``path``."""
    yield from check_head(name, {"kind": args.kind}, path)
    check = _CHECKS.get(type(args))
    if check is not None:
        yield from check(args, path)


HEAD: Final = frozenset({"apiVersion", "kind"})
"""Keys that arguments of any plugin may have."""


def check_head(
    name: str, head: Mapping[str, object], path: models.Path
) -> Iterator[models.ModelProblem]:
    """Yield what is wrong with apiVersion and kind of the arguments of plugin ``name``."""
    version, kind = head.get("apiVersion"), head.get("kind")
    if version not in (None, models.API_VERSION):
        yield models.unsupported((*path, "apiVersion"), version, [models.API_VERSION])
    if kind not in (None, f"{name}Args"):
        group = models.API_VERSION.split("/", maxsplit=1)[0]
        text = f"args for plugin {name} were not of type {name}Args.{group}, got {kind}.{group}"
        yield models.ModelProblem((*path, "kind"), models.BAD_VALUE, text)


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
