"""Requests to an API server: limited, authorized, repeated where that does no harm; and streams.

Theory of operation. A request waits for a token of the client's own limit, then for credentials.
What fails is tried again by the rules of `retries`; a 401 is tried again once, if the credentials
know of something newer. A stream is one response that goes on: its lines are given out as they
come, and the reader decides what to do when it ends. Redirects are not followed: they would carry
the credentials elsewhere.

aiohttp reads, and does all where a proxy is between; else requests with a body and watches have
connections of their own (`connections`).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, timedelta
from functools import cached_property, partial
from typing import Any, Final, Self, TypeVar

import aiohttp
import msgspec
from yarl import URL

from policy_sched.client.apimachinery import ApiError
from policy_sched.client.kube.auth import AccessError, ClusterAccess, Grant
from policy_sched.client.kube.rest import errors, transport
from policy_sched.client.kube.rest.connections import TOGETHER, ConnectionPool
from policy_sched.client.kube.rest.retry import (
    REQUEST_BACKOFF,
    Recovery,
    Room,
    TokenBucket,
    pause_before_retry,
)
from policy_sched.client.kube.rest.settings import ClientEnvironment, Observe, Settings, Traffic
from policy_sched.client.kube.rest.sockets import Response
from policy_sched.client.kube.rest.streams import Stream
from policy_sched.client.kube.time import SECOND, BackoffState
from policy_sched.errors import ClusterError
from policy_sched.model import EPOCH

MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
USER_AGENT: Final = "policy-sched"
IDENTITY: Final = {"Accept-Encoding": "identity"}
"""Says that a response is to be sent as it is; streams are never compressed (as client-go)."""
REFUSED: Final = 300
"""The lowest status that is no success; redirects are not followed."""
ASIDE: Final = 8
"""Connections of what goes ``aside``: events, for which nothing waits."""
TOGETHER_ASIDE: Final = ASIDE * TOGETHER
"""Requests that are under way ``aside`` at once."""
ERROR_BYTES: Final = 1 << 20
"""Bytes of a refusal that are read."""
ResponseT = TypeVar("ResponseT", Response, Stream)
Begin = Callable[
    [transport.OutgoingRequest, Grant, ssl.SSLContext | None, float], Awaitable[ResponseT]
]
"""Sends a request within so many seconds, and returns its response."""
_PLAIN: Final[Mapping[str, str]] = {}
HIDDEN: Final = b"(hidden)"
"""Stands for credentials that a response repeats."""
NO_RESPONSE: Final = "<error>"
"""Stands for the status of a request without a response (client-go's)."""


def nothing() -> None:
    """Check nothing."""


class NewerCredentials(ClusterError):  # noqa: N818 - it is no failure of the request
    """The credentials of a try were refused, and there may be newer ones."""


class NotBegun(ClusterError):  # noqa: N818 - it is no failure of the request
    """The first try of a request was not made: it has to wait for something."""


class WriteRefused(ClusterError):  # noqa: N818 - intended, no mistake
    """This client only reads."""


class _Limits(msgspec.Struct, frozen=True):
    """How many requests a second, and how many at once."""

    bucket: TokenBucket
    room: Room


class Api:
    """One server as one identity. Use as an async context manager.

    ``recovery`` may be shared with other connections to the same server.
    """

    def __init__(
        self,
        access: ClusterAccess,
        environment: ClientEnvironment,
        settings: Settings | None = None,
        recovery: Recovery | None = None,
    ) -> None:
        self.access = access
        self.environment = environment
        self.settings = settings or Settings()
        self.recovery = recovery or Recovery(environment.clocks.monotonic)
        self._limits = tuple(map(self._own_limits, (self.settings.connections, TOGETHER_ASIDE)))
        self._tls = transport.TlsContexts(access.trust, environment.clocks.monotonic)
        self.observe: Observe | None = None
        self.traffic: Traffic | None = None
        self._session: aiohttp.ClientSession | None = None
        self._connections: tuple[ConnectionPool, ...] = ()
        """Those of writes, and those of what goes ``aside``; none behind a proxy."""
        self._server = URL(access.server, encoded=True)
        self._authority = self._server.authority
        self._secure = self._server.scheme == "https"

    async def __aenter__(self) -> Self:
        access, settings = self.access, self.settings
        headers = (("User-Agent", USER_AGENT), ("Accept", transport.JSON), *access.headers)
        self._session = aiohttp.ClientSession(
            connector=transport.connector_of(access.proxy),
            headers=headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("Content-Type",),
        )
        if not access.proxy:
            self._connections = tuple(
                ConnectionPool(
                    self._server,
                    (*headers, *IDENTITY.items()),
                    access.trust.server_name,
                    connect=settings.connect,
                    longest=settings.longest_response,
                    most=most,
                    together=together,
                )
                for most, together in ((settings.connections, False), (ASIDE, True))
            )
        return self

    async def __aexit__(self, *_: object) -> None:
        for connections in self._connections:
            connections.close()
        if self._session is not None:
            await self._session.close()

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """Return the response to a GET. Raises ApiError, Unreachable, AccessError."""
        return await self.request("GET", path, query=query, repeatable=True)

    async def request(  # noqa: PLR0913  # a request has these parts; most are keywords
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = transport.JSON,
        repeatable: bool = False,
        timeout: float | None = None,
        check: Callable[[], None] = nothing,
        aside: bool = False,
        failed: ClusterError | None = None,
        accept: str = "",
    ) -> bytes:
        """Send a request, again if need be, and return the body of the response.

        ``body`` is anything that msgspec encodes as JSON, or the very bytes. ``repeatable``:
        sending it twice does the same as once. ``timeout``: seconds for one try. ``check`` is
        called right before each try, and may raise ClusterError. ``aside``: within limits of its
        own, so that it neither waits for others nor keeps them waiting. ``failed``: the failure of
        the first try, which `begin` has made. ``accept``: types of a response to a request without
        a body, instead of JSON. Raises ApiError for a refusal, Unreachable without a response,
        Malformed for one of another type, AccessError without credentials.
        """
        data = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        headers = _PLAIN if self.access.compression else IDENTITY
        if accept:
            headers = {**headers, "Accept": accept}
        sending = transport.OutgoingRequest(
            method, path, query or _PLAIN, data, content_type, headers
        )
        began = self.environment.clocks.monotonic()
        pauses: BackoffState | None = None
        tries = 0
        limits = self._limits[aside]
        if isinstance(failed, NewerCredentials | NotBegun):
            failed = None
        while True:
            tries += 1
            if failed is None:
                wait = self._throttle(limits.bucket, method)
                if wait > 0:
                    await self._wait_for_token(limits.bucket, wait)
                await limits.room.enter()
                try:
                    check()
                    return await self._try(sending, timeout or self.settings.timeout, aside=aside)
                except ClusterError as error:
                    failed = error
                finally:
                    limits.room.leave()
            self.recovery.failed(failed)
            if pauses is None:
                pauses = self._pauses()
            pause = pause_before_retry(failed, pauses, repeatable=repeatable)
            if pause is None or not self._may_try_again(tries, began, pause):
                try:
                    raise failed
                finally:
                    failed = None  # it keeps this call
            requested, failed = errors.wait_of(failed) is not None, None
            await self.pause(pause, requested=requested)

    def begin(  # noqa: PLR0913  # a request has these parts; most are keywords
        self,
        method: str,
        path: str,
        body: Any,
        done: Callable[[ClusterError | None], None],
        *,
        content_type: str = transport.JSON,
        check: Callable[[], None] = nothing,
        aside: bool = False,
    ) -> bool:
        """Make the first try of a request without a task, if it waits for nothing but its turn.

        Returns whether it is sent, or will be in its turn: it overtakes no earlier request, so that
        bindings arrive in the order of the decisions. ``done`` is called later, once: with None for
        success, or with the failure, with which `request` goes on. The other parts are those of
        `request`.
        """
        if not self._connections or self.settings.read_only:
            return False
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        sending = transport.OutgoingRequest(method, path, _PLAIN, data, content_type, IDENTITY)
        limits = self._limits[aside]
        if not limits.room.try_enter():
            begin = partial(self._begin_in_turn, sending, limits, check, done, aside=aside)
            limits.room.enter_later(begin)
            return True
        if self._begun(sending, limits, check, done, aside=aside):
            return True
        limits.room.leave()
        return False

    def _begin_in_turn(
        self,
        sending: transport.OutgoingRequest,
        limits: _Limits,
        check: Callable[[], None],
        done: Callable[[ClusterError | None], None],
        *,
        aside: bool,
    ) -> None:
        """Begin a request that has waited for room."""
        if not self._begun(sending, limits, check, done, aside=aside):
            asyncio.get_running_loop().call_soon(self._not_begun, limits.room, done)

    @staticmethod
    def _not_begun(room: Room, done: Callable[[ClusterError | None], None]) -> None:
        room.leave()
        done(NotBegun("it has to wait"))

    def _begun(
        self,
        sending: transport.OutgoingRequest,
        limits: _Limits,
        check: Callable[[], None],
        done: Callable[[ClusterError | None], None],
        *,
        aside: bool,
    ) -> bool:
        """Send a request that has room; return False if it has to wait for anything else."""
        connections, taken = self._connections[aside], False
        if not connections.ready:
            return False
        try:
            check()
            grant = self.access.credentials.held()
            if grant is None or not limits.bucket.try_take():
                return False
            taken = True
            began = self.environment.clocks.monotonic()
            responded = partial(self._responded, sending, grant, limits.room, began, done)
            context = self._tls.of(grant.certificate) if self._secure else None
            sent = connections.begin(sending, grant, context, self.settings.timeout, responded)
        except ClusterError:
            sent = False  # `request` raises it
        if not sent:
            if taken:
                limits.bucket.give_back()
            return False
        if self.traffic is not None:
            self.traffic.throttled(sending.method, self._authority, 0.0)
        return True

    def _responded(  # what was begun has these parts
        self,
        sending: transport.OutgoingRequest,
        grant: Grant,
        room: Room,
        began: int,
        done: Callable[[ClusterError | None], None],
        response: Response | Exception,
    ) -> None:
        """Take the response to what was begun."""
        room.leave()
        if self.observe is not None:
            code = NO_RESPONSE if isinstance(response, Exception) else str(response.status)
            took = (self.environment.clocks.monotonic() - began) / SECOND
            self.observe(code, sending.method, self._authority, took)
        if isinstance(response, Exception):
            done(transport.translation(sending, response))
            return
        try:
            self._accept(sending, grant, response)
        except ClusterError as error:
            done(error.with_traceback(None))
        else:
            done(None)

    def _accept(self, sending: transport.OutgoingRequest, grant: Grant, response: Response) -> None:
        """Raise what a response means, unless it is a success."""
        if response.status == errors.UNAUTHORIZED and self.access.credentials.refused(grant):
            raise NewerCredentials(f"{sending}: the credentials were refused")
        self._checked(sending, grant, response)
        if response.body is None:
            raise self._too_long(sending)
        self.succeeded(sending, response.body)

    def _pauses(self) -> BackoffState:
        environment = self.environment
        return BackoffState(REQUEST_BACKOFF, environment.clocks.monotonic, environment.random)

    def _may_try_again(self, tries: int, began: int, pause: float) -> bool:
        """Return whether a request that began then may be sent again after a pause."""
        policy, now = self.settings.retry_policy, self.environment.clocks.monotonic()
        return tries < policy.tries and now + pause * SECOND <= began + round(
            policy.seconds * SECOND
        )

    async def pause(self, seconds: float, *, requested: bool = False) -> bool:
        """Wait before something is tried again; not longer than the server is away.

        ``requested``: the server named the time, and the wait is not cut short. Returns
        whether the server came back meanwhile.
        """
        if not requested:
            return await self.recovery.pause(self.environment.sleep, seconds)
        await self.environment.sleep(seconds)
        return False

    @asynccontextmanager
    async def stream(
        self, path: str, query: Mapping[str, str], silence: float
    ) -> AsyncIterator[transport.LineStream]:
        """Open a stream; what is yielded gives its lines.

        A server that sends nothing for ``silence`` seconds is Unreachable. Nothing is tried
        again. Raises ApiError, Unreachable, Malformed, AccessError, here or while reading.
        """
        bucket = self._limits[0].bucket
        wait = self._throttle(bucket, "GET")
        if wait > 0:
            await self._wait_for_token(bucket, wait)
        sending = transport.OutgoingRequest("GET", path, query, None, transport.JSON, IDENTITY)
        opened = self._streamed if self._connections else self._proxied
        with transport.translated(sending):
            async with opened(sending, silence) as (content_type, lines):
                transport.check_content(sending, content_type or transport.JSON)
                yield lines

    # Inside.

    @asynccontextmanager
    async def _streamed(
        self, sending: transport.OutgoingRequest, silence: float
    ) -> AsyncIterator[tuple[str, transport.LineStream]]:
        """Yield the content type and the lines of a response that is no refusal."""
        credentials, stream = self.access.credentials, self._connections[0].stream
        grant = await credentials.grant()
        opened = await self._measured(stream, sending, grant, silence)
        try:
            if opened.response.status == errors.UNAUTHORIZED and credentials.refused(grant):
                opened.close()
                grant = await credentials.grant()
                opened = await self._measured(stream, sending, grant, silence)
            response = opened.response
            if response.status >= REFUSED:
                response.body = await opened.body(ERROR_BYTES)
                raise self._refusal(response, grant)
            async with aclosing(opened.pieces()) as pieces:
                yield response.content_type, transport.LineStream(pieces, opened.direct, opened.end)
        finally:
            opened.close()

    @asynccontextmanager
    async def _proxied(
        self, sending: transport.OutgoingRequest, silence: float
    ) -> AsyncIterator[tuple[str, transport.LineStream]]:
        """Do so through a proxy."""
        connect = self.settings.connect
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect, sock_read=silence)
        response = await self._opened(sending, timeout)
        try:
            lines = transport.LineStream(response.content.iter_any())
            yield response.headers.get("Content-Type", ""), lines
        finally:
            transport.let_go(response)

    @cached_property
    def _prefix(self) -> str:
        return self._server.raw_path.rstrip("/")

    def _own_limits(self, requests: int) -> _Limits:
        bucket = TokenBucket(
            self.environment.clocks.monotonic, self.settings.qps, self.settings.burst
        )
        return _Limits(bucket, Room(requests))

    def _throttle(self, bucket: TokenBucket, method: str) -> float:
        """Take a token of the client's limit; return the seconds until it is available."""
        wait = bucket.take()
        if self.traffic is not None:
            self.traffic.throttled(method, self._authority, wait)
        return wait

    async def _wait_for_token(self, bucket: TokenBucket, wait: float) -> None:
        try:
            await self.environment.sleep(wait)
        except asyncio.CancelledError:
            bucket.give_back()
            raise

    async def _try(
        self, sending: transport.OutgoingRequest, seconds: float, *, aside: bool
    ) -> bytes:
        try:
            if sending.data is None or sending.query or not self._connections:
                body = await self._read(sending, seconds)
            else:
                body = await self._write(sending, seconds, self._connections[aside])
        except transport.TROUBLE as error:
            raise transport.translation(sending, error) from None
        if body is None:
            raise self._too_long(sending)
        self.succeeded(sending, body)
        return body

    def _too_long(self, sending: transport.OutgoingRequest) -> errors.Malformed:
        limit = self.settings.longest_response
        return errors.Malformed(f"{sending}: the response is longer than {limit} bytes")

    def succeeded(self, sending: transport.OutgoingRequest, body: bytes) -> None:
        """Note that a request had a response."""
        self.recovery.reached()
        if self.traffic is not None:
            sent = None if sending.data is None else len(sending.data)
            self.traffic.sized(sending.method, self._authority, sent, len(body))

    async def _read(self, sending: transport.OutgoingRequest, seconds: float) -> bytes | None:
        """Return the body of a response that may be long; None if it is too long."""
        response = await self._opened(sending, transport.whole(seconds, self.settings.connect))
        try:
            transport.check_content(sending, response.headers.get("Content-Type", transport.JSON))
            return await transport.read_within(response, self.settings.longest_response)
        finally:
            transport.let_go(response)

    async def _write(
        self, sending: transport.OutgoingRequest, seconds: float, connections: ConnectionPool
    ) -> bytes | None:
        """Send a request that has a body, once, or twice after a 401; return what comes back."""
        credentials = self.access.credentials
        grant = await credentials.grant()
        exchange = connections.exchange
        response = await self._measured(exchange, sending, grant, seconds)
        if response.status == errors.UNAUTHORIZED and credentials.refused(grant):
            grant = await credentials.grant()
            response = await self._measured(exchange, sending, grant, seconds)
        self._checked(sending, grant, response)
        return response.body

    def _checked(
        self, sending: transport.OutgoingRequest, grant: Grant, response: Response
    ) -> None:
        """Raise the refusal that a response is, or that it is no JSON."""
        if response.status >= REFUSED:
            raise self._refusal(response, grant)
        transport.check_content(sending, response.content_type or transport.JSON)

    async def _measured(
        self,
        begin: Begin[ResponseT],
        sending: transport.OutgoingRequest,
        grant: Grant,
        within: float,
    ) -> ResponseT:
        """Send a request, and return its response, within so many seconds."""
        if self.settings.read_only and not transport.reads(sending):
            raise WriteRefused(f"{sending}: this client only reads")
        context = self._tls.of(grant.certificate) if self._secure else None
        now, code = self.environment.clocks.monotonic, NO_RESPONSE
        began = now()
        try:
            response = await begin(sending, grant, context, within)
            code = str((response.response if isinstance(response, Stream) else response).status)
        except AccessError:
            self._tls.doubted()
            raise
        finally:
            if self.observe is not None:
                self.observe(code, sending.method, self._authority, (now() - began) / SECOND)
        return response

    async def _opened(
        self, sending: transport.OutgoingRequest, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        """Send a request once, or twice after a 401; return a response that is no refusal."""
        credentials = self.access.credentials
        grant = await credentials.grant()
        response = await self._send(sending, grant, timeout)
        if response.status < REFUSED:
            return response
        if response.status == errors.UNAUTHORIZED and credentials.refused(grant):
            response.release()
            grant = await credentials.grant()
            response = await self._send(sending, grant, timeout)
        if response.status < REFUSED:
            return response
        try:
            body = await transport.read_within(response, ERROR_BYTES)
        finally:
            transport.let_go(response)
        retry = response.headers.get("Retry-After")
        raise self._refusal(Response(response.status, "", retry, body), grant)

    async def _send(
        self, sending: transport.OutgoingRequest, grant: Grant, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        assert self._session is not None, "use `async with`"
        if self.settings.read_only and not transport.reads(sending):
            raise WriteRefused(f"{sending}: this client only reads")
        headers = dict(sending.headers)
        if sending.data is not None:
            headers["Content-Type"] = sending.content_type
        if grant.authorization:
            headers["Authorization"] = grant.authorization
        access = self.access
        url = self._server.with_path(self._prefix + sending.path, encoded=True)
        if sending.query:
            url = url.with_query(dict(sending.query))
        now, code = self.environment.clocks.monotonic, NO_RESPONSE
        began = now()
        try:
            response = await self._session.request(
                sending.method,
                url,
                data=sending.data,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
                proxy=transport.proxy_argument(access.proxy),
                ssl=self._tls.of(grant.certificate) if self._secure else True,
                server_hostname=access.trust.server_name or None,
            )
            code = str(response.status)
        except aiohttp.ClientSSLError:
            self._tls.doubted()
            raise
        finally:
            if self.observe is not None:
                self.observe(code, sending.method, self._authority, (now() - began) / SECOND)
        return response

    def _refusal(self, response: Response, grant: Grant) -> ApiError:
        body = (response.body or b"")[:ERROR_BYTES]
        credential = grant.authorization.partition(" ")[2].encode()
        if credential:  # a proxy may respond with the request that it got
            body = body.replace(credential, HIDDEN)
        error = errors.error_of_response(response.status, body)
        now = EPOCH + timedelta(microseconds=self.environment.clocks.wall() // 1000)
        seconds = errors.retry_after(response.retry_after, now.astimezone(UTC))
        if seconds is not None:
            error.details = {**error.details, "retryAfterSeconds": seconds}
        return error
