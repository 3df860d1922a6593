"""Reads a KubeSchedulerConfiguration: from a file, from data, or the default one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec
from pydantic import ValidationError

from policy_sched.errors import Diagnostic, Severity
from policy_sched.profiles import models
from policy_sched.profiles.load.document import (
    DocumentPosition,
    covered,
    inside,
    kind_of,
    kind_problem,
    model_problems,
    read_model,
    without_nulls,
)
from policy_sched.profiles.validate import check_args, check_configuration, mended, shape_problems

MAX_PROFILES: Final = 100
"""Profiles of one configuration; each takes some 20 ms to compile and build."""
CONFIGURATION: Final = "<configuration>"
"""What a configuration is called that is no file."""
_HEAD: Final = {"apiVersion": models.API_VERSION, "kind": models.KIND}


class LoadedConfig(msgspec.Struct, frozen=True):
    """A configuration that could be read, with its place.

    ``model`` has upstream's defaults: at least one profile, each with a name. ``args`` holds
    the arguments of in-tree plugins by (profile, plugin name), where the file gives any.
    ``sound``: the document has no error.
    """

    model: models.KubeSchedulerConfiguration
    place: DocumentPosition
    args: Mapping[tuple[int, str], models.PluginArgs] = msgspec.field(default_factory=dict)
    sound: bool = True


def config_from_value(
    value: Mapping[str, Any],
) -> tuple[LoadedConfig | None, list[Diagnostic]]:
    """Read a configuration that is data already; diagnostics point at its line 1."""
    loaded, problems = load_config_document(value, DocumentPosition(CONFIGURATION))
    failed = any(d.severity is Severity.ERROR for d in problems)
    return None if failed else loaded, problems


def default_config(policies: Sequence[str] = ()) -> LoadedConfig:
    """Return the default configuration, with the named policies after the default plugins.

    A policy with the name of a default plugin takes its place, and keeps its weight.
    """
    return _default_config(tuple(policies))


@lru_cache(maxsize=16)
def _default_config(policies: tuple[str, ...]) -> LoadedConfig:
    default = {name for name, _ in models.DEFAULT_PLUGINS}
    enabled = tuple(models.Plugin(name=name) for name in policies if name not in default)
    profile = models.KubeSchedulerProfile(
        scheduler_name=models.DEFAULT_SCHEDULER,
        plugins=models.Plugins(multi_point=models.PluginSet(enabled=enabled)),
    )
    model = models.KubeSchedulerConfiguration.model_validate({**_HEAD, "profiles": [profile]})
    return LoadedConfig(model, DocumentPosition("<default configuration>"))


def load_config_document(
    value: object, position: DocumentPosition
) -> tuple[LoadedConfig | None, list[Diagnostic]]:
    """Read one document; one with errors is returned too, mended if possible."""
    if kind_of(value) != (models.API_VERSION, models.KIND):
        return None, [
            position.diagnostic(kind_problem(value, ((models.API_VERSION, models.KIND),)))
        ]
    cleaned = without_nulls(value, keep=("args",))
    profiles = cleaned.get("profiles") if isinstance(cleaned, dict) else None
    profiles = profiles if isinstance(profiles, list) else []
    if len(profiles) > MAX_PROFILES:
        text = f"profiles: Too many: {len(profiles)}: must have at most {MAX_PROFILES} items"
        return None, [
            position.diagnostic(
                models.ModelProblem(("profiles",), models.TOO_LARGE, text, on_key=True)
            )
        ]
    for profile in profiles:
        _clean_args(profile)
    model, problems, value = read_model(
        cleaned, models.KubeSchedulerConfiguration, models.CONFIGURATION_FILE
    )
    if model is None:
        return None, position.diagnostics(models.without_followers(problems))
    args: dict[tuple[int, str], models.PluginArgs] = {}
    for i, profile in enumerate(model.profiles):
        for j, config in enumerate(profile.plugin_config):
            at: models.Path = ("profiles", i, "pluginConfig", j, "args")
            if config.name in models.ARGS:
                read, refused = _read_args(config.name, config.args, at, problems, cleaned)
                problems += refused
                if read is not None:
                    args[i, config.name] = read
    problems += [p for p in check_configuration(model) if not covered(p.path, problems)]
    diagnostics = position.diagnostics(models.without_followers(problems))
    sound = all(problem.warning for problem in problems)
    return LoadedConfig(_with_default_profile(model), position, args, sound), diagnostics


def _clean_args(profile: Any) -> None:
    """Take nulls out of the arguments of in-tree plugins, as Kubernetes does."""
    entries = profile.get("pluginConfig") if isinstance(profile, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict):
            continue
        name = entry.get("name")
        if isinstance(name, str) and name in models.ARGS:
            entry["args"] = without_nulls({} if entry.get("args") is None else entry["args"])
        elif entry.get("args", ...) is None:
            del entry["args"]


def _read_args(
    name: str,
    value: Mapping[str, Any],
    at: models.Path,
    told: Sequence[models.ModelProblem],
    document: object,
) -> tuple[models.PluginArgs | None, list[models.ModelProblem]]:
    """Read the arguments of an in-tree plugin, found at ``at``, beyond problems ``known``."""
    model = models.ARGS[name]
    problems: list[models.ModelProblem] = []
    try:
        args = model.model_validate(value)
    except ValidationError:
        problems = [p for p in shape_problems(document, models.CONFIGURATION_FILE) if p not in told]
        problems = [p for p in problems if p.path[: len(at)] == at]
        value = inside(mended(document, problems), at)
        try:
            args = model.model_validate(value)
        except ValidationError as error:
            return None, problems + model_problems(error, value, (*told, *problems), at)
    refused = (*told, *problems)
    return args, problems + [p for p in check_args(name, args, at) if not covered(p.path, refused)]


def _with_default_profile(
    model: models.KubeSchedulerConfiguration,
) -> models.KubeSchedulerConfiguration:
    """Return the configuration with a profile if it has none, and a name for a single one."""
    profiles = model.profiles or (models.KubeSchedulerProfile(),)
    if len(profiles) == 1 and profiles[0].scheduler_name is None:
        profiles = (profiles[0].model_copy(update={"scheduler_name": models.DEFAULT_SCHEDULER}),)
    return model.model_copy(update={"profiles": profiles})
