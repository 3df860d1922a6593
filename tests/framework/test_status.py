"""PendingStatus: finished by the plugin, polled, or past its deadline."""

from __future__ import annotations

from policy_sched.framework.status import SUCCESS, TOO_LATE, Code, PendingStatus, Status

NO = Status(Code.ERROR, ("no",))


def test_the_first_answer_counts_and_wakes() -> None:
    """The callback is called once."""
    woken: list[int] = []
    work = PendingStatus()
    work.wake = lambda: woken.append(1)
    assert (work.status_at(0), work.polled) == (None, False)
    work.finish(SUCCESS)
    work.finish(NO)
    assert work.status_at(0) is SUCCESS
    assert woken == [1]


def test_a_polled_status_is_polled_until_there_is_an_answer() -> None:
    """And never again after that."""
    answers: list[Status | None] = [None, SUCCESS]
    work = PendingStatus(lambda: answers.pop(0))
    assert work.polled
    assert [work.status_at(0), work.status_at(0), work.status_at(0)] == [None, SUCCESS, SUCCESS]


def test_a_late_answer_is_an_error() -> None:
    """An answer that is there at the deadline still counts."""
    late = PendingStatus(deadline=10)
    assert late.status_at(9) is None
    assert late.status_at(10) == Status(Code.ERROR, (TOO_LATE,))
    assert PendingStatus(lambda: SUCCESS, deadline=10).status_at(10) is SUCCESS
