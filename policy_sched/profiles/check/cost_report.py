"""Tells what the rules of policies cost on so many nodes, before there is any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from policy_sched.language.ir import Cost
from policy_sched.profiles.build import compiled
from policy_sched.profiles.load import LoadedPolicy, policy_source


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a section of a policy costs for each pod: usually, and where every node has changed."""

    policy: str
    section: str
    kept: Cost
    full: Cost


def estimates(policies: Sequence[LoadedPolicy]) -> Iterator[Estimate]:
    """Yield the estimates of filter and score rules of the policies that compile."""
    for loaded in policies:
        policy = compiled(policy_source(loaded))[0] if loaded.sound else None
        if policy is None:
            continue
        score = policy.sections.score
        units = {"filter": policy.sections.filter, "score": score.unit if score else None}
        for section, unit in units.items():
            if unit is not None:
                yield Estimate(policy.name, section, unit.program.kept, unit.program.full)


def text_lines(found: Sequence[Estimate], nodes: int) -> Iterator[str]:
    """Yield a table for people: the time of one pod over so many nodes."""
    yield f"estimate for {nodes:,} nodes, in microseconds per pod"
    heads = ("POLICY", "SECTION", "USUALLY", "ALL CHANGED")
    rows = [
        (one.policy, one.section, _time(one.kept, nodes), _time(one.full, nodes)) for one in found
    ]
    whole = ("", "all", *(_time(sum_of(found, which), nodes) for which in ("kept", "full")))
    widths = [max(len(row[i]) for row in (heads, whole, *rows)) for i in range(len(heads))]
    for row in (heads, *rows, whole):
        names = f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}"
        yield f"{names}  {row[2]:>{widths[2]}}  {row[3]:>{widths[3]}}"


def sum_of(found: Sequence[Estimate], which: str) -> Cost:
    """Return the sum of all ``kept`` or all ``full`` costs."""
    return sum((getattr(one, which) for one in found), Cost())


def _time(cost: Cost, nodes: int) -> str:
    return f"{cost.nanoseconds(nodes) / 1e3:,.0f}"
