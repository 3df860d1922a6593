"""A reflector against a server that goes on changing while it fails in every way, by a seed.

What was told must lead from nothing to what there is: of each name ADDED and DELETED take turns,
with MODIFIED in between, each from the state before; no change that never was, none left out in
the end.
"""

from __future__ import annotations

import asyncio
import json
from random import Random
from typing import Any

import pytest

from policy_sched.client.kube.cache.store import Change
from policy_sched.model.pod import Pod
from tests.client.kube.cache.test_reflector import Follower, listed, quiet
from tests.client.kube.stage import Asked, Wire, acted, bookmark, pod, stage, status

LAST = "last"
NAMES = [f"p{i}" for i in range(6)]


class Truth:
    """Pods and all that happened to them; what is older than ``floor`` is forgotten."""

    def __init__(self, random: Random) -> None:
        self.version = 10
        self.floor = 10
        self.pods: dict[str, dict[str, Any]] = {}
        self.states: set[tuple[str, str, str]] = set()
        self.events: list[tuple[int, str, dict[str, Any]]] = []
        self._random = random

    def change(self) -> None:
        """Let something happen to some pod."""
        name = self._random.choice(NAMES)
        if name not in self.pods:
            self._put("ADDED", pod(name, 0, uid=f"{name}-{self.version}"))
        elif self._random.random() < 0.4:
            self._put("DELETED", self.pods[name])
            del self.pods[name]
        else:
            self._put("MODIFIED", self.pods[name])
        if self._random.random() < 0.1:
            self.floor = self.version

    def end(self) -> None:
        """Let the last thing happen."""
        self._put("ADDED", pod(LAST, 0))

    def _put(self, kind: str, thing: dict[str, Any]) -> None:
        self.version += 1
        meta = {**thing["metadata"], "resourceVersion": str(self.version)}
        new = {**thing, "metadata": meta}
        self.pods[meta["name"]] = new
        self.events.append((self.version, kind, new))
        self.states.add((meta["name"], meta["uid"], meta["resourceVersion"]))


class Server:
    """Serves the truth, badly while ``calm`` is False."""

    def __init__(self, truth: Truth, random: Random) -> None:
        self.calm = False
        self._truth = truth
        self._random = random
        self._pages: dict[str, tuple[int, list[dict[str, Any]]]] = {}

    async def __call__(self, asked: Asked, wire: Wire) -> None:
        """Answer one request."""
        self._happen()
        if not self.calm and self._random.random() < 0.25:
            return await self._fail(wire)
        if asked.query.get("watch"):
            return await self._watch(asked, wire)
        return await self._list(asked, wire)

    def _happen(self) -> None:
        for _ in range(0 if self.calm else self._random.randrange(4)):
            self._truth.change()

    async def _fail(self, wire: Wire) -> None:
        how = self._random.randrange(5)
        if how == 0:
            return wire.cut()
        if how == 1:
            return await wire.respond(500, b"<html>")
        if how == 2:
            return await wire.respond(429, status(429, "TooManyRequests"), Retry_After="1")
        if how == 3:
            return await wire.respond(200, b"<html>", Content_Type="text/html")
        return await wire.respond(410, status(410, "Expired"))

    async def _list(self, asked: Asked, wire: Wire) -> None:
        token, limit = asked.query.get("continue", ""), int(asked.query.get("limit", "0"))
        if token and token not in self._pages:
            return await wire.respond(410, status(410, "Expired"))
        version, rest = self._pages.pop(token, (0, []))
        if not token:
            version, rest = self._truth.version, list(self._truth.pods.values())
        here, rest = (rest[:limit], rest[limit:]) if limit else (rest, [])
        more = ""
        if rest:
            more = f"t{len(self._pages)}-{self._random.random()}"
            self._pages[more] = version, rest
            if not self.calm and self._random.random() < 0.2:
                self._pages.clear()
        return await wire.respond(200, listed(version, *here, token=more))

    async def _watch(self, asked: Asked, wire: Wire) -> None:
        truth = self._truth
        since = int(asked.query.get("resourceVersion", "0"))
        initial = "sendInitialEvents" in asked.query
        if since and since < truth.floor:
            return await wire.respond(410, status(410, "Expired"))
        lines: list[bytes] = []
        if initial:
            since = truth.version
            lines += [_line("ADDED", thing) for thing in truth.pods.values()]
            lines.append(_line("BOOKMARK", bookmark(since, end=True)))
        await wire.begin()
        while True:
            lines += [
                _line(kind, thing) for version, kind, thing in truth.events if version > since
            ]
            since = truth.version
            if not self.calm and self._random.random() < 0.3:
                lines.append(_line("BOOKMARK", bookmark(since)))
            if self.calm:
                await wire.chunk(b"".join(lines))
                await quiet()
            if not await self._send(wire, b"".join(lines)):
                return None
            lines = []
            self._happen()
            await asyncio.sleep(0)

    async def _send(self, wire: Wire, data: bytes) -> bool:
        """Send it in pieces; tell whether the stream goes on."""
        while data:
            size = self._random.randrange(1, 400)
            await wire.chunk(data[:size])
            data = data[size:]
            how = self._random.random()
            if how < 0.1:
                wire.cut()
                return False
            if how < 0.13:
                await wire.chunk(b"\x00garbage\n")
            if how < 0.16:
                await wire.end()
                return False
        if self._random.random() < 0.15:
            await wire.chunk(_line("ERROR", status(410, "Expired")))
            await wire.end()
            return False
        return True


def _line(kind: str, thing: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": thing}).encode() + b"\n"


def check(told: list[Change[Pod]], truth: Truth) -> None:
    """Follow what was told; it must be possible, and end with the truth."""
    believed: dict[str, Pod] = {}
    for change in told:
        name = change.object.metadata.name
        assert (change.type == "ADDED") == (name not in believed), change
        if change.type == "MODIFIED":
            assert change.old is believed[name]
            assert change.new is not None
            assert change.new.metadata.uid == believed[name].metadata.uid
            versions = [int(one.metadata.resource_version) for one in (change.new, believed[name])]
            assert versions[0] > versions[1], "nothing goes back"
        if change.new is None:
            del believed[name]
            continue
        meta = change.new.metadata
        assert (name, meta.uid, meta.resource_version) in truth.states, "nothing is invented"
        believed[name] = change.new
    expected = {name: thing["metadata"]["resourceVersion"] for name, thing in truth.pods.items()}
    assert {name: one.metadata.resource_version for name, one in believed.items()} == expected


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_lost_and_nothing_is_invented(seed: int, *, streaming: bool) -> None:
    """Whatever fails in between."""
    random = Random(f"{seed}/{streaming}")
    truth = Truth(random)
    server = Server(truth, random)

    async def play() -> None:
        async with stage(server) as here, here.api() as api:
            follower = Follower(api, streaming=streaming, page=2)
            task = asyncio.create_task(follower.reflector.run())
            while len(here.asked) < 60 and len(follower.told) < 150:
                await asyncio.sleep(0.001)
            server.calm = True
            truth.end()
            while not follower.told or follower.told[-1].object.metadata.name != LAST:
                await asyncio.sleep(0.001)
            task.cancel()
            check(follower.told, truth)

    acted(play())
