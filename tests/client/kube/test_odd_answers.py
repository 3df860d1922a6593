"""Lists and watches that come wrong: what is believed in the end, and that nothing is invented."""

from __future__ import annotations

import gzip
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from policy_sched.client.kube.rest.client import Api
from policy_sched.client.kube.rest.decoding import Decoding
from policy_sched.client.kube.rest.errors import Unreachable, error_of_response
from policy_sched.client.kube.rest.retry import RetryPolicy
from policy_sched.client.kube.rest.settings import Settings
from policy_sched.model.pod import Pod
from tests.client.kube.cache.test_reflector import followed, listed, quiet
from tests.client.kube.stage import Asked, Script, Wire, acted, bookmark, pod, stage, status

PAGE = b"<html><title>502 Bad Gateway</title></html>"
GOOD = json.dumps(listed(5, pod("a", 1), pod("b", 2))).encode()
Odd = Callable[[Wire], Awaitable[None]]


def body(data: bytes, code: int = 200, **headers: str) -> Odd:
    """Answer with these bytes."""

    async def odd(wire: Wire) -> None:
        await wire.respond(code, data, **headers)

    return odd


def broken(data: bytes) -> Odd:
    """Begin an answer, and break off."""

    async def odd(wire: Wire) -> None:
        await wire.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n" + data)
        wire.cut()

    return odd


def half_closed(data: bytes) -> Odd:
    """Say no more within a chunk, and listen on."""

    async def odd(wire: Wire) -> None:
        await wire.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n" + data)
        wire.writer.write_eof()

    return odd


LISTS = {
    "a page for people": body(PAGE, Content_Type="text/html"),
    "a page without a type": body(PAGE),
    "an error page": body(PAGE, 502, Content_Type="text/html"),
    "an error page of a proxy with Retry-After": body(PAGE, 503, Retry_After="3"),
    "half a list": body(GOOD[: len(GOOD) // 2]),
    "nothing": body(b""),
    "another form": body(b'[{"kind": "Pod"}]'),
    "items that are none": body(b'{"metadata": {"resourceVersion": "5"}, "items": {}}'),
    "an item without a name": body(b'{"metadata": {"resourceVersion": "5"}, "items": [{}]}'),
    "a list that breaks off": broken(GOOD[:100]),
    "a half-closed connection": half_closed(GOOD[:100]),
    "no gzip": body(GOOD, Content_Encoding="gzip"),
    "half of gzip": body(gzip.compress(GOOD)[:-20], Content_Encoding="gzip"),
}


@pytest.mark.parametrize("odd", LISTS.values(), ids=LISTS)
def test_a_malformed_list_is_retried(odd: Odd) -> None:
    """What comes then is all there is; nothing was made of the wrong one."""
    tries: list[str] = []

    async def script(asked: Asked, wire: Wire) -> None:
        if asked.query.get("watch"):
            await wire.begin()
            await quiet()
        tries.append("")
        if len(tries) == 1:
            await odd(wire)
        else:
            await wire.respond(200, GOOD)

    follower, _ = followed(script, 2, streaming=False)
    assert follower.words == ["ADDED a@1", "ADDED b@2"]


def test_compressed_lists_are_read() -> None:
    """As a server sends what is large; a client may ask for no compression."""

    async def script(asked: Asked, wire: Wire) -> None:
        if asked.query.get("watch"):
            await wire.begin()
            await quiet()
        assert "gzip" in asked.headers["accept-encoding"]
        data = gzip.compress(GOOD)
        await wire.respond(200, data, Content_Encoding="gzip", Content_Type="application/json")

    follower, _ = followed(script, 2, streaming=False)
    assert follower.words == ["ADDED a@1", "ADDED b@2"]


def test_a_compressed_response_has_the_limit_of_others() -> None:
    """What comes out counts, not what came in."""

    async def script(asked: Asked, wire: Wire) -> None:
        await wire.respond(200, gzip.compress(b" " * 10_000_000), Content_Encoding="gzip")

    async def play() -> None:
        limits = Settings(longest_response=1_000_000, retry_policy=RetryPolicy(tries=1))
        async with stage(script) as here, here.api(limits) as api:
            with pytest.raises(Exception, match="longer than 1000000 bytes"):
                await api.get("/x")

    acted(play())


def test_compression_can_be_switched_off() -> None:
    """disable-compression of a kubeconfig."""

    async def script(asked: Asked, wire: Wire) -> None:
        assert asked.headers["accept-encoding"] == "identity"
        await wire.respond(200, {})

    async def play() -> None:
        async with stage(script) as here:
            access = type(here.api().access)(here.url, compression=False)
            async with Api(access, here.environment) as api:
                await api.get("/x")

    acted(play())


LINES: dict[str, Any] = {
    "no JSON": b"<html>\n",
    "null": b"null\n",
    "no object": b'{"type": "ADDED"}\n',
    "no type": b'{"object": {}}\n',
    "another type": b'{"type": "CHANGED", "object": {"metadata": {"name": "x"}}}\n',
    "an object without a name": b'{"type": "ADDED", "object": {"metadata": {}}}\n',
    "half a line": b'{"type": "DELETED", "obj',
    "bytes that are no text": b'{"type": "ADDED", "object": {"metadata": {"name": "\xff"}}}\n',
    "a number without end": b'{"type": "ADDED", "object": {"metadata": ' + b"9" * 5000 + b"}}\n",
    "depth": b'{"type": "ADDED", "object": ' + b"[" * 5000 + b"]" * 5000 + b"}\n",
    "an error of bytes": b'{"type": "ERROR", "object": {"message": "\xff", "code": 500}}\n',
    "an error that is none": b'{"type": "ERROR", "object": 7}\n',
    "a failure": json.dumps({"type": "ERROR", "object": status(500, "InternalError")}).encode()
    + b"\n",
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_a_malformed_line_loses_no_change(line: bytes) -> None:
    """Changes before it count, the watch goes on behind them, and nothing is told twice."""
    watches: list[str] = []

    async def script(asked: Asked, wire: Wire) -> None:
        if not asked.query.get("watch"):
            return await wire.respond(200, GOOD)
        watches.append(asked.query["resourceVersion"])
        await wire.begin()
        if len(watches) == 1:
            await wire.line("MODIFIED", pod("a", 6))
            await wire.chunk(line)
            return await wire.end()
        await wire.line("DELETED", pod("b", 7))
        return await quiet()

    follower, _ = followed(script, 4, streaming=False)
    assert follower.words == ["ADDED a@1", "ADDED b@2", "MODIFIED a@6", "DELETED b@7"]
    assert watches[:2] == ["5", "6"]


WATCHES: dict[str, Odd] = {
    "a page for people": body(PAGE, Content_Type="text/html"),
    "an error page": body(PAGE, 504, Content_Type="text/html"),
    "refused for now": body(b"", 429, Retry_After="1"),
    "a half-closed connection": half_closed(b'{"type": "ADDED"'),
    "broken off": broken(b""),
    "an end at once": body(b""),
}


@pytest.mark.parametrize("odd", WATCHES.values(), ids=WATCHES)
@pytest.mark.parametrize("streaming", [True, False])
def test_a_response_that_is_no_watch_is_retried(odd: Odd, *, streaming: bool) -> None:
    """From where it was, or with all that there is."""
    tries: list[dict[str, str]] = []

    async def script(asked: Asked, wire: Wire) -> None:
        if not asked.query.get("watch"):
            return await wire.respond(200, GOOD)
        tries.append(asked.query)
        if len(tries) == 1:
            return await odd(wire)
        await wire.begin()
        if asked.query.get("sendInitialEvents"):
            for thing in (pod("a", 1), pod("b", 2)):
                await wire.line("ADDED", thing)
            await wire.line("BOOKMARK", bookmark(5, end=True))
        await wire.line("DELETED", pod("b", 7))
        return await quiet()

    follower, _ = followed(script, 3, streaming=streaming)
    assert follower.words == ["ADDED a@1", "ADDED b@2", "DELETED b@7"]
    assert len(tries) == 2


def test_a_broken_streaming_list_changes_nothing() -> None:
    """Half of what there is is no list: nothing is taken for deleted that did not come."""
    tries: list[str] = []

    async def script(asked: Asked, wire: Wire) -> None:
        tries.append("")
        await wire.begin()
        if len(tries) == 1:
            for thing in (pod("a", 1), pod("b", 2)):
                await wire.line("ADDED", thing)
            await wire.line("BOOKMARK", bookmark(5, end=True))
            await wire.line("ERROR", status(410, "Expired"))
            return await wire.end()
        await wire.line("ADDED", pod("b", 2))
        if len(tries) == 2:
            return wire.cut()
        await wire.line("ADDED", pod("c", 8))
        await wire.line("BOOKMARK", bookmark(9, end=True))
        return await quiet()

    follower, here = followed(script, 4)
    assert follower.words == ["ADDED a@1", "ADDED b@2", "DELETED a@1", "ADDED c@8"]
    assert len(here.slept) == 1, "after a version that was too old the list follows at once"


def test_a_server_that_expires_every_version_is_not_asked_endlessly() -> None:
    """Versions that are too old as soon as they are told: after the first list there are pauses."""
    lists: list[str] = []

    async def script(asked: Asked, wire: Wire) -> None:
        if asked.query.get("watch"):
            return await wire.respond(410, status(410, "Gone"))
        lists.append("")
        return await wire.respond(200, listed(5, pod(f"p{len(lists)}", len(lists))))

    _, here = followed(script, 9, streaming=False)
    assert len(lists) >= 5
    assert len(here.slept) >= len(lists) - 2


async def _cut(asked: Asked, wire: Wire) -> None:
    wire.cut()


def test_broken_responses_have_readable_errors() -> None:
    """No names of classes, no codes of unknown origin."""

    async def play(script: Script, words: str) -> None:
        once = Settings(retry_policy=RetryPolicy(tries=1))
        async with stage(script) as here, here.api(once) as api:
            with pytest.raises(Unreachable, match=words):
                await api.get("/x")

    async def broken_off(asked: Asked, wire: Wire) -> None:
        await broken(b"{")(wire)

    acted(play(broken_off, "GET /x: the response broke off"))
    acted(play(_cut, "GET /x: Server disconnected"))


def test_a_kind_that_is_not_served_is_empty_and_retried() -> None:
    """What a server begins to serve later is seen then."""
    lists: list[str] = []

    async def script(asked: Asked, wire: Wire) -> None:
        if asked.query.get("watch"):
            await wire.begin()
            return await quiet()
        lists.append("")
        if len(lists) < 3:
            return await wire.respond(404, b"404 page not found\n", Content_Type="text/plain")
        return await wire.respond(200, GOOD)

    follower, here = followed(script, 2, streaming=False)
    assert follower.reflector.synced.is_set()
    assert follower.words == ["ADDED a@1", "ADDED b@2"]
    assert len(here.slept) == 2


def test_pages_that_keep_expiring_are_replaced_by_one_list() -> None:
    """Three times begun in pages, then asked for at once; if that is refused, too, later."""
    asks: list[tuple[str, str]] = []

    async def script(asked: Asked, wire: Wire) -> None:
        if asked.query.get("watch"):
            await wire.begin()
            return await quiet()
        asks.append((asked.query.get("limit", ""), asked.query.get("continue", "")))
        if "continue" in asked.query or len(asks) == 7:
            return await wire.respond(410, status(410, "Expired"))
        if "limit" in asked.query and len(asks) < 8:
            return await wire.respond(200, listed(5, pod("a", 1), token="more"))
        return await wire.respond(200, GOOD)

    followed(script, 2, streaming=False, page=1)
    assert asks[:7] == [("1", ""), ("1", "more")] * 3 + [("", "")]


def test_unreadable_objects_are_left_out_and_reported() -> None:
    """In a list: known by name, reported, and not tried with what was known of them before."""
    bad = pod("b", 3)
    bad["spec"] = {"containers": [{"resources": {"requests": {"cpu": "much"}}}]}
    nameless = {"metadata": {"name": 5}}
    tries: list[str] = []

    async def script(asked: Asked, wire: Wire) -> None:
        tries.append("")
        if asked.query.get("watch"):
            return await wire.respond(410, status(410, "Expired"))
        if len(tries) == 1:
            return await wire.respond(200, GOOD)
        if len(tries) == 3:
            return await wire.respond(200, {**listed(7), "items": [nameless]})
        return await wire.respond(200, listed(8, bad, pod("c", 8)))

    follower, _ = followed(script, 5, streaming=False)
    assert follower.words == [
        "ADDED a@1", "ADDED b@2", "DELETED a@1", "DELETED b@2", "ADDED c@8",
    ]  # fmt: skip
    said = "default/b: a Pod that cannot be read: spec.containers.0.resources.requests.cpu: "
    assert any(text.startswith(said) for text in follower.troubles)
    assert "is not a quantity" in follower.reflector.unread["default", "b"]


ODD_VALUES = {
    "bytes that are no text": b'"\xff"',
    "a number without end": b"9" * 5000,
    "an exponent": b"1e999999",
}


@pytest.mark.parametrize("odd", ODD_VALUES.values(), ids=ODD_VALUES)
def test_an_object_with_an_impossible_value_hides_no_other(odd: bytes) -> None:
    """The task that followed a kind ended: nothing of that kind was seen from then on."""
    bound = b'{"metadata": {"name": "b", "namespace": "default", "labels": {"a": %s}},'
    bound += b' "spec": {"nodeName": "n", "containers": [{"image": %s}]}}'
    body = b'{"metadata": {"resourceVersion": "5"}, "items": [%s, {"metadata": {"name": "c"}}]}'
    page = Decoding(("v1", "Pod"), Pod).page(body % (bound % (odd, odd)))
    assert [one.metadata.name for one in page.items] == ["c"]
    (unread,) = page.unread
    assert unread.place == ("default", "b")
    assert unread.partial is not None
    assert unread.partial.spec.node_name == "n"
    assert len(unread.partial.spec.containers) == 1
    line = b'{"type": "MODIFIED", "object": %s}' % (bound % (odd, odd))
    event = Decoding(("v1", "Pod"), Pod).event(line)
    assert event.unread is not None
    assert event.unread.place == ("default", "b")


@pytest.mark.parametrize("body", [b'{"message": "\xff"}', b"[" * 5000], ids=["bytes", "depth"])
def test_an_unreadable_error_response_is_an_error(body: bytes) -> None:
    """Its code counts, as with the page of a proxy."""
    assert error_of_response(503, body).code == 503
