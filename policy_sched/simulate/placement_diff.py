"""What another policy set does to the placements on a cluster."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from policy_sched.cluster.node_table import NodeTable
from policy_sched.model.meta import ApiObject
from policy_sched.profiles.build import CompiledPlan
from policy_sched.scheduler.wiring import assemble
from policy_sched.simulate.cluster_load import load_cluster
from policy_sched.simulate.cluster_run import resource_names, run_cluster
from policy_sched.simulate.report import Run


@dataclass(frozen=True, slots=True)
class Move:
    """A pod whose placement differs; None: no node. ``message`` is why it has none now."""

    pod: str
    old: str | None
    new: str | None
    message: str


@dataclass(frozen=True, slots=True)
class Spread:
    """How one resource is used over the nodes that have it, in per cent of the allocatable.

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
    """What one set of policies came to. ``score``: mean total of the chosen nodes."""

    placed: int
    nodes_in_use: int
    score: float
    spread: tuple[Spread, ...]
    preemptions: int


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
        """How many pods moved, became schedulable, or became unschedulable."""
        return Counter(_kind(move) for move in self.moves)


def _kind(move: Move) -> str:
    if move.old is None:
        return "schedulable"
    return "unschedulable" if move.new is None else "moved"


def compare_placements(
    old: Sequence[CompiledPlan],
    new: Sequence[CompiledPlan],
    objects: Sequence[ApiObject],
    seed: int = 0,
) -> PlacementDiff:
    """Decide all pending pods of a cluster with each set. ``seed`` decides between equal nodes."""
    first, before = _side(old, objects, seed)
    second, after = _side(new, objects, seed)
    moves = tuple(
        Move(one.pod, one.node, other.node, other.message)
        for one, other in zip(first.placements, second.placements, strict=True)
        if one.node != other.node
    )
    return PlacementDiff(len(first.placements), first.nodes, before, after, moves)


def _side(
    plans: Sequence[CompiledPlan], objects: Sequence[ApiObject], seed: int
) -> tuple[Run, Side]:
    scheduler = assemble(plans, seed=seed, objects=objects)
    pending = load_cluster(scheduler.cache, objects)
    run = run_cluster(scheduler, pending, lambda _more: None)
    table = scheduler.cache.nodes
    scores = [one.score for one in run.placements if one.score is not None]
    side = Side(
        placed=run.placed,
        nodes_in_use=sum(bool(table.pods_on(row)) for row in table.row_of.values()),
        score=math.fsum(scores) / len(scores) if scores else 0.0,
        spread=tuple(_spread(table, name) for name in resource_names(table) if name != "pods"),
        preemptions=len(run.preemptions),
    )
    return run, side


def _spread(table: NodeTable, resource: str) -> Spread:
    allocatable = table.column(("allocatable", resource)).values
    requested = table.column(("requested", resource)).values
    rows = [row for row in table.row_of.values() if allocatable[row] > 0]
    shares = [100.0 * int(requested[row]) / int(allocatable[row]) for row in rows]
    return Spread.of(resource, shares)
