"""Plugins written in Python: the built-in ones, and those of entry points.

A plugin is a class, made with its arguments (a mapping, from pluginConfig) and the Handle; its
hooks are the methods marked with `hookimpl`. The entry point's name is the plugin's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Final

from policy_sched.errors import PluginError
from policy_sched.framework import CONFIGURED, Handle
from policy_sched.framework.runtime import ENTRY_POINT_GROUP, points_of
from policy_sched.plugins.default_binder import DefaultBinder
from policy_sched.plugins.dynamicresources import DynamicResources
from policy_sched.plugins.interpodaffinity import InterPodAffinity
from policy_sched.plugins.node_declared_features import NodeDeclaredFeatures
from policy_sched.plugins.podgroups import (
    GangScheduling,
    NodeResourcesPlacement,
    PodGroupPodsCount,
    TopologyPlacementGenerator,
)
from policy_sched.plugins.podtopologyspread import PodTopologySpread
from policy_sched.plugins.volumes import (
    NodeVolumeLimits,
    VolumeBinding,
    VolumeRestrictions,
    VolumeZone,
)

Factory = Callable[[Mapping[str, object], Handle], object]

HOUSE: Final[Mapping[str, Factory]] = {
    "VolumeRestrictions": VolumeRestrictions,
    "NodeVolumeLimits": NodeVolumeLimits,
    "VolumeBinding": VolumeBinding,
    "VolumeZone": VolumeZone,
    "PodTopologySpread": PodTopologySpread,
    "InterPodAffinity": InterPodAffinity,
    "DynamicResources": DynamicResources,
    "DefaultBinder": DefaultBinder,
    "NodeDeclaredFeatures": NodeDeclaredFeatures,
    "GangScheduling": GangScheduling,
    "TopologyPlacementGenerator": TopologyPlacementGenerator,
    "PodGroupPodsCount": PodGroupPodsCount,
}

GATED_PARTS: Final[Mapping[str, tuple[str, Factory]]] = {
    "NodeResourcesFit": ("TopologyAwareWorkloadScheduling", NodeResourcesPlacement),
}
"""What a plugin that is a policy implements besides, where a feature gate is on: gate, factory."""


@cache
def factories() -> Mapping[str, Factory]:
    """Return every Python plugin by name; PluginError names an entry point that cannot be loaded.

    Read once per process: installed packages do not change while it runs.
    """
    found: dict[str, Factory] = dict(HOUSE)
    for entry in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda e: e.name):
        where = f"entry point {entry.name!r} ({entry.value}) of group {ENTRY_POINT_GROUP}"
        try:
            found[entry.name] = entry.load()
        except Exception as error:
            raise PluginError(f"{where}: {type(error).__name__}: {error}") from error
        if not callable(found[entry.name]):
            raise PluginError(f"{where} is no class, nor a function that returns a plugin")
    return found


@cache
def plugin_points() -> Mapping[str, frozenset[str]]:
    """Return the extension points of every Python plugin, as fields of a profile's ``plugins``."""
    fields = {hook: field for field, hook in CONFIGURED.items()}
    return {
        name: frozenset(fields[hook] for hook in points_of(factory) if hook in fields)
        for name, factory in factories().items()
    }
