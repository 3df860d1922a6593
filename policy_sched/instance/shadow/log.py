"""Records of shadow mode, and their metrics.

Records are lines of JSON; ``record`` is their kind. Amounts are in scheduler units (thousandths of
a CPU, bytes, pieces). A file can be read from any ``start`` on: it has the usage of the nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec
from msgspec import field
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

Amounts: TypeAlias = dict[str, int]


class Agreement(StrEnum):
    """The result of comparing the shadow's decision with the other scheduler's."""

    AGREE = "agree"
    """The same node, or one of equal score; or both find none."""
    DIFFER = "differ"
    """Both found a node, and the other scheduler's is not among the shadow's best."""
    UNSCHEDULABLE = "unschedulable"
    """The other scheduler found a node, the shadow finds none."""
    SCHEDULABLE = "schedulable"
    """The other scheduler found none, the shadow finds one."""
    UNDECIDED = "undecided"
    """The other scheduler has not responded for a while."""
    ERROR = "error"
    """The shadow's decision failed."""


class LoggedDecision(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """The decision of one scheduler: ``node``, or None and the reason in ``message``."""

    node: str | None = None
    message: str = ""
    preempts: bool = False
    victims: tuple[str, ...] = ()
    """Evicted first; on the other scheduler's node, those that the shadow's policies choose."""
    score: int | None = None
    """The node's total by the shadow's policies."""
    rejected_by: str = ""
    """The plugin of the shadow that rejects the node; ``reasons``: its messages."""
    reasons: tuple[str, ...] = ()


class Comparison(
    msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, tag_field="record", tag="pod"
):
    """A decision of another scheduler, and the shadow's for the same pod on the same cluster."""

    time: float
    """Seconds since 1970."""
    pod: str
    uid: str
    result: Agreement
    scheduler: str
    profile: str
    theirs: LoggedDecision
    ours: LoggedDecision
    difference: dict[str, int] = field(default_factory=dict)
    """Each plugin's score of the shadow's node minus that of the other node, where not 0."""
    cause: str = ""
    """Why the shadow may know another cluster than the other scheduler did."""
    feasible_nodes: int = 0
    evaluated_nodes: int = 0
    beforehand: bool = False
    """Whether the shadow decided when the pod arrived, not at its binding."""
    requests: Amounts = field(default_factory=dict)
    generation: int = 0
    content_hash: str = ""


class NodeFill(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """A node's allocatable amounts, the requests of its pods, and their number."""

    node: str
    allocatable: Amounts
    requested: Amounts = field(default_factory=dict)


class Start(
    msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, tag_field="record", tag="start"
):
    """The beginning of a complete log, with all nodes.

    ``continues``: the previous file ended here, and no record is missing in between.
    """

    time: float
    scheduler: str
    profile: str
    nodes: tuple[NodeFill, ...]
    continues: bool = False


class NodeSeen(
    msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, tag_field="record", tag="node"
):
    """A node was added, changed, or deleted (``allocatable`` is None)."""

    node: str
    allocatable: Amounts | None = None


class PodPlaced(msgspec.Struct, rename="camel", frozen=True, tag_field="record", tag="placed"):
    """A pod that is not compared was bound to a node."""

    uid: str
    node: str
    requests: Amounts


class PodGone(msgspec.Struct, rename="camel", frozen=True, tag_field="record", tag="gone"):
    """A pod left its node ("" if it had none)."""

    uid: str
    node: str
    requests: Amounts


ShadowRecord: TypeAlias = Start | Comparison | NodeSeen | PodPlaced | PodGone


BUCKETS: Final = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Points; a plugin of weight 1 gives 100 at most."""


class ShadowMetrics:
    """Registers the shadow's metrics; ``waiting`` and ``lost`` are called at a scrape."""

    def __init__(
        self, registry: CollectorRegistry, waiting: Callable[[], int], lost: Callable[[], int]
    ) -> None:
        self._decisions = Counter(
            "policy_sched_shadow_decisions",
            "Decisions of another scheduler, by how ours compare and by our profile.",
            ("result", "profile"),
            registry=registry,
        )
        self._rejections = Counter(
            "policy_sched_shadow_rejections",
            "Nodes that another scheduler chose and that a filter of ours rejects.",
            ("plugin", "profile"),
            registry=registry,
        )
        self._points = Histogram(
            "policy_sched_shadow_score_difference_points",
            "By how much our policies prefer our node to that of another scheduler.",
            ("profile",),
            buckets=BUCKETS,
            registry=registry,
        )
        self._missed = Counter(
            "policy_sched_shadow_missed_pods",
            "Pods that were bound while a watch was broken, and are not compared.",
            registry=registry,
        )
        pods = Gauge(
            "policy_sched_shadow_pending_pods",
            "Pods of the other scheduler that have no node.",
            registry=registry,
        )
        pods.set_function(waiting)
        lines = Gauge(
            "policy_sched_shadow_log_lost_lines",
            "Lines of the shadow's log that could not be written.",
            registry=registry,
        )
        lines.set_function(lost)

    def profile(self, name: str) -> None:
        """Create the series of a profile, with 0 for all results."""
        for result in Agreement:
            self._decisions.labels(result.value, name)

    def bound(self, *, seen: bool) -> None:
        """Count a bound pod; ``seen``: its binding arrived in time for a comparison."""
        if not seen:
            self._missed.inc()

    def compared(self, comparison: Comparison) -> None:
        """Record a comparison."""
        self._decisions.labels(comparison.result.value, comparison.profile).inc()
        if comparison.theirs.rejected_by:
            self._rejections.labels(comparison.theirs.rejected_by, comparison.profile).inc()
        if comparison.ours.score is not None and comparison.theirs.score is not None:
            points = comparison.ours.score - comparison.theirs.score
            self._points.labels(comparison.profile).observe(max(0, points))
