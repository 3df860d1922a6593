"""Status: what a plugin answers, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Code(Enum):
    """The kind of an answer; each member says what happens next. Names are kube-scheduler's."""

    SUCCESS = "Success"
    """Go on."""
    ERROR = "Error"
    """An unexpected error, not a policy decision: the attempt ends, the pod backs off and
    retries."""
    UNSCHEDULABLE = "Unschedulable"
    """No, but removing pods may change it: preemption is tried on such nodes."""
    UNSCHEDULABLE_AND_UNRESOLVABLE = "UnschedulableAndUnresolvable"
    """No, and no preemption helps."""
    WAIT = "Wait"
    """Permit only: hold the pod until it is allowed, rejected or timed out."""
    SKIP = "Skip"
    """Not concerned: PreFilter and PreScore leave the plugin out; Bind asks the next one."""
    PENDING = "Pending"
    """Unschedulable until something outside the scheduler happens; the pod pays no backoff."""


@dataclass(frozen=True, slots=True)
class Status:
    """A code, the reasons for people, and the plugin that answered (empty: the framework)."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def ok(self) -> bool:
        """Whether the answer is Success."""
        return self.code is Code.SUCCESS

    @property
    def rejected(self) -> bool:
        """Whether the answer means "not here": Unschedulable, its unresolvable form, or Pending."""
        return self.code in _REJECTIONS

    def message(self) -> str:
        """Return the reasons as one string, as upstream joins them."""
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> Status:
        """Return the same status, attributed to ``plugin``."""
        return Status(self.code, self.reasons, plugin)


_REJECTIONS: Final = frozenset(
    {Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING}
)
SUCCESS: Final = Status()
SKIP: Final = Status(Code.SKIP)
WAIT: Final = Status(Code.WAIT)
