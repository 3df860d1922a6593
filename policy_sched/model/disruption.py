"""Disruption budgets: how many pods of a set may be taken down at once."""

from __future__ import annotations

from datetime import datetime

from msgspec import field

from policy_sched.model.meta import ApiObject, ApiStruct, LabelSelector


class PodDisruptionBudgetSpec(ApiStruct):
    """Which pods, and how many of them (a number or a percentage) must stay."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(ApiStruct):
    """How many more pods may go, and which are going already."""

    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    disrupted_pods: dict[str, datetime] = field(default_factory=dict)


class PodDisruptionBudget(ApiObject):
    """A disruption budget."""

    spec: PodDisruptionBudgetSpec = field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = field(default_factory=PodDisruptionBudgetStatus)
