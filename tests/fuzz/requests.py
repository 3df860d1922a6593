"""The embedded API server under hostile requests: it answers, goes on, and comes back as it was."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import quote

import aiohttp

from policy_sched.embedded.apiserver.registry.resources import ServedResource
from policy_sched.embedded.cluster import EmbeddedCluster
from policy_sched.testing import FakeClock
from tests.embedded.apiserver.world import World, serving, slice_of_time
from tests.embedded.world import START
from tests.fuzz.corpus import OBJECTS, PATCHES
from tests.fuzz.mutations import mutated, text_of
from tests.fuzz.objects import TEXTS, Objects
from tests.fuzz.targets import BrokenRunError

Plain = Any
_JSON: Final = "application/json"
_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_APPLY: Final = "application/apply-patch+yaml"
SECONDS: Final = 1.5
"""Processor time that one request, or one step of the cluster, may take on a busy machine."""
QUERIES: Final = (
    "limit=1", "limit=-1", "limit=9223372036854775808", "limit=x", "continue=abc",
    "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIvLi4vIn0", "continue=%00%FF",
    "resourceVersion=0", "resourceVersion=1", "resourceVersion=99999999999999999999",
    "resourceVersion=-1", "resourceVersion=%D9%A3", "resourceVersionMatch=Exact",
    "resourceVersionMatch=NotOlderThan", "watch=true&timeoutSeconds=1", "watch=1&timeoutSeconds=-5",
    "watch=true&timeoutSeconds=9223372036854775807", "watch=true&sendInitialEvents=true",
    "watch=true&resourceVersion=1&allowWatchBookmarks=true", "watch=maybe", "timeoutSeconds=1e9",
    "fieldSelector=metadata.name%3Do1", "fieldSelector=spec.nodeName%21%3D", "fieldSelector=%3D%3D",
    "fieldSelector=a%5C%2Cb%3D1", "labelSelector=app%20in%20(a%2C%20b)", "labelSelector=%00",
    "labelSelector=" + "(" * 500, "labelSelector=" + "a%2C" * 2000, "dryRun=All", "dryRun=some",
    "fieldValidation=Strict", "fieldValidation=Warn", "fieldValidation=x", "pretty=true",
    "gracePeriodSeconds=-1", "gracePeriodSeconds=99999999999999999999", "fieldManager=%0A",
    "propagationPolicy=Foreground", "propagationPolicy=Orphan&orphanDependents=true",
    "force=true", "includeObject=Object", "container=x&follow=true", "%ED%A0%80=1", "=&&==",
)  # fmt: skip
HEADERS: Final[tuple[dict[str, str], ...]] = (
    {}, {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}, {"Accept": _PROTOBUF},
    {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"},
    {"Accept": "*/*;q=x,,;=;" * 50}, {"Accept": ""}, {"Accept-Encoding": "gzip, x;q=9"},
    {"Authorization": "Basic U0VDUkVUOlNFQ1JFVA=="}, {"Authorization": "Bearer " + "x" * 4000},
    {"Authorization": "Bearer"}, {"Authorization": "Negotiate =="}, {"Impersonate-User": "a"},
    {"Impersonate-Group": "system:masters"}, {"Impersonate-Extra-%zz": "x"},
    {"Impersonate-User": "a", "Impersonate-Uid": "\u00e9"}, {"X-HTTP-Method-Override": "DELETE"},
    {"Content-Encoding": "gzip"}, {"Expect": "100-continue"}, {"Sec-WebSocket-Protocol": "x"},
)  # fmt: skip
DELIBERATE: Final = (b"ResourceVersionTooLarge",)
"""What answers of 5xx say that an API server gives, too."""
SUBRESOURCES: Final = (
    "status", "scale", "binding", "eviction", "log", "exec", "token", "finalize", "approval",
    "ephemeralcontainers", "resize", "x", "%2e%2e", "",
)  # fmt: skip
TYPES: Final = (
    "application/json", "application/yaml", "application/json-patch+json", _APPLY, _PROTOBUF,
    "application/merge-patch+json", "application/strategic-merge-patch+json", "text/plain", ";;",
)  # fmt: skip


async def attempt(world: World, random: Random) -> None:
    """Send requests of each kind; each answer is below 500, or one that an API server gives."""
    sender = _Sender(world, random)
    steps: tuple[Callable[[], Awaitable[None]], ...] = (
        sender.mutated, sender.typed, sender.read, sender.applied, sender.protobuf,
    )  # fmt: skip
    await sender.mutated()
    for step in random.choices(steps, k=8):
        await step()
        world.clock.ns += random.choice((10**6, 10**9, 10**11))
        await asyncio.sleep(0)
    errors = dict(world.cluster.store.sync_errors)
    if errors:
        raise BrokenRunError(f"controllers failed: {errors}; sent: {sender.said}")


async def persisted(random: Random, folder: Path) -> None:
    """Attempt a cluster in a file; what was accepted is there when it is opened again."""
    path = str(folder / "cluster.db")
    cluster = EmbeddedCluster.open(path, FakeClock(START))
    try:
        async with serving(cluster=cluster) as world:
            await attempt(world, random)
            status, _ = await world.ask("GET", "/readyz")
            if status != 200:
                raise BrokenRunError("the server is not ready afterwards")
        before = {
            (one.resource.key, *one.namespaced_name): one.raw for one in cluster.store.everything()
        }
    finally:
        cluster.close()
    again = EmbeddedCluster.open(path, FakeClock(START))
    try:
        after = {
            (one.resource.key, *one.namespaced_name): one.raw for one in again.store.everything()
        }
        if again.store.set_aside or any(after.get(key) != raw for key, raw in before.items()):
            raise BrokenRunError(f"not as it was: {again.store.set_aside}")
        again.step(slice_of_time())
        if again.store.sync_errors:
            raise BrokenRunError(f"controllers failed after a restart: {again.store.sync_errors}")
    finally:
        again.close()


class _Sender:
    """Sends requests to a served cluster. ``said``: the last ones, for messages."""

    def __init__(self, world: World, random: Random) -> None:
        self._world = world
        self._random = random
        self._objects = Objects(random)
        self.said: list[str] = []

    async def mutated(self) -> None:
        """Create, patch, replace and delete one mutated object."""
        random = self._random
        path, valid = random.choice(sorted(OBJECTS.items()))
        name = valid["metadata"]["name"]
        await self._send("POST", path, mutated(valid, random))
        if random.random() < 0.5:
            await self._send("POST", path, valid)
        kind, patch = random.choice(PATCHES)
        changed = mutated(patch, random)
        query = "?fieldManager=f&force=true" if "apply" in kind else ""
        if "apply" in kind and isinstance(changed, dict):
            changed = {"apiVersion": valid["apiVersion"], "kind": valid["kind"], **changed}
        await self._send("PATCH", f"{path}/{name}{query}", changed, kind)
        await self._send("PUT", f"{path}/{name}", mutated(valid, random))
        await self._send("PATCH", f"{path}/{name}/status", mutated(valid, random), PATCHES[2][0])
        if random.random() < 0.5:
            await self._send("DELETE", f"{path}/{name}", {"gracePeriodSeconds": 0})

    async def typed(self) -> None:
        """Send objects of right types and odd content, in each way that changes an object."""
        for _ in range(4):
            one = self._objects.resource()
            data = self._objects.made(one)
            place = f"{_path(one)}/{data['metadata']['name']}"
            method, path, kind = self._random.choice((
                ("POST", _path(one), _JSON), ("POST", _path(one), _JSON), ("PUT", place, _JSON),
                ("PUT", f"{place}/status", _JSON), ("DELETE", place, _JSON),
                *((("PATCH", place, kind)) for kind in TYPES[5:7]),
                ("PATCH", f"{place}?fieldManager=m&force=true", _APPLY),
                ("PATCH", f"{place}/{self._random.choice(SUBRESOURCES)}", TYPES[5]),
            ))  # fmt: skip
            await self._send(method, path, None if method == "DELETE" else data, kind)

    async def applied(self) -> None:
        """Apply an object as two managers, of which the second drops and takes over fields."""
        one = self._objects.resource()
        first = self._objects.made(one)
        name = first["metadata"]["name"]
        for manager in ("a", "b", "a", "a" * 129):
            given = self._objects.made(one) if self._random.random() < 0.5 else first
            given = {**given, "metadata": {**given["metadata"], "name": name}}
            force = self._random.choice(("", "&force=true", "&force=x"))
            path = f"{_path(one)}/{name}?fieldManager={manager}{force}"
            await self._send("PATCH", path, mutated(given, self._random, 2), _APPLY)

    async def read(self) -> None:
        """Ask for lists, watches, tables and what is not there."""
        random = self._random
        one = self._objects.resource()
        for _ in range(4):
            name = random.choice(("", "", "/o1", "/" + quote(random.choice(TEXTS), safe="")))
            below = f"/{random.choice(SUBRESOURCES)}" if name and random.random() < 0.5 else ""
            query = "&".join(random.sample(QUERIES, random.randrange(1, 4)))
            method = random.choice(("GET", "GET", "GET", "DELETE", "OPTIONS", "HEAD", "QUERY"))
            headers = random.choice(HEADERS)
            await self._ask(method, f"{_path(one)}{name}{below}?{query}", None, headers)

    async def protobuf(self) -> None:
        """Send damaged protobuf, and bodies under the name of another format."""
        one = self._objects.resource()
        body = self._objects.protobuf(one)
        headers = {"Content-Type": _PROTOBUF}
        await self._ask("POST", _path(one), body, headers)
        await self._ask("PUT", f"{_path(one)}/o1", body, headers)
        other = {"Content-Type": self._random.choice(TYPES)}
        text = text_of(self._objects.made(one)).encode()
        await self._ask("POST", _path(one), self._random.choice((body, text, b"")), other)
        await self._ask("PATCH", f"{_path(one)}/o1?fieldManager=m", text, other)

    async def _send(self, method: str, path: str, body: Plain, kind: str = _JSON) -> None:
        raw = None if body is None else text_of(body).encode()
        await self._ask(method, path, raw, {"Content-Type": kind})

    async def _ask(self, method: str, path: str, raw: bytes | None, headers: Plain) -> None:
        what = f"{method} {path} {headers} {(raw or b'')[:1500]!r}"
        self.said = [*self.said[-8:], what]
        begun, steps = time.process_time(), len(self._world.steps)
        url = self._world.url + path
        data = None if raw is None else io.BytesIO(raw)
        options: Plain = {"data": data, "headers": headers, "allow_redirects": False}
        try:
            async with self._world.session.request(method, url, **options) as answer:
                status = answer.status
                text = b"" if "watch=" in path and status == 200 else await answer.read()
        except aiohttp.ClientError as error:
            text, status = repr(error).encode(), 599
        meant = status < 500 or any(word in text for word in DELIBERATE)
        if not meant or b"Traceback" in text:
            raise BrokenRunError(f"{status} for {what} -> {text[:1000]!r}")
        await asyncio.sleep(0)
        inside = self._world.steps[steps:]
        took = time.process_time() - begun - sum(inside)
        if took > SECONDS:
            raise BrokenRunError(f"{took:.1f} s of processor time for {what}")
        if max(inside, default=0) > SECONDS:
            raise BrokenRunError(f"a step of {max(inside):.1f} s after {self.said}")


def _path(one: ServedResource) -> str:
    group = f"/apis/{one.group}" if one.group else "/api"
    place = "/namespaces/default" if one.resource.namespaced else ""
    return f"{group}/{one.version}{place}/{one.name}"
