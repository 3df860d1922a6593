"""Plugins written in Python: the built-in ones, and those of entry points.

A plugin is a class, made with its arguments (a mapping, from pluginConfig) and the Handle; its
hooks are the methods marked with `hookimpl`. The entry point's name is the plugin's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final, cast

from policy_sched.errors import PluginError
from policy_sched.framework import CONFIGURED, Handle
from policy_sched.framework.runtime import ENTRY_POINT_GROUP, implementations, points_of, told
from policy_sched.plugins import pod_groups, volumes
from policy_sched.plugins.default_binder import DefaultBinder
from policy_sched.plugins.dynamicresources import DynamicResources
from policy_sched.plugins.interpodaffinity import InterPodAffinity
from policy_sched.plugins.node_declared_features import NodeDeclaredFeatures
from policy_sched.plugins.podtopologyspread import PodTopologySpread

Factory = Callable[[Mapping[str, object], Handle], object]

HOUSE: Final[Mapping[str, Factory]] = {
    "VolumeRestrictions": volumes.VolumeRestrictions,
    "NodeVolumeLimits": volumes.NodeVolumeLimits,
    "VolumeBinding": volumes.VolumeBinding,
    "VolumeZone": volumes.VolumeZone,
    "PodTopologySpread": PodTopologySpread,
    "InterPodAffinity": InterPodAffinity,
    "DynamicResources": DynamicResources,
    "DefaultBinder": DefaultBinder,
    "NodeDeclaredFeatures": NodeDeclaredFeatures,
    "GangScheduling": pod_groups.GangScheduling,
    "TopologyPlacementGenerator": pod_groups.TopologyPlacementGenerator,
    "PodGroupPodsCount": pod_groups.PodGroupPodsCount,
}

GATED_PARTS: Final[Mapping[str, tuple[str, Factory]]] = {
    "NodeResourcesFit": ("TopologyAwareWorkloadScheduling", pod_groups.NodeResourcesPlacement),
}
"""What a plugin that is a policy implements besides, where a feature gate is on: gate, factory."""


class Unusable:
    """Stands for an installed plugin that cannot be loaded, or does not fit the hooks.

    It is known like any other and cannot be made: profiles that do not enable it go on.
    """

    def __init__(self, why: str) -> None:
        self._why = why

    def __call__(self, _args: Mapping[str, object], _handle: Handle) -> object:
        """Raise PluginError."""
        raise PluginError(self._why)


@cache
def factories() -> Mapping[str, Factory]:
    """Return every Python plugin by name.

    Read once per process: installed packages do not change while it runs.
    """
    entries = sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda e: e.name)
    return {**HOUSE, **{entry.name: _loaded(entry) for entry in entries}}


def _loaded(entry: EntryPoint) -> Factory:
    where = f'plugin "{entry.name}" ({entry.value})'
    try:
        loaded: object = entry.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - the module of a plugin is foreign code
        return Unusable(f"{where} cannot be loaded: {told(error)}")
    if not callable(loaded):
        return Unusable(f"{where} is no class")
    try:
        implementations(loaded, entry.name)
    except PluginError as error:
        return Unusable(str(error))
    return cast("Factory", loaded)


@cache
def plugin_points() -> Mapping[str, frozenset[str]]:
    """Return the extension points of every Python plugin, as fields of a profile's ``plugins``."""
    fields = {hook: field for field, hook in CONFIGURED.items()}
    any_point = frozenset(fields.values()) - {"queueSort"}  # two plugins cannot have it
    return {
        name: any_point
        if isinstance(factory, Unusable)
        else frozenset(fields[hook] for hook in points_of(factory) if hook in fields)
        for name, factory in factories().items()
    }
