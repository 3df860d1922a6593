"""The variants of an experiment: configurations, policies, params and weights, compiled.

Theory of operation. A variant is the common base, an entry of ``variants`` and a value of each axis
of the matrix, laid over each other. What it changes of a configuration is put into a copy of the
configuration's data, which is then read and compiled as any other. Problems of files keep their
places; those of what the experiment changes point at the experiment.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Final, Protocol

from policy_sched.errors import Diagnostic, Severity
from policy_sched.experiments.reading import NOT_REPEATABLE, LoadedExperiment, axis_name
from policy_sched.framework.runtime import ENTRY_POINT_GROUP
from policy_sched.language.diagnostics import PolicySource
from policy_sched.plugins import plugin_points
from policy_sched.profiles import load, models
from policy_sched.profiles.build import CompiledPlan
from policy_sched.profiles.reload import PolicyFiles

_DATA: Final = "<variant>"
_HEAD: Final = {
    "apiVersion": models.API_VERSION,
    "kind": models.KIND,
}
_ARGUMENT: Final = re.compile(
    r"profiles\[(\d+)\]\.pluginConfig\[(\d+)\](?:\.args)?((?:\.\w+|\[\d+\])*)"
)
"""The path of an argument in a configuration."""
_PREFIX: Final = re.compile(r"^profiles\[\d+\]\S*: ")
_IN_QUOTES: Final = re.compile(r'"profiles\[\d+\]\.pluginConfig\[\d+\]\.args\.([^"]*)"')
_STEP: Final = re.compile(r"\w+")
_POLICY_OF_NONE: Final = "default"


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of a variant, before it is compiled: files, params and weights."""

    config: str | None = None
    policies: tuple[str, ...] = ()
    params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    weights: Mapping[str, int] = field(default_factory=dict)
    at: models.Path = ("spec",)
    """Path of the experiment's part that has most of it."""
    devices: str | None = None
    devices_at: models.Path = ("spec",)
    paths: Mapping[tuple[str, str], models.Path] = field(default_factory=dict)
    """Paths of params and weights in the experiment, by "params" or "weights" and plugin."""

    def over(self, other: Changes) -> Changes:
        """Return the changes of both; these count where both say something."""
        return Changes(
            config=self.config if self.config is not None else other.config,
            policies=tuple(dict.fromkeys((*other.policies, *self.policies))),
            params=load.merge_over(other.params, self.params),
            weights={**other.weights, **self.weights},
            at=self.at,
            devices=self.devices if self.devices is not None else other.devices,
            devices_at=self.devices_at if self.devices is not None else other.devices_at,
            paths={**other.paths, **self.paths},
        )


@dataclass(frozen=True, slots=True)
class CompiledVariant:
    """A variant that can be run."""

    name: str
    axes: Mapping[str, Any]
    """Its values of the matrix, by name of the axis."""
    changes: Changes
    plans: tuple[CompiledPlan, ...]
    policies: Mapping[str, PolicySource]

    @property
    def content_hash(self) -> str:
        """What decides, in 64 characters: variants that decide alike have the same."""
        return load.content_hash([plan.content_hash for plan in self.plans])


class HasPlans(Protocol):
    """A variant that is compiled."""

    @property
    def plans(self) -> tuple[CompiledPlan, ...]:
        """What decides, by profile."""


def compiled_variants(
    loaded: LoadedExperiment, computed: Mapping[str, Mapping[str, Any]]
) -> tuple[CompiledVariant, ...]:
    """Return the variants; what is wrong is added to the problems of the experiment.

    ``computed``: parameters of policies that come from tables.
    """
    compiled: list[CompiledVariant] = []
    for name, axes, changes in _combinations(loaded):
        variant = compiled_variant(loaded, name, axes, changes, computed)
        if variant is not None:
            compiled.append(variant)
    return tuple(compiled)


def base_changes(loaded: LoadedExperiment) -> Changes:
    """Return what all variants have in common, and the first of them beside it."""
    spec = loaded.spec
    base = _changes(loaded, spec.base, ("spec", "base"))
    if not spec.variants:
        return base
    return _changes(loaded, spec.variants[0], ("spec", "variants", 0)).over(base)


def compiled_variant(
    loaded: LoadedExperiment,
    name: str,
    axes: Mapping[str, Any],
    changes: Changes,
    computed: Mapping[str, Mapping[str, Any]],
) -> CompiledVariant | None:
    """Return a variant, None if something is wrong with it."""
    files = _files(loaded, changes, computed)
    if files is None:
        return None
    compilation = files.compile()
    for problem in compilation.problems:
        if problem.file in (_DATA, load.CONFIGURATION):
            _report(loaded, changes, problem, files.config)
        elif problem not in loaded.diagnostics:
            loaded.diagnostics.append(problem)
    if compilation.failed:
        return None
    plans = compilation.plans
    _refuse_unrepeatable(loaded, changes, plans)
    enabled = {n: source for plan in plans for n, source in plan.plan.policies.items()}
    others = {
        policy.name: load.policy_source(policy) for policy in load.load_policies(files.policies)[0]
    }
    return CompiledVariant(name, axes, changes, plans, {**others, **enabled})


def check_search(
    loaded: LoadedExperiment,
    variants: Sequence[CompiledVariant],
    computed: Mapping[str, Mapping[str, Any]],
) -> None:
    """Compile the first variant with each value, or both ends, of what a search may change.

    The other axes have their first values, as tune sets all of them.
    """
    axes = loaded.spec.search
    tried = [_tried(axis, variants, ("spec", "search", i)) for i, axis in enumerate(axes)]
    for i, axis in enumerate(axes):
        for path, value in tried[i]:
            changes = base_changes(loaded)
            for other, (first, *_) in zip(axes, tried, strict=True):
                if other is not axis:
                    changes = axis_changes(other, first[1], first[0]).over(changes)
            changes = axis_changes(axis, value, path).over(changes)
            compiled_variant(loaded, axis_name(axis), {}, changes, computed)


def _tried(
    axis: models.SearchAxis, variants: Iterable[HasPlans], at: models.Path
) -> list[tuple[models.Path, Any]]:
    """Return the values of a list, or both ends of a range, with their paths."""
    if axis.values:
        return [((*at, "values", i), value) for i, value in enumerate(axis.values)]
    whole = is_whole(axis, variants)
    ends = {"least": axis.least, "most": axis.most}
    return [
        ((*at, key), int(end) if whole and end.is_integer() else end)
        for key, end in ends.items()
        if end is not None
    ]


def is_whole(axis: models.SearchAxis, variants: Iterable[HasPlans]) -> bool:
    """Return whether the values of an axis are whole numbers."""
    if axis.weight is not None:
        return True
    plugin, *path = str(axis.param).split(".")
    for variant in variants:
        for plan in variant.plans:
            source = plan.plan.policies.get(plugin)
            if source is not None:
                value: Any = source.params
                for step in path:
                    value = value.get(step) if isinstance(value, Mapping) else None
                return isinstance(value, int) and not isinstance(value, bool)
    numbers = (axis.least, axis.most, axis.step)
    return all(number is None or float(number).is_integer() for number in numbers)


def axis_changes(axis: Any, value: Any, at: models.Path) -> Changes:
    """Return what an axis changes with a value."""
    if axis.weight is not None:
        weight = value if isinstance(value, int) and not isinstance(value, bool) else -1
        paths = {("weights", axis.weight): at}
        return Changes(weights={axis.weight: weight}, at=at, paths=paths)
    plugin, *names = str(axis.param).split(".")
    for name in reversed(names):
        value = {name: value}
    return Changes(params={plugin: value}, at=at, paths={("params", plugin): at})


def _combinations(loaded: LoadedExperiment) -> Iterator[tuple[str, dict[str, Any], Changes]]:
    """Yield the name, the values of the axes, and the changes of every variant."""
    spec = loaded.spec
    base = _changes(loaded, spec.base, ("spec", "base"))
    listed = spec.variants or (models.Variant(),)
    choices = [
        [(axis_name(axis), value, ("spec", "matrix", i, "values", j))
         for j, value in enumerate(axis.values)]
        for i, axis in enumerate(spec.matrix)
    ]  # fmt: skip
    for i, variant in enumerate(listed):
        at: models.Path = ("spec", "variants", i) if spec.variants else ("spec", "base")
        own = _changes(loaded, variant, at).over(base) if spec.variants else base
        for values in itertools.product(*choices):
            changes = own
            for axis, (_, value, path) in zip(spec.matrix, values, strict=True):
                changes = axis_changes(axis, value, path).over(changes)
            axes = {name: value for name, value, _ in values}
            words = [variant.name] if variant.name else []
            words += [f"{name}={_word(value)}" for name, value in axes.items()]
            yield ",".join(words) or _POLICY_OF_NONE, axes, changes


def _word(value: Any) -> str:
    return load.content_hash(value)[:8] if isinstance(value, dict | list) else str(value)


def _changes(loaded: LoadedExperiment, variant: models.Variant, at: models.Path) -> Changes:
    config = variant.config
    path = None if config is None else loaded.file(config, (*at, "config"))
    paths = [
        loaded.policy_path(reference, (*at, "policies", i))
        for i, reference in enumerate(variant.policies)
    ]
    path_of: dict[tuple[str, str], models.Path] = {
        (section, name): (*at, section, name)
        for section in ("params", "weights")
        for name in getattr(variant, section)
    }
    return Changes(
        config=path,
        policies=tuple(path for path in paths if path is not None),
        params=dict(variant.params),
        weights=dict(variant.weights),
        at=at,
        devices=variant.devices,
        devices_at=(*at, "devices"),
        paths=path_of,
    )


def _files(
    loaded: LoadedExperiment, changes: Changes, computed: Mapping[str, Mapping[str, Any]]
) -> PolicyFiles | None:
    """Return the files of a variant, with what it changes put into the configuration."""
    names = {policy.name for policy in load.load_policies(changes.policies)[0]}
    params = {name: value for name, value in computed.items() if name in names}
    params = load.merge_over(params, changes.params)
    if not params and not changes.weights:
        return PolicyFiles(changes.config, changes.policies)
    value = configuration_of(loaded, replace(changes, params=params))
    return None if value is None else PolicyFiles(value, changes.policies)


def configuration_of(loaded: LoadedExperiment, changes: Changes) -> dict[str, Any] | None:
    """Return a configuration with what a variant changes; None if its file has problems."""
    value = _configuration(loaded, changes)
    if value is None:
        return None
    for profile in value["profiles"]:
        for name, args in changes.params.items():
            _set_args(profile, name, args)
        for name, weight in changes.weights.items():
            _set_weight(loaded, changes, profile, name, weight)
    return value


def _configuration(loaded: LoadedExperiment, changes: Changes) -> dict[str, Any] | None:
    """Return the data of a variant's configuration, None if the file has problems."""
    value: dict[str, Any]
    if changes.config is None:
        names = [policy.name for policy in load.load_policies(changes.policies)[0]]
        default = {name for name, _ in models.DEFAULT_PLUGINS}
        enabled = [{"name": name} for name in dict.fromkeys(names) if name not in default]
        profile = {"plugins": {"multiPoint": {"enabled": enabled}}} if enabled else {}
        return {**_HEAD, "profiles": [profile]}
    config, problems = load.read_config(changes.config)
    loaded.diagnostics += [problem for problem in problems if problem not in loaded.diagnostics]
    marked = None if config is None else config.place.marked
    if marked is None or any(problem.severity is Severity.ERROR for problem in problems):
        return None
    value = copy.deepcopy(marked.value)
    value["profiles"] = value.get("profiles") or [{}]
    return value


def _set_args(profile: dict[str, Any], plugin: str, args: Mapping[str, Any]) -> None:
    listed = profile["pluginConfig"] = list(profile.get("pluginConfig") or [])
    for i, entry in enumerate(listed):
        if entry.get("name") == plugin:
            listed[i] = {**entry, "args": load.merge_over(entry.get("args") or {}, dict(args))}
            return
    listed.append({"name": plugin, "args": dict(args)})


def _set_weight(
    loaded: LoadedExperiment, changes: Changes, profile: dict[str, Any], plugin: str, weight: int
) -> None:
    """Set the weight at score where the configuration has it, or else there."""
    if not 0 <= weight < 2**31:
        at = changes.paths.get(("weights", plugin), changes.at)
        message, hint = f"this is no weight of {plugin}", "a whole number that is not negative"
        loaded.problem(at, models.BAD_VALUE, message, hint)
        return
    plugins = profile["plugins"] = dict(profile.get("plugins") or {})
    score = plugins["score"] = dict(plugins.get("score") or {})
    if weight == 0:
        score["disabled"] = [*(score.get("disabled") or []), {"name": plugin}]
        score["enabled"] = [
            entry for entry in score.get("enabled") or [] if entry.get("name") != plugin
        ]
        return
    listed = score["enabled"] = [dict(entry) for entry in score.get("enabled") or []]
    for entry in listed:
        if entry.get("name") == plugin:
            entry["weight"] = weight
            return
    listed.append({"name": plugin, "weight": weight})


def _report(
    loaded: LoadedExperiment, changes: Changes, problem: Diagnostic, config: object
) -> None:
    """Report a problem with a change of the experiment at the change's own position.

    ``config``: the configuration with the changes, which is what the problem is of.
    """
    text = f"{problem.message} {problem.context}"
    argument = _ARGUMENT.search(text)
    at, hint = changes.at, problem.hint
    if argument is not None and isinstance(config, dict):
        profile = config["profiles"][int(argument[1])]
        plugin = profile["pluginConfig"][int(argument[2])]["name"]
        at = _path_of_argument(loaded, changes, plugin, argument[3])
    else:
        named = [
            key
            for key in changes.paths
            if key[1] in text and re.search(rf"\b{re.escape(key[1])}\b", text)
        ]
        if named:
            plugin = max(named, key=lambda key: len(key[1]))
            at = changes.paths[plugin]
    if problem.code == models.UNKNOWN_PLUGIN and (argument is not None or at is not changes.at):
        names = [*plugin_points(), *(n for n, _ in models.DEFAULT_PLUGINS)]
        hint = models.did_you_mean(str(plugin), names) or hint
    if at[1:2] in (("matrix",), ("search",)) and problem.code in (
        models.UNKNOWN_KEY,
        models.UNKNOWN_PLUGIN,
    ):
        axis = getattr(loaded.spec, str(at[1]))[at[2]]
        at = (*at[:3], "param" if axis.weight is None else "weight")
    message = _IN_QUOTES.sub(r'"\1"', problem.message)
    inside = "" if argument is None else argument[3].removeprefix(".")
    shown = f"{inside}: " if inside and not models.path_text(at).endswith(inside) else ""
    message = _PREFIX.sub(shown, message)
    on_key = problem.code == models.UNKNOWN_KEY and at[1] not in ("matrix", "search", "computed")
    loaded.problem(at, problem.code, message, hint, on_key=on_key)


def _path_of_argument(
    loaded: LoadedExperiment, changes: Changes, plugin: str, inside: str
) -> models.Path:
    """Return where the experiment sets an argument. ``inside``: its path, as in ``.a.b[0]``."""
    steps: list[str | int] = [
        int(step) if step.isdecimal() else step for step in _STEP.findall(inside)
    ]
    if not steps or steps[0] not in changes.params.get(plugin, {}):
        for i, computed in enumerate(loaded.spec.computed):
            if computed.policy == plugin and steps[:1] in ([], [computed.param]):
                return ("spec", "computed", i, "param")
    at = changes.paths.get(("params", plugin), changes.at)
    return (*at, *steps) if at[-2:-1] == ("params",) else at


def _refuse_unrepeatable(
    loaded: LoadedExperiment, changes: Changes, plans: Sequence[CompiledPlan]
) -> None:
    """Refuse what may respond otherwise the next time: HTTP extenders, and Python plugins."""
    for plan in plans:
        if plan.plan.extenders:
            hint = "an experiment runs without extenders"
            message = "an HTTP extender may respond otherwise the next time"
            loaded.problem(changes.at, NOT_REPEATABLE, message, hint)
        for name in plan.plan.plugins:
            if name in _installed_plugins() and name not in plan.policies:
                hint = "write it as a policy, or leave it out"
                message = f"the Python plugin {name} may read the clock, files or a network"
                loaded.problem(changes.at, NOT_REPEATABLE, message, hint)


@cache
def _installed_plugins() -> frozenset[str]:
    """Return the installed plugins; reading the metadata of every package takes milliseconds."""
    return frozenset(entry.name for entry in entry_points(group=ENTRY_POINT_GROUP))
