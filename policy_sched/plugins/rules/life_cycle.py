"""Sections of a policy that run after a node was chosen: for one pod and one row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from policy_sched.cluster.tables import NodeTable
from policy_sched.language import BoundUnit, LifeCycle, Step, Unit
from policy_sched.language.runtime import Activation, Runtime
from policy_sched.language.values import Failure, RuleError
from policy_sched.model import PodInfo


class StepOutcome(msgspec.Struct, frozen=True):
    """The outcome of a section: whether it holds and, if not, why.

    ``wait`` is how long the pod may wait for permission, in ns; 0 where it does not wait.
    """

    holds: bool
    message: str = ""
    wait: int = 0


HOLDS: Final = StepOutcome(True)


class BoundStep:
    """One section over one cluster's tables. Evaluates against the tables' current state."""

    def __init__(self, step: Step, runtime: Runtime) -> None:
        self._step = step
        self._unit = BoundUnit(step.unit, runtime)
        self._explain = None if step.explain is None else BoundUnit(step.explain, runtime)
        self._timeout = None if step.timeout is None else BoundUnit(step.timeout, runtime)
        self._activate = None if step.activate is None else BoundUnit(step.activate, runtime)
        self.reject = None if step.reject is None else BoundStep(step.reject, runtime)
        """What sends a waiting pod back."""

    def holds(self, pod: PodInfo, cycle: Activation, row: int) -> bool:
        """Return whether the rule holds, or errs where errors are allowed; raises as `evaluate`."""
        value = _value(self._unit, pod, cycle, row)
        return self._tolerated(value) if isinstance(value, Failure) else bool(value)

    def evaluate(self, pod: PodInfo, cycle: Activation, row: int) -> StepOutcome:
        """Evaluate the section. Raises RuleError for an error where onError is Abort."""
        value = _value(self._unit, pod, cycle, row)
        if isinstance(value, Failure):
            return HOLDS if self._tolerated(value) else StepOutcome(False, self._words(value))
        if value:
            return HOLDS
        wait = 0 if self._timeout is None else _value(self._timeout, pod, cycle, row)
        if isinstance(wait, Failure):
            return HOLDS if self._tolerated(wait) else StepOutcome(False, self._words(wait))
        return StepOutcome(False, self._message(pod, cycle, row), max(0, wait))

    def rejection(self, pod: PodInfo, cycle: Activation, row: int) -> str | None:
        """Return why the rule sends a pod back, of a rule that is true then; None if it does not.

        Raises RuleError for an error where onError is Abort.
        """
        value = _value(self._unit, pod, cycle, row)
        if isinstance(value, Failure):
            return None if self._tolerated(value) else self._words(value)
        return self._message(pod, cycle, row) if value else None

    def activates(self, pod: PodInfo, cycle: Activation, row: int) -> bool | None:
        """Return whether others of the pod's group are tried now; None if no rule says so."""
        if self._activate is None:
            return None
        value = _value(self._activate, pod, cycle, row)
        return self._tolerated(value) if isinstance(value, Failure) else bool(value)

    def text(self, pod: PodInfo, cycle: Activation, row: int) -> str:
        """Return the value of a section that is a text; "" for an error that is ignored."""
        value = _value(self._unit, pod, cycle, row)
        if isinstance(value, Failure):
            self._tolerated(value)
            return ""
        return str(value)

    def _tolerated(self, failure: Failure) -> bool:
        """Return whether an error counts as a yes; raise RuleError where it ends the attempt."""
        if self._step.on_error == "Abort":
            raise RuleError(self._words(failure))
        return self._step.on_error == "Allow"

    def _message(self, pod: PodInfo, cycle: Activation, row: int) -> str:
        if self._explain is None:
            return self._step.message or f"rule {self._step.name}"
        words = _value(self._explain, pod, cycle, row)
        return self._words(words) if isinstance(words, Failure) else str(words)

    def _words(self, failure: Failure) -> str:
        return f"rule {self._step.name}: {failure.message}"


class BoundLifeCycle:
    """The sections of one policy; those that it has not are None."""

    def __init__(self, life: LifeCycle, table: NodeTable) -> None:
        runtime = Runtime(table)

        def bound(step: Step | None) -> BoundStep | None:
            return None if step is None else BoundStep(step, runtime)

        self.post_filter = bound(life.post_filter)
        self.reserve = bound(life.reserve)
        self.permit = bound(life.permit)
        self.pre_bind = bound(life.pre_bind)
        self.bind = bound(life.bind)
        self.post_bind = bound(life.post_bind)
        self._runtime = runtime

    def hint(self, unit: Unit) -> Callable[[PodInfo, Activation], bool]:
        """Return the function that says whether ``event`` of an activation justifies an attempt.

        It raises RuleError if the hint fails.
        """
        bound = BoundUnit(unit, self._runtime)

        def hint(pod: PodInfo, cycle: Activation) -> bool:
            value = _value(bound, pod, cycle, 0)
            if isinstance(value, Failure):
                raise RuleError(f"requeue.hint: {value.message}")
            return bool(value)

        return hint


def _value(bound: BoundUnit, pod: PodInfo, cycle: Activation, row: int) -> Any:
    return bound.evaluate(0, pod, cycle, row)
