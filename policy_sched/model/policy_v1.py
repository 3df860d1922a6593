"""Disruption budgets: how many pods of a set may be taken down at once."""

from __future__ import annotations

from datetime import datetime

from msgspec import field

from policy_sched.model.meta import ApiObject, ApiStruct, Int32, LabelSelector


class PodDisruptionBudgetSpec(ApiStruct):
    """Which pods, and how many of them (a number or a percentage) must stay."""

    min_available: Int32 | str | None = None
    max_unavailable: Int32 | str | None = None
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(ApiStruct):
    """How many more pods may go, and which are going already."""

    disruptions_allowed: Int32 = 0
    current_healthy: Int32 = 0
    desired_healthy: Int32 = 0
    expected_pods: Int32 = 0
    disrupted_pods: dict[str, datetime] = field(default_factory=dict)


class PodDisruptionBudget(ApiObject):
    """A disruption budget."""

    spec: PodDisruptionBudgetSpec = field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = field(default_factory=PodDisruptionBudgetStatus)
