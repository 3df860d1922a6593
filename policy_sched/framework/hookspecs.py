"""The hooks of the scheduling framework, one page: one hook per extension point.

A plugin implements what it needs as methods marked with ``hookimpl``; arguments may be left out,
their names count. ``rows`` are rows of the node table: an intp array, or None for all of them
(``nodes.n``). Filters and scores must be functions of their arguments and the node table. A filter
that reads pods reads them from ``nodes``: in a dry run that is not the node table but an overlay,
in which other pods are on the rows.
Where pods of a group are tried out together, `reserve` and `permit` find a `DryRunMarker` in the
state: what they do is undone by `unreserve`, and other pods are to be left alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import pluggy

from policy_sched.cluster.tables import NodeView
from policy_sched.framework import results
from policy_sched.framework.cycle_state import CycleState
from policy_sched.framework.diagnosis import Diagnosis
from policy_sched.framework.signature import Signature
from policy_sched.framework.status import PendingStatus, Status
from policy_sched.model import ClusterEventWithHint, PodInfo, QueuedPod
from policy_sched.queue import QueueOrder

PROJECT = "policy_sched"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


class SchedulerHooks:
    """Every hook; the order is a pod's way through the scheduler."""

    @hookspec
    def pre_enqueue(self, pod: PodInfo) -> Status:
        """May the pod enter the active queue? A rejection gates it."""
        raise NotImplementedError

    @hookspec
    def queue_sort(self, queued: QueuedPod) -> tuple[int | float | str, ...]:
        """Return the sort key of a queued pod; smaller keys are popped first."""
        raise NotImplementedError

    @hookspec
    def queue_order(self) -> QueueOrder | None:
        """Return whose turn it is of several queues of pods, or None if there is one queue."""
        raise NotImplementedError

    @hookspec
    def pre_filter(self, state: CycleState, pod: PodInfo) -> results.PreFilterResult:
        """Look at the pod once: reject it, skip this plugin's filter, or name its only nodes."""
        raise NotImplementedError

    @hookspec
    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, row: int) -> Status:
        """Adjust `state` as if `other` also ran on node `row` (preemption's dry run)."""
        raise NotImplementedError

    @hookspec
    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, row: int) -> Status:
        """Adjust `state` as if `other` no longer ran on node `row` (preemption's dry run)."""
        raise NotImplementedError

    @hookspec
    def filter(
        self, state: CycleState, pod: PodInfo, rows: results.Rows, nodes: NodeView
    ) -> results.FilterResult:
        """Say of each row whether the pod may run there, and if not, why."""
        raise NotImplementedError

    @hookspec
    def post_filter(
        self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> results.PostFilterResult:
        """Nothing fits: make room, or return why that does not help."""
        raise NotImplementedError

    @hookspec
    def pre_score(self, state: CycleState, pod: PodInfo) -> Status:
        """Look at the pod once before scoring (`state` has Feasible); Skip leaves the score out."""
        raise NotImplementedError

    @hookspec
    def score(self, state: CycleState, pod: PodInfo, rows: results.Rows) -> results.RawScores:
        """Rate each row: higher is better; int64 in 0..100 unless `normalize_score` follows."""
        raise NotImplementedError

    @hookspec
    def normalize_score(
        self, state: CycleState, pod: PodInfo, scores: results.RawScores
    ) -> results.Scores:
        """Turn this plugin's scores of all feasible rows (`state` has Feasible) into 0..100."""
        raise NotImplementedError

    @hookspec
    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Take what the pod needs on `node` beyond the node table; a rejection undoes all."""
        raise NotImplementedError

    @hookspec
    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Give back what `reserve` took; called in reverse order, also if it never ran."""
        raise NotImplementedError

    @hookspec
    def permit(self, state: CycleState, pod: PodInfo, node: str) -> results.PermitResult:
        """Allow the binding, deny it, or let it wait."""
        raise NotImplementedError

    @hookspec
    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Say what `pre_bind` will do: Skip if nothing, it is not called then; else Success."""
        raise NotImplementedError

    @hookspec
    def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | PendingStatus:
        """Do what must be done before the binding, or begin it."""
        raise NotImplementedError

    @hookspec
    def bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | PendingStatus:
        """Bind the pod to the node, or begin to, or Skip: the next plugin is called."""
        raise NotImplementedError

    @hookspec
    def post_bind(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """The pod is bound."""
        raise NotImplementedError

    @hookspec
    def placement_generate(self, state: CycleState, pods: Sequence[PodInfo]) -> results.Placements:
        """Part the nodes into domains, to one of which all `pods`, of one group, go; or skip."""
        raise NotImplementedError

    @hookspec
    def placement_score(
        self, state: CycleState, pods: Sequence[PodInfo], placement: results.Placement
    ) -> int:
        """Rate a placement with the group in it, 0..100 or before `normalize_placement_score`."""
        raise NotImplementedError

    @hookspec
    def normalize_placement_score(
        self, state: CycleState, pods: Sequence[PodInfo], scores: results.Scores
    ) -> results.Scores:
        """Turn this plugin's scores of all placements in which the group has room into 0..100."""
        raise NotImplementedError

    @hookspec
    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        """Name the events that may make a pod schedulable which this plugin rejected."""
        raise NotImplementedError

    @hookspec
    def evictions(self) -> results.Evictions | None:
        """Say which running pods are evicted from time to time, or None for none."""
        raise NotImplementedError

    @hookspec
    def sign_pod(self) -> Signature:
        """Name the pod fields that filter and score read; unsigned, every pod is looked at anew."""
        raise NotImplementedError
