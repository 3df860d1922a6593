"""Attempt: one pod in one scheduling cycle, and its possible decisions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from policy_sched.framework import CycleState, Diagnosis, Extender, Status
from policy_sched.framework.evaluate import Evaluation, Evaluator
from policy_sched.framework.runtime import Pipeline, Runner
from policy_sched.model import PodInfo, QueuedPod
from policy_sched.plugins import UnsupportedFeatures


@dataclass(frozen=True, slots=True)
class Profile:
    """One pipeline with its runner and evaluator, and the extenders."""

    pipeline: Pipeline
    runner: Runner
    evaluator: Evaluator
    unsupported_features: UnsupportedFeatures
    extenders: Sequence[Extender] = ()


@dataclass(slots=True)
class Attempt:
    """A popped pod and the profile that it began with; undoing reaches the same plugins.

    ``permitted``: no plugin can reject it any more, only something can break. ``sent``: the cluster
    has been asked to bind it. ``began``: when, in seconds of whatever clock measures attempts; 0
    where none does.
    """

    queued: QueuedPod
    profile: Profile
    state: CycleState = field(default_factory=CycleState)
    permitted: bool = False
    sent: bool = False
    began: float = 0.0


@dataclass(frozen=True, slots=True)
class Bind:
    """The pod goes to `node` (row `row` of the node table)."""

    node: str
    row: int
    evaluation: Evaluation


@dataclass(frozen=True, slots=True)
class Reject:
    """The pod cannot run anywhere now (``Unschedulable``), or something broke (``Error``).

    ``message`` is the text of the condition and the event. ``nominated`` False: an earlier
    nomination of the pod is cleared.
    """

    status: Status
    message: str
    diagnosis: Diagnosis | None = None
    nominated: bool = False


@dataclass(frozen=True, slots=True)
class Preempt:
    """The pod fits nowhere, but will on `node` when the victims have left it.

    ``plugin`` chose them. Nothing is evicted yet. Status and message are those of the failure.
    """

    status: Status
    message: str
    diagnosis: Diagnosis
    node: str
    victims: tuple[PodInfo, ...]
    plugin: str


Decision = Bind | Preempt | Reject


@dataclass(frozen=True, slots=True)
class PendingDecision:
    """No node fits, and PostFilter runs next, which may take long: ``finish`` runs it.

    ``kind``: pods of one kind take about as long as each other; None: that may be very long.
    ``pausing``: whether it can run in slices.
    """

    finish: Callable[[], Preempt | Reject]
    kind: Hashable | None
    pausing: bool

    def then(self, tell: Callable[[Preempt | Reject], None]) -> PendingDecision:
        """Return a copy that calls ``tell`` with the decision."""

        def finish() -> Preempt | Reject:
            found = self.finish()
            tell(found)
            return found

        return PendingDecision(finish, self.kind, self.pausing)
