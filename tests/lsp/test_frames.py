"""Frames of a client that cannot be read: each is answered, or ends the session in words."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest

pytest.importorskip("pygls")

from policy_sched.lsp.frames import MAX_BODY, MAX_LINE
from policy_sched.lsp.server import make_server

START = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"capabilities": {}}}
URI = "file:///nowhere/policy.yaml"


def frame(message: Any) -> bytes:
    """Return a frame with a message, or with bytes as they are."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def served(sent: bytes, capfd: pytest.CaptureFixture[str]) -> tuple[list[dict[str, Any]], str]:
    """Return the messages of a server to a client that has sent this, and what the user is told."""
    out, said = io.BytesIO(), []
    out.close = lambda: None  # type: ignore[method-assign]  # pygls closes what it is given
    make_server().serve(io.BytesIO(sent), out, said.append)
    assert "Traceback" not in "".join(capfd.readouterr())
    bodies = re.split(rb"Content-Length: [^{]*\r\n\r\n", out.getvalue())
    return [json.loads(body) for body in bodies if body], "\n".join(said)


def errors(messages: list[dict[str, Any]]) -> list[tuple[object, int]]:
    """Return the ids and codes of the errors among messages."""
    return [(message["id"], message["error"]["code"]) for message in messages if "error" in message]


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        (b"nonsense", (None, -32700)),
        (b"\xff\xfe", (None, -32700)),
        (b"[" * 100_000, (None, -32700)),
        (b'{"a": ' + b"9" * 5000 + b"}", (None, -32700)),
        ([], (None, -32600)),
        (1, (None, -32600)),
        ({"id": 1, "method": "shutdown"}, (None, -32600)),
        ({"jsonrpc": "2.0", "id": [1], "method": "shutdown"}, (None, -32600)),
        ({"jsonrpc": "2.0", "id": True, "method": "shutdown"}, (None, -32600)),
        ({"jsonrpc": "2.0", "id": 1, "method": ["shutdown"]}, (1, -32600)),
        ({"jsonrpc": "2.0", "id": 1, "method": "none", "params": {}}, (1, -32601)),
        ({"jsonrpc": "2.0", "id": 1, "method": "textDocument/hover"}, (1, -32602)),
        ({"jsonrpc": "2.0", "id": 1, "method": "textDocument/hover", "params": [1]}, (1, -32602)),
        ({**START, "id": 7}, (7, -32600)),
        (
            {"jsonrpc": "2.0", "id": 1, "method": "$/cancelRequest", "params": {"id": [1]}},
            (1, -32602),
        ),
        ({"jsonrpc": "2.0", "id": 1, "params": [{}] * 10_001}, (None, -32600)),
        ({"jsonrpc": "2.0", "id": 1, "params": dict.fromkeys(range(501))}, (None, -32600)),
    ],
    ids=lambda item: str(item)[:60],
)
def test_a_message_that_cannot_be_read_is_answered(
    message: Any, answer: tuple[object, int], capfd: pytest.CaptureFixture[str]
) -> None:
    """Such a message was a traceback in the editor's log, and the editor waited for an answer."""
    asked = {"jsonrpc": "2.0", "id": 99, "method": "shutdown", "params": None}
    messages, said = served(frame(START) + frame(message) + frame(asked), capfd)
    assert errors(messages) == [answer]
    assert messages[-1]["id"] == 99, "the session goes on"
    assert said == ""


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"Content-Length: x\r\n\r\n{}", "no Content-Length"),
        (b"Content-Length: -1\r\n\r\n{}", "no Content-Length"),
        (b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n{}", "no Content-Length"),
        (b"Content-Length: 9999999999\r\n\r\n{}", f"more than {MAX_BODY} bytes"),
        (b"Content-Length: 10\r\n\r\n{}", "2 of 10 bytes"),
        (b"Content-Len", "a line of its head is not whole"),
        (b"x" * (MAX_LINE + 1), "a line of its head is too long"),
        (b"{}\r\n", "b'{}' is no line of a head"),
        (b"X: y\r\n" * 40, "no Content-Length"),
    ],
    ids=lambda message: repr(message)[:30],
)
def test_a_stream_without_frames_ends_in_words(
    sent: bytes, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """A length that is no number was an uncaught ValueError, a huge one a MemoryError."""
    messages, said = served(frame(START) + sent, capfd)
    assert [message["id"] for message in messages] == [0]
    assert said == f"the client sent what is no message: {words}"


def test_messages_out_of_turn_are_refused(capfd: pytest.CaptureFixture[str]) -> None:
    """Before initialize and after shutdown requests got tracebacks, or no answer."""
    hover = {"jsonrpc": "2.0", "id": 1, "method": "textDocument/hover", "params": {}}
    noted = {"jsonrpc": "2.0", "method": "initialized", "params": {}}
    shutdown = {"jsonrpc": "2.0", "id": 2, "method": "shutdown", "params": None}
    sent = [hover, noted, START, shutdown, hover, noted]
    messages, _ = served(b"".join(map(frame, sent)), capfd)
    assert errors(messages) == [(1, -32002), (1, -32600)]


def test_documents_that_are_not_open_are_not_read(capfd: pytest.CaptureFixture[str]) -> None:
    """A request about /dev/zero was read until memory was full; a change of a closed document and
    an address that is none were tracebacks."""
    at = {"line": 0, "character": 0}
    sent = [
        START,
        *(
            {
                "jsonrpc": "2.0",
                **asked,
                "method": f"textDocument/{method}",
                "params": {
                    "textDocument": {"uri": uri, "version": 1},
                    "position": at,
                    "contentChanges": [{"text": "x"}],
                },
            }
            for asked, method, uri in (
                ({"id": 1}, "hover", "file:///dev/zero"),
                ({}, "didChange", URI),
                ({}, "didClose", URI),
                ({"id": 2}, "hover", "http://["),
            )
        ),
    ]
    messages, _ = served(b"".join(map(frame, sent)), capfd)
    assert errors(messages) == [(2, -32602)]
    assert next(message for message in messages if message["id"] == 1)["result"] is None
