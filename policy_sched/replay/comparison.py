"""Two sets of policies on the same recorded traffic: what differs, over time and in all.

Theory of operation. Both sets decide the traffic anew, each from the state at the start, with the
same seeds: what a seed does to both cancels out. OLD is what was in force, so that it mostly does
what was recorded; how far it does is told. A pod that is elsewhere under NEW may be so because of a
policy, or because others were before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec

from policy_sched.diff import (
    PLACED as PODS_PLACED,
    EachSeed,
    MeasureChange,
    Move,
    Values,
    measure_changes,
    measure_document,
    measure_row,
    move_counts,
    move_lines,
    seeds_table,
    seeds_text,
)
from policy_sched.experiments import ENOUGH, MeasureRules
from policy_sched.model import SECOND, counted
from policy_sched.profiles.build import CompiledPlan
from policy_sched.profiles.reload import Compilation
from policy_sched.replay.runs import Replay, Window, replay
from policy_sched.report import Document, table
from policy_sched.simulate import Traffic, WaitingTimes, duration_text, time_text

PLACED: Final = (PODS_PLACED, "")
NEVER: Final = ("pods that found no node", "")
MEDIAN: Final = ("waiting time, median", "s")
P99: Final = ("waiting time, p99", "s")
EVICTED: Final = ("pods evicted", "")
ATTEMPTS: Final = ("attempts in vain", "")


@dataclass(frozen=True, slots=True)
class Side:
    """What one set of policies does to the traffic."""

    values: Values
    windows: tuple[Window, ...]
    as_recorded: int
    """Pods that go where they were recorded to go."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Both sides with one seed."""

    old: Side
    new: Side
    moves: tuple[Move, ...]

    @property
    def counts(self) -> Counter[str]:
        """Pods that move, and that find a node on one side alone."""
        return move_counts(self.moves)


@dataclass(frozen=True, slots=True)
class Contender:
    """A set of policies that decides the traffic; ``measures``: those that it states."""

    plans: Sequence[CompiledPlan]
    measures: Mapping[str, MeasureRules]
    compiled_by_hash: Mapping[str, Compilation] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReplayDiff:
    """A comparison of two sets of policies on traffic, with one seed or several."""

    start: int
    end: int
    pods: int
    """Pods that were decided; ``nodes``: those at the end."""
    nodes: int
    recorded: Values
    """What was recorded, as far as it was."""
    seeds: tuple[int, ...]
    runs: tuple[Pair, ...]
    notes: tuple[str, ...]

    @property
    def measures(self) -> tuple[MeasureChange, ...]:
        """The measures of both sides, over all seeds."""
        return measure_changes([(run.old.values, run.new.values) for run in self.runs])

    def lead(self) -> str:
        """Return how many pods move, with the first seed."""
        counts = self.runs[0].counts
        return (
            f"{counts['moved']:,} pods move, {counts['unschedulable']:,} find no node under NEW"
            f" alone, {counts['schedulable']:,} under OLD alone"
        )

    def head_lines(self) -> Iterator[str]:
        """Yield what was compared."""
        span = duration_text(self.end - self.start)
        seeds = f", with {counted(len(self.seeds), 'seed')}: {seeds_text(self.seeds)}"
        yield (
            f"{counted(self.pods, 'pod')} on {counted(self.nodes, 'node')}, {span} from"
            f" {time_text(self.start)}{seeds if len(self.seeds) > 1 else ''}"
        )
        yield (
            f"OLD is what was in force, decided again: {self.runs[0].old.as_recorded:,} of"
            f" {counted(self.pods, 'pod')} go where they were recorded"
        )

    def text_lines(self) -> Iterator[str]:
        """Yield the comparison as text."""
        yield from self.head_lines()
        yield self.lead()
        yield from move_lines(self.runs[0].moves)
        yield ""
        if len(self.seeds) > 1:
            yield from seeds_table(self.measures)
            if len(self.seeds) < ENOUGH:
                yield ""
                yield f"Fewer than {ENOUGH} seeds tell nothing from noise."
        else:
            yield from table(self.rows(), range(1, 4), gap="  ")
        yield ""
        yield from table(self.window_rows(), range(1, len(self.window_rows()[0])), gap="  ")
        if self.notes:
            yield ""
        for note in self.notes:
            yield f"Note: {note}"

    def rows(self) -> list[Sequence[str]]:
        """Return the measures of one seed, under their headings."""
        rows: list[Sequence[str]] = [("", "RECORDED", "OLD", "NEW")]
        for measure in self.measures:
            then = self.recorded.get((measure.name, measure.unit))
            values = (then, measure.values.old, measure.values.new)
            rows.append((measure.name, *(_number(value, measure.unit) for value in values)))
        return rows

    def window_rows(self) -> list[list[str]]:
        """Return what both sides are like over time, with the first seed, under headings."""
        old, new = self.runs[0].old.windows, self.runs[0].new.windows
        shown = [name for name in ("cpu", "memory") if name in old[0].used]
        head = ["FROM", "P99 OLD", "P99 NEW", "QUEUE OLD", "QUEUE NEW"]
        head += [f"{name.upper()} {side}" for name in shown for side in ("OLD", "NEW")]
        rows = [head]
        for before, after in zip(old, new, strict=True):
            row = [duration_text(before.start - self.start)]
            row += [_seconds(before.waiting_p99), _seconds(after.waiting_p99)]
            row += [f"{before.longest_queue:,}", f"{after.longest_queue:,}"]
            for name in shown:
                row += [f"{side.used.get(name, 0.0):.1f} %" for side in (before, after)]
            rows.append(row)
        return rows

    def document(self) -> Document:
        """Return the comparison as plain data."""
        first = self.runs[0]
        return {
            "replay": {
                "since": time_text(self.start),
                "until": time_text(self.end),
                "pods": self.pods,
                "nodes": self.nodes,
                "seeds": list(self.seeds),
                "oldAsRecorded": first.old.as_recorded,
            },
            "moved": first.counts["moved"],
            "lost": first.counts["unschedulable"],
            "won": first.counts["schedulable"],
            "recorded": {name: round(value, 3) for (name, _), value in self.recorded.items()},
            "measures": [measure_document(measure) for measure in self.measures],
            "moves": msgspec.to_builtins(first.moves),
            "windows": {
                "old": msgspec.to_builtins(first.old.windows),
                "new": msgspec.to_builtins(first.new.windows),
            },
            "notes": list(self.notes),
        }

    def measure_rows(self) -> list[Sequence[str]]:
        """Return the measures of several seeds, without headings."""
        return [measure_row(measure) for measure in self.measures]


def compare_replays(
    traffic: Traffic,
    old: Contender,
    new: Contender,
    *,
    seeds: Sequence[int] = (0,),
    each: EachSeed[Pair] = map,
    notes: Sequence[str] = (),
) -> ReplayDiff:
    """Decide traffic with two sets of policies, with every seed; ``each`` may run several at a
    time. The measures of both are taken of both.

    Raises PolicySchedError if a decision cannot be executed.
    """
    measures = {**old.measures, **new.measures}
    runs = tuple(each(partial(_pair, traffic, old, new, measures), seeds))
    return ReplayDiff(
        traffic.start,
        traffic.end,
        round(runs[0].old.values[PLACED] + runs[0].old.values[NEVER]),
        _nodes(traffic),
        recorded_values(traffic, old),
        tuple(seeds),
        runs,
        (*notes, *traffic_notes(traffic)),
    )


def traffic_notes(traffic: Traffic) -> Iterator[str]:
    """Yield what of the traffic is not as it seems."""
    jumps = traffic.jumps
    if jumps.count:
        longest = duration_text(jumps.longest)
        yield (
            f"the clock went back {counted(jumps.count, 'time')}, by {longest} at most:"
            " what was recorded then counts at the time before"
        )


def recorded_values(traffic: Traffic, old: Contender) -> Values:
    """Return the measures that the recording itself has, of the pods that were decided."""
    later = [plan for set_ in old.compiled_by_hash.values() for plan in set_.plans]
    names = {plan.plan.scheduler_name for plan in (*old.plans, *later)}
    lives = [life for life in traffic.lives.values() if life.waited and life.scheduler in names]
    waits = sorted(life.bound - life.arrived for life in lives if life.bound is not None)
    values: dict[tuple[str, str], float] = {
        PLACED: len(waits),
        NEVER: len(lives) - len(waits),
    }
    for name, percent in ((MEDIAN, 50), (P99, 99)):
        values[name] = waits[-(-len(waits) * percent // 100) - 1] / SECOND if waits else 0.0
    values[EVICTED] = sum(life.evicted for life in lives)
    return values


def _pair(
    traffic: Traffic,
    old: Contender,
    new: Contender,
    measures: Mapping[str, MeasureRules],
    seed: int,
) -> Pair:
    sides = [
        replay(
            traffic,
            side.plans,
            seed=seed,
            measures=measures,
            compiled_by_hash=side.compiled_by_hash,
        )
        for side in (old, new)
    ]
    before, after = sides
    moves = [
        Move(life.pod, life.node or None, other.node or None, other.message)
        for uid, life in before.lives.items()
        if (other := after.lives.get(uid)) is not None and other.node != life.node
    ]
    return Pair(_side(before, traffic), _side(after, traffic), tuple(moves))


def _side(run: Replay, traffic: Traffic) -> Side:
    result = run.result
    waits = WaitingTimes.of(result.lives)
    values: dict[tuple[str, str], float] = {
        PLACED: waits.pods,
        NEVER: len(result.lives) - waits.pods,
        MEDIAN: waits.p50 / SECOND,
        P99: waits.p99 / SECOND,
        EVICTED: run.counts["evicted"],
        ATTEMPTS: run.counts["unschedulable"] + run.counts["error"],
    }
    spans = [window.end - window.start for window in run.windows]
    for name, steps in result.allocatable.items():
        if name != "pods" and any(steps.values):
            shares = [window.used.get(name, 0.0) for window in run.windows]
            mean = sum(a * b for a, b in zip(shares, spans, strict=True)) / sum(spans)
            values[f"{name} requested", "%"] = mean
    values |= {(name, ""): value for name, value in run.measures.items()}
    same = sum(
        (then := traffic.lives.get(uid)) is not None and then.node == life.node
        for uid, life in run.lives.items()
    )
    return Side(values, run.windows, same)


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    return f"{value:,.1f} {unit}" if unit else f"{round(value, 3):,g}"


def _nodes(traffic: Traffic) -> int:
    return sum(thing.kind == "Node" for thing in traffic.objects)


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"
