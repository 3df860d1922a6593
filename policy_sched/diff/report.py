"""Shows a comparison of placements: one run or several seeds, as text and as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Final

import msgspec

from policy_sched.diff import placement_diff
from policy_sched.experiments import Estimate, Significance, told
from policy_sched.model import counted
from policy_sched.report import Document, table
from policy_sched.simulate import policy_document, policy_lines

NAMED: Final = 20
"""Pods that the text lists at most."""
NODES: Final = 3
"""Nodes that are named of a pod that is on several."""
KINDS: Final = ("moved", "unschedulable", "schedulable")
CAUSES: Final = {
    placement_diff.Cause.POLICY: "made by a policy",
    placement_diff.Cause.TIE: "ties",
    placement_diff.Cause.FOLLOWS: "follow from other moves",
    placement_diff.Cause.GROUP: "in groups that are placed together",
}
"""The words after the number of moves with each cause."""


def seeds_lines(found: placement_diff.SeedsDiff) -> Iterator[str]:
    """Yield the comparison as text."""
    yield from seeds_totals(found)
    causes = means_of_causes(found)
    if causes:
        yield f"  of these, {causes}"
    yield from _fates(found)
    yield from _always(found)
    yield ""
    yield from seeds_table(found.measures)
    few = too_few(found)
    if few:
        yield ""
        yield few


def too_few(found: placement_diff.SeedsDiff) -> str:
    """Return that the seeds are too few to tell some differences; empty if they are not."""
    compared = [(len(found.seeds), one.values) for one in found.measures]
    few = any(one.verdict is Significance.TOO_FEW for _, one in compared)
    return told("OLD", compared) if few else ""


def always_text(found: placement_diff.SeedsDiff, always: Sequence[placement_diff.PodMoves]) -> str:
    """Return how many pods change their node with every seed, and by what."""
    steady = sum(one.by_policy == len(found.seeds) for one in always)
    change = "changes its" if len(always) == 1 else "change their"
    of = "" if steady == len(always) else f"{steady:,} of them "
    made = f", {of}by a policy each time" if steady else ""
    return f"{counted(len(always), 'pod')} {change} node with every seed{made}"


def nodes_text(nodes: Sequence[str]) -> str:
    """Return the first of some nodes, and how many more there are."""
    more = len(nodes) - NODES
    return " or ".join(nodes[:NODES]) + (f" or {more} more" if more > 0 else "")


def _always(found: placement_diff.SeedsDiff) -> Iterator[str]:
    """Yield the pods that change their node with every seed."""
    always = found.always
    if always:
        yield f"{always_text(found, always)}:"
    for one in always[:NAMED]:
        yield f"  {one.pod}: {nodes_text(one.old)} -> {nodes_text(one.new)}"
    if len(always) > NAMED:
        yield f"  and {len(always) - NAMED:,} more"


def seeds_totals(found: placement_diff.SeedsDiff) -> tuple[str, str]:
    """Return what was compared, and how many pods move on average."""
    run = found.runs[0]
    pods, nodes = counted(run.pods, "pod"), counted(run.nodes, "node")
    seeds = f"{counted(len(found.seeds), 'seed')}: {seeds_text(found.seeds)}"
    moved, lost, won = (mean_text(found.mean_of_kind(kind)) for kind in KINDS)
    moves = f"{moved} move, {lost} become unschedulable, {won} schedulable (means)"
    return f"{pods} on {nodes}, with {seeds}", moves


def fate_text(one: placement_diff.PodDifference) -> str:
    """Return with how many more or fewer seeds a pod has a node."""
    return counted(abs(one.change), f"{'fewer' if one.change < 0 else 'more'} seed")


def _fates(found: placement_diff.SeedsDiff) -> Iterator[str]:
    """Yield the pods that are placed with fewer seeds, or with more."""
    fates = found.fates
    for one in fates[:NAMED]:
        yield f"  {one.pod}: placed with {fate_text(one)}"
    if len(fates) > NAMED:
        yield f"  and {len(fates) - NAMED:,} more"


def seeds_table(measures: Sequence[placement_diff.Measure]) -> Iterator[str]:
    """Yield a row per measure: means, difference, interval and significance."""
    rows = [("", "OLD", "NEW", "NEW - OLD", "95 % INTERVAL", ""), *map(measure_row, measures)]
    yield from table(rows, range(1, 5), gap="  ")


def measure_row(one: placement_diff.Measure) -> tuple[str, str, str, str, str, str]:
    """Return name, means, difference, interval and significance of a measure, as text."""
    values, unit = one.values, f" {one.unit}" if one.unit else ""
    difference = values.difference
    return (
        one.name,
        f"{values.old:,.1f}{unit}",
        f"{values.new:,.1f}{unit}",
        f"{difference.mean:+,.1f}",
        f"{difference.low:+,.1f} to {difference.high:+,.1f}",
        "" if values.verdict is Significance.EQUAL else values.verdict.value,
    )


def seeds_document(found: placement_diff.SeedsDiff) -> Document:
    """Return the comparison as plain data."""
    return {
        "pods": found.runs[0].pods,
        "nodes": found.runs[0].nodes,
        "seeds": list(found.seeds),
        **{kind: _rounded(found.mean_of_kind(kind)) for kind in KINDS},
        "causes": {
            cause.value: _rounded(found.mean_of_cause(cause)) for cause in placement_diff.Cause
        },
        "measures": [
            {
                "name": one.name,
                "old": round(one.values.old, 3),
                "new": round(one.values.new, 3),
                "difference": _rounded(one.values.difference),
                "verdict": one.values.verdict.value,
            }
            for one in found.measures
        ],
        "fates": msgspec.to_builtins(found.fates),
        "always": msgspec.to_builtins(found.always),
        "runs": [
            {"seed": seed, **counts_document(run), "placed": [run.old.placed, run.new.placed]}
            for seed, run in zip(found.seeds, found.runs, strict=True)
        ],
    }


def counts_document(run: placement_diff.PlacementDiff) -> Document:
    """Return the number of moved pods, in all and by cause."""
    causes = (
        {cause.value: run.causes[cause] for cause in placement_diff.Cause} if run.causes else {}
    )
    return {**{kind: run.counts[kind] for kind in KINDS}, **({"causes": causes} if causes else {})}


def causes_text(found: placement_diff.PlacementDiff) -> str:
    """Return the causes of one run's moves; empty if they are not known."""
    parts = [f"{found.causes[c]:,} {words}" for c, words in CAUSES.items() if found.causes[c]]
    return ", ".join(parts)


def means_of_causes(found: placement_diff.SeedsDiff) -> str:
    """Return the causes of moves, as means over all seeds; empty if they are not known."""
    parts = [
        f"{mean_text(found.mean_of_cause(cause))} {words}"
        for cause, words in CAUSES.items()
        if any(one.causes[cause] for one in found.runs)
    ]
    return ", ".join(parts)


def _rounded(one: Estimate) -> dict[str, float]:
    return {name: round(value, 3) for name, value in asdict(one).items()}


def mean_text(one: Estimate) -> str:
    """Return a mean as text."""
    return f"{one.mean:,.1f}"


def seeds_text(seeds: Sequence[int]) -> str:
    """Return a range of consecutive seeds as text."""
    return str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"


ONE_SEED: Final = (
    "This is one seed: another one breaks ties otherwise. --seeds 10 tells differences from noise."
)


def applied_lines(found: placement_diff.PlacementDiff, seed: str = "") -> Iterator[str]:
    """Yield the number of pods and nodes that each side's policies applied to."""
    for name, side in (("OLD", found.old), ("NEW", found.new)):
        if side.policies:
            yield ""
            yield from policy_lines(side.policies, f"Policies of {name}{seed}:")


def placement_lines(found: placement_diff.PlacementDiff) -> Iterator[str]:
    """Yield the moved pods and the change of the cluster, as text."""
    yield totals_text(found)
    causes = causes_text(found)
    if causes:
        yield f"  of these, {causes}"
    ordered = worst_first(found.moves)
    for move in ordered[:NAMED]:
        yield f"  {move.pod}: {move.old or '-'} -> {_where(move)}"
    if len(ordered) > NAMED:
        yield f"  and {len(ordered) - NAMED:,} more"
    yield ""
    rows = [("", "OLD", "NEW"), *sides(found.old, found.new)]
    yield from table(rows, (1, 2), gap="  ")


def totals_text(found: placement_diff.PlacementDiff) -> str:
    """Return how many pods move, and become unschedulable or schedulable."""
    counts = found.counts
    return (
        f"{counted(found.pods, 'pod')} on {counted(found.nodes, 'node')}: "
        f"{counts['moved']:,} move, {counts['unschedulable']:,} become unschedulable, "
        f"{counts['schedulable']:,} schedulable"
    )


def worst_first(moves: Sequence[placement_diff.Move]) -> list[placement_diff.Move]:
    """Sort moves: pods that lose their node first, and those with cause policy before others."""
    other = {None, placement_diff.Cause.POLICY}
    return sorted(
        moves, key=lambda one: (one.new is not None, one.old is not None, one.cause not in other)
    )


def _where(move: placement_diff.Move) -> str:
    return move.new if move.new is not None else f"- ({move.message})"


def sides(old: placement_diff.Side, new: placement_diff.Side) -> Iterator[tuple[str, str, str]]:
    """Yield each measure: its name, and the values of both sides as text."""
    yield "pods placed", str(old.placed), str(new.placed)
    yield "nodes in use", str(old.nodes_in_use), str(new.nodes_in_use)
    yield "preemptions", str(old.preemptions), str(new.preemptions)
    scores = [f"{side.score:.1f}" if side.placed else "-" for side in (old, new)]
    yield "mean score of the chosen nodes", scores[0], scores[1]
    for one, other in zip(old.spread, new.spread, strict=True):
        yield f"{one.resource} requested", f"{one.mean:.1f} %", f"{other.mean:.1f} %"
        deviation = f"{one.resource} deviation between nodes"
        yield deviation, f"{one.deviation:.1f}", f"{other.deviation:.1f}"


def policies_document(found: placement_diff.PlacementDiff) -> Document:
    """Return what the policies of each side applied to, as plain data."""
    both = (("old", found.old), ("new", found.new))
    return {name: policy_document(side.policies) for name, side in both}


def placement_document(placements: placement_diff.PlacementDiff) -> Document:
    """Return the moved pods and the change of the cluster, as plain data."""
    return {
        "pods": placements.pods,
        "nodes": placements.nodes,
        **counts_document(placements),
        "moves": msgspec.to_builtins(placements.moves),
        "old": _side(placements.old),
        "new": _side(placements.new),
    }


def _side(side: placement_diff.Side) -> Document:
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
