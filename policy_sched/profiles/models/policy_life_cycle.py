"""Sections of a policy for what follows the choice of a node: permission, binding, waking.

Each section that is one rule may be written as the rule alone, or as a mapping that also says
what an error means.
"""

from __future__ import annotations

from typing import Literal

from policy_sched.profiles.models.types import Document, Expression


class VetoRule(Document):
    """A rule that can stop a binding, and the reason it gives."""

    expression: Expression
    """False sends the pod back to the queue."""
    message: str = ""
    """Why, as constant text."""
    message_expression: Expression | None = None
    """Why, as a string expression."""
    on_error: Literal["Reject", "Allow", "Abort"] | None = None
    """What an error in the expression means; default Abort."""


class Permit(Document):
    """Whether a pod that has a node may be bound now, or waits for permission."""

    allow: Expression
    """True lets the binding begin. A waiting pod is evaluated again."""
    timeout: Expression | None = None
    """How long a pod waits for permission before it is rejected, at most 15m: a duration such as
    2m, or a rule. Absent: it does not wait."""
    message: str = ""
    """Why the pod waits, or is rejected without waiting, as constant text."""
    message_expression: Expression | None = None
    """Why, as a string expression."""
    on_error: Literal["Reject", "Allow", "Abort"] | None = None
    """What an error in a rule means; default Abort."""


class BindRule(Document):
    """Whether this policy binds the pod."""

    expression: Expression
    """True binds the pod through the scheduler's client; false asks the next Bind plugin."""
    on_error: Literal["Skip", "Abort"] | None = None
    """What an error in the expression means; default Abort."""


class EventRule(Document):
    """The note of an event about a pod that was bound."""

    expression: Expression
    """The note; an empty one is not written."""
    on_error: Literal["Ignore", "Abort"] | None = None
    """What an error in the expression means; default Abort: a warning about the pod."""


class Requeue(Document):
    """When a pod that this policy rejected is tried again; what the rules read says it too."""

    hint: Expression | None = None
    """Whether an event is worth an attempt; in place of what the rules read."""
    every: Expression | None = None
    """The pod is tried again at least so often: a duration such as 1m, or a rule over params."""
