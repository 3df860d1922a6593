"""Records of shadow mode, and their metrics.

Records are lines of JSON; ``record`` is their kind. Amounts are in scheduler units (thousandths of
a CPU, bytes, pieces). A file can be read from any ``start`` on: it has the usage of the nodes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

import msgspec
from msgspec import field

from policy_sched.instance import observability

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


class ShadowMetrics(observability.Families, table="shadow"):
    """What the shadow counts."""

    shadow_decisions_total: observability.NumberFamily
    shadow_rejections_total: observability.NumberFamily
    shadow_score_difference_points: observability.Histogram
    shadow_missed_pods_total: observability.NumberFamily
    shadow_pending_pods: observability.NumberFamily
    shadow_log_lost_lines: observability.NumberFamily

    def profile(self, name: str) -> None:
        """Begin the series of a profile, with 0 for all results."""
        for result in Agreement:
            self.shadow_decisions_total.values[result.value, name] += 0

    def compared(self, comparison: Comparison) -> None:
        """Record a comparison."""
        profile, ours, theirs = comparison.profile, comparison.ours, comparison.theirs
        self.shadow_decisions_total.values[comparison.result.value, profile] += 1
        if theirs.rejected_by:
            self.shadow_rejections_total.values[theirs.rejected_by, profile] += 1
        if ours.score is not None and theirs.score is not None:
            points = self.shadow_score_difference_points
            points.take((profile,), [max(0, ours.score - theirs.score)])
            points.fold()
