"""Shows a comparison with several seeds: means, intervals, and what is noise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Final

from policy_sched.diff.attribution import Cause
from policy_sched.diff.placement_diff import Measure, PlacementDiff, SeedsDiff
from policy_sched.model import counted
from policy_sched.simulate import Estimate, Significance

NAMED: Final = 20
"""Pods that the text names at most."""
KINDS: Final = ("moved", "unschedulable", "schedulable")
CAUSES: Final = {
    Cause.POLICY: "made by a policy",
    Cause.TIE: "ties",
    Cause.FOLLOWS: "follow from other moves",
    Cause.GROUP: "in groups that are placed together",
}
"""The words that follow the number of moves with each cause."""


def seeds_lines(found: SeedsDiff) -> Iterator[str]:
    """Yield the comparison for people."""
    run = found.runs[0]
    pods, nodes = counted(run.pods, "pod"), counted(run.nodes, "node")
    yield f"{pods} on {nodes}, with {counted(len(found.seeds), 'seed')}: {seeds_text(found.seeds)}"
    moved, lost, won = (mean_text(found.mean_of_kind(kind)) for kind in KINDS)
    yield f"{moved} move, {lost} become unschedulable, {won} schedulable (means)"
    causes = means_of_causes(found)
    if causes:
        yield f"  of these, {causes}"
    yield from _fates(found)
    yield ""
    yield from seeds_table(found.measures)


def _fates(found: SeedsDiff) -> Iterator[str]:
    """Yield the pods that have a node with fewer seeds, or with more."""
    fates = found.fates
    for one in fates[:NAMED]:
        more = "fewer" if one.change < 0 else "more"
        yield f"  {one.pod}: placed with {counted(abs(one.change), f'{more} seed')}"
    if len(fates) > NAMED:
        yield f"  and {len(fates) - NAMED:,} more"


def seeds_table(measures: Sequence[Measure]) -> Iterator[str]:
    """Yield a row per measure: means, difference, interval and verdict."""
    rows = [("", "OLD", "NEW", "NEW - OLD", "95 % INTERVAL", ""), *map(measure_row, measures)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *cells, verdict in rows:
        padded = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=False))
        yield "  ".join([name.ljust(widths[0]), *padded, verdict]).rstrip()


def measure_row(one: Measure) -> tuple[str, str, str, str, str, str]:
    """Return name, means, difference, interval and verdict of a measure, as text."""
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


def seeds_document(found: SeedsDiff) -> dict[str, object]:
    """Return the comparison as plain data."""
    return {
        "pods": found.runs[0].pods,
        "nodes": found.runs[0].nodes,
        "seeds": list(found.seeds),
        **{kind: _rounded(found.mean_of_kind(kind)) for kind in KINDS},
        "causes": {cause.value: _rounded(found.mean_of_cause(cause)) for cause in Cause},
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
        "fates": [asdict(one) for one in found.fates],
        "runs": [
            {"seed": seed, **counts_document(run), "placed": [run.old.placed, run.new.placed]}
            for seed, run in zip(found.seeds, found.runs, strict=True)
        ],
    }


def counts_document(run: PlacementDiff) -> dict[str, object]:
    """Return how many pods moved, and by what."""
    causes = {cause.value: run.causes[cause] for cause in Cause} if run.causes else {}
    return {**{kind: run.counts[kind] for kind in KINDS}, **({"causes": causes} if causes else {})}


def causes_text(found: PlacementDiff) -> str:
    """Return by what the pods of one run were moved; empty if that is not known."""
    parts = [f"{found.causes[c]:,} {words}" for c, words in CAUSES.items() if found.causes[c]]
    return ", ".join(parts)


def means_of_causes(found: SeedsDiff) -> str:
    """Return by what pods were moved, in the mean of all seeds; empty if that is not known."""
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
    """Return which seeds they are, which follow on each other."""
    return str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
