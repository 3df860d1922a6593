"""Strands: work that is set aside, and the thread that owns it."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event, current_thread

import pytest

from policy_sched.framework.runtime.coroutine import Pieces, Strand, aside, pause


class Owner:
    """A strand with what happened, in order; ``over`` is set when a call is."""

    def __init__(self) -> None:
        self.over = Event()
        self.strand = Strand(self.over.set)
        self.log: list[str] = []

    def work(self, *calls: Event) -> None:
        """Set the work aside until each event."""
        self.log.append("begun")
        for call in calls:
            answer = aside(lambda call=call: call.wait(60))  # type: ignore[misc]
            self.log.append(f"answered {answer}")
        self.log.append("ended")

    def answered(self) -> None:
        """Wait until a call is over."""
        assert self.over.wait(60)
        self.over.clear()


@pytest.fixture
def owner() -> Iterator[Owner]:
    """Return an owner whose strand ends with the test."""
    one = Owner()
    yield one
    one.strand.close()


def test_work_that_asks_nobody_ends_before_its_owner_goes_on(owner: Owner) -> None:
    """The strand does one piece after the other, all in its own thread."""
    threads = []
    for _ in range(2):
        assert owner.strand.begin(lambda: threads.append(current_thread()))
    assert threads[0] is threads[1] is not current_thread()
    assert not owner.strand.busy


def test_the_owner_goes_on_while_somebody_is_asked(owner: Owner) -> None:
    """And says when the work may go on: the answer alone does not resume it."""
    strand, first, second = owner.strand, Event(), Event()
    assert not strand.begin(lambda: owner.work(first, second))
    assert (owner.log, strand.busy, strand.ready) == (["begun"], True, False)
    first.set()
    owner.answered()
    assert (owner.log, strand.ready) == (["begun"], True)
    assert not strand.go_on()
    assert (owner.log, strand.ready) == (["begun", "answered True"], False)
    second.set()
    owner.answered()
    assert strand.go_on()
    assert owner.log == ["begun", "answered True", "answered True", "ended"]
    assert not strand.busy


def test_what_is_raised_reaches_who_asked_and_then_the_owner(owner: Owner) -> None:
    """A call that fails fails where it was made, and work that fails where it was resumed."""

    def fail() -> None:
        raise OSError("no answer")

    def work() -> None:
        try:
            aside(fail)
        except OSError as error:
            raise ValueError(f"failed: {error}") from error

    assert not owner.strand.begin(work)
    owner.answered()
    with pytest.raises(ValueError, match="failed: no answer"):
        owner.strand.go_on()
    assert owner.strand.begin(owner.work)


def test_only_one_of_the_two_is_awake(owner: Owner) -> None:
    """`running` tells which."""
    seen = []
    strand, answer = owner.strand, Event()

    def work() -> None:
        seen.append(strand.running)
        aside(answer.wait)

    assert not strand.begin(work)
    assert (seen, strand.running) == ([True], False)
    answer.set()
    owner.answered()
    assert strand.go_on()
    assert not strand.running


def test_work_that_is_given_up_unwinds() -> None:
    """What it has to clean up is cleaned up, once the call is over; nothing else is done."""
    owner, answer, gone = Owner(), Event(), Event()

    def work() -> None:
        try:
            owner.work(answer)
        finally:
            gone.set()

    assert not owner.strand.begin(work)
    owner.strand.close()
    answer.set()
    assert gone.wait(60)
    assert owner.log == ["begun"]


def test_without_a_strand_a_call_is_a_call() -> None:
    """It is made at once, in the thread that makes it."""
    assert aside(current_thread) is current_thread()


def test_long_work_is_done_in_pieces() -> None:
    """It is left where it pauses, if that has been long enough, and goes on when it is asked to."""
    done: list[str] = []
    long_enough = iter([True, False, True, False])
    pieces = Pieces(lambda: next(long_enough))

    def work() -> str:
        for name in "abcd":
            done.append(name)
            pause()
        return "all"

    def whole() -> Iterator[None]:
        done.append((yield from pieces.of(work)))

    assert ["".join(done) for _ in whole()] == ["a", "abc"]
    assert done == ["a", "b", "c", "d", "all"]


def test_what_long_work_raises_reaches_who_asked_for_it() -> None:
    """In whichever piece; afterwards other work can be done."""
    pieces = Pieces(lambda: True)

    def fail() -> None:
        pause()
        raise ValueError("no")

    steps = pieces.of(fail)
    next(steps)
    with pytest.raises(ValueError, match="no"):
        next(steps)
    assert list(pieces.of(lambda: None)) == []


def test_nobody_is_held_where_nothing_is_done_in_pieces() -> None:
    """In any other thread a pause is nothing."""
    pause()
