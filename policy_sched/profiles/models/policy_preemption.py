"""The ``preemption`` section of a policy: preemptors, victims and preferred nodes."""

from __future__ import annotations

from typing import Literal

from policy_sched.profiles.models.types import Document, Expression, Many


class SortKey(Document):
    """One key of an order."""

    expression: Expression
    """Value that is compared."""
    order: Literal["Ascending", "Descending"] = "Ascending"
    """Direction."""


class Preemption(Document):
    """How room is made for a pod that fits nowhere; what is absent is as kube-scheduler does it."""

    eligible: Expression | None = None
    """May the pod evict others at all?"""
    victim: Expression | None = None
    """May the pod evict this one?"""
    victim_order: Many[SortKey] = ()
    """Order of victims, the most important first: it is the first to be spared."""
    node_order: Many[SortKey] = ()
    """Order of nodes on which evicting pods would help, the best first."""
