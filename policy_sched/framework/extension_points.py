"""The extension points of the scheduling framework: which plugins run, how results combine.

The runner (runtime/runner.py) reads this table: it combines results, leaves out skipped plugins,
undoes and measures by the row of a point. The evaluator combines Filter and Score, whose results
are arrays. Names are kube-scheduler's: ``hook`` is the Python spelling of the hook, ``name`` the
label that metrics, messages and configuration use.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec

from policy_sched.framework.status import Code


class Combine(Enum):
    """How the results of a point's plugins become one."""

    NARROW = "narrow"
    """Each plugin removes nodes; a node's status is that of the first plugin that removed it.
    Of plugins that divide the nodes, each divides what those before it left together."""
    WEIGHTED_SUM = "weighted sum"
    """Each plugin gives int64 scores; they are multiplied by its weight and added."""
    FIRST_REJECTION = "first rejection"
    """Plugins run in order until one rejects; waits and skips are collected."""
    FIRST_SUCCESS = "first success"
    """Plugins run in order until one succeeds or ends it; reasons are collected."""
    EVERYONE = "everyone"
    """All plugins run, also after one that failed; none can reject."""
    EXACTLY_ONE = "exactly one"
    """One plugin decides for the profile."""
    UNION = "union"
    """Results of all plugins are put together, when the profile is built."""


class Point(msgspec.Struct, frozen=True):
    """One extension point: its hook, its rule, what can skip it and what undoes it."""

    hook: str
    name: str
    combine: Combine
    skipped_by: str = ""
    """The hook whose plugins leave this point out by returning Skip."""
    undone_by: str = ""
    """The hook that undoes this point when a later one fails."""
    proceeds: frozenset[Code] = frozenset({Code.SUCCESS})
    """After these results the next plugin runs; any other result is the point's."""
    all_skip: Code = Code.SUCCESS
    """The status where every plugin returns Skip, or there is none."""
    pending: bool = False
    """Whether plugins may return PendingStatus; the binding cycle waits for it."""
    raises: bool = True
    """Whether what a plugin raises ends the attempt; otherwise it is the result Error."""
    measured: bool = True
    """Whether calls of single plugins are measured; upstream measures some elsewhere."""
    config: str = ""
    """The field of ``plugins`` that enables it; empty for points enabled through another one."""
    along_with: str = ""
    """The hook whose enabled plugins this point runs, where ``config`` is empty."""
    reverse: bool = False


_MAY_SKIP: Final = frozenset({Code.SUCCESS, Code.SKIP})
_TABLE: Final = (
    Point("pre_enqueue", "PreEnqueue", Combine.FIRST_REJECTION, raises=False, config="preEnqueue"),
    Point("queue_sort", "QueueSort", Combine.EXACTLY_ONE, config="queueSort", measured=False),
    Point(
        "queue_order", "QueueOrder", Combine.EXACTLY_ONE, along_with="queue_sort", measured=False
    ),
    Point(
        "pre_filter",
        "PreFilter",
        Combine.FIRST_REJECTION,
        config="preFilter",
        proceeds=_MAY_SKIP,
    ),
    Point(
        "add_pod",
        "PreFilterExtensionAddPod",
        Combine.FIRST_REJECTION,
        skipped_by="pre_filter",
        along_with="pre_filter",
    ),
    Point(
        "remove_pod",
        "PreFilterExtensionRemovePod",
        Combine.FIRST_REJECTION,
        skipped_by="pre_filter",
        along_with="pre_filter",
    ),
    Point("filter", "Filter", Combine.NARROW, skipped_by="pre_filter", config="filter"),
    Point(
        "post_filter",
        "PostFilter",
        Combine.FIRST_SUCCESS,
        config="postFilter",
        proceeds=frozenset({Code.SKIP, Code.UNSCHEDULABLE, Code.PENDING, Code.WAIT}),
    ),
    Point("evictions", "Evictions", Combine.UNION, along_with="post_filter", measured=False),
    Point(
        "pre_score",
        "PreScore",
        Combine.FIRST_REJECTION,
        config="preScore",
        proceeds=_MAY_SKIP,
    ),
    Point("score", "Score", Combine.WEIGHTED_SUM, skipped_by="pre_score", config="score"),
    Point(
        "normalize_score",
        "ScoreExtensionNormalize",
        Combine.EVERYONE,
        skipped_by="pre_score",
        along_with="score",
    ),
    Point("reserve", "Reserve", Combine.FIRST_REJECTION, undone_by="unreserve", config="reserve"),
    Point("unreserve", "Unreserve", Combine.EVERYONE, along_with="reserve", reverse=True),
    Point(
        "permit",
        "Permit",
        Combine.FIRST_REJECTION,
        config="permit",
        proceeds=frozenset({Code.SUCCESS, Code.WAIT}),
    ),
    Point(
        "pre_bind",
        "PreBind",
        Combine.FIRST_REJECTION,
        skipped_by="pre_bind_pre_flight",
        config="preBind",
        pending=True,
    ),
    Point(
        "pre_bind_pre_flight",
        "PreBindPreFlight",
        Combine.FIRST_REJECTION,
        along_with="pre_bind",
        proceeds=_MAY_SKIP,
        all_skip=Code.SKIP,
    ),
    Point(
        "bind",
        "Bind",
        Combine.FIRST_SUCCESS,
        config="bind",
        proceeds=frozenset({Code.SKIP}),
        all_skip=Code.SKIP,
        pending=True,
    ),
    Point("post_bind", "PostBind", Combine.EVERYONE, config="postBind"),
    Point(
        "placement_generate",
        "PlacementGenerate",
        Combine.NARROW,
        config="placementGenerate",
    ),
    Point("placement_score", "PlacementScore", Combine.WEIGHTED_SUM, config="placementScore"),
    Point(
        "normalize_placement_score",
        "PlacementScoreExtensionNormalize",
        Combine.EVERYONE,
        along_with="placement_score",
    ),
    Point("events_to_register", "EventsToRegister", Combine.UNION, measured=False),
    Point("sign_pod", "Sign", Combine.UNION, measured=False),
)

POINTS: Final = {point.hook: point for point in _TABLE}
#: The field of a profile's ``plugins`` to the hook that it enables, in upstream's order.
CONFIGURED: Final = {point.config: point.hook for point in _TABLE if point.config}
