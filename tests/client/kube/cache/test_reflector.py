"""A reflector against servers that cut, stall, forget and garble."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from policy_sched.client.kube.cache.reflector import Reflector, ReflectorSettings
from policy_sched.client.kube.cache.store import Change
from policy_sched.client.kube.rest.client import Api
from policy_sched.client.kube.rest.errors import Selection
from policy_sched.model.pod import Pod
from tests.client.kube.stage import Asked, Script, Stage, Wire, acted, bookmark, pod, stage, status

PODS = Selection(("v1", "Pod"))


class Follower:
    """Collects what a reflector tells, and waits until it has told enough."""

    def __init__(self, api: Api, **settings: Any) -> None:
        self.told: list[Change[Pod]] = []
        self.troubles: list[str] = []
        self._more = asyncio.Event()
        self.reflector = Reflector(
            api,
            PODS,
            Pod,
            self._changed,
            settings=ReflectorSettings(**settings),
            trouble=lambda _, what: self.troubles.append(what),
        )

    def _changed(self, changes: Sequence[Change[Pod]]) -> None:
        self.told += changes
        self._more.set()

    @property
    def words(self) -> list[str]:
        """What was told, as type, name and version."""
        return [
            f"{c.type} {c.object.metadata.name}@{c.object.metadata.resource_version}"
            for c in self.told
        ]

    async def until(self, count: int) -> None:
        """Wait for so many changes."""
        while len(self.told) < count:
            self._more.clear()
            await self._more.wait()


def followed(
    script: Script, count: int, stages: list[Stage] | None = None, **settings: Any
) -> tuple[Follower, Stage]:
    """Follow pods until so many changes were told; ``stages`` gets the stage for the script."""
    result: list[Any] = []

    async def play() -> None:
        async with stage(script) as here, here.api() as api:
            if stages is not None:
                stages.append(here)
            follower = Follower(api, **settings)
            task = asyncio.create_task(follower.reflector.run())
            await follower.until(count)
            result[:] = [follower, here]
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    acted(play())
    return result[0], result[1]


def listed(version: int, *pods: dict[str, Any], token: str = "") -> dict[str, Any]:
    """Return a list of pods."""
    meta = {"resourceVersion": str(version), "continue": token}
    return {"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": list(pods)}


async def some_turns() -> None:
    """Let the client read what was written, however long a turn of the event loop takes."""
    for _ in range(20):
        await asyncio.sleep(0)


async def quiet() -> None:
    """Say nothing any more."""
    await asyncio.Event().wait()


def test_a_streaming_list_is_one_change_per_object_then_a_watch() -> None:
    """Objects before the bookmark are a list; what follows are changes with old and new."""

    async def script(asked: Asked, wire: Wire) -> None:
        assert asked.query["sendInitialEvents"] == "true"
        assert asked.query["resourceVersionMatch"] == "NotOlderThan"
        assert asked.headers["accept-encoding"] == "identity"
        await wire.begin()
        await wire.line("ADDED", pod("a", 1))
        await wire.line("ADDED", pod("b", 2))
        await wire.line("MODIFIED", pod("b", 3))
        await wire.line("BOOKMARK", bookmark(5, end=True))
        await wire.line("MODIFIED", pod("a", 6))
        await wire.line("DELETED", pod("b", 7))
        await quiet()

    follower, _ = followed(script, 4)
    assert follower.words == ["ADDED a@1", "ADDED b@3", "MODIFIED a@6", "DELETED b@7"]
    old = follower.told[2].old
    assert old is not None
    assert old.metadata.resource_version == "1"
    assert follower.reflector.version == "7"
    assert follower.reflector.synced.is_set()


def test_servers_without_streaming_lists_are_listed_in_pages() -> None:
    """A refused streaming list is not asked for again; pages and a watch take its place."""

    async def script(asked: Asked, wire: Wire) -> None:
        if "sendInitialEvents" in asked.query:
            await wire.respond(422, status(422, "Invalid"))
        elif "continue" in asked.query:
            await wire.respond(200, listed(9, pod("b", 2)))
        elif "limit" in asked.query:
            await wire.respond(200, listed(9, pod("a", 1), token="next"))
        else:
            assert asked.query["resourceVersion"] == "9"
            await wire.begin()
            await wire.line("ADDED", pod("c", 10))
            await quiet()

    follower, here = followed(script, 3)
    assert follower.words == ["ADDED a@1", "ADDED b@2", "ADDED c@10"]
    assert [a.query.get("limit") for a in here.asked[1:3]] == ["500", "500"]


def test_pages_that_expire_begin_again() -> None:
    """410 for a page's token: the list is begun again, and nothing is told twice."""
    begun: list[str] = []

    async def script(asked: Asked, wire: Wire) -> None:
        if asked.query.get("watch"):
            await wire.begin()
            await quiet()
        elif "continue" in asked.query:
            if len(begun) == 1:
                await wire.respond(410, status(410, "Expired"))
            else:
                await wire.respond(200, listed(9, pod("b", 2)))
        else:
            begun.append("")
            await wire.respond(200, listed(9, pod("a", 1), token="next"))

    follower, _ = followed(script, 2, streaming=False)
    assert follower.words == ["ADDED a@1", "ADDED b@2"]
    assert len(begun) == 2


def test_a_cut_watch_resumes_at_its_last_version() -> None:
    """After a cut, even within a line, the watch resumes; bookmarks count as versions."""

    async def script(asked: Asked, wire: Wire) -> None:
        version = asked.query.get("resourceVersion")
        if not asked.query.get("watch"):
            await wire.respond(200, listed(5, pod("a", 1)))
        elif version == "5":
            await wire.begin()
            await wire.line("MODIFIED", pod("a", 6))
            await wire.line("BOOKMARK", bookmark(8))
            await wire.chunk(b'{"type":"MODIFIED","object":{"kind":"Po')
            await some_turns()
            wire.cut()
        else:
            assert version == "8"
            await wire.begin()
            await wire.line("MODIFIED", pod("a", 9))
            await quiet()

    follower, here = followed(script, 3, streaming=False)
    assert follower.words == ["ADDED a@1", "MODIFIED a@6", "MODIFIED a@9"]
    assert here.slept, "a stream that ended at once is followed by a pause"


def test_a_version_that_is_too_old_is_listed_again_and_compared() -> None:
    """After 410, in the stream or as an answer, only what has really changed is told."""
    lists: list[int] = []

    async def script(asked: Asked, wire: Wire) -> None:
        if not asked.query.get("watch"):
            lists.append(0)
            first = [pod("a", 1), pod("b", 2), pod("c", 3)]
            later = [pod("a", 1), pod("b", 7), pod("d", 8), pod("c", 9, uid="other")]
            await wire.respond(200, listed(5, *first) if len(lists) == 1 else listed(10, *later))
        elif asked.query["resourceVersion"] == "5":
            await wire.begin()
            await wire.line("ERROR", status(410, "Expired", "too old resource version: 5 (9)"))
            await wire.end()
        elif len(lists) == 2:
            lists.append(0)
            await wire.respond(410, status(410, "Gone"))
        else:
            await wire.begin()
            await wire.line("MODIFIED", pod("a", 12))
            await quiet()

    follower, _ = followed(script, 8, streaming=False)
    assert follower.words == [
        *("ADDED a@1", "ADDED b@2", "ADDED c@3"),
        *("MODIFIED b@7", "ADDED d@8", "DELETED c@3", "ADDED c@9"),
        "MODIFIED a@12",
    ]


def test_unreadable_lines_resume_the_watch_then_list_again() -> None:
    """Garbage is not skipped: the watch resumes before it, and if it comes again, lists."""
    watches: list[str] = []

    async def script(asked: Asked, wire: Wire) -> None:
        if not asked.query.get("watch"):
            await wire.respond(200, listed(5 if not watches else 9, pod("a", len(watches) + 1)))
            return
        watches.append(asked.query["resourceVersion"])
        await wire.begin()
        if len(watches) < 3:
            await wire.chunk(b'{"type":"MODIFIED","object":{"metadata":\x00\xff}}\n')
            await wire.end()
        else:
            await quiet()

    follower, _ = followed(script, 2, streaming=False)
    assert watches[:2] == ["5", "5"]
    assert follower.words == ["ADDED a@1", "MODIFIED a@3"]
    assert len(follower.troubles) == 2


def test_an_object_of_the_wrong_shape_does_not_hide_the_others() -> None:
    """A pod without a node that cannot be read is told, and left out until it can be read."""
    bad = pod("b", 3)
    bad["spec"] = {"nodeName": 17}

    async def script(asked: Asked, wire: Wire) -> None:
        await wire.begin()
        await wire.line("ADDED", pod("a", 1))
        await wire.line("ADDED", bad)
        await wire.line("BOOKMARK", bookmark(5, end=True))
        await wire.line("ADDED", pod("c", 6))
        worse = pod("c", 7)
        worse["spec"] = {"containers": [{"resources": {"requests": {"cpu": "much"}}}]}
        await wire.line("MODIFIED", worse)
        worse["metadata"]["resourceVersion"] = "8"
        await wire.line("DELETED", worse)
        await quiet()

    follower, _ = followed(script, 3)
    assert follower.words == ["ADDED a@1", "ADDED c@6", "DELETED c@6"]
    assert len(follower.troubles) == 2
    assert list(follower.reflector.unread) == [("default", "b")]
    assert follower.reflector.version == "8"


def test_a_server_that_falls_silent_is_left() -> None:
    """A half-closed connection, on which nothing comes any more, ends after a while."""

    async def script(asked: Asked, wire: Wire) -> None:
        if not asked.query.get("watch"):
            await wire.respond(200, listed(5, pod("a", 1)))
        elif len(here) == 0:
            here.append("")
            await wire.begin()
            await quiet()
        else:
            await wire.begin()
            await wire.line("MODIFIED", pod("a", 6))
            await quiet()

    here: list[str] = []
    follower, _ = followed(script, 2, streaming=False, silence=0.1)
    assert follower.words == ["ADDED a@1", "MODIFIED a@6"]
    assert any("no response in time" in t or "imeout" in t for t in follower.troubles)


def test_large_objects_and_slow_servers_are_read_to_the_end() -> None:
    """A line of 3 MB, given in pieces of any size, is one object."""
    big = pod("big", 6)
    big["metadata"]["annotations"] = {"note": "x" * 3_000_000}

    async def script(asked: Asked, wire: Wire) -> None:
        await wire.begin()
        await wire.line("BOOKMARK", bookmark(5, end=True))
        line = json.dumps({"type": "ADDED", "object": big}).encode() + b"\n"
        for start in range(50):
            await wire.chunk(line[start : start + 1])
        await some_turns()
        for start in range(50, len(line), 300_001):
            await wire.chunk(line[start : start + 300_001])
        await quiet()

    follower, _ = followed(script, 1)
    assert len(follower.told[0].object.metadata.annotations["note"]) == 3_000_000


def test_failures_are_followed_by_growing_pauses_and_retry_after_is_kept() -> None:
    """A server that fails is asked less and less often; one that names a time is asked then."""
    tries: list[str] = []

    async def script(asked: Asked, wire: Wire) -> None:
        tries.append("")
        if len(tries) < 5:
            await wire.respond(503, b"upstream is away")
        elif len(tries) == 5:
            await wire.respond(429, status(429, "TooManyRequests"), Retry_After="17")
        else:
            await wire.begin()
            await wire.line("ADDED", pod("a", 1))
            await wire.line("BOOKMARK", bookmark(5, end=True))
            await quiet()

    _, here = followed(script, 1)
    first, second, third, fourth, asked = here.slept
    assert 0.1 <= first <= 0.2 <= second <= 0.4 <= third <= 0.8 <= fourth <= 1.6
    assert asked == 17


def test_an_old_version_after_an_outage_does_not_wait_as_long_as_the_outage_has_taught() -> None:
    """The pauses of a server that was away are not those of one that answers 410."""
    tries: list[str] = []

    async def script(asked: Asked, wire: Wire) -> None:
        tries.append("")
        if 3 <= len(tries) <= 5:
            return await wire.respond(503, b"upstream is away")
        if len(tries) == 6:
            return await wire.respond(410, status(410, "Expired"))
        await wire.begin()
        await wire.line("BOOKMARK", bookmark(4 + len(tries), end=True))
        if len(tries) == 1:
            return await wire.line("ERROR", status(410, "Expired"))
        if len(tries) == 2:
            return wire.cut()
        await wire.line("ADDED", pod("a", 20))
        return await quiet()

    _, here = followed(script, 1)
    assert len(tries) == 7
    *growing, last = here.slept
    assert all(0.1 * 2**n <= slept <= 0.2 * 2**n for n, slept in enumerate(growing))
    assert len(growing) == 4
    assert 0.1 <= last <= 0.2


def test_a_bound_pod_that_cannot_be_read_takes_its_room() -> None:
    """What was known of it stays; of one that was never read, what can be read counts."""

    async def script(asked: Asked, wire: Wire) -> None:
        await wire.begin()
        for name in ("waits", "known"):
            await wire.line("ADDED", pod(name, 1, nodeName="n" if name == "known" else ""))
        await wire.line("BOOKMARK", bookmark(2, end=True))
        for version, name in enumerate(("known", "waits", "new"), 3):
            odd = pod(name, version, nodeName="n", tolerations="all")
            await wire.line("MODIFIED", odd)
        await wire.line("DELETED", {**pod("new", 6), "status": 5})
        await quiet()

    follower, _ = followed(script, 5)
    assert follower.words == [
        "ADDED waits@1", "ADDED known@1", "MODIFIED waits@4", "ADDED new@5", "DELETED new@5",
    ]  # fmt: skip
    waits = follower.told[2].new
    assert waits is not None
    assert waits.spec.node_name == "n"
    assert list(follower.reflector.unread) == [("default", "known"), ("default", "waits")]
