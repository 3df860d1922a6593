"""Explanation of a pod's decision; plain values, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class FilterStep:
    """One filter: a plugin, or a rule of a policy.

    ``removed``: nodes that it rejected of those that were left before it; ``alone``: of all;
    ``left``: what was left after it. ``reasons``: how many of the removed nodes have each.
    """

    plugin: str
    name: str
    removed: int
    alone: int
    left: int
    reasons: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class NodeScore:
    """A node's total, and what each plugin adds to it: its normalised score times its weight.

    ``raw``: what each plugin said before that.
    """

    node: str
    total: int
    plugins: Mapping[str, int]
    raw: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlacementStep:
    """A domain in which the pod's group was tried as a whole.

    ``placed`` of ``pods`` find one of its ``nodes``; ``feasible``: that will do. ``score`` is the
    sum of what ``plugins`` add, 0 without room.
    """

    name: str
    nodes: int
    placed: int
    pods: int
    feasible: bool
    score: int
    plugins: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Alternative:
    """Something without which the decision would be another one.

    ``kind``: ``filter`` or ``score`` (``name`` is a plugin or a rule), or ``resource`` (``name``
    is a resource, and ``amount`` how much less the pod must ask for). ``fits``: on how many nodes
    the pod would fit then; ``best``: the nodes with the highest total among them.
    """

    kind: str
    name: str
    fits: int
    best: tuple[str, ...]
    amount: str = ""


@dataclass(slots=True)
class Explanation:
    """Why a pod goes where it goes, or nowhere.

    ``best``: the nodes with the highest total, each as likely as the others; empty if the pod
    fits nowhere, and ``message`` is then kube-scheduler's. ``ignored``: no profile has its
    schedulerName, so that it is never decided. ``rejections``: by node the plugin
    that rejected it first, and its reasons. ``failed``: an error occurred, so it is unknown where
    the pod fits; ``message`` is the error. ``placements``: the domains in which its group was tried
    as a whole, and ``placement`` the one that it goes to; both are empty for other pods.
    ``unmatched``: policies that do not apply to it, since a matchCondition is false. ``ahead``:
    pods ahead of it in the queue; ``after_queue``: they were decided first, and ``node`` is where
    the pod ended, empty if it has no node. ``skipped_extenders``: the error of each ignorable
    extender that failed, by its name: the decision was made without it.
    """

    pod: str
    profile: str
    content_hash: str = ""
    nodes: int = 0
    message: str = ""
    failed: bool = False
    ignored: bool = False
    gated_by: str = ""
    rejected_by: str = ""
    filters: list[FilterStep] = field(default_factory=list)
    feasible: int = 0
    rejections: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    scores: list[NodeScore] = field(default_factory=list)
    best: list[str] = field(default_factory=list)
    nominated_node: str = ""
    victims: list[str] = field(default_factory=list)
    alternatives: list[Alternative] = field(default_factory=list)
    placements: list[PlacementStep] = field(default_factory=list)
    placement: str = ""
    unmatched: list[str] = field(default_factory=list)
    ahead: int = 0
    after_queue: bool = False
    node: str = ""
    skipped_extenders: dict[str, str] = field(default_factory=dict)
