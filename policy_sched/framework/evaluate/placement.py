"""Where the pods of a group may go together: domains of nodes, parted and rated by plugins.

Theory of operation. Each PlacementGenerate plugin parts the nodes into domains; where several do,
a domain of all of them is what one of each has in common. A plugin that skips sets no restriction.
If all plugins skip, the group's pods are scheduled one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.tables import NodeTable
from policy_sched.errors import PluginError
from policy_sched.framework import Code, CycleState, Placement, Placements, Scores
from policy_sched.framework.evaluate.views import MAX_NODE_SCORE
from policy_sched.framework.runtime import Runner
from policy_sched.model import PodInfo

BETWEEN: Final = ", "
"""Separates the names of domains in the name of their intersection."""


class Domains(msgspec.Struct, frozen=True):
    """The domains that a group may go to, by name in order, and the plugins that parted them."""

    rows: Mapping[str, NDArray[np.intp]]
    plugins: tuple[str, ...]


def domains(
    runner: Runner, state: CycleState, pods: Sequence[PodInfo], table: NodeTable
) -> Domains | None:
    """Run all PlacementGenerate plugins; None if all of them skip.

    Raises PluginError if a plugin breaks or refuses, or names rows that do not exist.
    """
    rows: dict[str, NDArray[np.intp]] | None = None
    plugins = []
    for hook in runner.pipeline.at("placement_generate"):
        found = cast("Placements", runner.call("placement_generate", hook, state, pods))
        if found.status.code is Code.SKIP:
            continue
        if found.status.code is Code.ERROR:
            # kube-scheduler passes the message of an Error on as it is, without the plugin's name.
            raise PluginError(found.status.message())
        if not found.status.ok:
            text = f'running PlacementGenerate plugin "{hook.plugin}": {found.status.message()}'
            raise PluginError(text)
        plugins.append(hook.plugin)
        own = _live(hook.plugin, found.domains, table)
        rows = own if rows is None else _common(rows, own)
    if rows is None:
        return None
    return Domains({name: rows[name] for name in sorted(rows) if rows[name].size}, tuple(plugins))


def _live(
    plugin: str, parted: Mapping[str, NDArray[np.intp]], table: NodeTable
) -> dict[str, NDArray[np.intp]]:
    """Return domains without rows that have no node."""
    live = table.live.values[: table.n]
    for name, rows in parted.items():
        if rows.size and not 0 <= rows.min() <= rows.max() < table.n:
            text = f'domain "{name}" has rows that are none of the {table.n}'
            raise PluginError(f'running PlacementGenerate plugin "{plugin}": {text}')
    return {name: rows[live[rows]] for name, rows in parted.items()}


def _common(
    one: Mapping[str, NDArray[np.intp]], other: Mapping[str, NDArray[np.intp]]
) -> dict[str, NDArray[np.intp]]:
    """Return what each two domains have in common."""
    return {
        BETWEEN.join(filter(None, (a, b))): np.intersect1d(rows, others)
        for a, rows in one.items()
        for b, others in other.items()
    }


def placement_scores(
    runner: Runner, state: CycleState, pods: Sequence[PodInfo], placement: Placement
) -> dict[str, int]:
    """Return how each PlacementScore plugin rates a placement, not normalised yet.

    Raises PluginError if a plugin breaks.
    """
    return {
        hook.plugin: cast("int", runner.call("placement_score", hook, state, pods, placement))
        for hook in runner.pipeline.at("placement_score")
    }


def normalized_placements(
    runner: Runner,
    state: CycleState,
    pods: Sequence[PodInfo],
    scores: Sequence[Mapping[str, int]],
) -> list[dict[str, int]]:
    """Return the scores of placements, normalised by each plugin and times its weight.

    Raises PluginError if a plugin breaks, or a score is not within 0..100 in the end.
    """
    normalizers = {h.plugin: h for h in runner.pipeline.at("normalize_placement_score")}
    found: list[dict[str, int]] = [{} for _ in scores]
    for hook in runner.pipeline.at("placement_score"):
        own = np.array([one[hook.plugin] for one in scores], np.int64)
        if hook.plugin in normalizers:
            normalizer = normalizers[hook.plugin]
            normalized = runner.call("normalize_placement_score", normalizer, state, pods, own)
            own = cast("Scores", normalized)
        for place, score in zip(found, own.tolist(), strict=True):
            if not 0 <= score <= MAX_NODE_SCORE:
                text = (
                    f'plugin "{hook.plugin}" returns an invalid placement score {score}, it should'
                    f" in the range of [0, {MAX_NODE_SCORE}] after normalizing"
                )
                raise PluginError(text)
            place[hook.plugin] = score * hook.weight
    return found
