"""Compares the placements of two policy sets on a cluster, with one seed or with several."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Final, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.tables import NodeTable
from policy_sched.errors import PluginError
from policy_sched.experiments import Estimate, Paired, estimate, paired
from policy_sched.manifests import set_creation_times
from policy_sched.model import ApiObject, PodInfo
from policy_sched.profiles.build import CompiledPlan
from policy_sched.report import Advance, unshown
from policy_sched.scheduler import Attempt, Scheduler, setup
from policy_sched.simulate import Application, AppliedPolicy, OneShotRun, resource_names, run_queue

PLACED: Final = "pods placed"


class Move(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pod whose placement differs; None: no node.

    ``cause`` is None if it is not known.
    """

    pod: str
    old: str | None
    new: str | None
    message: str
    """Why it has no node in NEW."""
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """The usage of one resource over the nodes that have it, in per cent of the allocatable amount.

    ``mean`` over all of them; ``deviation`` is the standard deviation between nodes.
    """

    resource: str
    mean: float
    deviation: float

    @staticmethod
    def of(resource: str, shares: Sequence[float]) -> Spread:
        """Return the spread of the nodes' shares."""
        if not shares:
            return Spread(resource, 0.0, 0.0)
        mean = math.fsum(shares) / len(shares)
        deviation = math.sqrt(math.fsum((share - mean) ** 2 for share in shares) / len(shares))
        return Spread(resource, mean, deviation)


@dataclass(frozen=True, slots=True)
class Side:
    """The result of one set of policies."""

    placed: int
    nodes_in_use: int
    score: float
    """Mean total of the chosen nodes."""
    spread: tuple[Spread, ...]
    preemptions: int
    policies: tuple[AppliedPolicy, ...] = ()
    """What each policy applied to."""


@dataclass(frozen=True, slots=True)
class PlacementDiff:
    """Two runs over one cluster, compared; ``moves`` in the order of the pods."""

    pods: int
    nodes: int
    old: Side
    new: Side
    moves: tuple[Move, ...]

    @property
    def counts(self) -> Counter[str]:
        """Number of pods that moved, became schedulable, or became unschedulable."""
        return move_counts(self.moves)

    @property
    def causes(self) -> Counter[Cause]:
        """Number of pods that moved, became schedulable or unschedulable, by cause."""
        return Counter(move.cause for move in self.moves if move.cause is not None)


@dataclass(frozen=True, slots=True)
class MeasureChange:
    """A value measured on both sides with every seed; ``unit`` is "%" or empty."""

    name: str
    unit: str
    values: Paired


@dataclass(frozen=True, slots=True)
class SeedsDiff:
    """The same comparison with several seeds; ``runs`` in the order of ``seeds``."""

    seeds: tuple[int, ...]
    runs: tuple[PlacementDiff, ...]

    @property
    def measures(self) -> tuple[MeasureChange, ...]:
        """The measures of both sides, over all seeds."""
        return measure_changes([(_measured(run.old), _measured(run.new)) for run in self.runs])

    def mean_of_kind(self, kind: str) -> Estimate:
        """Return the mean number of pods that moved, or became (un)schedulable."""
        return estimate([run.counts[kind] for run in self.runs])

    def mean_of_cause(self, cause: Cause) -> Estimate:
        """Return the mean number of pods that moved for a cause."""
        return estimate([run.causes[cause] for run in self.runs])

    @property
    def fates(self) -> list[PodDifference]:
        """Pods with a node in more seeds on one side, those that lose most first."""
        net: Counter[str] = Counter()
        for run in self.runs:
            net.update(move.pod for move in run.moves if move.old is None)
            net.subtract(move.pod for move in run.moves if move.new is None)
        net_fates = [PodDifference(pod, change) for pod, change in net.items() if change]
        return sorted(net_fates, key=lambda fate: (fate.change, fate.pod))

    @property
    def always(self) -> list[PodMoves]:
        """Pods that change their node with every seed, most moves by a policy first."""
        moves: dict[str, list[Move]] = {}
        for run in self.runs:
            for move in run.moves:
                if move.old is not None and move.new is not None:
                    moves.setdefault(move.pod, []).append(move)
        moved = [
            PodMoves(
                pod,
                tuple(dict.fromkeys(group_move.old for group_move in of if group_move.old)),
                tuple(dict.fromkeys(group_move.new for group_move in of if group_move.new)),
                sum(group_move.cause is Cause.POLICY for group_move in of),
            )
            for pod, of in moves.items()
            if len(of) == len(self.runs)
        ]
        return sorted(moved, key=lambda group_move: (-group_move.by_policy, group_move.pod))


class PodMoves(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that changes its node with every seed: its old nodes and its new ones."""

    pod: str
    old: tuple[str, ...]
    new: tuple[str, ...]
    by_policy: int
    """With how many seeds a policy makes the move."""


@dataclass(frozen=True, slots=True)
class PodDifference:
    """A pod, and the number of seeds with a node in NEW minus that in OLD."""

    pod: str
    change: int


Values: TypeAlias = Mapping[tuple[str, str], float]
"""Values of measures by name and unit."""


def _measured(side: Side) -> Values:
    measured: dict[tuple[str, str], float] = {
        (PLACED, ""): side.placed,
        ("nodes in use", ""): side.nodes_in_use,
        ("preemptions", ""): side.preemptions,
        ("mean score of the chosen nodes", ""): side.score,
    }
    for share in side.spread:
        measured[f"{share.resource} requested", "%"] = share.mean
        measured[f"{share.resource} deviation between nodes", ""] = share.deviation
    return measured


def measure_changes(sides: Sequence[tuple[Values, Values]]) -> tuple[MeasureChange, ...]:
    """Return the measures that both sides have with every seed."""
    return tuple(
        MeasureChange(
            *name, paired([old[name] for old, _ in sides], [new[name] for _, new in sides])
        )
        for name in sides[0][0]
        if all(name in new for _, new in sides)
    )


T = TypeVar("T")
EachSeed: TypeAlias = Callable[[Callable[[int], T], Sequence[int]], Iterable[T]]
"""Applies a comparison to many seeds, in their order."""


def move_counts(moves: Iterable[Move]) -> Counter[str]:
    """Return the number of pods that moved, became schedulable, or became unschedulable."""
    return Counter(
        "schedulable" if move.old is None else "unschedulable" if move.new is None else "moved"
        for move in moves
    )


def compare_placements(
    old: Sequence[CompiledPlan],
    new: Sequence[CompiledPlan],
    objects: Sequence[ApiObject],
    seed: int = 0,
    now: int = setup.EPOCH,
    advance: Advance = unshown,
) -> PlacementDiff:
    """Decide all pending pods of a cluster with each set. ``seed`` chooses between equal nodes.

    ``now``: the time that rules see, in nanoseconds since 1970. ``advance`` is called with the
    number of further decisions.
    """
    set_creation_times(objects, now)
    scheduler = setup.assemble(old, seed=seed, objects=objects, now=lambda: now)
    attribution = Attribution(scheduler, new)
    first, before = _side(scheduler, old, objects, attribution, advance)
    scheduler = setup.assemble(new, seed=seed, objects=objects, now=lambda: now)
    second, after = _side(scheduler, new, objects, None, advance)
    moves = tuple(
        Move(
            placement.pod,
            placement.node,
            other.node,
            other.message,
            attribution.cause(placement.pod, placement.node, other.node),
        )
        for placement, other in zip(first.placements, second.placements, strict=True)
        if placement.node != other.node
    )
    return PlacementDiff(len(first.placements), first.nodes, before, after, moves)


def compare_seeds(
    old: Sequence[CompiledPlan],
    new: Sequence[CompiledPlan],
    objects: Sequence[ApiObject],
    seeds: Sequence[int],
    each: EachSeed[PlacementDiff] = map,
    now: int = setup.EPOCH,
) -> SeedsDiff:
    """As `compare_placements`, with every seed; ``each`` may run several at a time."""
    work = partial(compare_placements, old, new, objects, now=now)
    return SeedsDiff(tuple(seeds), tuple(each(work, seeds)))


def _side(
    scheduler: Scheduler,
    plans: Sequence[CompiledPlan],
    objects: Sequence[ApiObject],
    attribution: Attribution | None,
    advance: Advance,
) -> tuple[OneShotRun, Side]:
    infos = [PodInfo.of(pod) for pod in setup.load_cluster(scheduler.cache, objects)]
    if attribution is not None:
        attribution.saw(infos)
    application = Application(scheduler, plans)
    run = run_queue(scheduler, infos, advance)
    table = scheduler.cache.nodes
    scores = [placement.score for placement in run.placements if placement.score is not None]
    side = Side(
        placed=run.placed,
        nodes_in_use=sum(bool(table.pods_on(row)) for row in table.row_of.values()),
        score=math.fsum(scores) / len(scores) if scores else 0.0,
        spread=tuple(_spread(table, name) for name in resource_names(table) if name != "pods"),
        preemptions=len(run.preemptions),
        policies=application.report(infos),
    )
    return run, side


def _spread(table: NodeTable, resource: str) -> Spread:
    allocatable = table.lookup(("allocatable", resource)).values
    requested = table.lookup(("requested", resource)).values
    rows = [row for row in table.row_of.values() if allocatable[row] > 0]
    shares = [100.0 * int(requested[row]) / int(allocatable[row]) for row in rows]
    return Spread.of(resource, shares)


class Cause(StrEnum):
    """Why a pod moves."""

    POLICY = "policy"
    """On the same cluster, the other set of policies decides differently."""
    TIE = "tie"
    """Both nodes have the highest score; only the random choice differs."""
    FOLLOWS = "follows"
    """Other pods moved before, so that the cluster differs."""
    GROUP = "group"
    """The pod is placed with its group, which attribution does not support."""


class Attribution:
    """Evaluates each pod of a scheduler with a second set of policies, before its decision."""

    def __init__(self, scheduler: Scheduler, plans: Sequence[CompiledPlan]) -> None:
        self._profiles = setup.Assembly(scheduler.handle, []).build(plans).profiles
        self._table = scheduler.handle.nodes
        self._best: dict[str, NDArray[np.uint8]] = {}
        """By pod the rows that are best for the second set, a bit each."""
        self._groups: set[str] = set()
        scheduler.observers.deciding.append(self._evaluate)

    def _evaluate(self, attempt: Attempt) -> None:
        """Evaluate the pod with the second set."""
        info = attempt.queued.info
        self._best[info.key] = np.packbits(self._best_rows(info))

    def saw(self, infos: Sequence[PodInfo]) -> None:
        """Take note of the pods' groups."""
        self._groups = {info.key for info in infos if info.pod_group}

    def cause(self, pod: str, old: str | None, new: str | None) -> Cause:
        """Return why a pod is on ``new`` in the second run, not on ``old``; None is no node."""
        packed = self._best.get(pod)
        if packed is None:
            return Cause.GROUP if pod in self._groups else Cause.POLICY
        best = np.unpackbits(packed, count=self._table.n)
        if old is None:
            return Cause.POLICY if best.any() else Cause.FOLLOWS
        if not best[self._table.row_of[old]]:
            # Another node is better, or none will do. Without a node in the end, although there was
            # a better one here, the pod lacks the room that others took.
            return Cause.POLICY if new is not None or not best.any() else Cause.FOLLOWS
        tied = new is not None and best[self._table.row_of[new]]
        return Cause.TIE if tied else Cause.FOLLOWS

    def _best_rows(self, info: PodInfo) -> NDArray[np.bool_]:
        """Return the rows that are best for a pod now; none if it would not be placed."""
        best = np.zeros(self._table.n, np.bool_)
        profile = self._profiles.get(info.scheduler_name)
        if profile is None:
            return best
        try:
            if profile.runner.run("pre_enqueue", info).status.ok:
                best[profile.evaluator.evaluate(info).best()] = True
        except PluginError:
            return best  # the run with that set reports the error
        return best
