"""What happened, or should happen, to one pod of a scenario: the vocabulary of expectations.

The same shape serves both sides of a comparison. In an outcome that was observed, None means
"did not happen"; in one that is expected, None means "not stated".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import re2


@dataclass(frozen=True, slots=True)
class Matching:
    """A text that is expected by a regular expression (RE2) that is found in it."""

    pattern: str

    def fits(self, text: str) -> bool:
        """Tell whether the text has the pattern in it."""
        return re2.search(self.pattern, text) is not None

    def __str__(self) -> str:
        return f"matches {self.pattern}"


@dataclass(frozen=True, slots=True)
class Between:
    """A number that is expected within limits, both included; None: no limit."""

    least: int | None = None
    most: int | None = None

    def fits(self, number: int) -> bool:
        """Tell whether the number is within the limits."""
        return (self.least is None or number >= self.least) and (
            self.most is None or number <= self.most
        )

    def __str__(self) -> str:
        if self.least is None:
            return f"at most {self.most}"
        return f"at least {self.least}" if self.most is None else f"{self.least} to {self.most}"


Words = str | Matching
Number = int | Between


@dataclass(frozen=True, slots=True)
class PluginOutcome:
    """A plugin's answer: status code (kube-scheduler's word), plugin name, reasons for people.

    ``rule`` names the rule of a policy that gave it, such as ``SpotNodes.filter[0]``.
    """

    code: str | None = None
    plugin: str | None = None
    reasons: tuple[Words, ...] | None = None
    rule: str | None = None


@dataclass(frozen=True, slots=True)
class NodeScore:
    """The score of one node: normalised plugin scores times their weights, and their sum."""

    total: Number | None = None
    plugins: Mapping[str, Number] | None = None


@dataclass(frozen=True, slots=True)
class Eviction:
    """One acceptable way to make room: a node, and the pods (namespace/name) that leave it."""

    node: str
    victims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One step. ``placed`` False says that the pod fits nowhere; ``chosen`` names a node.

    ``reserve`` and ``permit`` are answered about the node on which the pod is assumed.
    Only people expect: ``not_on``, nodes on which the pod is not placed; ``order``, nodes by
    score, the best first, those in one tuple equally good; ``victims``, the pods
    (namespace/name) that make room, on whichever node.
    ``nominated`` is the node that a pod that fits nowhere is nominated to from then on, empty if it
    is to none; None: that has not changed.
    ``placement`` is the domain that the pod's group goes to as a whole, empty if it goes to none;
    ``placements`` has the score of each domain that was tried, None where the group has no room.
    """

    pod: str
    pre_enqueue: PluginOutcome | None = None
    pre_filter: PluginOutcome | None = None
    rejected: Mapping[str, PluginOutcome] | None = None
    feasible: tuple[str, ...] | None = None
    scores: Mapping[str, NodeScore] | None = None
    best: tuple[str, ...] | None = None
    chosen: str | None = None
    placed: bool | None = None
    message: Words | None = None
    post_filter: PluginOutcome | None = None
    preemption: tuple[Eviction, ...] | None = None
    reserve: PluginOutcome | None = None
    permit: PluginOutcome | None = None
    nominated: str | None = None
    not_on: tuple[str, ...] | None = None
    order: tuple[tuple[str, ...], ...] | None = None
    victims: tuple[str, ...] | None = None
    placement: str | None = None
    placements: Mapping[str, int | None] | None = None
