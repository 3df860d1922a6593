"""Where all pods of a group go together: each placement tried with the whole group, the best taken.

Theory of operation. This is kube-scheduler's placement algorithm for pod groups. A placement is a
set of nodes that PlacementGenerate plugins made, or all nodes. In each one the default algorithm
decides the pods as if there were no other nodes; a placement that the group fits in is rated, and
all is undone before the next one is tried.

Each PlacementGenerate plugin parts the nodes into domains; where several do, a domain of all of
them is what one of each has in common. A plugin that skips sets no restriction. If all plugins
skip, the group's pods are scheduled one by one.

A plugin may have levels of domains, such as racks and rows of racks. The narrowest level in which
the group fits is taken, and the best placement of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Final, NamedTuple, cast

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from policy_sched.cluster.tables import NodeTable
from policy_sched.errors import PluginError
from policy_sched.framework import Code, CycleState, Placement, Placements, Scores, Status
from policy_sched.framework.evaluate import MAX_NODE_SCORE, Domain
from policy_sched.framework.runtime import Runner
from policy_sched.model import NO_PLUGINS, PodInfo
from policy_sched.scheduler.attempt import Attempt, Bind, Reject
from policy_sched.scheduler.failure import rejectors
from policy_sched.scheduler.pod_group_algorithm import (
    UNSCHEDULABLE,
    AssumedMembers,
    GroupResult,
    GroupTrial,
    Held,
    Nodes,
    schedule_members,
)

Rejectors = tuple[frozenset[str], frozenset[str]]
"""The plugins that rejected a pod, and those that returned Pending."""
NO_PLACEMENT: Final = "no feasible placements found"


class GroupPlan(msgspec.Struct, frozen=True):
    """The placements that were tried, and what became of the group.

    ``best``: the placement that the group goes to, or waits for; None: it goes nowhere. ``status``
    is the group's. ``rejected_by`` are the plugins that rejected its pods; ``plugins`` generated
    the placements. ``victims`` are evicted for the group as a whole. ``gated``: kube-scheduler's
    own pod group cycle decides, by feature gate, and no policy's placements.
    """

    attempts: tuple[Attempt, ...]
    plugins: frozenset[str]
    tried: tuple[GroupResult, ...]
    best: GroupResult | None
    status: Status
    rejected_by: Rejectors = (NO_PLUGINS, NO_PLUGINS)
    victims: tuple[PodInfo, ...] = ()
    gated: bool = False

    @property
    def waiting(self) -> bool:
        """Whether the group fits when victims are gone."""
        return self.best is not None and not self.status.ok


def try_all_nodes(attempts: Sequence[Attempt], trial: GroupTrial) -> GroupResult:
    """Return how the default algorithm decides a group on all nodes."""
    with AssumedMembers(trial.handle, trial.absent) as assumed:
        return schedule_members(attempts, all_nodes(trial.handle.nodes), trial, assumed)


def all_nodes(table: NodeTable) -> Nodes:
    """Return all nodes as a placement without a name."""
    return Nodes("", np.flatnonzero(table.live.values[: table.n]))


def try_placements(
    attempts: Sequence[Attempt], candidates: Domains, trial: GroupTrial, rng: Random | None
) -> GroupPlan:
    """Find out in which placement the pods of a group go; nothing is changed in the end.

    ``attempts``: its pods, of one profile, in the order in which they are decided. ``rng`` breaks
    ties among placements; without it the first is taken.
    """
    plugins, everyone = frozenset(candidates.plugins), tuple(attempts)
    if not any(candidates.levels):
        status = Status(Code.UNSCHEDULABLE, (NO_PLACEMENT,))
        return GroupPlan(everyone, plugins, (), None, status, (plugins, NO_PLUGINS))
    tried: list[GroupResult] = []
    seeds: list[int | None] = []
    held: GroupResult | None = None
    places: list[_Place] = []
    for place in _places(candidates):
        if held is not None and place.level > places[-1].level:
            break  # the group fits into a narrower domain
        places.append(place)
        seeds.append(None if rng is None else rng.getrandbits(64))
        result = _try_placement(place, attempts, trial, seeds[-1])
        if result.feasible and (held is None or result.total > held.total):
            held = result  # only one is held: what is known of each pod in a placement takes room
        shown = (not tried or bool(trial.watched)) and not result.feasible
        tried.append(
            result if shown or result.status.code is Code.ERROR else _without_nodes(result)
        )
        if result.status.code is Code.ERROR:
            return GroupPlan(everyone, plugins, tuple(tried), None, result.status)
    rejected_by = _rejectors(plugins, tried)
    if held is None:
        text = f"0/{len(tried)} placements are available, first placement status: {UNSCHEDULABLE}"
        status = Status(Code.UNSCHEDULABLE, (text,))
        return GroupPlan(everyone, plugins, tuple(tried), None, status, rejected_by)
    try:
        chosen = _rate(tried, attempts, rng)
    except PluginError as error:
        return GroupPlan(everyone, plugins, tuple(tried), None, Status(Code.ERROR, (str(error),)))
    name = tried[chosen].name
    if held.name != name:
        held = _try_placement(places[chosen], attempts, trial, seeds[chosen])
    held = replace(held, scores=tried[chosen].scores)
    return GroupPlan(everyone, plugins, tuple(tried), held, held.status, rejected_by)


def _rate(tried: list[GroupResult], attempts: Sequence[Attempt], rng: Random | None) -> int:
    """Normalise the scores of the placements that will do; return the best one's place.

    Raises PluginError if a plugin breaks; where there is no choice, that does no harm.
    """
    fits = [i for i, result in enumerate(tried) if result.feasible]
    try:
        scores = _normalized([tried[i] for i in fits], attempts)
    except PluginError:
        if len(fits) > 1:
            raise
        tried[fits[0]] = replace(tried[fits[0]], scores={})
        return fits[0]
    for i, own in zip(fits, scores, strict=True):
        tried[i] = replace(tried[i], scores=own)
    most = max(tried[i].total for i in fits)
    best = [i for i in fits if tried[i].total == most]
    return best[0] if rng is None else best[rng.randrange(len(best))]


def _normalized(fits: Sequence[GroupResult], attempts: Sequence[Attempt]) -> list[dict[str, int]]:
    """Return the scores of placements as they count. Raises PluginError if a plugin breaks."""
    for result in fits:
        if result.unrated:
            raise PluginError(result.unrated)
    pods, raw = [attempt.queued.info for attempt in attempts], [fit.scores for fit in fits]
    return normalized_placements(attempts[0].profile.runner, CycleState(), pods, raw)


def _rejectors(plugins: frozenset[str], tried: Sequence[GroupResult]) -> Rejectors:
    """Return the plugins that rejected pods of the group in any placement."""
    rejected, pending = set(plugins), set[str]()
    decisions = {
        id(member.decision): member.decision for result in tried for member in result.members
    }
    for decision in decisions.values():  # pods that are alike share theirs
        if isinstance(decision, Reject):
            more = rejectors_of(decision)
            rejected |= more[0]
            pending |= more[1]
    return frozenset(rejected), frozenset(pending)


def rejectors_of(decision: Reject) -> Rejectors:
    """Return the plugins that rejected one pod in a placement, on all nodes or after one was
    chosen."""
    return rejectors(decision if decision.diagnosis is not None else decision.status)


def _without_nodes(result: GroupResult) -> GroupResult:
    """Return a result without the nodes that were found: the group may go elsewhere."""
    left = tuple(member for member in result.members if not isinstance(member.decision, Bind))
    return replace(result, members=left)


class _Place(NamedTuple):
    """A domain by name, its nodes and its level."""

    name: str
    rows: NDArray[np.intp]
    level: int


def _places(candidates: Domains) -> Iterator[_Place]:
    """Yield the domains level by level; one with the nodes of a narrower one is not tried again.

    A name that a narrower level has, too, is told from that by its level.
    """
    names: set[str] = set()
    known: set[bytes] = set()
    for level, domains_of_level in enumerate(candidates.levels):
        new = {
            name: rows
            for name, rows in domains_of_level.items()
            if not level or rows.tobytes() not in known
        }
        for name, rows in new.items():
            yield _Place(f"{name} (level {level})" if name in names else name, rows, level)
        names |= domains_of_level.keys()
        known |= {rows.tobytes() for rows in new.values()}


def _try_placement(
    place: _Place,
    attempts: Sequence[Attempt],
    trial: GroupTrial,
    seed: int | None,
) -> GroupResult:
    """Put the group into a placement, see how it does there, and take it out again.

    ``seed`` breaks ties among nodes: the same seed has the same result.
    """
    if seed is not None:
        trial = replace(trial, rng=Random(seed))  # noqa: S311 - no secret
    nodes = Nodes(place.name, place.rows, _domain(trial.handle.nodes, place.rows))
    with AssumedMembers(trial.handle, trial.absent) as assumed:
        result = schedule_members(attempts, nodes, trial, assumed)
        return _rated(result, attempts, place, assumed.held) if result.feasible else result


def _domain(table: NodeTable, rows: NDArray[np.intp]) -> Domain | None:
    """Return the nodes as what evaluations are restricted to; None where they are all nodes."""
    others = table.live.values[: table.n].copy()
    others[rows] = False
    outside = np.flatnonzero(others)
    return Domain(outside) if outside.size else None


def _rated(
    result: GroupResult,
    attempts: Sequence[Attempt],
    place: _Place,
    held: Sequence[Held],
) -> GroupResult:
    """Return the result with its scores as plugins give them, or with the error of one."""
    pods = [attempt.queued.info for attempt in attempts]
    assigned = tuple((placed.attempt.queued.info, placed.node) for placed in held)
    placement = Placement(result.name, place.rows, assigned, place.level)
    try:
        scores = placement_scores(attempts[0].profile.runner, CycleState(), pods, placement)
    except PluginError as error:
        return replace(result, unrated=str(error))
    return replace(result, scores=scores)


# Domains of nodes, parted and rated by plugins.

BETWEEN: Final = ", "
"""Separates the names of domains in the name of their intersection."""


class Domains(msgspec.Struct, frozen=True):
    """The domains that a group may go to, by name in order, and the plugins that parted them.

    ``levels``: the narrowest domains first.
    """

    levels: tuple[Mapping[str, NDArray[np.intp]], ...]
    plugins: tuple[str, ...]

    @property
    def rows(self) -> Mapping[str, NDArray[np.intp]]:
        """The narrowest domains."""
        return self.levels[0]


def domains(
    runner: Runner, state: CycleState, pods: Sequence[PodInfo], table: NodeTable
) -> Domains | None:
    """Run all PlacementGenerate plugins; None if all of them skip.

    Raises PluginError if a plugin breaks or refuses, or names rows that do not exist.
    """
    levels: list[dict[str, NDArray[np.intp]]] = []
    plugins: list[str] = []
    for hook in runner.pipeline.at("placement_generate"):
        generated = cast("Placements", runner.call("placement_generate", hook, state, pods))
        if generated.status.code is Code.SKIP:
            continue
        if generated.status.code is Code.ERROR:
            # kube-scheduler passes the message of an Error on as it is, without the plugin's name.
            raise PluginError(generated.status.message())
        if not generated.status.ok:
            text = f'running PlacementGenerate plugin "{hook.plugin}": {generated.status.message()}'
            raise PluginError(text)
        own = [
            _live(hook.plugin, parted, table) for parted in (generated.domains, *generated.wider)
        ]
        if plugins:  # where one has fewer levels, its widest one counts for the others'
            count = max(len(levels), len(own))
            own = [
                _common(levels[min(i, len(levels) - 1)], own[min(i, len(own) - 1)])
                for i in range(count)
            ]
        levels = own
        plugins.append(hook.plugin)
    if not plugins:
        return None
    kept = tuple({name: rows[name] for name in sorted(rows) if rows[name].size} for rows in levels)
    return Domains(kept, tuple(plugins))


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
    first: Mapping[str, NDArray[np.intp]], other: Mapping[str, NDArray[np.intp]]
) -> dict[str, NDArray[np.intp]]:
    """Return what each two domains have in common."""
    return {
        BETWEEN.join(filter(None, (a, b))): np.intersect1d(rows, others)
        for a, rows in first.items()
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
    totals: list[dict[str, int]] = [{} for _ in scores]
    for hook in runner.pipeline.at("placement_score"):
        own = np.array([raw[hook.plugin] for raw in scores], np.int64)
        if hook.plugin in normalizers:
            normalizer = normalizers[hook.plugin]
            normalized = runner.call("normalize_placement_score", normalizer, state, pods, own)
            own = cast("Scores", normalized)
        for total, score in zip(totals, own.tolist(), strict=True):
            if not 0 <= score <= MAX_NODE_SCORE:
                text = (
                    f'plugin "{hook.plugin}" returns an invalid placement score {score}, it should'
                    f" in the range of [0, {MAX_NODE_SCORE}] after normalizing"
                )
                raise PluginError(text)
            total[hook.plugin] = score * hook.weight
    return totals
