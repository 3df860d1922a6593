"""Events over time: series that end, series that go on, and what finds no room."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from policy_sched.client.kube.events import broadcaster
from policy_sched.client.kube.rest import Settings
from policy_sched.client.kube.rest.client import ASIDE
from policy_sched.errors import ClusterError
from tests.client.kube.stage import WALL, Asked, Stage, Wire, acted, stage


def said(note: str, name: str = "web") -> broadcaster.EventKey:
    """Return something to say of a pod."""
    about = broadcaster.Reference("Pod", "default", name, "u1")
    return broadcaster.EventKey(
        about, "Warning", "FailedScheduling", "Scheduling", "me", "me-1", note
    )


def test_an_event_about_a_long_name_has_a_name_that_is_allowed() -> None:
    """As client-go names it then: by a UUID, another one for each event."""
    for name, length in ("x" * 236, 253), ("x" * 237, 36):
        series = broadcaster.EventSeries()
        first = series.say(said("", name), WALL)
        assert list(series.finish(WALL + broadcaster.FINISH + 1)) == [None]
        second = series.say(said("", name), WALL + broadcaster.FINISH + 1)
        assert first is not None
        assert second is not None
        assert first.name != second.name
        assert {len(one.name) for one in (first, second)} == {length}


def test_series_are_kept_for_six_minutes_and_are_bounded() -> None:
    """The oldest ends first; what is said again is young again."""
    series = broadcaster.EventSeries(most=3)
    for number in range(5):
        series.say(said("", f"p{number}"), WALL + number)
    again = series.say(said("", "p0"), WALL + 5)
    assert again is not None
    assert list(series.finish(WALL + 5)) == [None, None]
    kept = {hash(said("", name).series) for name in ("p0", "p3", "p4")}
    assert series._series.keys() == kept
    assert list(series.finish(WALL + 4 + broadcaster.FINISH)) == [None]
    assert list(series.finish(WALL + 5 + broadcaster.FINISH)) == [None]
    (last,) = series.finish(WALL + 6 + broadcaster.FINISH)
    assert last is not None
    assert (last.series or {})["count"] == 2
    assert len(series) == 0


def test_an_event_that_came_once_leaves_a_number_behind() -> None:
    """After a burst of pods that fit nowhere, memory stayed as high as it was, burst by burst."""
    series = broadcaster.EventSeries()
    for number in range(100):
        series.say(said(f"0/5 nodes are available: {number}", f"p{number}"), WALL)
    assert {type(one) for one in series._series.values()} == {int}
    second = series.say(said("again", "p7"), WALL + 1)
    assert second is not None
    assert (second.name, (second.series or {})["count"]) == (f"p7.{WALL:x}", 2)


async def yes(asked: Asked, wire: Wire) -> None:
    """Accept."""
    await wire.respond(201, {})


def counts(here: Stage) -> list[tuple[str, int]]:
    """Return method and count of what was written."""
    return [(a.method, a.json.get("series", {}).get("count", 1)) for a in here.asked]


async def until(here: Stage, count: int) -> None:
    """Wait for so many requests."""
    while len(here.asked) < count:
        await asyncio.sleep(0.001)


def test_a_series_is_written_when_it_ends_and_from_time_to_time() -> None:
    """Every half hour while it goes on, and once more when nothing was said for six minutes."""

    async def play() -> None:
        async with stage(yes) as here, here.api() as api:
            writer = broadcaster.EventWriter(api)
            for note in "abc":
                writer.say(said(note))
            await writer.drained()
            assert counts(here) == [("POST", 1), ("PATCH", 2)]
            for _ in range(4):
                writer.say(said("d"))
            here.wall.ns += broadcaster.FINISH + 1
            task = asyncio.create_task(writer.run())
            await until(here, 3)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert counts(here)[2] == ("PATCH", 7)
            assert len(writer._series) == 0
            assert {broadcaster.LOOK, broadcaster.REFRESH / 1e9} & set(here.slept)

    acted(play())


def test_a_continued_series_is_refreshed() -> None:
    """Its count so far."""

    async def play() -> None:
        async with stage(yes) as here, here.api() as api:
            writer = broadcaster.EventWriter(api)
            for note in "ab":
                writer.say(said(note))
            await writer.drained()
            task = asyncio.create_task(writer._refresh())
            await until(here, 3)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert counts(here)[2] == ("PATCH", 2)

    acted(play())


def test_a_full_queue_and_a_cancellation_drop_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server that does not answer costs no memory without end."""

    room = 20
    monkeypatch.setattr("policy_sched.client.kube.events.broadcaster.QUEUE", room)

    async def never(asked: Asked, wire: Wire) -> None:
        await asyncio.Event().wait()

    async def play() -> None:
        told: list[str] = []

        def lost(about: str, _error: ClusterError) -> None:
            told.append(about)

        async with stage(never) as here, here.api() as api:
            writer = broadcaster.EventWriter(api, lost)
            for number in range(room + 3):
                writer.say(said("x", f"web{number}"))
            await until(here, ASIDE)
            assert (writer.waiting, writer.lost) == (room, 3)
            await writer.cancel()
            assert writer.waiting == 0
            assert told == []

    acted(play())


def test_a_failed_write_is_reported_with_its_object() -> None:
    """With the words of the refusal."""
    told: list[tuple[str, Any]] = []

    async def refuse(asked: Asked, wire: Wire) -> None:
        await wire.respond(403, {"kind": "Status", "code": 403, "message": "not you"})

    async def play() -> None:
        async with stage(refuse) as here, here.api() as api:
            writer = broadcaster.EventWriter(
                api, lambda about, error: told.append((about, str(error)))
            )
            writer.say(said("x"))
            await writer.drained()
        assert told == [("default/web", "not you")]

    acted(play())


def test_events_of_a_burst_wait_as_bytes_and_begin_when_there_is_room() -> None:
    """A burst of bindings left 3 KiB for each event until it was written: memory stayed high."""

    async def play() -> None:
        proceed = asyncio.Event()

        async def slowly(asked: Asked, wire: Wire) -> None:
            await proceed.wait()
            await wire.respond(201, {})

        async with stage(slowly) as here, here.api(Settings(qps=0)) as api:
            writer = broadcaster.EventWriter(api)
            names = [f"web{number}" for number in range(3 * broadcaster.TOGETHER)]
            for name in names:
                writer.say(said("x", name))
            waiting = asyncio.create_task(writer.drained())
            await until(here, ASIDE)
            assert writer._lanes.busy == broadcaster.TOGETHER
            assert len(writer._gathered) == 2 * broadcaster.TOGETHER
            assert {type(write.event) for write, _ in writer._gathered} == {bytes}
            proceed.set()
            await waiting
            assert sorted(a.json["regarding"]["name"] for a in here.asked) == sorted(names)
            assert (writer.waiting, writer.lost, writer._lanes.busy) == (0, 0, 0)

    acted(play())
