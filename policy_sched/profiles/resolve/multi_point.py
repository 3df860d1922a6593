"""Expands a profile's plugin sets into one ordered list of plugins per extension point.

Three steps, as upstream takes them: the profile's multiPoint is merged into the default one
(``mergePluginSet`` of default_plugins.go); each point's own list is checked; multiPoint is
expanded into every point that a plugin implements (``expandMultiPointPlugins`` of
framework.go). Order within a point: plugins of the point's own list that multiPoint has too,
then the rest of multiPoint, then the rest of the point's own list. A score plugin's weight is
that of the point's own list if it is there, else multiPoint's; 0 counts as 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from policy_sched.profiles import models

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


@dataclass(slots=True)
class Expansion:
    """The plugins of a profile, per point in order with their weights, and its faults.

    Weights are at least 1 at ``score`` and ``placementScore``, and 0 elsewhere.
    """

    points: dict[str, tuple[Enabled, ...]] = field(default_factory=dict)
    faults: list[ExpansionFault] = field(default_factory=list)


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
) -> Expansion:
    """Expand a profile.

    ``sets``: what the profile has per point, multiPoint included; absent points have nothing.
    ``implements``: the points of every plugin that exists. All faults are collected; the
    points of a profile with faults must not be used.
    """
    result = Expansion()
    multi_point = merge_multi_point(sets.get(models.MULTI_POINT, PluginLists()), defaults)
    for entry in multi_point:
        if entry.name not in implements:
            result.faults.append(ExpansionFault(f'plugin "{entry.name}" does not exist', entry))
    for point in models.POINTS:
        own = _own_list(point, sets.get(point, PluginLists()), implements, result.faults)
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
    faults: list[ExpansionFault],
) -> dict[str, EnabledPlugin]:
    """Return the point's own plugins in order, and report those that cannot be there."""
    own: dict[str, EnabledPlugin] = {}
    for entry in lists.enabled:
        if entry.name not in implements:
            faults.append(
                ExpansionFault(f'{models.POINT_TYPES[point]} "{entry.name}" does not exist', entry)
            )
        elif point not in implements[entry.name]:
            kind = models.POINT_TYPES[point]
            faults.append(
                ExpansionFault(f'plugin "{entry.name}" does not extend {kind} plugin', entry)
            )
        elif entry.name in own:
            faults.append(_twice(entry, point))
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
    if result.faults:
        return
    sorts = [name for name, _ in result.points["queueSort"]]
    if len(sorts) != 1:
        text = f"only one queue sort plugin required, but got {len(sorts)}"
        result.faults.append(ExpansionFault(text, hint=_one_sort(sorts)))
    if not result.points["bind"]:
        result.faults.append(ExpansionFault("at least one bind plugin is needed"))
