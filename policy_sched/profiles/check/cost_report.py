"""Estimates the cost of the rules of policies on a number of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from policy_sched.language.ir import Cost
from policy_sched.profiles.build import compiled
from policy_sched.profiles.load import LoadedPolicy, policy_source
from policy_sched.report import Document, table


class CostEstimate(msgspec.Struct, frozen=True):
    """The cost of a section of a policy for each pod: usually, and where every node has changed."""

    policy: str
    section: str
    kept: Cost
    full: Cost


class CostReport(msgspec.Struct, frozen=True):
    """The estimated time that rules take for one pod on a cluster of ``nodes`` nodes."""

    estimates: tuple[CostEstimate, ...]
    nodes: int

    def text_lines(self) -> Iterator[str]:
        """Yield a table of microseconds."""
        yield f"estimate for {self.nodes:,} nodes, in microseconds per pod"
        rows = [("POLICY", "SECTION", "USUALLY", "ALL CHANGED")]
        costs = [
            (estimate.policy, estimate.section, estimate.kept, estimate.full)
            for estimate in self.estimates
        ]
        for policy, section, kept, full in (*costs, ("", "all", *self.total())):
            rows.append((policy, section, f"{self._time(kept):,.0f}", f"{self._time(full):,.0f}"))
        yield from table(rows, right=(2, 3), gap="  ")

    def document(self) -> Document:
        """Return the same as plain data."""
        return {
            "nodes": self.nodes,
            "unit": "us",
            "sections": [
                {
                    "policy": estimate.policy,
                    "section": estimate.section,
                    "usually": round(self._time(estimate.kept), 3),
                    "allChanged": round(self._time(estimate.full), 3),
                }
                for estimate in self.estimates
            ],
        }

    def total(self) -> tuple[Cost, Cost]:
        """Return the sums of all sections: usually, and where every node has changed."""
        kept = sum((estimate.kept for estimate in self.estimates), Cost())
        return kept, sum((estimate.full for estimate in self.estimates), Cost())

    def _time(self, cost: Cost) -> float:
        return cost.nanoseconds(self.nodes) / 1e3


def cost_report(policies: Sequence[LoadedPolicy], nodes: int) -> CostReport:
    """Return the costs of the filter and score rules of the policies that compile."""
    return CostReport(tuple(_estimates(policies)), nodes)


def _estimates(policies: Sequence[LoadedPolicy]) -> Iterator[CostEstimate]:
    for loaded in policies:
        policy = compiled(policy_source(loaded))[0] if loaded.sound else None
        if policy is None:
            continue
        score = policy.sections.score
        units = {"filter": policy.sections.filter, "score": score.unit if score else None}
        for section, unit in units.items():
            if unit is not None:
                yield CostEstimate(policy.name, section, unit.program.kept, unit.program.full)
