"""Events: made, counted, cut; about pods and about leases."""

from __future__ import annotations

from policy_sched.client.kube.events.broadcaster import EVENT, Reference
from policy_sched.client.kube.leaderelection.lease_lock import LEASE
from policy_sched.client.kube.rest.errors import Selection, object_path
from tests.client.kube.conformance.ground import Acting, Ground, Plain, played
from tests.client.kube.conformance.leaving import AT_ONCE


async def _ours(ground: Ground, controller: str = "policy-sched") -> list[Plain]:
    found = await ground.listed(Selection(EVENT, ground.namespace))
    return [event for event in found if event["reportingController"] == controller]


def test_events_and_their_series(server: str) -> None:
    """An event is made, and counted when it is said again."""

    async def play(ground: Ground) -> None:
        client = Acting(ground).client
        pod = await ground.pod("web")
        for note in ("no room", "still no room", "still"):
            client.record_event(pod, "Warning", "FailedScheduling", "Scheduling", note)
        await client.events.drained()
        assert client.events.lost == 0
        (event,) = await _ours(ground)
        assert event["series"]["count"] == 2
        assert event["note"] == "no room"
        assert event["regarding"]["uid"] == pod.uid
        assert (event["type"], event["reason"], event["action"]) == (
            "Warning",
            "FailedScheduling",
            "Scheduling",
        )

    played(server, play)


def test_an_event_that_has_gone_is_made_again(server: str) -> None:
    """Servers forget events after an hour; the series goes on in a new one."""

    async def play(ground: Ground) -> None:
        client = Acting(ground).client
        pod = await ground.pod("web")
        client.record_event(pod, "Normal", "Waiting", "Scheduling", "first")
        await client.events.drained()
        (event,) = await _ours(ground)
        path = object_path(EVENT, ground.namespace, event["metadata"]["name"])
        await ground.api.request("DELETE", path, AT_ONCE)
        client.record_event(pod, "Normal", "Waiting", "Scheduling", "second")
        await client.events.drained()
        assert client.events.lost == 0
        (event,) = await _ours(ground)
        assert event["series"]["count"] == 2

    played(server, play)


def test_notes_are_as_long_as_they_may_be(server: str) -> None:
    """1024 bytes, in whole characters; another pod may be named."""

    async def play(ground: Ground) -> None:
        client = Acting(ground).client
        victim, winner = await ground.pods(2)
        note = "ü" * 1000
        client.record_event(victim, "Normal", "Preempted", "Preempting", note, winner)
        await client.events.drained()
        assert client.events.lost == 0
        (event,) = await _ours(ground)
        assert 1000 < len(event["note"].encode()) <= 1024
        assert note.startswith(event["note"].removesuffix(" ..."))
        assert event["related"]["uid"] == winner.uid

    played(server, play)


def test_the_longest_name_has_its_events(server: str) -> None:
    """253 characters, which leave no room for a suffix."""

    async def play(ground: Ground) -> None:
        client = Acting(ground).client
        pod = await ground.pod("a" * 63 + ("." + "b" * 63) * 2 + "." + "c" * 61)
        for note in ("first", "second"):
            client.record_event(pod, "Normal", "Waiting", "Scheduling", note)
        await client.events.drained()
        assert client.events.lost == 0
        (event,) = await _ours(ground)
        assert (event["regarding"]["name"], event["series"]["count"]) == (pod.name, 2)

    played(server, play)


def test_an_event_may_be_about_a_lease(server: str) -> None:
    """A change of leader is an event of the lease."""

    async def play(ground: Ground) -> None:
        lease = await ground.make(LEASE, "who", {"spec": {"holderIdentity": "me"}})
        uid = lease["metadata"]["uid"]
        about = Reference(LEASE[1], ground.namespace, "who", uid, LEASE[0])
        client = Acting(ground).client
        client.say(about, "Normal", "LeaderElection", "Leading", "me became leader")
        await client.events.drained()
        assert client.events.lost == 0
        (event,) = await _ours(ground)
        assert event["regarding"]["uid"] == uid

    played(server, play)


def test_a_refused_event_is_dropped_and_reported(server: str) -> None:
    """One with a type that there is not; nothing waits for it."""

    async def play(ground: Ground) -> None:
        acting = Acting(ground)
        pod = await ground.pod("web")
        acting.client.record_event(pod, "Sideways", "Failed", "Scheduling", "note")
        await acting.client.events.drained()
        assert acting.client.events.lost == 1
        ((call, error),) = acting.failures
        assert call == "record_event"
        assert "type" in str(error)

    played(server, play)
