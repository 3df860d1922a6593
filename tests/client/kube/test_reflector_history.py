"""A reflector against servers whose versions begin anew: restored, or made from nothing again."""

from __future__ import annotations

from typing import Any

from tests.client.kube.cache.test_reflector import followed, listed, quiet
from tests.client.kube.stage import Asked, Wire, bookmark, pod


def test_a_version_that_lies_ahead_is_left_after_a_silence() -> None:
    """The server says nothing until its own versions come so far, which may be never."""
    watched: list[str] = []

    async def script(asked: Asked, wire: Wire) -> None:
        if not asked.query.get("watch"):
            again = listed(3, pod("b", 2, uid="new")) if watched else listed(5, pod("a", 1))
            return await wire.respond(200, again)
        watched.append(asked.query["resourceVersion"])
        await wire.begin()
        if len(watched) == 1:
            return await wire.line("BOOKMARK", bookmark(999))
        if len(watched) == 2:
            stages[0].monotonic.advance(200)
        return await quiet()

    stages: list[Any] = []
    follower, _ = followed(script, 3, streaming=False, silence=0.1, stages=stages)
    assert watched[:2] == ["5", "999"]
    assert follower.words == ["ADDED a@1", "DELETED a@1", "ADDED b@2"]


def test_a_stream_that_sent_something_is_resumed_after_a_timeout() -> None:
    """A connection that died has nothing to do with versions."""
    watched: list[str] = []

    async def script(asked: Asked, wire: Wire) -> None:
        if not asked.query.get("watch"):
            assert not watched
            return await wire.respond(200, listed(5, pod("a", 1)))
        watched.append(asked.query["resourceVersion"])
        await wire.begin()
        await wire.line("MODIFIED", pod("a", 5 + len(watched)))
        stages[0].monotonic.advance(200)
        return await quiet()

    stages: list[Any] = []
    follower, _ = followed(script, 3, streaming=False, silence=0.1, stages=stages)
    assert watched[:2] == ["5", "6"]
    assert follower.words == ["ADDED a@1", "MODIFIED a@6", "MODIFIED a@7"]


def back(version: int) -> tuple[list[str], list[str]]:
    """Return what is asked for and told when a server that was away comes back at a version."""
    asked_for: list[str] = []

    async def script(asked: Asked, wire: Wire) -> None:
        limit, watch = asked.query.get("limit", ""), asked.query.get("watch", "")
        since = asked.query.get("resourceVersion", "")
        asked_for.append(f"watch {since}" if watch else f"list {limit}")
        if limit == "1":
            return await wire.respond(200, listed(version, pod("b", 2, uid="new"), token="more"))
        if not watch:
            one = pod("b", 2, uid="new") if len(asked_for) > 1 else pod("a", 1)
            return await wire.respond(200, listed(version if len(asked_for) > 1 else 5, one))
        if len(asked_for) == 2:
            return await wire.respond(503, b"it is about to start")
        await wire.begin()
        if since == "5":
            await wire.line("MODIFIED", pod("a", 6))
        return await quiet()

    follower, _ = followed(script, 3 if version < 5 else 2, streaming=False)
    return asked_for, follower.words


def test_after_an_outage_the_version_of_the_server_is_read() -> None:
    """It has a history of its own if that is less far than we are: everything is read anew."""
    asked, told = back(3)
    assert asked[:4] == ["list 500", "watch 5", "list 1", "list 500"]
    assert told == ["ADDED a@1", "DELETED a@1", "ADDED b@2"]


def test_a_server_that_has_gone_on_is_followed_from_where_it_was() -> None:
    """One small question, and the watch goes on."""
    asked, told = back(5)
    assert asked == ["list 500", "watch 5", "list 1", "watch 5"]
    assert told == ["ADDED a@1", "MODIFIED a@6"]
