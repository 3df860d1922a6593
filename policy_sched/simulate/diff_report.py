"""Shows what differs between two policy sets, and what that does to placements."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from policy_sched.profiles.policy_diff import Difference
from policy_sched.profiles.policy_set import PolicySet
from policy_sched.simulate.placement_diff import Move, PlacementDiff, Side
from policy_sched.simulate.report import counted

NOT_COMPARED: Final = (
    "No profile enables a policy that differs: the placements say nothing about the difference."
)

#: Moved pods that the text names at most.
NAMED: Final = 20


@dataclass(frozen=True, slots=True)
class PolicyDiff:
    """Two policy sets, and what they say differently."""

    old: PolicySet
    new: PolicySet
    differences: Sequence[Difference]

    @property
    def idle_only(self) -> bool:
        """Is there a difference, and none in what a profile enables?"""
        return bool(self.differences) and not any(one.enabled for one in self.differences)


def text_lines(found: PolicyDiff, placements: PlacementDiff | None) -> Iterator[str]:
    """Yield the differences for people."""
    yield from configuration_lines(found)
    if not found.differences:
        yield "The policy sets say the same."
    for one in found.differences:
        yield one.where
        if one.old:
            yield from (f"  - {line}" for line in one.old.split("\n"))
        if one.new:
            yield from (f"  + {line}" for line in one.new.split("\n"))
    if placements is not None:
        yield ""
        if found.idle_only:
            yield NOT_COMPARED
            yield ""
        yield from placement_lines(placements)


def configuration_lines(found: PolicyDiff) -> Iterator[str]:
    """Yield which configuration decides what is enabled, if one does, and what is not."""
    if found.old.config is None and found.new.config is None:
        return
    for name, side in (("OLD", found.old), ("NEW", found.new)):
        if side.config is None:
            yield f"{name}: no KubeSchedulerConfiguration; each policy is enabled"
        else:
            yield f"{name}: {side.config} decides which policies are enabled"
        if side.idle:
            yield f"  not enabled, and not compared on a cluster: {', '.join(side.idle)}"
    yield ""


def placement_lines(found: PlacementDiff) -> Iterator[str]:
    """Yield who goes elsewhere and what the cluster comes to, for people."""
    counts = found.counts
    yield (
        f"{counted(found.pods, 'pod')} on {counted(found.nodes, 'node')}: "
        f"{counts['moved']:,} move, {counts['unschedulable']:,} become unschedulable, "
        f"{counts['schedulable']:,} schedulable"
    )
    # What got worse comes first.
    ordered = sorted(found.moves, key=lambda move: (move.new is not None, move.old is not None))
    for move in ordered[:NAMED]:
        yield f"  {move.pod}: {move.old or '-'} -> {_where(move)}"
    if len(ordered) > NAMED:
        yield f"  and {len(ordered) - NAMED:,} more"
    yield ""
    rows = [("", "OLD", "NEW"), *_sides(found.old, found.new)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, old, new in rows:
        yield f"{name:<{widths[0]}}  {old:>{widths[1]}}  {new:>{widths[2]}}".rstrip()


def _where(move: Move) -> str:
    return move.new if move.new is not None else f"- ({move.message})"


def _sides(old: Side, new: Side) -> Iterator[tuple[str, str, str]]:
    yield "pods placed", str(old.placed), str(new.placed)
    yield "nodes in use", str(old.nodes_in_use), str(new.nodes_in_use)
    yield "preemptions", str(old.preemptions), str(new.preemptions)
    yield "mean score of the chosen nodes", f"{old.score:.1f}", f"{new.score:.1f}"
    for one, other in zip(old.spread, new.spread, strict=True):
        yield f"{one.resource} requested", f"{one.mean:.1f} %", f"{other.mean:.1f} %"
        deviation = f"{one.resource} deviation between nodes"
        yield deviation, f"{one.deviation:.1f}", f"{other.deviation:.1f}"


def as_json(found: PolicyDiff, placements: PlacementDiff | None) -> str:
    """Return one JSON document; the same bytes for the same input."""
    document: dict[str, object] = {
        "configurations": {
            name: {"file": side.config, "notEnabled": list(side.idle)}
            for name, side in (("old", found.old), ("new", found.new))
        },
        "differences": [asdict(one) for one in found.differences],
    }
    if placements is not None:
        document["placements"] = placement_document(placements)
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def placement_document(placements: PlacementDiff) -> dict[str, object]:
    """Return who goes elsewhere and what the cluster comes to, as plain data."""
    return {
        "pods": placements.pods,
        "nodes": placements.nodes,
        **{kind: placements.counts[kind] for kind in ("moved", "unschedulable", "schedulable")},
        "moves": [asdict(move) for move in placements.moves],
        "old": _side(placements.old),
        "new": _side(placements.new),
    }


def _side(side: Side) -> dict[str, object]:
    return {
        "placed": side.placed,
        "nodesInUse": side.nodes_in_use,
        "preemptions": side.preemptions,
        "score": round(side.score, 3),
        "utilisation": {
            one.resource: {"mean": round(one.mean, 3), "deviation": round(one.deviation, 3)}
            for one in side.spread
        },
    }
