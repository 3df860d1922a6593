"""The known future events of a simulation."""

from __future__ import annotations

from hypothesis import given, strategies as st

from policy_sched.simulate.timeline import FutureEventKind, FutureEvents

EVENTS = st.lists(st.tuples(st.integers(0, 9), st.sampled_from(FutureEventKind)), max_size=20)


@given(first=EVENTS, later=EVENTS, until=st.integers(0, 9))
def test_events_come_by_time_kind_and_age(
    first: list[tuple[int, FutureEventKind]], later: list[tuple[int, FutureEventKind]], until: int
) -> None:
    """Whether they were known at first or came later; none comes before its time."""
    events = FutureEvents()
    for number, (at, kind) in enumerate(first):
        events.add(at, kind, f"first {number}")
    events.put_in_order()
    for number, (at, kind) in enumerate(later):
        events.add(at, kind, f"later {number}")
    expected = [(*one, number) for number, one in enumerate([*first, *later], start=1)]
    expected.sort()
    found = [event[:3] for event in events.due(until)]
    assert found == [one for one in expected if one[0] <= until]
    assert events.due(until) == []
    left = [one for one in expected if one[0] > until]
    assert events.next_time() == (left[0][0] if left else None)
