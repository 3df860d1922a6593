"""Builds pipelines: a plan's plugins made, registered with pluggy, and frozen in profile order.

Plugins of one cluster are kept: a reload takes those again whose hashes are the same. That saves
work, and it keeps what a plugin remembers: assumptions about volumes outlive a reload of other
policies.

kube-scheduler's plugins hand on what PreFilter and PreScore found. Where a configuration disables
those, the points that read it fail every pod that reaches them, here as upstream. Points that find
it out by themselves then, as NodeAffinity's and VolumeZone's do, do not fail.

A scheduler watches the kinds of objects that its profiles read, and no more. A watch of another one
costs memory, and where the server does not serve the kind, a refused request each minute.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Final, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from policy_sched import framework, model
from policy_sched.client import MemoryClient
from policy_sched.cluster import Cache
from policy_sched.cluster.tables import NodeTable, NodeView
from policy_sched.errors import Diagnostic, PluginError, PolicyError, PolicySchedError, Severity
from policy_sched.framework import runtime
from policy_sched.framework.runtime import Implementations
from policy_sched.language import CompiledPolicy, Input, diagnostics
from policy_sched.language.codegen import FusedProgram
from policy_sched.language.stdlib import decoded_structs
from policy_sched.plugins import GATED_PARTS, HOUSE, factories, plugin_points
from policy_sched.plugins.dynamicresources import Allocating, Allocations, DynamicResources
from policy_sched.plugins.rules import (
    BoundFusedRules,
    BoundProgram,
    ChainedRules,
    DevicePolicy,
    ProfileDeviceRules,
    fuse_policies,
    rule_plugin,
)
from policy_sched.profiles import load, models
from policy_sched.profiles.build.compile import (
    PluginHash,
    compiled,
    devices_hash,
    policy_hash,
    rules_cache,
)
from policy_sched.profiles.models import GENERIC_WORKLOAD, PLUGIN_POINTS, PLUGIN_READS
from policy_sched.profiles.resolve import ProfilePlan, certificate_problems, place_of, resolve
from policy_sched.queue import Nominator

DYNAMIC_RESOURCES: Final = "DynamicResources"
_EVALUATED: Final = ("filter", "score")
_PROGRAMS: Final = 64
"""Programs that are kept in a process."""

Key: TypeAlias = tuple[str, str, str]
"""Profile, plugin, and the hash of its content: of a policy, or of arguments."""


class PluginCache:
    """What plugins implement, by what they were made of, and programs over the tables.

    A build begins, takes plugins by `get`, programs by `bound` and whole plans by `keep`; once
    its result is in force, `settle` drops what the build did not request.
    """

    def __init__(self) -> None:
        self._made: dict[Key, runtime.Implementations] = {}
        self._bound: list[BoundProgram] = []
        self._parts: dict[str, _Parts] = {}
        self._used = _Parts()
        self._plans: set[str] = set()
        self._asked = _Parts()

    def begin(self) -> None:
        """Clear the record of an earlier build's requests."""
        self._used, self._asked = _Parts(), _Parts()
        self._plans.clear()

    def built(self, plan: str) -> None:
        """Note that what was requested since the last call is the plan's of that content hash."""
        self._parts[plan], self._asked = self._asked, _Parts()
        self._plans.add(plan)

    def bound(self, program: FusedProgram, handle: framework.Handle) -> BoundProgram:
        """Return a program over a cluster's tables, with the columns that it keeps."""
        known = (*self._bound, *self._used.programs)
        same = [own for own in known if own.program is program]
        bound = same[0] if same else BoundProgram(program, handle)
        for parts in (self._used, self._asked):
            parts.programs.append(bound)
        return bound

    def get(
        self, key: Key, make: Callable[[], object], foreign: NodeTable | None = None
    ) -> runtime.Implementations:
        """Return what the plugin of that key implements; the plugin is made if need be.

        ``foreign``: the nodes, where another package has the plugin: its results are checked.
        Raises PolicyError or PluginError if it refuses its arguments or does not fit the hooks.
        """
        plugin = self._made.get(key)
        if plugin is None:
            plugin = _made(key[1], make)
            if foreign is not None:
                plugin = runtime.checked(key[1], plugin, foreign)
            self._made[key] = plugin
        for parts in (self._used, self._asked):
            parts.plugins.add(key)
        return plugin

    def keep(self, plan: str) -> None:
        """Request everything of a plan that was built, by its content hash."""
        parts = self._parts[plan]
        self._used.plugins |= parts.plugins
        self._used.programs += parts.programs
        self._plans.add(plan)

    def settle(self) -> None:
        """Evict plugins that were not requested since the build began."""
        used = self._used.plugins
        self._made = {key: made for key, made in self._made.items() if key in used}
        self._bound = self._used.programs
        self._parts = {plan: parts for plan, parts in self._parts.items() if plan in self._plans}


class _Parts(msgspec.Struct):
    """Plugins and programs that were requested."""

    plugins: set[Key] = msgspec.field(default_factory=set)
    programs: list[BoundProgram] = msgspec.field(default_factory=list)


def _made(name: str, make: Callable[[], object]) -> runtime.Implementations:
    """Return what a new plugin implements. Raises PluginError whatever it raises."""
    try:
        return runtime.implementations(make(), name)
    except (PolicySchedError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise PluginError(f'plugin "{name}" cannot be made: {runtime.told(error)}') from error


class CompiledPlan(msgspec.Struct, frozen=True):
    """A profile's plan with its policies compiled; it knows no cluster yet.

    ``hashes``: of every plugin, by name. ``in_tree``: the plugins that are kube-scheduler's, and
    not others of their names. ``programs``: the rules that run as one, in one or two programs;
    none where plans are only checked. Plans are the same in every process.
    """

    plan: ProfilePlan
    policies: dict[str, CompiledPolicy]
    content_hash: str
    hashes: Mapping[str, PluginHash]

    in_tree: frozenset[str]
    programs: tuple[FusedProgram, ...] = ()
    audits: Mapping[str, CompiledPlan] = msgspec.field(default_factory=dict)
    """By audited policy, the plan in which it decides."""

    @property
    def own(self) -> list[str]:
        """Names of the policies that are none of kube-scheduler's plugins."""
        return [name for name in self.plan.policies if name not in self.in_tree]


def compile_profiles(
    config: load.LoadedConfig, policies: Sequence[load.LoadedPolicy], *, runs: bool = True
) -> tuple[tuple[CompiledPlan, ...], list[Diagnostic]]:
    """Resolve and compile every profile; diagnostics of all of them, warnings included.

    ``runs``: whether pipelines are built of the plans.

    The default profile's policies are known, too; a policy in ``policies`` that has the name of
    one of them takes its place. Without plans there are errors among the diagnostics.
    """
    shipped, faults = _shipped_policies(str(models.default_policies()))
    problems = list(faults)
    plans, unresolved = resolve(config, (*shipped, *policies), plugin_points())
    problems += unresolved
    own = {policy.name for policy in shipped} - {policy.name for policy in policies}
    problems += config.place.diagnostics(certificate_problems(config.model.extenders))

    def compiled_plan(i: int, plan: ProfilePlan) -> CompiledPlan:
        ready: dict[str, CompiledPolicy] = {}
        hashes = _plugin_hashes(plan)
        for name, source in plan.policies.items():
            policy, more = compiled(source, hashes[name].whole, kept=name in own)
            problems.extend(d for d in more if d not in problems)
            if policy is not None:
                ready[name] = policy
        faults = [*_unsupported(config, i, plan), *_too_costly(config, i, plan, ready)]
        problems.extend(d for d in faults if d not in problems)
        digest = _plan_hash(plan, hashes)
        in_tree = _in_tree(plan, shipped, policies)
        audits = {name: compiled_plan(i, audit) for name, audit in plan.audits.items()}
        if audits:
            digest = load.content_hash([digest, *(a.content_hash for a in audits.values())])
        return CompiledPlan(plan, ready, digest, hashes, in_tree, audits=audits)

    results = [compiled_plan(i, plan) for i, plan in enumerate(plans)]
    cache = rules_cache()
    if cache is not None:
        cache.save()
    if any(d.severity is Severity.ERROR for d in problems):
        return (), sorted(problems)
    if runs:
        results = list(map(_with_programs, results))
    return tuple(results), sorted(problems)


def _with_programs(ready: CompiledPlan) -> CompiledPlan:
    audits = {name: _with_programs(audit) for name, audit in ready.audits.items()}
    return replace(ready, programs=_programs(ready), audits=audits)


def _programs(ready: CompiledPlan) -> tuple[FusedProgram, ...]:
    """Return the rules of a plan that run as one.

    Policies that follow kube-scheduler's plugins have a program of their own: where they change,
    that of the plugins is made already.
    """
    filters, scores = ([name for name, _ in ready.plan.points[point]] for point in _EVALUATED)
    own = frozenset(ready.own)
    last = max((i for i, name in enumerate(filters) if name in ready.in_tree), default=-1)
    before, after = filters[: last + 1], filters[last + 1 :]
    if own.isdisjoint([*after, *scores]):
        return (_program(ready, filters, scores),)
    return (
        _program(ready, before, [name for name in scores if name not in own]),
        _program(ready, after, [name for name in scores if name in own]),
    )


def _program(ready: CompiledPlan, filters: Sequence[str], scores: Sequence[str]) -> FusedProgram:
    """Return the program of the rules at some of a plan's filters and scores."""
    hashes = {
        name: ready.hashes[name].whole for name in (*filters, *scores) if name in ready.policies
    }
    allocates = DYNAMIC_RESOURCES in ready.plan.args
    return _made_program(
        _Rules(tuple(filters), tuple(scores), allocates, tuple(hashes.items()), ready.policies)
    )


@dataclass(frozen=True, slots=True)
class _Rules:
    """Policies of a plan; equal to others of the same content in the same order."""

    filters: tuple[str, ...]
    scores: tuple[str, ...]
    allocates: bool
    hashes: tuple[tuple[str, str], ...]
    policies: Mapping[str, CompiledPolicy] = field(compare=False)


@lru_cache(maxsize=_PROGRAMS)
def _made_program(rules: _Rules) -> FusedProgram:
    return fuse_policies(rules.policies, rules.filters, rules.scores, allocates=rules.allocates)


def _in_tree(
    plan: ProfilePlan, shipped: Sequence[load.LoadedPolicy], given: Sequence[load.LoadedPolicy]
) -> frozenset[str]:
    """Return a plan's plugins that no other policy or plugin of the same name stands in for."""
    theirs = {policy.name: policy.model for policy in given}
    own = {
        shipped_policy.name
        for shipped_policy in shipped
        if theirs.get(shipped_policy.name, shipped_policy.model) == shipped_policy.model
    }
    return frozenset(
        name
        for name in plan.plugins
        if (name in own if name in plan.policies else factories().get(name) is HOUSE.get(name, ""))
    )


@lru_cache(maxsize=4)
def _shipped_policies(path: str) -> tuple[tuple[load.LoadedPolicy, ...], tuple[Diagnostic, ...]]:
    """Return the default profile's policies, read once: they belong to the program."""
    policies, problems = load.load_policies([path])
    return policies, tuple(problems)


def _plugin_hashes(plan: ProfilePlan) -> dict[str, PluginHash]:
    """Return the hashes of a plan's policies, and of the arguments of its other plugins."""
    hashes = {name: policy_hash(source) for name, source in plan.policies.items()}
    for name, args in plan.args.items():
        if name not in hashes:
            digest = load.content_hash(args)
            hashes[name] = PluginHash(digest, digest)
    devices = devices_hash([(plan.policies[n], _enabled(plan, n)) for n in plan.policies])
    if devices is not None and DYNAMIC_RESOURCES in hashes:
        mine = hashes[DYNAMIC_RESOURCES]
        hashes[DYNAMIC_RESOURCES] = PluginHash(
            load.content_hash([mine.whole, devices.whole]),
            load.content_hash([mine.rejecting, devices.rejecting]),
        )
    return hashes


def _enabled(plan: ProfilePlan, name: str) -> list[tuple[str, int]]:
    """Return the points at which a plan runs the parts of a policy's devices section."""
    return [
        (point, weight)
        for point in ("filter", "score")
        for plugin, weight in plan.points[point]
        if plugin == name
    ]


def _plan_hash(plan: ProfilePlan, hashes: Mapping[str, PluginHash]) -> str:
    """Return the hash of the content of a plan."""
    return load.content_hash(
        [
            plan.scheduler_name,
            plan.percentage_of_nodes_to_score,
            load.content_hash(plan.points),
            {name: load.content_hash(args) for name, args in plan.args.items()},
            {name: hashes[name].whole for name in plan.policies},
            plan.extenders,
            *sorted(plan.feature_gates),
        ]
    )


def _too_costly(
    config: load.LoadedConfig, index: int, plan: ProfilePlan, ready: Mapping[str, CompiledPolicy]
) -> list[Diagnostic]:
    """Refuse a profile whose rules together cost too much; limits that policies set are added."""
    limit = diagnostics.MAX_PROFILE_COST + sum(
        source.cost_limit
        for source in plan.policies.values()
        if source.cost_limit > diagnostics.MAX_RULE_COST
    )
    limit = min(limit, diagnostics.MAX_ANNOTATED_PROFILE_COST)
    costs = {name: policy.units for name, policy in ready.items()}
    if sum(costs.values()) <= limit:
        return []
    most = max(costs, key=lambda name: costs[name])
    text = (
        f"profiles[{index}]: the rules cost about {sum(costs.values()):.0f} ns for each node;"
        f" the limit is {limit}, and {most} has {costs[most]:.0f} of it"
    )
    return [config.place.diagnostic(models.ModelProblem(("profiles", index), "PS503", text))]


def _unsupported(config: load.LoadedConfig, index: int, plan: ProfilePlan) -> list[Diagnostic]:
    """Refuse plugins that this version does not have, and those whose feature gate is off."""
    plugins = factories().keys() | plan.policies.keys()
    return [
        config.place.diagnostic(
            models.ModelProblem(
                place_of(config, index, name),
                models.UNKNOWN_PLUGIN,
                f'plugin "{name}" is not supported yet'
                if gate is None
                else f'plugin "{name}" needs the feature gate {gate}',
            )
        )
        for name in plan.plugins
        if (gate := models.PLUGIN_GATES.get(name)) not in plan.feature_gates
        and (gate is not None or name not in plugins)
    ]


def build_pipeline(
    ready: CompiledPlan,
    handle: framework.Handle,
    generation: int = 0,
    made: PluginCache | None = None,
) -> runtime.Pipeline:
    """Make a compiled plan's plugins for one cluster and freeze them.

    ``made``: plugins that exist already. Raises PolicyError or PluginError if a plugin refuses
    its arguments or does not fit.
    """
    plan = ready.plan
    made = PluginCache() if made is None else made
    profile = plan.scheduler_name
    implementations, allocating, devices = _with_device_rules(ready, handle, made)
    for name, policy in ready.policies.items():
        key = (profile, name, ready.hashes[name].whole)
        if policy.reads_allocation and allocating is not None:
            key = (profile, f"{name}, {devices}", ready.hashes[name].whole)
            make = partial(rule_plugin, policy, handle, profile, allocating)
        else:
            make = partial(rule_plugin, policy, handle, profile)
        implementations[name] = made.get(key, make)
    for name, (gate, factory) in GATED_PARTS.items():
        if gate in plan.feature_gates and name in implementations:
            key = (profile, f"{name}, {gate}", ready.hashes[name].whole)
            params = plan.policies[name].params
            implementations[name] = {
                **made.get(key, partial(factory, params, handle)),
                **implementations[name],
            }
    for name in plan.plugins:
        if name not in implementations and name in factories():
            args = plan.args[name]
            key = (profile, name, ready.hashes[name].whole)
            make = partial(factories()[name], args, handle)
            foreign = factories()[name] is not HOUSE.get(name)
            implementations[name] = made.get(key, make, handle.nodes if foreign else None)
    for name in ready.in_tree & implementations.keys():
        enabled = {field for field, names in plan.points.items() if name in dict(names)}
        implementations[name] = as_enabled(name, implementations[name], enabled)
    order = {
        field: [
            (name, weight or 1)
            for name, weight in plan.points[field]
            if hook in implementations.get(name, ())
        ]
        for field, hook in framework.CONFIGURED.items()
    }
    pipeline = runtime.freeze(
        profile,
        implementations,
        order,
        percentage_of_nodes_to_score=plan.percentage_of_nodes_to_score,
        generation=generation,
        content_hash=ready.content_hash,
        feature_gates=plan.feature_gates,
    )
    signatures = pipeline.signatures
    bound = [made.bound(program, handle) for program in ready.programs]
    made.built(ready.content_hash)
    parts = [BoundFusedRules(part, signatures, profile) for part in bound]
    if not parts:
        return pipeline
    return replace(pipeline, rules=ChainedRules(*parts) if len(parts) > 1 else parts[0])


def foreign_problems(config: load.LoadedConfig, plans: Sequence[CompiledPlan]) -> list[Diagnostic]:
    """Make the plugins of other packages for an empty cluster; return what goes wrong.

    ``plans``: of the configuration's profiles, in their order.
    """
    problems = []
    handle = framework.Handle(
        Cache(), framework.WaitingPods(), Nominator(), MemoryClient(), lambda: 0
    )
    for i, (ready, profile) in enumerate(zip(plans, config.model.profiles, strict=True)):
        given = {entry.name: j for j, entry in enumerate(profile.plugin_config)}
        for name in ready.plan.plugins:
            make = factories().get(name)
            if name in ready.plan.policies or make is None or make is HOUSE.get(name):
                continue
            try:
                made = _made(name, partial(make, ready.plan.args[name], handle))
                _ask(name, runtime.checked(name, made, handle.nodes))
            except PluginError as error:
                at: models.Path = place_of(config, i, name)
                if name in given:
                    at = ("profiles", i, "pluginConfig", given[name], "args")
                problems.append(
                    config.place.diagnostic(models.ModelProblem(at, models.NOT_BUILT, str(error)))
                )
    return problems


def _ask(name: str, plugin: runtime.Implementations) -> None:
    """Call the hooks of a plugin that a scheduler calls at its start; PluginError if one fails."""
    for point in ("sign_pod", "events_to_register", "evictions"):
        if point in plugin:
            try:
                plugin[point]()
            except PluginError:
                raise
            except Exception as error:
                raise PluginError(runtime.broken(point, name, error)) from error


def _with_device_rules(
    ready: CompiledPlan, handle: framework.Handle, made: PluginCache
) -> tuple[dict[str, runtime.Implementations], Allocating | None, str]:
    """Return DynamicResources where policies rate devices or read what is allocated.

    With it come what knows allocations, and a hash of its rules; nothing where it is not enabled.
    """
    plan, profile = ready.plan, ready.plan.scheduler_name
    policies = list(ready.policies.values())
    rating = [policy for policy in policies if policy.device_reads is not None]
    needed = rating or any(policy.reads_allocation for policy in policies)
    if not needed or DYNAMIC_RESOURCES not in plan.args:
        return {}, None, ""
    parts = []
    for policy in rating:
        enabled = dict(_enabled(plan, policy.name))
        parts.append(DevicePolicy(policy, "filter" in enabled, enabled.get("score", 0)))
    digest = ready.hashes[DYNAMIC_RESOURCES].whole

    def make() -> object:
        rules = ProfileDeviceRules(parts, handle, profile) if parts else None
        args = plan.args[DYNAMIC_RESOURCES]
        return DynamicResources(args, handle, rules, (profile, digest))

    functions = made.get((profile, f"{DYNAMIC_RESOURCES}, with rules", digest), make)
    allocating = handle.shared(Allocations).get(profile, digest)
    return {DYNAMIC_RESOURCES: functions}, allocating, digest


def raise_errors(problems: Sequence[Diagnostic]) -> None:
    """Raise PolicyError with all problems if one of them is an error."""
    if any(d.severity is Severity.ERROR for d in problems):
        raise PolicyError(problems)


_NOT_FOUND: Final = "not found"
_AFTER_PRE_FILTER: Final[Mapping[str, str]] = {
    "NodePorts": 'reading "PreFilterNodePorts" from cycleState: not found',
    "NodeResourcesFit": 'error reading "PreFilterNodeResourcesFit" from cycleState: not found',
    "VolumeRestrictions": 'cannot read "PreFilterVolumeRestrictions" from cycleState',
    "VolumeBinding": _NOT_FOUND,
    "PodTopologySpread": 'reading "PreFilterPodTopologySpread" from cycleState: not found',
    "InterPodAffinity": 'error reading "PreFilterInterPodAffinity" from cycleState: not found',
    "DynamicResources": _NOT_FOUND,
    "NodeDeclaredFeatures": (
        'error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found'
    ),
}
_AFTER_PRE_SCORE: Final[Mapping[str, str]] = {
    "TaintToleration": 'failed to read "PreScoreTaintToleration" from cycleState: not found',
    "PodTopologySpread": 'error reading "PreScorePodTopologySpread" from cycleState: not found',
    "InterPodAffinity": 'failed to read "PreScoreInterPodAffinity" from cycleState: not found',
}
_BINDING: Final = frozenset({"reserve", "unreserve", "pre_bind", "pre_bind_pre_flight"})
"""What VolumeBinding does with the volumes that its filter found for the node."""


def as_enabled(name: str, functions: Implementations, enabled: Collection[str]) -> Implementations:
    """Return what an in-tree plugin implements, where only some of its points are enabled.

    ``enabled``: fields of a profile's ``plugins`` (``preFilter``).
    """
    changed: dict[str, Callable[..., object]] = {}
    if "preFilter" not in enabled and name in _AFTER_PRE_FILTER:
        why = _AFTER_PRE_FILTER[name]
        changed["filter"] = _failing_filter(why)
        if why is _NOT_FOUND:  # upstream's other points read the same
            changed |= dict.fromkeys(("score", "reserve"), _failing(why))
    elif name == "VolumeBinding" and "filter" not in enabled:
        return {point: own for point, own in functions.items() if point not in _BINDING}
    if "preScore" not in enabled and name in _AFTER_PRE_SCORE:
        changed["score"] = _failing(_AFTER_PRE_SCORE[name])
    if not changed:
        return functions
    # Without its signature nothing is known of the plugin that would hold for what it does now.
    kept = {point: own for point, own in functions.items() if point != "sign_pod"}
    return kept | {point: function for point, function in changed.items() if point in functions}


def _failing(why: str) -> Callable[..., object]:
    def fail(*_args: object) -> object:
        raise LookupError(why)

    return fail


def _failing_filter(why: str) -> Callable[..., object]:
    """Return a filter that fails on the nodes that the filters before it pass."""
    status = framework.Status(framework.Code.ERROR, (why,))

    def describe(rows: NDArray[np.intp], _codes: framework.Codes) -> list[framework.Status]:
        return [status] * rows.size

    def fail(
        _state: framework.CycleState, _pod: model.PodInfo, rows: framework.Rows, nodes: NodeView
    ) -> framework.FilterResult:
        codes = np.ones(nodes.n if rows is None else rows.size, np.int16)
        return framework.FilterResult(codes, describe, fatal=frozenset({1}), names_node=False)

    return fail


_ALWAYS: Final = frozenset({("v1", "Node"), ("v1", "Namespace"), ("v1", "Pod")})
_GROUP: Final = frozenset(kind for kind, struct in model.KINDS.items() if struct is model.PodGroup)
_GROUPS: Final = _GROUP | {
    kind for kind, struct in model.KINDS.items() if struct is model.CoschedulingGroup
}
_DEVICE_FACTS: Final = frozenset(
    {"allocation", "devices", "deviceAllocatable", "deviceRequested", "deviceResources"}
)


def kinds_read(plans: Sequence[CompiledPlan]) -> frozenset[model.Kind]:
    """Return the kinds that the profiles read; a foreign plugin and a hint may read all."""
    return _ALWAYS.union(*(kinds for ready in plans for kinds in _of_profile(ready)))


def declared_inputs(plans: Iterable[CompiledPlan]) -> tuple[Input, ...]:
    """Return the inputs of the enabled policies, each once."""
    policies = (policy for ready in plans for policy in ready.policies.values())
    inputs = (given for policy in policies for given in policy.sections.inputs)
    return tuple({given.identity: given for given in inputs}.values())


def published_inputs(plans: Iterable[CompiledPlan]) -> tuple[Input, ...]:
    """Return the inputs whose objects show numbers of quotas, each once."""
    published = {}
    for policy in (policy for ready in plans for policy in ready.policies.values()):
        inputs = {given.identity: given for given in policy.sections.inputs}
        for objects in (kind for quotas in policy.sections.quotas for kind in quotas.kinds):
            if objects.publish:
                published[objects.input] = inputs[objects.input]
    return tuple(published.values())


def declared_kinds(
    plans: Iterable[CompiledPlan], *, polled: bool = False
) -> dict[model.Kind, bool]:
    """Return the kinds that inputs follow, and whether each may be missing.

    ``polled``: those, too, that a server cannot let watch; they may be missing.
    """
    kinds: dict[model.Kind, bool] = {}
    for given in declared_inputs(plans):
        if given.kind and (polled or not given.poll):
            kind = given.api_version, given.kind
            kinds[kind] = kinds.get(kind, True) and bool(given.optional or given.poll)
    return kinds


def structs_read(plans: Iterable[CompiledPlan]) -> dict[model.Kind, type[model.ApiObject]]:
    """Return how kinds are decoded of which rules read more than scheduling does."""
    policies = (policy for ready in plans for policy in ready.policies.values())
    return decoded_structs(kind for policy in policies for kind in policy.sections.objects)


def decoded_kinds(plans: Sequence[CompiledPlan]) -> dict[model.Kind, type[model.ApiObject]]:
    """Return how the kinds of inputs are decoded, and those that `structs_read` returns."""
    declared = declared_kinds(plans, polled=True)
    return {
        **{kind: model.KINDS.get(kind, model.CustomObject) for kind in declared},
        **structs_read(plans),
    }


def reads_pod_groups(plans: Sequence[CompiledPlan]) -> bool:
    """Return whether a feature gate, a policy or a foreign plugin may read PodGroups."""
    return not _GROUP.isdisjoint(kinds_read(plans))


def _of_profile(ready: CompiledPlan) -> Iterator[frozenset[model.Kind]]:
    plan = ready.plan
    for name in plan.plugins:
        if name not in PLUGIN_POINTS and name not in ready.policies:
            yield frozenset(model.KINDS)
        elif name != "PodTopologySpread" or _has_defaults(plan.args.get(name, {})):
            yield PLUGIN_READS.get(name, frozenset())
    if GENERIC_WORKLOAD in plan.feature_gates:
        yield _GROUP
    yield from map(_of_policy, ready.policies.values())
    for audit in ready.audits.values():
        yield from _of_profile(audit)


def _has_defaults(args: object) -> bool:
    """Return whether PodTopologySpread has constraints that need a pod's services and owner."""
    assert isinstance(args, dict)
    return args.get("defaultingType", "System") == "System" or bool(args.get("defaultConstraints"))


def _of_policy(policy: CompiledPolicy) -> frozenset[model.Kind]:
    inputs = policy.sections.inputs
    kinds = frozenset((given.api_version, given.kind) for given in inputs if given.kind)
    if policy.life.hint is not None:
        return kinds.union(model.KINDS)
    reads = policy.all_reads
    if any(path[:1] == ("podGroup",) for path in reads.pod):
        kinds |= _GROUPS
    if not reads.node.isdisjoint(_DEVICE_FACTS):
        kinds |= PLUGIN_READS["DynamicResources"]
    return kinds
