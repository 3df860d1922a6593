"""The status of a Rollout that is an object of the cluster: where the scheduler that leads is."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from policy_sched.profiles.models.policy_status import BY_TYPE, StatusCondition, StatusProblem
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
    percent: int = 0
    """How many in a hundred the candidate decides: none in an audit, all once it is promoted."""
    stable: str = ""
    """The hash of the policies in force when the rollout began."""
    candidate: str = ""
    """The hash of the policies that are rolled out."""
    message: str = ""
    """Why it ended, or what keeps the step from ending."""
    conditions: Annotated[Many[StatusCondition], Field(json_schema_extra=BY_TYPE)] = ()
    """Accepted: the rollout has no error. Promoted and Aborted: both are False while it goes on.
    Untried: no step tries all that changes."""
    problems: Many[StatusProblem] = ()
    """The problems of the rollout; while it has some, changes wait."""
    differences: Many[RolloutDifference] = ()
    """The last differences between both sides."""
    untried: Many[str] = ()
    """Sections that differ and that no step tries, each with its place."""
    state: dict[str, Any] = Field(default_factory=dict)
    """What a new leader goes on from: the step, since when, and what was counted."""
    policies: str = ""
    """The texts of the policies in force, packed, of which a new leader makes them again."""
    answered: dict[str, str] = Field(default_factory=dict)
    """The requests, as the annotations state them, that are done or about another candidate."""
