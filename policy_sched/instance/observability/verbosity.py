"""How much is logged: a number as kube-scheduler's -v, which may change while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

USUAL: Final = 2
"""Decisions, but not each step towards them (where upstream's operators begin to read)."""

LEVELS: Final[Mapping[str, int]] = {
    "Failed to bind pod": 1,
    "Successfully bound pod to node": 2,
    "Unable to schedule pod; no fit; waiting": 2,
    "Unable to schedule pod; no nodes are registered to the cluster; waiting": 2,
    "Preemptor Pod preempted victim Pod": 2,
    "healthz check failed": 2,
    "livez check failed": 2,
    "readyz check failed": 2,
    "Pod waits before it is bound": 3,
    "Attempting to schedule pod": 3,
    "Attempting to bind pod to node": 3,
    "Skip schedule deleting pod": 3,
    "Handlers synced": 3,
    "Add event for node": 3,
    "Delete event for node": 3,
    "Update event for node": 4,
    "Add event for unscheduled pod": 3,
    "Delete event for unscheduled pod": 3,
    "Update event for unscheduled pod": 4,
    "Add event for scheduled pod": 3,
    "Delete event for scheduled pod": 3,
    "Update event for scheduled pod": 4,
    "Status after running PostFilter plugins for pod": 5,
    "Plugin scored node for pod": 10,
    "Calculated node's final score for pod": 10,
}
"""From which verbosity on a message is written (kube-scheduler's numbers); others always are."""


class Verbosity:
    """The verbosity in force. ``changed`` are told after it was set."""

    def __init__(self, level: int = USUAL) -> None:
        self.level = level
        self.changed: list[Callable[[], None]] = []

    def set(self, level: int) -> None:
        """Log so much from now on."""
        self.level = level
        for tell in self.changed:
            tell()

    def wants(self, message: str) -> bool:
        """Tell whether a message is written."""
        return LEVELS.get(message, 0) <= self.level
