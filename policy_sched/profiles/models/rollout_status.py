"""The status of a Rollout that is an object of the cluster: where the scheduler that leads is."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from policy_sched.profiles.models.policy_status import BY_TYPE, StatusCondition
from policy_sched.profiles.models.types import Document, Many


class RolloutDifference(Document):
    """A pod that the candidate decides otherwise, or would."""

    pod: str
    """Its namespace and name."""
    result: str
    """moved, tie, unschedulable, schedulable, victims or error."""
    stable: str = ""
    """The node of the set in force."""
    candidate: str = ""
    """The node of the candidate."""
    time: int = 0
    """When it was decided, in nanoseconds since 1970."""


class RolloutStatus(Document):
    """What the scheduler that leads says of the rollout."""

    observed_generation: int = 0
    """The metadata.generation that this status is about."""
    phase: str = ""
    """Progressing, Promoted, Aborted or Replaced."""
    step: str = ""
    """The step, such as 2/3."""
    stable: str = ""
    """The hash of the policies in force when the rollout began."""
    candidate: str = ""
    """The hash of the policies that are rolled out."""
    message: str = ""
    """Why it ended, or what keeps the step from ending."""
    conditions: Annotated[Many[StatusCondition], Field(json_schema_extra=BY_TYPE)] = ()
    """Promoted and Aborted; both are False while it goes on."""
    differences: Many[RolloutDifference] = ()
    """The last differences between both sides."""
    state: dict[str, Any] = Field(default_factory=dict)
    """What a new leader goes on from: the step, since when, and what was counted."""
