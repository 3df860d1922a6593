"""Resolves a configuration against the policies and plugins that exist: one plan per profile.

Extenders become settings of their clients; files of certificates are read here.

A profile's plugin sets become one ordered list of plugins per extension point, in three steps, as
upstream takes them: the profile's multiPoint is merged into the default one (``mergePluginSet`` of
default_plugins.go); each point's own list is checked; multiPoint is expanded into every point that
a plugin implements (``expandMultiPointPlugins`` of framework.go). Order within a point: plugins of
the point's own list that multiPoint has too, then the rest of multiPoint, then the rest of the
point's own list. A score plugin's weight is that of the point's own list if it is there, else
multiPoint's; 0 counts as 1.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec

from policy_sched import model
from policy_sched.errors import Diagnostic, Severity
from policy_sched.framework.runtime import Percentage
from policy_sched.language.diagnostics import PolicySource
from policy_sched.plugins.extenders import ExtenderSettings, TlsSettings, tls_faults
from policy_sched.profiles import load, models
from policy_sched.profiles.validate import HEAD, check_head, decoded, plugin_set

LEASE: Final = "policy-sched"
"""The lease, unless the configuration names one; kube-scheduler's own is another."""


def lease_of(settings: models.LeaderElection) -> tuple[str, str]:
    """Return namespace and name of the lease."""
    named = "resource_name" in settings.model_fields_set
    return settings.resource_namespace, settings.resource_name if named else LEASE


#: Time-out of an extender whose httpTimeout is 0, in seconds.
DEFAULT_TIMEOUT = 5.0


def extender_settings(extenders: tuple[models.Extender, ...]) -> tuple[ExtenderSettings, ...]:
    """Return the settings of checked extenders, ignorable ones last."""
    ordered = sorted(extenders, key=lambda extender: extender.ignorable)
    return tuple(map(_settings, ordered))


def ignored_resources(extenders: tuple[models.Extender, ...]) -> tuple[str, ...]:
    """Return the resources that NodeResourcesFit does not check, as extenders look after them."""
    return tuple(
        resource.name
        for extender in extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )


def certificate_problems(extenders: tuple[models.Extender, ...]) -> Iterator[models.ModelProblem]:
    """Yield the problems of the certificates of checked extenders; their files are read."""
    for i, extender in enumerate(extenders):
        if extender.tls_config is None:
            continue
        for name, why in tls_faults(_tls(extender.tls_config)):
            yield models.problem_at(("extenders", i, "tlsConfig", name), f"Invalid value: {why}")


def _settings(extender: models.Extender) -> ExtenderSettings:
    return ExtenderSettings(
        url_prefix=extender.url_prefix,
        filter_verb=extender.filter_verb,
        preempt_verb=extender.preempt_verb,
        prioritize_verb=extender.prioritize_verb,
        bind_verb=extender.bind_verb,
        weight=extender.weight,
        enable_https=extender.enable_https,
        tls=None if extender.tls_config is None else _tls(extender.tls_config),
        timeout=extender.http_timeout / models.SECOND or DEFAULT_TIMEOUT,
        node_cache_capable=extender.node_cache_capable,
        managed_resources=frozenset(resource.name for resource in extender.managed_resources),
        ignorable=extender.ignorable,
        pod_selector=_selector(extender.pod_selector),
    )


def _tls(tls: models.ExtenderTLSConfig) -> TlsSettings:
    return TlsSettings(
        insecure=tls.insecure,
        server_name=tls.server_name,
        cert_file=tls.cert_file,
        key_file=tls.key_file,
        ca_file=tls.ca_file,
        cert_data=decoded(tls.cert_data) or b"",
        key_data=decoded(tls.key_data) or b"",
        ca_data=decoded(tls.ca_data) or b"",
    )


def _selector(selector: models.ExtenderPodSelector | None) -> model.Selector:
    if selector is None:
        return model.EVERYTHING
    expressions = tuple(
        model.LabelSelectorRequirement(
            key=requirement.key, operator=requirement.operator, values=requirement.values
        )
        for requirement in selector.match_expressions
    )
    return model.label_selector(
        model.LabelSelector(match_labels=selector.match_labels, match_expressions=expressions)
    )


_HEAD: Final = {"api_version", "kind"}
_NO_ARGS: Final[Mapping[str, Any]] = {}


class ProfilePlan(msgspec.Struct, frozen=True):
    """One profile, ready to be built.

    ``points``: by a point's name in the configuration file (``preEnqueue`` ... ``postBind``,
    ``placementGenerate``, ``placementScore``), its plugins in order with their weights; a weight
    is at least 1 at score and placementScore, and 0 elsewhere. ``args``: effective arguments of
    every enabled plugin that is no policy, upstream's defaults filled in, camelCase, without
    apiVersion and kind. ``policies``: every enabled policy with its effective params.
    """

    scheduler_name: str
    percentage_of_nodes_to_score: Percentage
    points: Mapping[str, tuple[Enabled, ...]]
    args: Mapping[str, Mapping[str, Any]]
    policies: Mapping[str, PolicySource]
    extenders: tuple[ExtenderSettings, ...] = ()
    """Extenders in calling order; the same in all profiles."""
    feature_gates: frozenset[str] = frozenset()
    """The feature gates that are on besides those that always are; the same in all profiles."""
    audits: Mapping[str, ProfilePlan] = msgspec.field(default_factory=dict)
    """For each policy that is audited, the profile as it would be with that policy enforced."""

    @property
    def plugins(self) -> tuple[str, ...]:
        """Names of all enabled plugins, by first use in the order of the points."""
        return tuple(dict.fromkeys(name for names in self.points.values() for name, _ in names))


def policy_points(spec: models.PolicySpec) -> frozenset[str]:
    """Return the extension points that a policy implements, by its sections.

    ``matchConditions`` run at preFilter for the filter section, and at preScore for score. With
    ``permit`` comes ``reserve``, whose undoing takes back what other pods of a group wait for.
    The rules of ``devices`` count where filter and score are enabled, the score by its weight.
    """
    points: set[str] = set()
    conditions = bool(spec.match_conditions)
    if spec.pre_enqueue:
        points.add("preEnqueue")
    if spec.queue_sort or spec.queue_order is not None:
        points.add("queueSort")
    if spec.pre_filter is not None or (spec.filter and conditions):
        points.add("preFilter")
    rules_about_pods = spec.pre_filter is not None and bool(spec.pre_filter.rules)
    if spec.filter or rules_about_pods:  # in dry runs these hold as filters do
        points.add("filter")
    if spec.score is not None:
        points.add("score")
        if conditions or spec.score.match_conditions:
            points.add("preScore")
    if spec.weights:
        points.add("preScore")
    rejects = spec.permit is not None and spec.permit.reject is not None
    if rejects or (spec.preemption, spec.post_filter, spec.evict) != (None, None, None):
        points.add("postFilter")
    if spec.devices is not None and spec.devices.filter:
        points.add("filter")
    if spec.devices is not None and spec.devices.score is not None:
        points.add("score")
    if spec.placement is not None and spec.placement.domain:
        points.add("placementGenerate")
    if spec.placement is not None and spec.placement.score is not None:
        points.add("placementScore")
    if spec.permit is not None:
        points |= {"reserve", "permit"}
    after = {"reserve": spec.reserve, "preBind": spec.pre_bind, "bind": spec.bind}
    points |= {name for name, rule in after.items() if rule is not None}
    if spec.post_bind is not None:
        points.add("postBind")
    return frozenset(points)


def resolve(
    config: load.LoadedConfig,
    policies: Sequence[load.LoadedPolicy],
    plugin_points: Mapping[str, Collection[str]] | None = None,
) -> tuple[tuple[ProfilePlan, ...], list[Diagnostic]]:
    """Return a plan per profile, and every problem; plans are empty if there are errors.

    ``policies``: those that exist; of two with one name the later counts. ``plugin_points``: the
    points of the Python plugins that exist, by plugin name. A policy or plugin with the name of
    an in-tree plugin stands in for it, at that plugin's points and with its arguments. A name that
    none of them has may be that of a shipped policy.
    """
    known = {policy.name: policy for policy in policies}
    named = named_policies(config.model, known.keys() | (plugin_points or {}).keys())
    known |= {policy.name: policy for policy in named}
    implements = dict(models.PLUGIN_POINTS)
    points_of = {name: frozenset(points) for name, points in (plugin_points or {}).items()}
    points_of.update((name, policy_points(policy.model.spec)) for name, policy in known.items())
    for name, points in points_of.items():
        implements[name] = implements.get(name, frozenset()) | points
    gates = models.enabled_gates(config.model.feature_gates)
    problems: list[models.ModelProblem] = []
    plans: list[ProfilePlan] = []
    joining, refused = _joining(config.model, policies)
    for i, profile in enumerate(config.model.profiles):
        problems += _unknown_names(profile, i, implements)
        by_section = known.keys() - models.PLUGIN_POINTS.keys()
        default = models.default_plugins(gates)
        expansion = expand(_lists(profile, known, joining), implements, default, by_section)
        problems += _fault_problems(expansion, i, implements)
        _enable_conditions(expansion, known)
        plans.append(_with_audits(config, i, expansion, known, problems))
    problems += _queue_sorts(plans, problems)
    refused += _unknown_profiles(config.model, joining)
    diagnostics = [*config.place.diagnostics(problems), *refused]
    failed = any(d.severity is Severity.ERROR for d in diagnostics)
    return () if failed else tuple(plans), diagnostics


def _joining(
    configuration: models.KubeSchedulerConfiguration, policies: Sequence[load.LoadedPolicy]
) -> tuple[list[load.LoadedPolicy], list[Diagnostic]]:
    """Return the policies that name profiles and that no profile names, in order of name.

    One that sorts the queue cannot: all profiles have one order, and a plugin that sorts already.
    """
    named: set[str] = set()
    for profile in configuration.profiles:
        for point in (*models.POINTS, models.MULTI_POINT):
            chosen = plugin_set(profile, point)
            named.update(plugin.name for plugin in chosen.enabled)
            named.update(plugin.name for plugin in chosen.disabled)
    by_name = {policy.name: policy for policy in policies}
    joining, problems = [], []
    for name, policy in sorted(by_name.items()):
        if name in named or not policy.model.spec.profiles:
            continue
        if "queueSort" not in policy_points(policy.model.spec):
            joining.append(policy)
            continue
        why = "Forbidden: the policy sorts the queue, which a profile does already"
        hint = "name it in the configuration, in place of the plugin that sorts there"
        at: models.Path = ("spec", "profiles")
        problems.append(policy.place.diagnostic(models.problem_at(at, why, hint=hint, on_key=True)))
    return joining, problems


def _unknown_profiles(
    configuration: models.KubeSchedulerConfiguration, joining: Iterable[load.LoadedPolicy]
) -> Iterator[Diagnostic]:
    """Yield a warning for each profile that a policy would join and that is not there."""
    names = [
        profile.scheduler_name or models.DEFAULT_SCHEDULER for profile in configuration.profiles
    ]
    for policy in joining:
        for i, name in enumerate(policy.model.spec.profiles):
            if name not in names:
                why = f'Not found: "{name}": no profile has this schedulerName'
                hint = models.did_you_mean(name, names) or f"the profiles are {', '.join(names)}"
                at: models.Path = ("spec", "profiles", i)
                yield policy.place.diagnostic(models.problem_at(at, why, hint=hint, warning=True))


def _lists(
    profile: models.KubeSchedulerProfile,
    known: Mapping[str, load.LoadedPolicy],
    joining: Iterable[load.LoadedPolicy],
) -> dict[str, PluginLists]:
    """Return what the profile has at each point, with places for diagnostics.

    Policies that join the profile come last. A weight that the profile leaves open is the policy's.
    """

    def entry(name: str, weight: int, point: str, index: int) -> EnabledPlugin:
        weight = weight or (known[name].model.spec.weight if name in known else 0)
        return EnabledPlugin(name, weight, point, index)

    own = profile.scheduler_name or models.DEFAULT_SCHEDULER
    names = [policy.name for policy in joining if own in policy.model.spec.profiles]
    lists: dict[str, PluginLists] = {}
    for point in (*models.POINTS, models.MULTI_POINT):
        chosen = plugin_set(profile, point)
        entries = tuple(
            entry(plugin.name, plugin.weight, point, i) for i, plugin in enumerate(chosen.enabled)
        )
        if point == models.MULTI_POINT:
            entries += tuple(
                entry(name, 0, point, len(entries) + i) for i, name in enumerate(names)
            )
        lists[point] = PluginLists(entries, frozenset(plugin.name for plugin in chosen.disabled))
    return lists


_POLICY_NAME: Final = re.compile(r"^metadata:\n  name: (\S+)$", re.MULTILINE)


@cache
def shipped_policies() -> Mapping[str, str]:
    """Return the files of shipped policies, by the names of the policies."""
    files = sorted(models.policies_directory().glob("*/policy.yaml"))
    return {
        name: str(file)
        for file in files
        if file.parent != models.default_policies()
        for name in _POLICY_NAME.findall(file.read_text("utf-8"))
    }


def named_policies(
    configuration: models.KubeSchedulerConfiguration, others: Collection[str]
) -> tuple[load.LoadedPolicy, ...]:
    """Return the shipped policies that a configuration names and ``others`` do not stand in for."""
    names = {entry.name for profile in configuration.profiles for entry in profile.plugin_config}
    for profile in configuration.profiles:
        for point in (*models.POINTS, models.MULTI_POINT):
            names.update(plugin.name for plugin in plugin_set(profile, point).enabled)
    files = [shipped_policies()[name] for name in sorted(names & shipped_policies().keys())]
    policies, _ = load.load_policies(files) if files else ((), [])
    return tuple(policy for policy in policies if policy.name not in others)


def _unknown_names(
    profile: models.KubeSchedulerProfile, index: int, implements: Mapping[str, frozenset[str]]
) -> Iterator[models.ModelProblem]:
    """Yield names that no plugin has: arguments for it are an error, disabling it a warning."""
    known = implements.keys() | models.REMOVED_PLUGINS | {""}
    for i, config in enumerate(profile.plugin_config):
        if config.name not in known:
            at: models.Path = ("profiles", index, "pluginConfig", i, "name")
            yield _unknown(at, config.name, implements)
    for point in (*models.POINTS, models.MULTI_POINT):
        for i, plugin in enumerate(plugin_set(profile, point).disabled):
            if plugin.name not in known and plugin.name != "*":
                at = ("profiles", index, "plugins", point, "disabled", i, "name")
                yield _unknown(at, plugin.name, implements, warning=True)


def _unknown(
    path: models.Path, name: str, known: Mapping[str, frozenset[str]], *, warning: bool = False
) -> models.ModelProblem:
    """Return the problem of a name that no plugin has."""
    otherwise = "a policy's file must be given along with the configuration"
    if warning:
        otherwise = "there is nothing to disable"
    hint = models.did_you_mean(name, known) or otherwise
    return models.problem_at(
        path, f'plugin "{name}" does not exist', models.UNKNOWN_PLUGIN, hint, warning=warning
    )


def _fault_problems(
    expansion: Expansion, index: int, implements: Mapping[str, frozenset[str]]
) -> Iterator[models.ModelProblem]:
    """Yield the expansion's faults with their places, each entry once."""
    seen: set[tuple[str, int]] = set()
    for fault in expansion.faults:
        entry = fault.entry
        if entry is None:
            yield models.problem_at(("profiles", index), fault.message, hint=fault.hint)
            continue
        position = (entry.point, entry.index)
        if position in seen or not entry.name or entry.name in models.REMOVED_PLUGINS:
            continue
        seen.add(position)
        at = ("profiles", index, "plugins", entry.point, "enabled", entry.index, "name")
        if entry.name not in implements:
            yield _unknown(at, entry.name, implements)
        else:
            yield models.problem_at(
                at, fault.message, _fault_code(fault), fault.hint, warning=fault.warning
            )


def _enable_conditions(expansion: Expansion, known: Mapping[str, load.LoadedPolicy]) -> None:
    """Enable the points at which parts of a policy run besides the one that was enabled.

    These are ``matchConditions``, with the section that they guard, and rules of ``preFilter``,
    which hold at filter in dry runs. A policy that stands in for an in-tree plugin runs at the
    points that are enabled, as that does.
    """
    for section, point in (("filter", "preFilter"), ("score", "preScore")):
        enabled = {name for name, _ in expansion.points[point]}
        for name, _ in expansion.points[section]:
            if name not in known or name in models.PLUGIN_POINTS or name in enabled:
                continue
            spec = known[name].model.spec
            own = spec.score.match_conditions if section == "score" and spec.score else ()
            if spec.match_conditions or own:
                expansion.points[point] += ((name, 0),)
    enabled = {name for name, _ in expansion.points["filter"]}
    for name, _ in expansion.points["preFilter"]:
        if name in known and name not in models.PLUGIN_POINTS and name not in enabled:
            spec = known[name].model.spec
            filters = spec.filter or (spec.devices and spec.devices.filter)
            if spec.pre_filter and spec.pre_filter.rules and not filters:
                expansion.points["filter"] += ((name, 0),)


def _fault_code(fault: ExpansionFault) -> str:
    """Return the code of a fault with a plugin that exists."""
    return models.DUPLICATE if "already registered" in fault.message else models.BAD_VALUE


def _with_audits(
    config: load.LoadedConfig,
    index: int,
    expansion: Expansion,
    known: Mapping[str, load.LoadedPolicy],
    problems: list[models.ModelProblem],
) -> ProfilePlan:
    """Return the plan of a profile without its audited policies, and a plan with each of them."""
    enabled = dict.fromkeys(name for names in expansion.points.values() for name, _ in names)
    audited = [
        name for name in enabled if name in known and known[name].model.spec.enforcement == "Audit"
    ]

    def without(names: Collection[str]) -> ProfilePlan:
        points = {
            point: tuple(entry for entry in entries if entry[0] not in names)
            for point, entries in expansion.points.items()
        }
        more: list[models.ModelProblem] = []
        plan = _plan(config, index, Expansion(points), known, more)
        problems.extend(problem for problem in more if problem not in problems)
        return plan

    plan = without(audited)
    if audited and plan.extenders:
        why = f"Unsupported: {audited[0]} is audited, and extenders decide, too"
        problems.append(models.problem_at(("extenders",), why, hint="enforce it, or delete it"))
    audits = {name: without([other for other in audited if other != name]) for name in audited}
    return msgspec.structs.replace(plan, audits=audits) if audits else plan


def _plan(
    config: load.LoadedConfig,
    index: int,
    expansion: Expansion,
    known: Mapping[str, load.LoadedPolicy],
    problems: list[models.ModelProblem],
) -> ProfilePlan:
    """Return the plan of a profile; arguments that a policy refuses go to ``problems``."""
    profile = config.model.profiles[index]
    given = {entry.name: (j, entry.args) for j, entry in enumerate(profile.plugin_config)}
    points = expansion.points
    args: dict[str, Mapping[str, Any]] = {}
    sources: dict[str, PolicySource] = {}
    enabled = dict.fromkeys(name for names in points.values() for name, _ in names)
    ignored = ignored_resources(config.model.extenders)
    for name in enabled:
        position, raw = given.get(name, (-1, _NO_ARGS))
        effective = (
            effective_args(name, config.args.get((index, name))) if name in models.ARGS else raw
        )
        if name == "NodeResourcesFit" and ignored:
            effective = {**effective, "ignoredResources": list(ignored)}
        if name not in known:
            args[name] = effective
            continue
        params = known[name].model.spec.params
        if name in models.ARGS:
            merged = load.merge_over(params, effective)
        else:
            at: models.Path = ("profiles", index, "pluginConfig", position, "args")
            # As upstream's plugins, a policy takes arguments with apiVersion and kind, too.
            head = {key: effective[key] for key in effective.keys() & HEAD - params.keys()}
            problems += check_head(name, head, at)
            own = {key: value for key, value in effective.items() if key not in head}
            merged = load.merge_params(params, own, at, problems)
            large = list(load.too_many_params(merged, at))
            problems += large
            merged = dict(params) if large else merged
        sources[name] = load.source_with(known[name], merged)
    problems += _weights(config, index, points, [known[name] for name in sources])
    percentage = profile.percentage_of_nodes_to_score
    return ProfilePlan(
        scheduler_name=profile.scheduler_name or models.DEFAULT_SCHEDULER,
        percentage_of_nodes_to_score=config.model.percentage_of_nodes_to_score
        if percentage is None
        else percentage,
        points=points,
        args=args,
        policies=sources,
        extenders=extender_settings(config.model.extenders) if config.sound else (),
        feature_gates=models.enabled_gates(config.model.feature_gates),
    )


def _weights(
    config: load.LoadedConfig,
    index: int,
    points: Mapping[str, Sequence[tuple[str, int]]],
    policies: Sequence[load.LoadedPolicy],
) -> Iterator[models.ModelProblem]:
    """Yield the weights that policies state of plugins that do not score, and second ones."""
    scoring, stated = dict(points.get("score", ())), dict[str, str]()
    for policy in policies:
        for weight in policy.model.spec.weights:
            plugin, what = weight.plugin, ""
            if plugin not in scoring:
                what = f'"{plugin}", which does not score in this profile'
            elif plugin in stated:
                what = f'"{plugin}", of which {stated[plugin]} states one, too'
            stated.setdefault(plugin, f'policy "{policy.name}"')
            if what:
                at = place_of(config, index, policy.name)
                why = f'Invalid value: policy "{policy.name}" states a weight of {what}'
                yield models.problem_at(at, why, hint=models.did_you_mean(plugin, scoring))


def place_of(config: load.LoadedConfig, index: int, name: str) -> models.Path:
    """Return where profile ``index`` names an enabled plugin; the profile for a default one."""
    profile = config.model.profiles[index]
    for point in (*models.POINTS, models.MULTI_POINT):
        for i, plugin in enumerate(plugin_set(profile, point).enabled):
            if plugin.name == name:
                return ("profiles", index, "plugins", point, "enabled", i, "name")
    return ("profiles", index)


def effective_args(name: str, given: models.PluginArgs | None) -> dict[str, Any]:
    """Return the arguments of an in-tree plugin as plain data, upstream's defaults filled in."""
    defaults: dict[str, Any] = _default_args(name)
    if given is None:
        return defaults
    own = given.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude_unset=True, exclude=_HEAD
    )
    merged: dict[str, Any] = load.merge_over(defaults, own)
    return merged


@cache
def _default_args(name: str) -> dict[str, Any]:
    """Return upstream's defaults of an in-tree plugin's arguments."""
    return models.ARGS[name]().model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude=_HEAD
    )


def _queue_sorts(
    plans: Sequence[ProfilePlan], known: Sequence[models.ModelProblem]
) -> Iterator[models.ModelProblem]:
    """Yield profiles whose queue sort is not the first profile's: they share one queue."""
    if any(not problem.warning for problem in known):
        return
    for i, plan in enumerate(plans[1:], start=1):
        if plan.points["queueSort"] != plans[0].points["queueSort"]:
            why = "Invalid value: queueSort must be the same for all profiles"
            yield models.problem_at(("profiles", i), why, models.UNLIKE_QUEUE_SORT)


_NO_SECTION: Final = "it is a policy without a section for this point: the entry does nothing"
Enabled = tuple[str, int]
"""A plugin's name and weight, 0 where none was given."""


class EnabledPlugin(msgspec.Struct, frozen=True):
    """One enabled plugin, and where the file enables it: point and index; none for a default."""

    name: str
    weight: int = 0
    point: str = ""
    index: int = -1


class PluginLists(msgspec.Struct, frozen=True):
    """One extension point of a profile as written: entries enabled, names disabled."""

    enabled: tuple[EnabledPlugin, ...] = ()
    disabled: frozenset[str] = frozenset()


class ExpansionFault(msgspec.Struct, frozen=True):
    """Why a profile cannot be expanded, and the entry at fault (None: the whole profile)."""

    message: str
    entry: EnabledPlugin | None = None
    hint: str = ""
    warning: bool = False


class Expansion(msgspec.Struct):
    """The plugins of a profile, per point in order with their weights, and its faults.

    Weights are at least 1 at ``score`` and ``placementScore``, and 0 elsewhere.
    """

    points: dict[str, tuple[Enabled, ...]] = msgspec.field(default_factory=dict)
    faults: list[ExpansionFault] = msgspec.field(default_factory=list)


def merge_multi_point(
    custom: PluginLists, defaults: Sequence[Enabled] = models.DEFAULT_PLUGINS
) -> tuple[EnabledPlugin, ...]:
    """Return the profile's multiPoint merged into the default one.

    A default plugin that the profile names again keeps its place and takes the profile's
    weight; other plugins of the profile follow. A plugin named twice stays twice, which the
    expansion reports.
    """
    replacing = {entry.name: i for i, entry in enumerate(custom.enabled)}
    merged: list[EnabledPlugin] = []
    used: set[int] = set()
    if "*" not in custom.disabled:
        for name, weight in defaults:
            if name in custom.disabled:
                continue
            if name in replacing:
                used.add(replacing[name])
                merged.append(custom.enabled[replacing[name]])
            else:
                merged.append(EnabledPlugin(name, weight))
    merged.extend(entry for i, entry in enumerate(custom.enabled) if i not in used)
    return tuple(merged)


def expand(
    sets: Mapping[str, PluginLists],
    implements: Mapping[str, frozenset[str]],
    defaults: Sequence[Enabled] = models.DEFAULT_PLUGINS,
    by_section: Collection[str] = (),
) -> Expansion:
    """Expand a profile.

    ``sets``: what the profile has per point, multiPoint included; absent points have nothing.
    ``implements``: the points of every plugin that exists. ``by_section``: policies, which have
    the points of their sections; at any other they do nothing, and a warning says so. All faults
    are collected; the points of a profile with faults that are no warnings must not be used.
    """
    result = Expansion()
    multi_point = merge_multi_point(sets.get(models.MULTI_POINT, PluginLists()), defaults)
    for entry in multi_point:
        if entry.name not in implements:
            result.faults.append(ExpansionFault(f'plugin "{entry.name}" does not exist', entry))
    for point in models.POINTS:
        own = _own_list(point, sets.get(point, PluginLists()), implements, by_section, result)
        disabled = sets.get(point, PluginLists()).disabled
        from_multi_point: dict[str, EnabledPlugin] = {}
        overridden: set[str] = set()
        if "*" not in disabled:
            for entry in multi_point:
                if point not in implements.get(entry.name, ()) or entry.name in disabled:
                    continue
                if entry.name in own:
                    overridden.add(entry.name)
                elif entry.name in from_multi_point:
                    later = max(entry, from_multi_point[entry.name], key=lambda e: e.index)
                    result.faults.append(_twice(later, point))
                else:
                    from_multi_point[entry.name] = entry
        ordered = [e for e in own.values() if e.name in overridden]
        ordered += from_multi_point.values()
        ordered += [e for e in own.values() if e.name not in overridden]
        scores = point in {"score", "placementScore"}
        result.points[point] = tuple((e.name, (e.weight or 1) if scores else 0) for e in ordered)
    _check_whole(result)
    return result


def _own_list(
    point: str,
    lists: PluginLists,
    implements: Mapping[str, frozenset[str]],
    by_section: Collection[str],
    result: Expansion,
) -> dict[str, EnabledPlugin]:
    """Return the point's own plugins in order, and report those that cannot be there."""
    own: dict[str, EnabledPlugin] = {}
    kind = models.POINT_TYPES[point]
    for entry in lists.enabled:
        if entry.name not in implements:
            result.faults.append(ExpansionFault(f'{kind} "{entry.name}" does not exist', entry))
        elif point not in implements[entry.name]:
            why = f'plugin "{entry.name}" does not extend {kind} plugin'
            harmless = entry.name in by_section
            hint = _NO_SECTION if harmless else ""
            result.faults.append(ExpansionFault(why, entry, hint, harmless))
        elif entry.name in own:
            result.faults.append(_twice(entry, point))
        else:
            own[entry.name] = entry
    return own


def _one_sort(names: Sequence[str]) -> str:
    """Return what to write for a queue that one of these plugins sorts."""
    if not names:
        return "queueSort: {enabled: [{name: PrioritySort}]}"
    *others, last = names
    disabled = ", ".join(f"{{name: {name}}}" for name in others)
    lists = f"{{enabled: [{{name: {last}}}], disabled: [{disabled}]}}"
    return (
        f"{' and '.join(names)} sort the queue; in a configuration (--config) one is chosen: "
        f"profiles: [{{plugins: {{queueSort: {lists}}}}}]"
    )


def _twice(entry: EnabledPlugin, point: str) -> ExpansionFault:
    """Return the fault of a plugin that is enabled twice at one point."""
    return ExpansionFault(
        f'plugin "{entry.name}" already registered as "{models.POINT_TYPES[point]}"', entry
    )


def _check_whole(result: Expansion) -> None:
    """Report a profile without exactly one queue sort, or without a bind plugin."""
    if any(not fault.warning for fault in result.faults):
        return
    sorts = [name for name, _ in result.points["queueSort"]]
    if len(sorts) != 1:
        text = f"only one queue sort plugin required, but got {len(sorts)}"
        result.faults.append(ExpansionFault(text, hint=_one_sort(sorts)))
    if not result.points["bind"]:
        result.faults.append(ExpansionFault("at least one bind plugin is needed"))
