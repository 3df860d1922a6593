"""Places: the ways between them, and no others."""

from __future__ import annotations

import pytest

from policy_sched.model.queued_pod import Place
from policy_sched.queue.places import WAYS, PlaceError, go
from tests.queue.pods import queued


def test_every_place_has_its_ways() -> None:
    """The table speaks of all places."""
    assert len(WAYS) == len(Place)


def test_a_pod_goes_where_there_is_a_way() -> None:
    """Its place is where it went last."""
    pod = queued()
    for place in (Place.ACTIVE, Place.IN_FLIGHT, Place.BINDING, Place.BACKOFF, Place.OUT):
        go(pod, place)
        assert pod.place is place


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (Place.OUT, Place.IN_FLIGHT),
        (Place.OUT, Place.UNSCHEDULABLE),
        (Place.ACTIVE, Place.UNSCHEDULABLE),
        (Place.GATED, Place.IN_FLIGHT),
        (Place.BINDING, Place.UNSCHEDULABLE),
        (Place.BINDING, Place.IN_FLIGHT),
        (Place.ACTIVE, Place.BINDING),
    ],
)
def test_there_is_no_other_way(start: Place, end: Place) -> None:
    """Whoever tries has lost track, and the pod stays where it is."""
    pod = queued()
    pod.place = start
    with pytest.raises(PlaceError, match=f"cannot go from {start.name} to {end.name}"):
        go(pod, end)
    assert pod.place is start
