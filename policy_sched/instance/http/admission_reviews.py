"""The endpoint /validate: an API server asks whether an object of our kinds may be stored.

Theory of operation. An object is judged alone, beside the default plugins, in a process of its own
with limits of time and memory: what a hostile policy does to a compiler it does to that process,
and neither decisions nor leases wait for it. One object is judged at a time, few wait, and bodies
are bounded, as API servers state no credentials. What is not answered in time is let in by a
webhook that ignores failures, and judged by the watch.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, Self

import msgspec
from aiohttp import StreamReader

from policy_sched.errors import PolicySchedError, Severity
from policy_sched.profiles import reload
from policy_sched.profiles.load import ObjectProblem, PolicyObject
from policy_sched.profiles.models import POLICY_API_VERSION

MOST_BYTES: Final = 4 << 20
"""Bytes of a review: an object as it is to be, and as it was."""
WAITING: Final = 8
"""Reviews that wait for their turn, at most."""
LIMITS: Final = reload.ProcessLimits(processor_time=5, memory=2**29)
"""Less than for a reload: the API server waits."""
MOST_WARNINGS: Final = 10
_REVIEW: Final = ("admission.k8s.io/v1", "AdmissionReview")

Plain = dict[str, Any]


class _Kind(msgspec.Struct):
    group: str = ""
    version: str = ""
    kind: str = ""


class _Request(msgspec.Struct):
    uid: str
    kind: _Kind
    operation: str = ""
    object: dict[str, Any] | None = None


class _Review(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: _Request | None = None


class BadReview(PolicySchedError):  # noqa: N818 - a response, not a failure
    """The body is no AdmissionReview."""


class BusyReviews(PolicySchedError):  # noqa: N818 - a response, not a failure
    """Too many reviews are waiting."""


class _JudgingProcess(reload.LimitedProcess[PolicyObject, Sequence[ObjectProblem]]):
    name = "the check"


async def read(content: StreamReader) -> bytes:
    """Return a body. Raises BadReview if it has more than `MOST_BYTES`."""
    body = bytearray()
    async for chunk in content.iter_any():
        body += chunk
        if len(body) > MOST_BYTES:
            raise BadReview(f"the body has more than {MOST_BYTES} bytes")
    return bytes(body)


class AdmissionReviews:
    """Judges objects; a context that ends the process when it is left.

    ``max_cost_limit``: the most that a policy's annotation may let its rules cost.
    """

    def __init__(self, max_cost_limit: int, limits: reload.ProcessLimits = LIMITS) -> None:
        self._process = _JudgingProcess(
            partial(reload.judged_alone, max_cost_limit=max_cost_limit), limits, reload.warmed
        )
        self._turn = asyncio.Lock()
        self._waiting = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        """End the process."""
        self._process.__exit__(*raised)

    @property
    def pid(self) -> int:
        """The process that judges."""
        return self._process.pid

    @asynccontextmanager
    async def admitted(self) -> AsyncIterator[None]:
        """Count a review from its first byte on. Raises BusyReviews if there are too many."""
        if self._waiting >= WAITING:
            raise BusyReviews("too many reviews are waiting")
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    async def review(self, body: bytes) -> Plain:
        """Return the answer to an AdmissionReview. Raises BadReview if the body is none."""
        try:
            review = msgspec.json.decode(body, type=_Review)
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            raise BadReview(f"the body is no AdmissionReview: {error}") from None
        request = review.request
        if (review.api_version, review.kind) != _REVIEW or request is None:
            raise BadReview(f"the body is no AdmissionReview of {_REVIEW[0]}")
        response: Plain = {"uid": request.uid, "allowed": True}
        own = f"{request.kind.group}/{request.kind.version}" == POLICY_API_VERSION
        if request.object is not None and own:
            response |= await self._judged(request.kind.kind, request.object)
        return {"apiVersion": _REVIEW[0], "kind": _REVIEW[1], "response": response}

    async def _judged(self, kind: str, data: Plain) -> Plain:
        """Return what the answer says of an object."""
        given = _as_listed(kind, data)
        try:
            async with self._turn:
                problems = await asyncio.to_thread(self._ask, given)
        except reload.NoResultError as error:
            text = f"{given.kind} {given.name} cannot be judged: {error}"
            return _denied(f"{text}; it would be refused by the scheduler, too")
        errors = [problem for problem in problems if problem.severity is Severity.ERROR]
        others = [problem.text for problem in problems if problem not in errors]
        answer: Plain = {"warnings": others[:MOST_WARNINGS]} if others else {}
        if errors:
            lines = "\n".join(problem.text for problem in errors)
            answer |= _denied(f"{given.kind} {given.name} is not valid:\n{lines}")
        return answer

    def _ask(self, given: PolicyObject) -> Sequence[ObjectProblem]:
        self._process.begin(given)
        return self._process.result()


def _as_listed(kind: str, data: Plain) -> PolicyObject:
    """Return an object as the watch would read it: without managers and status."""
    meta = data.get("metadata")
    meta = {k: v for k, v in meta.items() if k != "managedFields"} if isinstance(meta, dict) else {}
    meta.setdefault("resourceVersion", "0")  # a line that it has when it is stored
    name = meta.get("name")
    raw = {**{k: v for k, v in data.items() if k != "status"}, "metadata": meta}
    return PolicyObject(name if isinstance(name, str) else "", msgspec.json.encode(raw), kind=kind)


def _denied(message: str) -> Plain:
    status = {"code": 422, "reason": "Invalid", "message": message}
    return {"allowed": False, "status": status}
