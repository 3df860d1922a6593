"""Connections of requests that write: what is kept, what is closed, and how answers end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from policy_sched.client.kube.auth.credentials import AccessError, ClusterAccess, Fixed, Grant
from policy_sched.client.kube.rest.client import ASIDE, Api, NotBegun
from policy_sched.client.kube.rest.connections import TOGETHER
from policy_sched.client.kube.rest.errors import Malformed, Unreachable
from policy_sched.client.kube.rest.retry import RetryPolicy, Room
from policy_sched.client.kube.rest.settings import Settings
from policy_sched.errors import ClusterError
from tests.client.kube.stage import Asked, Script, Stage, Wire, acted, stage

ONCE = Settings(retry_policy=RetryPolicy(tries=1))
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def sent_bytes(answer: bytes, *, cut: bool = False) -> Any:
    """Send one request to a server that answers with these bytes; return the body."""
    found: list[Any] = []

    async def script(asked: Asked, wire: Wire) -> None:
        await wire.raw(answer)
        if cut:
            wire.writer.close()

    async def play() -> None:
        async with stage(script) as here, here.api(ONCE) as api:
            found.append(await api.request("POST", "/x", {}))

    acted(play())
    return found[0]


ANSWERS = {
    "a length": (OK, False),
    "chunks": (
        b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
        False,
    ),
    "the end of the connection": (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{}",
        True,
    ),
    "an interim answer before it": (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK, False),
}


@pytest.mark.parametrize(("answer", "cut"), ANSWERS.values(), ids=ANSWERS)
def test_every_form_of_an_answer_is_read(answer: bytes, cut: bool) -> None:
    """Bodies end by their length, by a last chunk, or with the connection."""
    assert sent_bytes(answer, cut=cut) == b"{}"


def test_an_answer_without_a_body_is_empty() -> None:
    """204 has none."""
    assert sent_bytes(b"HTTP/1.1 204 No Content\r\n\r\n") == b""


BROKEN = {
    "within the head": (b"HTTP/1.1 200 OK\r\nContent-", "Server disconnected"),
    "within the body": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}",
        "the response broke off",
    ),
    "before anything": (b"", "Server disconnected"),
}


@pytest.mark.parametrize(("answer", "why"), BROKEN.values(), ids=BROKEN)
def test_an_answer_that_breaks_off_leaves_open_what_was_done(answer: bytes, why: str) -> None:
    """The request may have been carried out."""
    with pytest.raises(Unreachable, match=why) as caught:
        sent_bytes(answer, cut=True)
    assert caught.value.sent


def test_what_is_no_http_is_an_answer_that_broke_off() -> None:
    """Its text is not repeated."""
    with pytest.raises(Unreachable, match="the response broke off"):
        sent_bytes(b"SSH-2.0-OpenSSH_9.2\r\n")


def test_an_answer_has_at_most_so_many_bytes() -> None:
    """A longer one is given up while it comes."""

    async def script(asked: Asked, wire: Wire) -> None:
        await wire.respond(200, b" " * 5000)

    async def play() -> None:
        async with stage(script) as here, here.api(Settings(longest_response=4999)) as api:
            with pytest.raises(Malformed, match="longer than 4999 bytes"):
                await api.request("POST", "/x", {})

    acted(play())


def connections(script: Script, play: Any, settings: Settings = ONCE) -> list[Wire]:
    """Return the connection of each request of a play."""
    wires: list[Wire] = []

    async def noted(asked: Asked, wire: Wire) -> None:
        wires.append(wire)
        await script(asked, wire)

    async def acting() -> None:
        async with stage(noted) as here, here.api(settings) as api:
            await play(api, here)

    acted(acting())
    return wires


async def ok(asked: Asked, wire: Wire) -> None:
    """Answer well."""
    await wire.raw(OK)


def test_a_connection_serves_one_request_after_another() -> None:
    """Requests at the same time have one each; later ones use them again."""

    async def play(api: Api, here: Stage) -> None:
        for _ in range(3):
            await api.request("POST", "/x", {})
        await asyncio.gather(*(api.request("PATCH", "/x", {}) for _ in range(2)))
        await api.request("DELETE", "/x", {})

    wires = connections(ok, play)
    assert len(wires) == 6
    assert len({id(wire) for wire in wires}) == 2


def test_requests_that_open_connections_are_sent_in_their_order() -> None:
    """Bindings of a burst arrive as they were decided, although each opens a connection."""

    async def play() -> None:
        async with stage(ok) as here, here.api(Settings(connections=30)) as api:
            requests = (api.request("POST", f"/{i:02}", {}) for i in range(20))
            await asyncio.gather(*requests)
            paths = [one.path for one in here.asked]
            assert paths == sorted(paths)
            assert len(paths) == 20

    acted(play())


def test_a_server_that_closes_after_an_answer_gets_a_new_connection() -> None:
    """Connection: close is respected."""

    async def script(asked: Asked, wire: Wire) -> None:
        await wire.respond(200, {}, Connection="close")

    async def play(api: Api, here: Stage) -> None:
        for _ in range(2):
            await api.request("POST", "/x", {})

    assert len({id(wire) for wire in connections(script, play)}) == 2


@pytest.mark.parametrize(
    ("method", "tries"), [("PUT", 3), ("DELETE", 3), ("POST", 2), ("PATCH", 2)]
)
def test_only_an_idempotent_request_is_repeated_on_a_new_connection(
    method: str, tries: int
) -> None:
    """The server closes the kept connection when the second request comes."""
    requests: list[str] = []

    async def script(asked: Asked, wire: Wire) -> None:
        requests.append(asked.method)
        if len(requests) == 2:
            wire.cut()
        else:
            await wire.raw(OK)

    async def play(api: Api, here: Stage) -> None:
        await api.request(method, "/x", {})
        if tries == 3:
            await api.request(method, "/x", {})
            return
        with pytest.raises(Unreachable):
            await api.request(method, "/x", {})

    assert len(connections(script, play)) == tries


async def _warm(api: Api, connections: int, *, aside: bool = False) -> None:
    """Have so many connections kept."""
    requests = (api.request("POST", "/warm", {}, aside=aside) for _ in range(connections))
    await asyncio.gather(*requests)


async def _told(told: list[Any], count: int) -> None:
    while len(told) < count:
        await asyncio.sleep(0)


def test_requests_of_one_turn_are_one_write() -> None:
    """Each event had a connection and a system call of its own."""
    told: list[Any] = []

    async def play(api: Api, here: Stage) -> None:
        await _warm(api, 2, aside=True)
        for number in range(TOGETHER):
            assert api.begin("POST", f"/{number}", {}, told.append, aside=True)
        await _told(told, TOGETHER)
        assert [one.path for one in here.asked[2:]] == [f"/{n}" for n in range(TOGETHER)]
        assert api.begin("POST", "/later", {}, told.append, aside=True)
        await _told(told, TOGETHER + 1)

    wires = connections(ok, play)
    assert told == [None] * (TOGETHER + 1)
    assert len({id(wire) for wire in wires[2:]}) == 1


def test_a_burst_has_few_connections() -> None:
    """A burst of pods that fit nowhere opened 128 connections, for conditions and events."""
    told: list[Any] = []

    async def play(api: Api, here: Stage) -> None:
        for aside in (False, True):
            patches = (api.request("PATCH", f"/{n}", {}, aside=aside) for n in range(60))
            await asyncio.gather(*patches)
            for number in range(60):
                assert api.begin("POST", f"/c{number}", {}, told.append, aside=aside)
        await _told(told, 120)

    wires = connections(ok, play, Settings(qps=0))
    assert len(wires) == 240
    assert len({id(wire) for wire in wires}) == Settings().connections + ASIDE


def test_an_event_joins_others_where_no_more_connections_may_be_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It does not wait until one is free; its answer comes after theirs."""
    go = asyncio.Event()
    monkeypatch.setattr("policy_sched.client.kube.rest.client.ASIDE", 1)

    async def script(asked: Asked, wire: Wire) -> None:
        if asked.path == "/slow":
            await go.wait()
        await wire.raw(OK)

    async def play(api: Api, here: Stage) -> None:
        told: list[Any] = []
        await _warm(api, 1, aside=True)
        assert api.begin("POST", "/slow", {}, told.append, aside=True)
        while len(here.asked) < 2:
            await asyncio.sleep(0)
        assert api.begin("POST", "/joins", {}, told.append, aside=True)
        go.set()
        await _told(told, 2)
        assert told == [None, None]

    assert len({id(wire) for wire in connections(script, play)}) == 1


@pytest.mark.parametrize("form", ["close", "cut", "garbage"])
def test_what_shares_a_connection_that_ends_may_have_been_done(form: str) -> None:
    """The first was answered; of the others nobody knows, so their fate is looked up."""

    async def script(asked: Asked, wire: Wire) -> None:
        if asked.path == "/warm" or (asked.path == "/0" and form != "close"):
            await wire.raw(OK)
        elif asked.path == "/0":
            await wire.respond(200, {}, Connection="close")
        elif form == "garbage":
            await wire.raw(b"SSH-2.0-OpenSSH_9.2\r\n")
        else:
            wire.cut()

    async def play(api: Api, here: Stage) -> None:
        told: list[Any] = []
        await _warm(api, 1, aside=True)
        for number in range(3):
            assert api.begin("POST", f"/{number}", {}, told.append, aside=True)
        await _told(told, 3)
        assert [type(one) for one in told] == [type(None), Unreachable, Unreachable]
        assert all(one.sent for one in told[1:])
        await api.request("POST", "/warm", {})

    connections(script, play)


def test_a_cancelled_request_leaves_those_behind_it_alone() -> None:
    """Its answer is read and dropped."""
    go = asyncio.Event()

    async def script(asked: Asked, wire: Wire) -> None:
        if asked.path == "/cancelled":
            await go.wait()
        await wire.respond(200, {"path": asked.path})

    async def play(api: Api, here: Stage) -> None:
        first = asyncio.create_task(api.request("POST", "/cancelled", {}))
        while not here.asked:
            await asyncio.sleep(0)
        second = asyncio.create_task(api.request("POST", "/behind", {}))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        go.set()
        assert b"/behind" in await second

    assert len({id(wire) for wire in connections(script, play, Settings(connections=1))}) == 1


def test_an_answer_that_was_not_requested_ends_the_connection() -> None:
    """It must not be taken for the answer of the next request."""

    async def script(asked: Asked, wire: Wire) -> None:
        await wire.raw(OK + OK)

    async def play(api: Api, here: Stage) -> None:
        for _ in range(2):
            await api.request("POST", "/x", {})

    assert len({id(wire) for wire in connections(script, play)}) == 2


def test_the_connection_of_a_cancelled_request_is_not_used_again() -> None:
    """Its answer may still come."""
    hang = asyncio.Event()

    async def script(asked: Asked, wire: Wire) -> None:
        if asked.path == "/slow":
            hang.set()
            await asyncio.Event().wait()
        await wire.raw(OK)

    async def play(api: Api, here: Stage) -> None:
        task = asyncio.create_task(api.request("POST", "/slow", {}))
        await hang.wait()
        task.cancel()
        await asyncio.wait([task])
        await api.request("POST", "/x", {})

    assert len({id(wire) for wire in connections(script, play)}) == 2


def test_a_request_without_an_answer_ends_in_time() -> None:
    """The server may have carried it out.

    The time began before there was a connection, which a busy machine had not made in 10 ms.
    """

    async def script(asked: Asked, wire: Wire) -> None:
        if asked.path == "/warm":
            await wire.raw(OK)
        else:
            await asyncio.Event().wait()

    async def play(api: Api, here: Stage) -> None:
        await _warm(api, 1)
        with pytest.raises(Unreachable, match="no response in time") as caught:
            await api.request("POST", "/x", {}, timeout=0.01)
        assert caught.value.sent

    connections(script, play)


def test_each_request_ends_in_its_own_time() -> None:
    """A request that began later and has less time is given up first; the other is answered."""

    async def play() -> None:
        both, given_up = asyncio.Barrier(2), asyncio.Event()

        async def script(asked: Asked, wire: Wire) -> None:
            if asked.path == "/short":
                await given_up.wait()
            elif asked.path == "/long":
                await given_up.wait()
                await wire.raw(OK)
            else:
                await both.wait()  # so that two connections are kept
                await wire.raw(OK)

        async with stage(script) as here, here.api(ONCE) as api:
            await asyncio.gather(api.request("POST", "/a", {}), api.request("POST", "/b", {}))
            long = asyncio.create_task(api.request("POST", "/long", {}))
            await asyncio.sleep(0)
            with pytest.raises(Unreachable, match="no response in time"):
                await api.request("POST", "/short", {}, timeout=0.01)
            given_up.set()
            assert await long == b"{}"

    acted(play())


def test_headers_are_those_of_the_access() -> None:
    """Impersonation, credentials, one Host, and a body of JSON that is not to be compressed."""
    headers = (("Impersonate-User", "a"), ("Impersonate-Group", "b"), ("Impersonate-Group", "c"))
    found: list[Asked] = []

    async def script(asked: Asked, wire: Wire) -> None:
        found.append(asked)
        await wire.raw(OK)

    async def play() -> None:
        async with stage(script) as here:
            url = f"{here.url}/below/"
            access = ClusterAccess(url, credentials=Fixed(Grant("Bearer t")), headers=headers)
            async with Api(access, here.environment, ONCE) as api:
                await api.request(
                    "PATCH", "/x", {"a": 1}, content_type="application/merge-patch+json"
                )

    acted(play())
    (asked,) = found
    assert (asked.method, asked.path, asked.json) == ("PATCH", "/below/x", {"a": 1})
    assert [line for line in asked.lines if line.startswith("Impersonate")] == [
        f"{name}: {value}" for name, value in headers
    ]
    assert asked.headers["authorization"] == "Bearer t"
    assert asked.headers["content-type"] == "application/merge-patch+json"
    assert asked.headers["accept-encoding"] == "identity"
    assert asked.headers["user-agent"] == "policy-sched"
    assert asked.headers["host"].startswith("127.0.0.1:")


def test_a_token_with_a_line_break_is_not_sent() -> None:
    """It would be another header."""

    async def play() -> None:
        async with stage(ok) as here:
            credentials = Fixed(Grant("Bearer t\r\nX: y"))
            async with here.api(ONCE, credentials) as api:
                with pytest.raises(AccessError, match="a header contains a line break"):
                    await api.request("POST", "/x", {})
            assert not here.asked

    acted(play())


def test_an_api_without_a_server_says_so() -> None:
    """Nothing was sent."""

    async def play() -> None:
        async with stage(ok) as here:
            url = here.url
        access = ClusterAccess(url)
        async with Api(access, here.environment, ONCE) as api:
            with pytest.raises(
                Unreachable, match=r"cannot connect to 127.0.0.1:\d+: Conn"
            ) as caught:
                await api.request("POST", "/x", {})
            assert not caught.value.sent

    acted(play())


def test_a_request_begins_without_a_task_if_nothing_is_awaited() -> None:
    """It needs a kept connection, room, a token of the limit, and credentials at hand."""

    async def play() -> None:
        settings = Settings(qps=1, burst=2, connections=1)
        async with stage(ok) as here, here.api(settings) as api:
            told: list[object] = []
            assert not api.begin("POST", "/x", {}, told.append), "no connection"
            await api.request("POST", "/x", {})
            assert api.begin("POST", "/y", {"a": 1}, told.append)
            while not told:
                await asyncio.sleep(0.001)
            assert not api.begin("POST", "/z", {}, told.append), "no token"
            assert told == [None]
            assert [(one.path, one.json) for one in here.asked[1:]] == [("/y", {"a": 1})]

    acted(play())


def test_requests_without_a_task_wait_for_their_turn() -> None:
    """They are sent in their order; what they need then and have not, `request` waits for."""
    leads = True

    def check() -> None:
        if not leads:
            raise ClusterError("lost")

    async def play() -> None:
        nonlocal leads
        async with stage(ok) as here, here.api(Settings(qps=0, connections=1)) as api:
            told: list[object] = []
            await api.request("POST", "/w", {})
            for path in ("/x", "/y", "/z"):
                assert api.begin("POST", path, {}, told.append, check=check)
            while len(told) < 3:
                await asyncio.sleep(0.001)
            assert told == [None, None, None]
            assert [asked.path for asked in here.asked] == ["/w", "/x", "/y", "/z"]
            assert api.begin("POST", "/x", {}, told.append, check=check)
            assert api.begin("POST", "/y", {}, told.append, check=check)
            leads = False
            while len(told) < 5:
                await asyncio.sleep(0.001)
            assert isinstance(told[4], NotBegun)
            assert [asked.path for asked in here.asked[4:]] == ["/x"]
            await api.request("POST", "/y", {}, failed=told[4])
            assert [asked.path for asked in here.asked[5:]] == ["/y"]

    acted(play())


@pytest.mark.parametrize("failure", ["503", "401", "cut", "html"])
def test_a_request_goes_on_after_a_first_try_that_failed(failure: str) -> None:
    """The first try counts as one, whether in a task or not; a 401 asks for newer credentials."""
    answers: list[str] = []

    async def script(asked: Asked, wire: Wire) -> None:
        answers.append(asked.headers.get("authorization", ""))
        if len(answers) != 2:
            await wire.raw(OK)
        elif failure == "cut":
            wire.cut()
        elif failure == "html":
            await wire.respond(200, b"<html>", Content_Type="text/html")
        else:
            await wire.respond(int(failure), {}, Retry_After="3")

    async def play() -> None:
        settings = Settings(retry_policy=RetryPolicy(tries=2))
        async with stage(script) as here, here.api(settings, Renewed()) as api:
            await api.request("POST", "/x", {})
            told: list[Any] = []
            assert api.begin("PATCH", "/x", {}, told.append)
            while not told:
                await asyncio.sleep(0.001)
            if failure == "html":
                with pytest.raises(Malformed):
                    await api.request("PATCH", "/x", {}, repeatable=True, failed=told[0])
                return
            assert await api.request("PATCH", "/x", {}, repeatable=True, failed=told[0]) == b"{}"
            assert len(answers) == 3
            assert answers[2] == ("Bearer 2" if failure == "401" else "Bearer 1")
            assert (3.0 in here.slept) == (failure == "503")

    acted(play())


class Renewed:
    """Credentials that are replaced when they are refused."""

    def __init__(self) -> None:
        self._number = 1

    async def grant(self) -> Grant:
        """Return them."""
        return self.held()

    def held(self) -> Grant:
        """Return them."""
        return Grant(f"Bearer {self._number}")

    def refused(self, _grant: Grant, /) -> bool:
        """Replace them."""
        self._number += 1
        return True


def test_room_is_given_in_order_and_survives_cancellation() -> None:
    """The one that waits longest enters next; one that gave up takes no place."""

    async def play() -> None:
        room, entered = Room(1), []

        async def enter(name: str) -> None:
            await room.enter()
            entered.append(name)

        assert room.try_enter()
        tasks = [asyncio.create_task(enter(name)) for name in "abc"]
        await asyncio.sleep(0)
        assert not room.try_enter()
        tasks[0].cancel()
        await asyncio.sleep(0)
        room.leave()
        await tasks[1]
        assert entered == ["b"]
        room.leave()
        tasks[2].cancel()
        await asyncio.wait([tasks[2]])
        assert room.try_enter()
        assert entered == ["b"]

    acted(play())
