"""A client as client-go is one: protobuf out, protobuf or anything else in, its own queries.

What comes back must be of a form that Go's decoders take; that is checked of every answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final

import aiohttp

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
STRATEGIC: Final = "application/strategic-merge-patch+json"
JSON: Final = "application/json"
ACCEPT: Final = f"{PROTOBUF}, */*"
"""Of a client whose content type is protobuf (rest.NewRequest)."""
PREFERRED: Final = f"{PROTOBUF},{JSON}"
"""Of a client whose configuration says nothing (UseProtobufAsDefault)."""
WATCH: Final = "allowWatchBookmarks=true&timeout=8m17s&timeoutSeconds=497&watch=true"
WATCH_LIST: Final = f"{WATCH}&resourceVersionMatch=NotOlderThan&sendInitialEvents=true"
INITIAL_END: Final = "k8s.io/initial-events-end"
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_MICRO_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_MICRO: Final = frozenset({"acquireTime", "renewTime", "eventTime", "lastObservedTime"})
_TIMES: Final = frozenset({
    "creationTimestamp", "deletionTimestamp", "lastTransitionTime", "startTime", "timeAdded",
})  # fmt: skip

Plain = dict[str, Any]


@dataclass
class GoClient:
    """One identity at a server; ``agent`` is what a program says that it is."""

    session: aiohttp.ClientSession
    url: str
    token: str
    agent: str
    accept: str = ACCEPT

    async def ask(
        self, method: str, path: str, body: bytes | None = None, kind: str = PROTOBUF
    ) -> tuple[int, Plain]:
        """Send a request; return status code and answer."""
        data = None if body is None else BytesIO(body)
        named = self._headers() | ({} if body is None else {"Content-Type": kind})
        async with self.session.request(
            method, self.url + path, data=data, headers=named
        ) as answer:
            assert answer.content_type == JSON, await answer.text()
            response: Plain = await answer.json()
        _check(response)
        assert response["kind"]
        return answer.status, response

    async def done(
        self, method: str, path: str, body: bytes | None = None, kind: str = PROTOBUF
    ) -> Plain:
        """Send a request that is not refused."""
        status, data = await self.ask(method, path, body, kind)
        assert status < 300, (path, data)
        return data

    async def patch(self, path: str, change: Plain) -> Plain:
        """Send a strategic merge patch."""
        return await self.done("PATCH", path, json.dumps(change).encode(), STRATEGIC)

    @asynccontextmanager
    async def watch(self, path: str, query: str) -> AsyncIterator[AsyncIterator[Plain]]:
        """Open a watch; its events can be iterated over."""
        url = f"{self.url}{path}?{query}"
        async with self.session.get(url, headers=self._headers()) as answer:
            assert (answer.status, answer.content_type) == (200, JSON), await answer.text()
            yield _events(answer)

    def _headers(self) -> dict[str, str]:
        return {
            "Accept": self.accept,
            "Accept-Encoding": "identity",
            "Authorization": f"Bearer {self.token}",
            "User-Agent": self.agent,
        }


async def _events(answer: aiohttp.ClientResponse) -> AsyncIterator[Plain]:
    async for line in answer.content:
        event: Plain = json.loads(line)
        assert event["type"] in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"), event
        assert event["object"]["kind"], "the decoder asks for it"
        assert event["object"]["apiVersion"]
        _check(event["object"])
        yield event


async def initial(events: AsyncIterator[Plain]) -> list[Plain]:
    """Return the objects of a streaming list, which a bookmark ends."""
    items = []
    async for event in events:
        meta = event["object"]["metadata"]
        if event["type"] == "BOOKMARK" and INITIAL_END in meta.get("annotations", {}):
            assert meta["annotations"] == {INITIAL_END: "true"}
            assert int(meta["resourceVersion"]) > 0
            return items
        assert event["type"] == "ADDED", event
        items.append(event["object"])
    raise AssertionError("the stream ended")


def _check(value: Any) -> None:
    """Check that all times within an answer are of the form that Go reads."""
    if isinstance(value, list):
        for inner in value:
            _check(inner)
    if not isinstance(value, dict):
        return
    for key, inner in value.items():
        if inner is not None and key in _TIMES:
            assert _TIME.fullmatch(inner), (key, inner)
        elif inner is not None and key in _MICRO:
            assert _MICRO_TIME.fullmatch(inner), (key, inner)
        else:
            _check(inner)
