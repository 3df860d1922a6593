"""The connection of a test: it keeps what was asked, and can ask once for what is long past."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Any

from policy_sched.client.kube.auth.credentials import ClusterAccess
from policy_sched.client.kube.rest.client import Api
from policy_sched.client.kube.rest.settings import ClientEnvironment, Settings
from policy_sched.client.kube.rest.transport import LineStream
from policy_sched.client.kube.time.work_queue import Clocks

WRITES = frozenset({"POST", "PUT", "PATCH"})
Query = Mapping[str, str]


class Wire(Api):
    """A connection. What it writes must not have a field that the server does not know.

    ``lists`` and ``streams`` keep the queries of what was read. ``instead`` has parameters that
    the next question which names them is asked with, in place of its own.
    """

    def __init__(self, access: ClusterAccess, clocks: Clocks, seed: str) -> None:
        super().__init__(access, ClientEnvironment(clocks, Random(seed)), Settings(qps=0))
        self.lists: list[Query] = []
        self.streams: list[Query] = []
        self.instead: dict[str, str] = {}

    async def request(self, method: str, path: str, body: Any = None, **more: Any) -> bytes:
        """Send a request; strictly, if it writes."""
        query = self._asked(more.pop("query", None))
        if method == "GET":
            self.lists.append(query)
        elif method in WRITES:
            query = {"fieldValidation": "Strict", **query}
        return await super().request(method, path, body, query=query, **more)

    def stream(
        self, path: str, query: Query, silence: float
    ) -> AbstractAsyncContextManager[LineStream]:
        """Open a stream."""
        query = self._asked(query)
        self.streams.append(query)
        return super().stream(path, query, silence)

    def _asked(self, query: Query | None) -> dict[str, str]:
        given = dict(query or {})
        for name in given.keys() & self.instead.keys():
            given[name] = self.instead.pop(name)
        return given
