"""The numbers of a shadow: how often it would have decided otherwise, and what is to blame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from policy_sched.instance.shadow.records import Comparison, Result

BUCKETS: Final = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Points; a plugin of weight 1 gives 100 at most."""


class ShadowMetrics:
    """Registers its numbers in a registry. ``waiting`` and ``lost`` are asked when it is read."""

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
        """A profile decides: all its results are there, with 0."""
        for result in Result:
            self._decisions.labels(result.value, name)

    def bound(self, *, seen: bool) -> None:
        """A pod that we waited for is bound; ``seen``: in time to be compared."""
        if not seen:
            self._missed.inc()

    def compared(self, found: Comparison) -> None:
        """A decision was compared."""
        self._decisions.labels(found.result.value, found.profile).inc()
        if found.theirs.rejected_by:
            self._rejections.labels(found.theirs.rejected_by, found.profile).inc()
        if found.ours.score is not None and found.theirs.score is not None:
            points = found.ours.score - found.theirs.score
            self._points.labels(found.profile).observe(max(0, points))
