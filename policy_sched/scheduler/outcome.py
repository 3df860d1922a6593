"""Outcome: what became of a pod that was popped, or that was not let into the queue."""

from __future__ import annotations

from dataclasses import dataclass

from policy_sched.framework import SUCCESS, Status
from policy_sched.framework.runtime import Pipeline
from policy_sched.model import PodInfo
from policy_sched.scheduler.attempt import Attempt, Decision


@dataclass(slots=True, eq=False)
class Outcome:
    """What became of a pod: bound to `node`; or not, and why.

    ``waiting`` means that it holds the node, and that a later `run_due` says how it ends.
    ``pipeline`` is what decided, None for a pod that was not let into the queue; ``attempt`` is
    None also where a pod was passed over.
    """

    pod: PodInfo
    decision: Decision | None
    node: str = ""
    message: str = ""
    status: Status = SUCCESS
    waiting: bool = False
    pipeline: Pipeline | None = None
    attempt: Attempt | None = None

    @property
    def generation(self) -> int:
        """Which set of policies decided; 0 for none."""
        return 0 if self.pipeline is None else self.pipeline.generation

    @property
    def content_hash(self) -> str:
        """What that set said, as a hash; empty for none."""
        return "" if self.pipeline is None else self.pipeline.content_hash
