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


def seeds_lines(diff: placement_diff.SeedsDiff) -> Iterator[str]:
    """Yield the comparison as text."""
    yield from seeds_totals(diff)
    causes = means_of_causes(diff)
    if causes:
        yield f"  of these, {causes}"
    yield from _fates(diff)
    yield from _always(diff)
    yield ""
    yield from seeds_table(diff.measures)
    few = too_few(diff)
    if few:
        yield ""
        yield few


def too_few(diff: placement_diff.SeedsDiff) -> str:
    """Return that the seeds are too few to tell some differences; empty if they are not."""
    compared = [(len(diff.seeds), measure.values) for measure in diff.measures]
    few = any(measure.verdict is Significance.TOO_FEW for _, measure in compared)
    return told("OLD", compared) if few else ""


def always_text(diff: placement_diff.SeedsDiff, always: Sequence[placement_diff.PodMoves]) -> str:
    """Return how many pods change their node with every seed, and by what."""
    steady = sum(moves.by_policy == len(diff.seeds) for moves in always)
    change = "changes its" if len(always) == 1 else "change their"
    of = "" if steady == len(always) else f"{steady:,} of them "
    made = f", {of}by a policy each time" if steady else ""
    return f"{counted(len(always), 'pod')} {change} node with every seed{made}"


def nodes_text(nodes: Sequence[str]) -> str:
    """Return the first of some nodes, and how many more there are."""
    more = len(nodes) - NODES
    return " or ".join(nodes[:NODES]) + (f" or {more} more" if more > 0 else "")


def _always(diff: placement_diff.SeedsDiff) -> Iterator[str]:
    """Yield the pods that change their node with every seed."""
    always = diff.always
    if always:
        yield f"{always_text(diff, always)}:"
    for moved in always[:NAMED]:
        yield f"  {moved.pod}: {nodes_text(moved.old)} -> {nodes_text(moved.new)}"
    if len(always) > NAMED:
        yield f"  and {len(always) - NAMED:,} more"


def seeds_totals(diff: placement_diff.SeedsDiff) -> tuple[str, str]:
    """Return what was compared, and how many pods move on average."""
    run = diff.runs[0]
    pods, nodes = counted(run.pods, "pod"), counted(run.nodes, "node")
    seeds = f"{counted(len(diff.seeds), 'seed')}: {seeds_text(diff.seeds)}"
    moved, lost, won = (mean_text(diff.mean_of_kind(kind)) for kind in KINDS)
    moves = f"{moved} move, {lost} become unschedulable, {won} schedulable (means)"
    return f"{pods} on {nodes}, with {seeds}", moves


def fate_text(fate: placement_diff.PodDifference) -> str:
    """Return with how many more or fewer seeds a pod has a node."""
    return counted(abs(fate.change), f"{'fewer' if fate.change < 0 else 'more'} seed")


def _fates(diff: placement_diff.SeedsDiff) -> Iterator[str]:
    """Yield the pods that are placed with fewer seeds, or with more."""
    fates = diff.fates
    for fate in fates[:NAMED]:
        yield f"  {fate.pod}: placed with {fate_text(fate)}"
    if len(fates) > NAMED:
        yield f"  and {len(fates) - NAMED:,} more"


def seeds_table(measures: Sequence[placement_diff.MeasureChange]) -> Iterator[str]:
    """Yield a row per measure: means, difference, interval and significance."""
    rows = [("", "OLD", "NEW", "NEW - OLD", "95 % INTERVAL", ""), *map(measure_row, measures)]
    yield from table(rows, range(1, 5), gap="  ")


def measure_row(measure: placement_diff.MeasureChange) -> tuple[str, str, str, str, str, str]:
    """Return name, means, difference, interval and significance of a measure, as text."""
    values, unit = measure.values, f" {measure.unit}" if measure.unit else ""
    difference = values.difference
    return (
        measure.name,
        f"{values.old:,.1f}{unit}",
        f"{values.new:,.1f}{unit}",
        f"{difference.mean:+,.1f}",
        f"{difference.low:+,.1f} to {difference.high:+,.1f}",
        "" if values.verdict is Significance.EQUAL else values.verdict.value,
    )


def seeds_document(diff: placement_diff.SeedsDiff) -> Document:
    """Return the comparison as plain data."""
    return {
        "pods": diff.runs[0].pods,
        "nodes": diff.runs[0].nodes,
        "seeds": list(diff.seeds),
        **{kind: _rounded(diff.mean_of_kind(kind)) for kind in KINDS},
        "causes": {
            cause.value: _rounded(diff.mean_of_cause(cause)) for cause in placement_diff.Cause
        },
        "measures": [measure_document(measure) for measure in diff.measures],
        "fates": msgspec.to_builtins(diff.fates),
        "always": msgspec.to_builtins(diff.always),
        "runs": [
            {"seed": seed, **counts_document(run), "placed": [run.old.placed, run.new.placed]}
            for seed, run in zip(diff.seeds, diff.runs, strict=True)
        ],
    }


def measure_document(measure: placement_diff.MeasureChange) -> Document:
    """Return a measure of both sides as plain data."""
    return {
        "name": measure.name,
        "old": round(measure.values.old, 3),
        "new": round(measure.values.new, 3),
        "difference": _rounded(measure.values.difference),
        "verdict": measure.values.verdict.value,
    }


def counts_document(run: placement_diff.PlacementDiff) -> Document:
    """Return the number of moved pods, in all and by cause."""
    causes = (
        {cause.value: run.causes[cause] for cause in placement_diff.Cause} if run.causes else {}
    )
    return {**{kind: run.counts[kind] for kind in KINDS}, **({"causes": causes} if causes else {})}


def causes_text(diff: placement_diff.PlacementDiff) -> str:
    """Return the causes of one run's moves; empty if they are not known."""
    parts = [f"{diff.causes[c]:,} {words}" for c, words in CAUSES.items() if diff.causes[c]]
    return ", ".join(parts)


def means_of_causes(diff: placement_diff.SeedsDiff) -> str:
    """Return the causes of moves, as means over all seeds; empty if they are not known."""
    parts = [
        f"{mean_text(diff.mean_of_cause(cause))} {words}"
        for cause, words in CAUSES.items()
        if any(run.causes[cause] for run in diff.runs)
    ]
    return ", ".join(parts)


def _rounded(estimate: Estimate) -> dict[str, float]:
    return {name: round(value, 3) for name, value in asdict(estimate).items()}


def mean_text(estimate: Estimate) -> str:
    """Return a mean as text."""
    return f"{estimate.mean:,.1f}"


def seeds_text(seeds: Sequence[int]) -> str:
    """Return a range of consecutive seeds as text."""
    return str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"


ONE_SEED: Final = (
    "This is one seed: another one breaks ties otherwise. --seeds 10 tells differences from noise."
)


def applied_lines(diff: placement_diff.PlacementDiff, seed: str = "") -> Iterator[str]:
    """Yield the number of pods and nodes that each side's policies applied to."""
    for name, side in (("OLD", diff.old), ("NEW", diff.new)):
        if side.policies:
            yield ""
            yield from policy_lines(side.policies, f"Policies of {name}{seed}:")


def placement_lines(diff: placement_diff.PlacementDiff) -> Iterator[str]:
    """Yield the moved pods and the change of the cluster, as text."""
    yield totals_text(diff)
    causes = causes_text(diff)
    if causes:
        yield f"  of these, {causes}"
    yield from move_lines(diff.moves)
    yield ""
    rows = [("", "OLD", "NEW"), *sides(diff.old, diff.new)]
    yield from table(rows, (1, 2), gap="  ")


def move_lines(moves: Sequence[placement_diff.Move]) -> Iterator[str]:
    """Yield the first of the pods that are elsewhere."""
    for move in worst_first(moves)[:NAMED]:
        yield f"  {move.pod}: {move.old or '-'} -> {_where(move)}"
    if len(moves) > NAMED:
        yield f"  and {len(moves) - NAMED:,} more"


def totals_text(diff: placement_diff.PlacementDiff) -> str:
    """Return how many pods move, and become unschedulable or schedulable."""
    counts = diff.counts
    return (
        f"{counted(diff.pods, 'pod')} on {counted(diff.nodes, 'node')}: "
        f"{counts['moved']:,} move, {counts['unschedulable']:,} become unschedulable, "
        f"{counts['schedulable']:,} schedulable"
    )


def worst_first(moves: Sequence[placement_diff.Move]) -> list[placement_diff.Move]:
    """Sort moves: pods that lose their node first, and those with cause policy before others."""
    other = {None, placement_diff.Cause.POLICY}
    return sorted(
        moves,
        key=lambda move: (move.new is not None, move.old is not None, move.cause not in other),
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
    for share, other in zip(old.spread, new.spread, strict=True):
        yield f"{share.resource} requested", f"{share.mean:.1f} %", f"{other.mean:.1f} %"
        deviation = f"{share.resource} deviation between nodes"
        yield deviation, f"{share.deviation:.1f}", f"{other.deviation:.1f}"


def policies_document(diff: placement_diff.PlacementDiff) -> Document:
    """Return what the policies of each side applied to, as plain data."""
    both = (("old", diff.old), ("new", diff.new))
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
            share.resource: {"mean": round(share.mean, 3), "deviation": round(share.deviation, 3)}
            for share in side.spread
        },
    }
