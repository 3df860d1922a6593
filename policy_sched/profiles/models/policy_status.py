"""The status of a Policy that is an object of the cluster: what a scheduler says of it."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue

from policy_sched.profiles.models.types import Document, Many

_TIME: Final[dict[str, JsonValue]] = {"format": "date-time"}
BY_TYPE: Final[dict[str, JsonValue]] = {
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
}


class StatusCondition(Document):
    """One of the statements Accepted and InForce."""

    type: str
    """Accepted: the policy has no error. InForce: it decides, as it is now."""
    status: Literal["True", "False", "Unknown"]
    """Whether the statement is true."""
    reason: str
    """Why, in one word; for a policy with problems the code of the first."""
    message: str
    """Why, in words; for a policy with problems all of them."""
    last_transition_time: Annotated[str, Field(json_schema_extra=_TIME)]
    """Since when the status is this one."""
    observed_generation: int = 0
    """The metadata.generation that this is about."""


class StatusProblem(Document):
    """One problem of the policy, as check reports it."""

    code: str
    """Its code, such as PS201; docs/reference.md has all."""
    severity: Literal["error", "warning", "note"]
    """An error keeps the policy from being in force."""
    path: str
    """The field, such as spec.filter[0].expression."""
    line: int
    """The line in the object as kubectl get -o yaml prints it."""
    column: int
    """The column in that line."""
    message: str
    """What is wrong."""
    hint: str = ""
    """How to mend it."""


class PolicyCounts(Document):
    """What the policy has done in the scheduler that leads, since it was started."""

    pods_matched: int = 0
    """Evaluations of pods in which the policy took part."""
    nodes_rejected: int = 0
    """Nodes that its rules removed, over all pods that found none."""
    errors: int = 0
    """Attempts that an error in its rules ended."""


class PolicyStatus(Document):
    """What the scheduler that leads says of the policy."""

    observed_generation: int = 0
    """The metadata.generation that this status is about."""
    conditions: Annotated[Many[StatusCondition], Field(json_schema_extra=BY_TYPE)] = ()
    """Whether the policy is accepted, and whether it is in force."""
    problems: Many[StatusProblem] = ()
    """The problems of the policy, the first ones of many."""
    profiles: Many[str] = ()
    """The profiles in which it is in force."""
    hash: str = ""
    """The hash of all policies in force, as in metrics and the log."""
    candidate: str = ""
    """While a rollout decides about the policy, and after it was aborted: the set with it."""
    stable: str = ""
    """The text that is in force in its place then, packed; a process goes on from it whose Rollout
    is gone."""
    counts: PolicyCounts | None = None
    """What it has done; renewed once a minute."""
