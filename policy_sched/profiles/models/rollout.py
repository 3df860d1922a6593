"""Rollout as a pydantic model: steps by which a new set of policies comes to decide all pods."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue, WithJsonSchema

from policy_sched.profiles.models.policy import NAME_PATTERN
from policy_sched.profiles.models.types import DURATION_PATTERN, Document, Duration, Many

OF_CANARIES: Final = ("waitingP50", "waitingP99", "decidingP50", "decidingP99")
"""Measures that no audit takes."""
OF_AUDITS: Final = ("same", "moved", "tie", "schedulable", "long", "skipped")
"""Measures that no canary takes."""
MAX_STEPS: Final = 20
MAX_RULES: Final = 50
MAX_DECISIONS: Final = 10**9

#: A condition over measures, which no YAML value but a text is.
Rule = Annotated[str, WithJsonSchema({"type": "string", "title": "rule"})]
_DURATION: Final = {
    "type": "string",
    "pattern": DURATION_PATTERN,
    "errorMessage": "must be a duration such as 500ms, 15s or 10m",
}
_PERCENT: Final[dict[str, JsonValue]] = {
    "errorMessage": "must be from 1 to 99: a step that decides nothing is an audit, and after the"
    " last step the candidate decides everything"
}
_STEPS: Final[dict[str, JsonValue]] = {"errorMessage": f"must have from 1 to {MAX_STEPS} steps"}
_NAME: Final[dict[str, JsonValue]] = {
    "errorMessage": "must be at most 253 letters, digits and -_./, no mark first or last"
}


class AuditStep(Document):
    """The candidate is evaluated beside the set in force, and decides nothing."""

    decisions: Annotated[int, Field(ge=1, le=MAX_DECISIONS)] = 1
    """How many decisions it takes at least."""
    for_: Annotated[Duration | None, Field(alias="for"), WithJsonSchema(_DURATION)] = None
    """How long it takes at least."""


class CanaryStep(Document):
    """The candidate decides a part of the pods."""

    percent: Annotated[int, Field(ge=1, le=99, json_schema_extra=_PERCENT)]
    """How many in a hundred of what `by` names; a later step keeps those of an earlier one."""
    by: Literal["Owner", "Pod", "Namespace"] = "Owner"
    """What is decided by one side: the pods of a controller, each pod, or those of a namespace."""
    for_: Annotated[Duration | None, Field(alias="for"), WithJsonSchema(_DURATION)] = None
    """How long it takes at least."""
    decisions: Annotated[int, Field(ge=1, le=MAX_DECISIONS)] = 1
    """How many decisions of the candidate it takes at least."""


class RolloutStep(Document):
    """One step: an audit or a canary."""

    audit: AuditStep | None = None
    """Compare, and decide nothing."""
    canary: CanaryStep | None = None
    """Decide a part of the pods."""


class AbortCondition(Document):
    """A rule over `stable` and `candidate` that ends the rollout: the set in force stays."""

    expression: Rule
    """What must not be, such as `candidate.errors > 0`."""
    message: str = ""
    """What that means, in words."""
    decisions: Annotated[int, Field(ge=1, le=MAX_DECISIONS)] = 1
    """From so many decisions of the candidate in a step on the rule counts."""


class RolloutMetadata(Document):
    """What the rollout is called."""

    name: Annotated[str, Field(pattern=NAME_PATTERN, max_length=253, json_schema_extra=_NAME)]
    """Its name."""
    labels: dict[str, str] = Field(default_factory=dict)
    """For the user's own use."""
    annotations: dict[str, str] = Field(default_factory=dict)
    """For the user's own use, and for the requests of `policy-sched rollout`."""


class RolloutSpec(Document):
    """Steps, and what aborts them."""

    steps: Annotated[
        Many[RolloutStep],
        Field(min_length=1, max_length=MAX_STEPS, json_schema_extra=_STEPS),
    ]
    """Audits first, then canaries whose percent rises; after the last one the candidate decides."""
    abort_when: Annotated[Many[AbortCondition], Field(max_length=MAX_RULES)] = ()
    """Rules that abort the rollout, in whatever step."""


class Rollout(Document):
    """How a new set of policies comes to decide all pods, policysched.dev/v1alpha1."""

    api_version: Literal["policysched.dev/v1alpha1"]
    """Version of this format."""
    kind: Literal["Rollout"]
    """Kind of this document."""
    metadata: RolloutMetadata
    """What the rollout is called."""
    spec: RolloutSpec
    """The steps, and what aborts them."""
