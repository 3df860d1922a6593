"""Compares two policy sets: their texts, and the placements that result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from policy_sched.diff import markdown
from policy_sched.diff.placement_diff import Cause, PlacementDiff, SeedsDiff
from policy_sched.diff.report import (
    ONE_SEED,
    applied_lines,
    placement_document,
    placement_lines,
    policies_document,
    seeds_document,
    seeds_lines,
)
from policy_sched.profiles.format import Difference
from policy_sched.profiles.reload import PolicySet
from policy_sched.report import Document

NOT_COMPARED: Final = (
    "No profile enables a policy that differs: the placements do not show the difference."
)


@dataclass(frozen=True, slots=True)
class PolicyDiff:
    """Two policy sets, their differences, and the placements of both (None without a cluster)."""

    old: PolicySet
    new: PolicySet
    differences: Sequence[Difference]
    placements: PlacementDiff | SeedsDiff | None = None

    @property
    def idle_only(self) -> bool:
        """Whether the sets differ, but in no policy that a profile enables."""
        return bool(self.differences) and not any(one.enabled for one in self.differences)

    def text_lines(self) -> Iterator[str]:
        """Yield the differences as text."""
        yield from self._configuration_lines()
        if not self.differences:
            yield "The policy sets are the same."
        for one in self.differences:
            yield one.where
            for mark, text in (("-", one.old), ("+", one.new)):
                yield from (f"  {mark} {line}" for line in text.split("\n") if text)
        if self.placements is not None:
            yield ""
            if self.idle_only:
                yield NOT_COMPARED
                yield ""
            yield from _placement_lines(self.placements)

    def _configuration_lines(self) -> Iterator[str]:
        """Yield the configuration that enables policies, if any, and the policies left out."""
        if self.old.config is None and self.new.config is None:
            return
        for name, side in (("OLD", self.old), ("NEW", self.new)):
            if side.config is None:
                yield f"{name}: no KubeSchedulerConfiguration; each policy is enabled"
            else:
                yield f"{name}: {side.config} decides which policies are enabled"
            if side.idle:
                yield f"  not enabled, and not compared on a cluster: {', '.join(side.idle)}"
        yield ""

    def document(self) -> Document:
        """Return the differences as plain data."""
        found: Document = {
            "configurations": {
                name: {"file": side.config, "notEnabled": list(side.idle)}
                for name, side in (("old", self.old), ("new", self.new))
            },
            "differences": [asdict(one) for one in self.differences],
        }
        placements = self.placements
        if isinstance(placements, SeedsDiff):
            policies = policies_document(placements.runs[0])
            found["placements"] = {**seeds_document(placements), "policies": policies}
        elif placements is not None:
            policies = policies_document(placements)
            found["placements"] = {**placement_document(placements), "policies": policies}
        return found

    def markdown_lines(self) -> Iterator[str]:
        """Yield the differences as Markdown, for a comment on a pull request."""
        yield "## What the policies change"
        yield ""
        yield from markdown.configurations(self.old, self.new)
        yield from markdown.differences(self.differences)
        if self.placements is not None:
            yield from ("", "### On the cluster", "")
            if self.idle_only:
                yield from (NOT_COMPARED, "")
            yield from markdown.placements(self.placements)


def _placement_lines(found: PlacementDiff | SeedsDiff) -> Iterator[str]:
    if isinstance(found, SeedsDiff):
        yield from seeds_lines(found)
        yield from applied_lines(found.runs[0], f", with seed {found.seeds[0]}")
        return
    yield from placement_lines(found)
    yield from applied_lines(found)
    if found.causes.keys() - {Cause.POLICY}:
        yield ""
        yield ONE_SEED
