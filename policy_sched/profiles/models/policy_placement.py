"""Section of a policy that places the pods of a group together."""

from __future__ import annotations

from typing import Literal

from policy_sched.profiles.models.types import Document, Expression


class Placement(Document):
    """Which nodes the pods of a group go to together: all of them to those of one domain."""

    domain: Expression | None = None
    """The domain that a node belongs to, such as its rack. A node on which the rule fails, or is
    empty, belongs to none. Absent: other policies, or none, say it."""
    score: Expression | None = None
    """How good a domain is with the group in it, 0 to 100. Absent: all are equal."""
    on_error: Literal["Zero", "Abort"] | None = None
    """What an error in score means; default Abort."""
