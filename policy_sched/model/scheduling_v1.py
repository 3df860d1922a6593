"""Priority classes: named priorities of pods."""

from __future__ import annotations

from policy_sched.model.meta import ApiObject, Int32


class PriorityClass(ApiObject):
    """A name for a priority; the one with ``global_default`` serves pods that name none."""

    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str = ""
