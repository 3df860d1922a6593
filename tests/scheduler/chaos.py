"""Plugins that fail on request, and let other clients act in between."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec.structs import replace

from policy_sched.framework import results
from policy_sched.framework.cycle_state import CycleState
from policy_sched.framework.hookspecs import hookimpl
from policy_sched.framework.status import SKIP, SUCCESS, WAIT, Code, PendingStatus, Status
from policy_sched.model import cluster_event
from policy_sched.model.pod_info import PodInfo
from tests.scheduler.witness import Witness

NO = Status(Code.UNSCHEDULABLE, ("chaos says no",))
CALM = cluster_event.ClusterEvent(cluster_event.EventResource.CSI_DRIVER, cluster_event.UPDATE)
"""Only the chaos plugins register for it."""
POINTS = ("reserve", "permit", "pre_bind_pre_flight", "pre_bind", "bind", "post_bind", "unreserve")
LOOKING = ("pre_enqueue", "pre_filter", "filter", "post_filter", "pre_score", "score", "normalize")
CALLS = ("bind", "patch pods/status", "delete pods", "record_event")
LOST = "lost answer"
"""A fault of a binding that succeeds, and is reported as failed."""


class Chaos:
    """A plugin of all points after the decision; ``faults`` are the next failures, by point.

    ``held``: UIDs of pods with a reservation here. ``meanwhile``: actions of others at the points.
    """

    def __init__(self, witness: Witness) -> None:
        self.witness = witness
        self.meanwhile: dict[str, Callable[[], None]] = {}
        self.faults: dict[str, str] = {}
        self.held: set[str] = set()
        self.bound: list[str] = []
        self.work: list[PendingStatus] = []
        self.called: str = ""

    def _next(self, point: str) -> str:
        self.others_act(point)
        fault = self.faults.pop(point, "")
        if fault == "raise":
            raise RuntimeError(f"chaos at {point}")
        return fault

    def others_act(self, point: str) -> None:
        """Run the action of others at this point."""
        act = self.meanwhile.pop(point, None)
        if act is not None:
            act()

    def _status(self, point: str) -> Status:
        return {"reject": NO, "error": Status(Code.ERROR, ("chaos",))}.get(
            self._next(point), SUCCESS
        )

    def _begun(self, point: str) -> Status | PendingStatus:
        if self.faults.get(point) == "slow":
            del self.faults[point]
            self.work.append(PendingStatus())
            return self.work[-1]
        return self._status(point)

    @hookimpl
    def events_to_register(self) -> tuple[cluster_event.ClusterEventWithHint, ...]:
        return (cluster_event.ClusterEventWithHint(CALM),)

    @hookimpl
    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        self.witness.decided(pod, node)
        self.held.add(pod.uid)
        if self.called:
            state.write(results.PodsToActivate([self.called]))
        return self._status("reserve")

    @hookimpl
    def unreserve(self, pod: PodInfo) -> None:
        self.held.discard(pod.uid)
        self.witness.undone(pod)
        self._next("unreserve")

    @hookimpl
    def permit(self) -> results.PermitResult:
        if self.faults.get("permit") == "slow":
            del self.faults["permit"]
            return results.PermitResult(WAIT, 30.0)
        return results.PermitResult(self._status("permit"))

    @hookimpl
    def pre_bind_pre_flight(self) -> Status:
        return self._status("pre_bind_pre_flight")

    @hookimpl
    def pre_bind(self) -> Status | PendingStatus:
        return self._begun("pre_bind")

    @hookimpl
    def bind(self) -> Status:
        """Skip, or fail: success without a binding would be wrong."""
        status = self._status("bind")
        return SKIP if status.ok else status

    @hookimpl
    def post_bind(self, pod: PodInfo) -> None:
        self.bound.append(pod.uid)
        self.held.discard(pod.uid)
        self._next("post_bind")

    def calm(self) -> None:
        """End all faults, and complete what has begun."""
        self.meanwhile.clear()
        self.faults.clear()
        self.called = ""
        while self.work:
            self.work.pop().finish(SUCCESS)


class Looking(Chaos):
    """Takes part in the decision too, so that no evaluation is cached; ``rows``: of the table."""

    rows = 0

    @hookimpl
    def pre_enqueue(self) -> Status:
        return self._status("pre_enqueue")

    @hookimpl
    def pre_filter(self) -> results.PreFilterResult:
        return results.PreFilterResult(self._status("pre_filter"))

    @hookimpl
    def filter(self, rows: results.Rows) -> results.FilterResult:
        fault = self._next("filter")
        return (
            replace(results.PASSES, error="chaos")
            if fault in {"reject", "error"}
            else results.PASSES
        )

    @hookimpl
    def post_filter(self) -> results.PostFilterResult:
        fault = self._next("post_filter")
        code = Code.ERROR if fault == "error" else Code.UNSCHEDULABLE
        return results.PostFilterResult(Status(code, ()))

    @hookimpl
    def pre_score(self) -> Status:
        return self._status("pre_score")

    @hookimpl
    def score(self, rows: results.Rows) -> results.Scores:
        worst = 101 if self._next("score") in {"reject", "error"} else 0
        return np.full(self.rows if rows is None else rows.size, worst)

    @hookimpl
    def normalize_score(self, scores: results.Scores) -> results.Scores:
        return scores - 1 if self._next("normalize") in {"reject", "error"} else scores
