"""Requests: what is sent, what is tried again, what is never tried again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from policy_sched.client.apimachinery.resources import ApiError
from policy_sched.client.kube.auth.credentials import Fixed, Grant
from policy_sched.client.kube.rest.errors import Malformed, Unreachable
from policy_sched.client.kube.rest.retry import RetryPolicy
from policy_sched.client.kube.rest.settings import Settings
from policy_sched.errors import ClusterError
from tests.client.kube.stage import Asked, Script, Stage, Wire, acted, stage, status


def asked_once(
    script: Script, method: str = "GET", settings: Settings | None = None, **options: Any
) -> tuple[bytes | ClusterError, Stage]:
    """Send one request; return the answer or what was raised."""
    result: list[Any] = []

    async def play() -> None:
        async with stage(script) as here, here.api(settings) as api:
            result.append(here)
            try:
                result.append(await api.request(method, "/x", **options))
            except ClusterError as error:
                result.append(error)

    acted(play())
    return result[1], result[0]


def after(refusals: list[tuple[int, dict[str, str]]]) -> Script:
    """Refuse with each of these, then answer."""
    left = list(refusals)

    async def script(asked: Asked, wire: Wire) -> None:
        if left:
            code, headers = left.pop(0)
            await wire.respond(code, status(code, "Why"), **headers)
        else:
            await wire.respond(200, {"ok": True})

    return script


def test_a_refusal_is_an_error_with_code_reason_and_message() -> None:
    """A Status becomes ApiError; what a proxy writes does too, in short."""

    async def script(asked: Asked, wire: Wire) -> None:
        details = {"name": "web-1", "kind": "pods"}
        await wire.respond(404, status(404, "NotFound", 'pods "web-1" not found', **details))

    error, _ = asked_once(script)
    assert isinstance(error, ApiError)
    assert (error.code, error.reason, error.message) == (404, "NotFound", 'pods "web-1" not found')
    assert error.details["name"] == "web-1"

    async def proxy(asked: Asked, wire: Wire) -> None:
        await wire.respond(403, b"<html>" + b"no entry " * 1000)

    error, _ = asked_once(proxy)
    assert isinstance(error, ApiError)
    assert (error.code, error.reason) == (403, "Forbidden")
    assert len(error.message) < 1200


def test_retry_after_is_respected_for_every_method() -> None:
    """429, and 5xx with Retry-After, are sent again after the time that the server names."""
    answer, here = asked_once(
        after([(429, {"Retry_After": "2"}), (503, {"Retry_After": "3"})]), "POST", body={}
    )
    assert answer == b'{"ok": true}'
    assert here.slept == [2, 3]


def test_retry_after_may_be_a_date() -> None:
    """An HTTP date is a time from now on the wall clock."""
    answer, here = asked_once(after([(429, {"Retry_After": "Fri, 15 Jan 2027 08:00:07 GMT"})]))
    assert answer == b'{"ok": true}'
    assert here.slept == [7]


def test_failures_that_leave_it_open_are_only_repeated_if_that_does_no_harm() -> None:
    """500 without Retry-After: a GET is sent again, a POST is not."""
    answer, here = asked_once(after([(500, {}), (502, {})]), repeatable=True)
    assert answer == b'{"ok": true}'
    assert len(here.asked) == 3
    error, here = asked_once(after([(500, {})]), "POST", body={})
    assert isinstance(error, ApiError)
    assert len(here.asked) == 1


def test_a_broken_connection_may_have_carried_the_request() -> None:
    """A POST whose answer was cut off is not sent again, and the error says that it was sent."""

    async def script(asked: Asked, wire: Wire) -> None:
        await wire.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
        wire.cut()

    error, here = asked_once(script, "POST", body={})
    assert isinstance(error, Unreachable)
    assert error.sent
    assert len(here.asked) == 1


def test_an_unreachable_server_is_retried_until_the_deadline() -> None:
    """A request that never left is sent again whatever it is, for as long as RetryPolicy says."""
    result: list[Any] = []

    async def play() -> None:
        async with stage(after([])) as here:
            here.url = "http://127.0.0.1:1"
            async with here.api(Settings(retry_policy=RetryPolicy(tries=4))) as api:
                with pytest.raises(Unreachable) as caught:
                    await api.request("POST", "/x", {})
            result.extend((caught.value, here))

    acted(play())
    error, here = result
    assert not error.sent
    assert str(error).endswith(": Connection refused"), "in the system's words"
    assert len(here.slept) == 3


def test_the_deadline_holds_despite_retry_after() -> None:
    """A wait that goes beyond the limit is not waited for."""
    error, here = asked_once(after([(429, {"Retry_After": "100"})]))
    assert isinstance(error, ApiError)
    assert here.slept == []


def test_a_slow_answer_is_unreachable() -> None:
    """A server that takes its time beyond the limit is left; the connection is there before."""

    async def script(asked: Asked, wire: Wire) -> None:
        if asked.path == "/first":
            await wire.respond(200, {})
            return
        await wire.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
        await asyncio.Event().wait()

    async def play() -> None:
        async with stage(script) as here, here.api() as api:
            await api.request("POST", "/first", {})
            with pytest.raises(Unreachable) as caught:
                await api.request("POST", "/x", {}, timeout=0.05)
            assert caught.value.sent

    acted(play())


def test_an_answer_without_end_is_not_held() -> None:
    """An answer beyond the limit is Malformed."""

    async def script(asked: Asked, wire: Wire) -> None:
        await wire.respond(200, b"x" * 1000)

    error, _ = asked_once(script, settings=Settings(longest_response=999))
    assert isinstance(error, Malformed)


def test_redirects_are_not_followed() -> None:
    """A redirect is an error: credentials go to no other server."""

    async def script(asked: Asked, wire: Wire) -> None:
        await wire.respond(302, b"", Location="http://127.0.0.1:1/")

    error, here = asked_once(script)
    assert isinstance(error, ApiError)
    assert error.code == 302
    assert len(here.asked) == 1


def test_requests_beyond_the_limit_wait() -> None:
    """After ``burst`` requests at once, the others come ``qps`` a second."""

    async def play() -> None:
        async with stage(after([])) as here, here.api(Settings(qps=10, burst=2)) as api:
            for _ in range(4):
                await api.get("/x")
            assert here.slept == [pytest.approx(0.1), pytest.approx(0.1)]

    acted(play())


class Renewing:
    """Credentials whose first grant is refused."""

    def __init__(self) -> None:
        self.number = 1

    async def grant(self) -> Grant:
        return self.held()

    def held(self) -> Grant:
        return Grant(f"Bearer t{self.number}")

    def refused(self, _grant: Grant, /) -> bool:
        self.number += 1
        return True


def test_a_401_refreshes_the_credentials_once() -> None:
    """After a 401 the request is sent once more; a second 401 is the answer."""

    async def script(asked: Asked, wire: Wire) -> None:
        good = asked.headers["authorization"] == "Bearer t2"
        await wire.respond(200 if good else 401, {} if good else status(401, "Unauthorized"))

    async def play() -> None:
        async with stage(script) as here, here.api(credentials=Renewing()) as api:
            await api.get("/x")
            assert len(here.asked) == 2
        async with stage(script) as here, here.api(credentials=Fixed(Grant("Bearer x"))) as api:
            with pytest.raises(ApiError) as caught:
                await api.get("/x")
            assert caught.value.reason == "Unauthorized"
            assert len(here.asked) == 1

    acted(play())
