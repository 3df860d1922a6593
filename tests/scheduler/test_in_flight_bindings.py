"""Waiting attempts: which may resume, and when to poll."""

from __future__ import annotations

from policy_sched.framework.status import SUCCESS, PendingStatus
from policy_sched.framework.waiting_pods import WaitingPod
from policy_sched.model.pod_info import QueuedPod
from policy_sched.scheduler.attempt import Attempt, Bind
from policy_sched.scheduler.binding_cycle import PAUSE, InFlightBinding, InFlightBindings
from tests.scheduler.world import SCHEDULER, pod_of, scheduler_of

PROFILE = scheduler_of().profiles[SCHEDULER]


def binding_of(name: str, wait: PendingStatus | WaitingPod) -> InFlightBinding:
    """Return a waiting attempt."""
    attempt = Attempt(QueuedPod(pod_of(name)), PROFILE)
    evaluation = PROFILE.evaluator.evaluate(pod_of(name))
    steps = (one for one in (wait,))
    return InFlightBinding(attempt, Bind("n0", 0, evaluation), steps, wait)  # type: ignore[arg-type]  # never resumed here


def names(bindings: list[InFlightBinding]) -> list[str]:
    return [binding.attempt.queued.info.name for binding in bindings]


def test_bindings_continue_in_the_order_of_their_answers() -> None:
    """Each is removed once."""
    bindings = InFlightBindings(lambda: 0, lambda: 0)
    works = {name: PendingStatus() for name in "abc"}
    for name, work in works.items():
        bindings.set_aside(binding_of(name, work), 0)
    assert (bindings.due(0), bindings.has_woken(), bindings.next_time()) == ([], False, None)
    works["c"].finish(SUCCESS)
    works["a"].finish(SUCCESS)
    assert bindings.has_woken()
    assert names(bindings.due(0)) == ["c", "a"]
    assert (len(bindings), bindings.due(0)) == (1, [])


def test_deadlines_are_looked_at_when_they_are_due() -> None:
    """A deadline that was extended is met at its new time."""
    bindings = InFlightBindings(lambda: 0, lambda: 0)
    waiting = WaitingPod(pod_of("a"), "n0", {"x": 1.0, "y": 5.0}, 0)
    bindings.set_aside(binding_of("a", waiting), 0)
    bindings.set_aside(binding_of("b", PendingStatus(deadline=3 * PAUSE)), 0)
    assert bindings.next_time() == PAUSE
    waiting.allow("x")
    assert bindings.next_time() == 3 * PAUSE
    assert names(bindings.due(3 * PAUSE)) == ["b"]
    assert bindings.next_time() == 5 * PAUSE
    assert bindings.take("default/a") is not None
    assert bindings.take("default/a") is None
    assert bindings.next_time() is None


def test_pre_bind_is_retried_once_a_second_or_after_a_change() -> None:
    """Not on every poll."""
    changes = [0]
    bindings = InFlightBindings(lambda: changes[0], lambda: 0)
    binding = binding_of("a", PendingStatus(lambda: None))
    bindings.set_aside(binding, 0)
    assert bindings.due(PAUSE - 1) == []
    assert bindings.next_time() == PAUSE
    assert names(bindings.due(PAUSE)) == ["a"]
    bindings.set_aside(binding, PAUSE)
    changes[0] += 1
    assert names(bindings.due(PAUSE)) == ["a"]
    assert len(bindings) == 0
