"""Attempt: one pod in one scheduling cycle, its possible decisions, and its outcome."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from policy_sched.framework import SUCCESS, CycleState, Diagnosis, Elsewhere, Extender, Status
from policy_sched.framework.evaluate import Evaluation, Evaluator
from policy_sched.framework.runtime import Hooks, Pipeline, Runner
from policy_sched.model import PodInfo, QueuedPod


class Profile(msgspec.Struct, frozen=True):
    """One pipeline with its runner and evaluator, and the extenders."""

    pipeline: Pipeline
    runner: Runner
    evaluator: Evaluator
    extenders: Sequence[Extender] = ()


NO_STATE: Final = CycleState()
NO_HOOKS: Final[Hooks] = MappingProxyType({})


class Attempt(msgspec.Struct, eq=False):
    """A popped pod and the profile that it began with; undoing reaches the same plugins.

    ``state`` and ``hooks`` are those of the evaluation that chose a node: what plugins wrote, and
    the plugins that have anything to do with the pod. ``permitted``: no plugin can reject it any
    more, only something can break. ``sent``: the cluster has been requested to bind it. ``began``:
    when, in seconds of whatever clock measures attempts; 0 where none does. ``brief``: a decision
    that may take long raises TakesLong, and the caller makes it again where it blocks nothing.
    ``early``: if the attempt is in vain, the pod's backoff ends as soon as nothing else is ready.
    ``late``: how long what it waited for last was there before it was resumed, in nanoseconds.
    """

    queued: QueuedPod
    profile: Profile
    state: CycleState = NO_STATE
    hooks: Hooks = NO_HOOKS
    permitted: bool = False
    sent: bool = False
    began: float = 0.0
    brief: bool = False
    early: bool = False
    late: int = 0


class Bind(msgspec.Struct, frozen=True):
    """The pod goes to `node` (row `row` of the node table)."""

    node: str
    row: int
    evaluation: Evaluation


class Reject(msgspec.Struct, frozen=True):
    """The pod cannot run anywhere now (``Unschedulable``), or something broke (``Error``).

    ``message`` is the text of the condition and the event. ``nominated`` False: an earlier
    nomination of the pod is cleared.
    """

    status: Status
    message: str
    diagnosis: Diagnosis | None = None
    nominated: bool = False


class Preempt(msgspec.Struct, frozen=True):
    """The pod fits nowhere, but will on `node` when the victims have left it.

    ``plugin`` chose them. Nothing is evicted yet. Status and message are those of the failure.
    ``elsewhere`` compares another node, if the plugin can do that.
    """

    status: Status
    message: str
    diagnosis: Diagnosis
    node: str
    victims: tuple[PodInfo, ...]
    plugin: str
    elsewhere: Elsewhere | None = None


Decision = Bind | Preempt | Reject


class Outcome(msgspec.Struct, eq=False):
    """What became of a pod: bound to `node`; or not, and why.

    ``waiting`` means that it holds the node, and that a later `run_due` decides how it ends.
    ``pipeline`` is what decided, None for a pod that was not let into the queue; ``attempt`` is
    None also where a pod was passed over. ``nominated``: the node that a pod that was not scheduled
    is nominated to from now on, empty for none, None if that stays. ``others``: of a group that was
    decided together, the outcomes of the rest.
    """

    pod: PodInfo
    decision: Decision | None
    node: str = ""
    message: str = ""
    status: Status = SUCCESS
    waiting: bool = False
    pipeline: Pipeline | None = None
    attempt: Attempt | None = None
    nominated: str | None = None
    others: tuple[Outcome, ...] = ()

    @property
    def generation(self) -> int:
        """Which set of policies decided; 0 for none."""
        return 0 if self.pipeline is None else self.pipeline.generation

    @property
    def content_hash(self) -> str:
        """The hash of that set; empty for none."""
        return "" if self.pipeline is None else self.pipeline.content_hash
