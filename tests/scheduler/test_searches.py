"""Searches for victims: which are done in pieces, and which at once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from threading import current_thread

from policy_sched.framework.runtime.coroutine import pause
from policy_sched.framework.status import Status
from policy_sched.queue.cooperative_tasks import Agenda
from policy_sched.scheduler.attempt import PendingDecision, Preempt, Reject
from policy_sched.scheduler.searches import KINDS, Searches


class Ground:
    """An agenda whose slices end as told, and a search that takes so many pieces."""

    def __init__(self) -> None:
        self.agenda = Agenda()
        self.searches = Searches(self.agenda)
        self.used = 0
        self.aside = False

    def sliced(self) -> None:
        """From now on a slice is one piece."""
        self.agenda.over = lambda: self.used > 0

    def search(self, kind: Hashable, pieces: int = 1, *, pausing: bool = True) -> int:
        """Search; return how often it was left."""

        def finish() -> Preempt | Reject:
            self.aside = current_thread() is not here
            for _ in range(pieces):
                self.used += 1
                pause()
            return decision

        def whole() -> Iterator[None]:
            undecided = PendingDecision(finish, kind, pausing)
            assert (yield from self.searches.finished(undecided)) is decision

        here, decision, left = current_thread(), Reject(Status(), "no"), 0
        self.used = 0
        for _ in whole():
            left += 1
            self.used = 0
        return left


def test_without_slices_a_search_is_a_call() -> None:
    """Nothing is left anywhere, and no other thread has to do with it."""
    ground = Ground()
    assert (ground.search(None, 5), ground.aside) == (0, False)


def test_the_first_of_a_kind_is_done_in_pieces() -> None:
    """The next ones at once, as they find what it has found; other kinds are others."""
    ground = Ground()
    ground.sliced()
    assert (ground.search("a", 3), ground.aside) == (4, True)
    assert (ground.search("a", 0), ground.aside) == (1, False)
    assert (ground.search("b", 1), ground.aside) == (2, True)


def test_one_that_took_long_has_the_next_done_in_pieces_again() -> None:
    """What was known may have changed."""
    ground = Ground()
    ground.sliced()
    ground.search("a")
    assert (ground.search("a", 3), ground.aside) == (1, False)
    assert (ground.search("a", 3), ground.aside) == (4, True)


def test_a_search_that_goes_node_by_node_is_always_done_in_pieces() -> None:
    """It shares nothing with others."""
    ground = Ground()
    ground.sliced()
    for _ in range(2):
        assert (ground.search(None, 2), ground.aside) == (3, True)


def test_one_that_does_not_pause_is_a_call() -> None:
    """As with extenders, which suspend it themselves."""
    ground = Ground()
    ground.sliced()
    assert (ground.search("a", 3, pausing=False), ground.aside) == (1, False)


def test_kinds_are_forgotten_in_the_end() -> None:
    """The first ones first."""
    ground = Ground()
    ground.sliced()
    for number in range(KINDS + 1):
        ground.search(number, 0)
    ground.search(0, 0)
    assert ground.aside
