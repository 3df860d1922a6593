"""What happened, or should happen, to one pod of a scenario: the vocabulary of expectations.

The same shape serves both sides of a comparison. In an outcome that was observed, None means
"did not happen"; in one that is expected, None means "not stated".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """A plugin's answer: status code (kube-scheduler's word), plugin name, reasons for people."""

    code: str | None = None
    plugin: str | None = None
    reasons: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class NodeScore:
    """The score of one node: normalised plugin scores times their weights, and their sum."""

    total: int | None = None
    plugins: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Eviction:
    """One acceptable way to make room: a node, and the pods (namespace/name) that leave it."""

    node: str
    victims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One step. ``placed`` False says that the pod fits nowhere; ``chosen`` names a node.

    ``reserve`` and ``permit`` are answered about the node on which the pod is assumed.
    """

    pod: str
    pre_enqueue: Answer | None = None
    pre_filter: Answer | None = None
    rejected: Mapping[str, Answer] | None = None
    feasible: tuple[str, ...] | None = None
    scores: Mapping[str, NodeScore] | None = None
    best: tuple[str, ...] | None = None
    chosen: str | None = None
    placed: bool | None = None
    message: str | None = None
    post_filter: Answer | None = None
    preemption: tuple[Eviction, ...] | None = None
    reserve: Answer | None = None
    permit: Answer | None = None
