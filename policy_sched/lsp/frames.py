"""The frames of a client of the language server: only those that can be read are handed on.

Theory of operation. `Frames` stands between standard input and pygls, which reads lines and bodies
from it as from a stream. A message that is no JSON, no JSON-RPC, of wrong types or out of turn is
answered as the protocol says, and pygls never sees it. A frame whose length cannot be told ends the
stream, since it is not known where the next one begins.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import IO, Any, Final
from urllib.parse import urlsplit

from pygls.exceptions import JsonRpcException
from pygls.protocol import LanguageServerProtocol

MAX_LINE: Final = 8 << 10
"""Bytes of a line of a frame's head."""
MAX_LINES: Final = 32
MAX_BODY: Final = 64 << 20
"""Bytes of a message."""
MAX_KEYS: Final = 10_000
"""Objects and keys of a message."""
MAX_OBJECT: Final = 500
"""Keys of an object."""
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
INVALID_PARAMS: Final = -32602
NOT_INITIALIZED: Final = -32002
_LENGTH: Final = re.compile(rb"content-length:[ \t]*([0-9]{1,10})[ \t]*", re.IGNORECASE)
_OF_OPEN: Final = ("textDocument/didChange", "textDocument/didClose")
_LEFT: Final = object()


class BrokenFrameError(Exception):
    """The stream has no frame where one should begin."""


class TooManyValuesError(Exception):
    """A message has too many keys: pygls makes a class of an object that it does not know."""


class _Objects:
    """Makes the objects of one message, and counts their keys."""

    def __init__(self) -> None:
        self._left = MAX_KEYS

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Return an object. Raises TooManyValuesError."""
        self._left -= 1 + len(pairs)
        if self._left < 0 or len(pairs) > MAX_OBJECT:
            raise TooManyValuesError
        return dict(pairs)


class Frames:
    """A stream of frames; ``send`` writes to the client, ``warn`` tells the user."""

    def __init__(
        self,
        stream: IO[bytes],
        protocol: LanguageServerProtocol,
        send: Callable[[bytes], object],
        warn: Callable[[str], object],
    ) -> None:
        self._stream = stream
        self._protocol = protocol
        self._send = send
        self._warn = warn
        self._state = "new"
        self._frames = self._readable()
        self._lines: Iterator[bytes] = iter(())
        self._body = b""

    def readline(self) -> bytes:
        """Return the next line of the head of a frame; nothing at the end."""
        line = next(self._lines, b"")
        if not line:
            self._body = next(self._frames, b"")
            if self._body:
                self._lines = iter((b"Content-Length: %d\r\n" % len(self._body), b"\r\n"))
                line = next(self._lines)
        return line

    def read(self, count: int) -> bytes:
        """Return the body of the frame of which the head was read."""
        return self._body[:count]

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()

    def _readable(self) -> Iterator[bytes]:
        """Yield the bodies that pygls can read, and answer the others."""
        try:
            while (body := self._next()) is not None:
                problem = self._problem(body)
                if problem is None:
                    yield body
                elif problem[0] is not _LEFT:
                    self._answer(*problem)
        except BrokenFrameError as error:
            self._warn(f"the client sent what is no message: {error}")

    def _next(self) -> bytes | None:
        """Return the body of the next frame, None at the end. Raises BrokenFrameError."""
        length, fields = None, 0
        for _ in range(MAX_LINES):
            line = self._stream.readline(MAX_LINE)
            if not line.endswith(b"\n"):
                if line:
                    what = "too long" if len(line) == MAX_LINE else "not whole"
                    raise BrokenFrameError(f"a line of its head is {what}")
                return None
            line = line.rstrip(b"\r\n")
            if not line and fields:
                break
            fields += bool(line)
            if match := _LENGTH.fullmatch(line):
                length = int(match[1])
            elif line and b":" not in line:
                raise BrokenFrameError(f"{line[:80]!r} is no line of a head")
        if length is None or length > MAX_BODY:
            why = "no Content-Length" if length is None else f"more than {MAX_BODY} bytes"
            raise BrokenFrameError(why)
        body = self._stream.read(length)
        if len(body) < length:
            raise BrokenFrameError(f"{len(body)} of {length} bytes")
        return body

    def _problem(self, body: bytes) -> tuple[Any, int, str] | None:
        """Return the id, code and text of an answer; None for what pygls reads.

        With the id `_LEFT` there is no answer: to notifications, and to answers.
        """
        try:
            message = json.loads(body, object_pairs_hook=_Objects())
        except TooManyValuesError:
            return None, INVALID_REQUEST, f"the message has more than {MAX_KEYS:,} keys"
        except (ValueError, RecursionError):
            return None, PARSE_ERROR, "the message is not JSON"
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            return None, INVALID_REQUEST, "the message is not JSON-RPC 2.0"
        number, method = message.get("id", _LEFT), message.get("method")
        if number is not _LEFT and (isinstance(number, bool) or not isinstance(number, str | int)):
            return None, INVALID_REQUEST, "id is a text or an integer"
        if "method" not in message:  # an answer: this server asks nothing
            return _LEFT, 0, ""
        if not isinstance(method, str):
            return number, INVALID_REQUEST, "method is a text"
        return self._out_of_turn(number, method) or self._wrong(number, message)

    def _out_of_turn(self, number: Any, method: str) -> tuple[Any, int, str] | None:
        """Return the problem of a message out of turn; remember how far the session is."""
        if method == "exit" and number is _LEFT:
            return None
        if self._state == "new" and (method != "initialize" or number is _LEFT):
            return number, NOT_INITIALIZED, "initialize comes first"
        if self._state != "new" and method == "initialize":
            return number, INVALID_REQUEST, "it is initialized already"
        if self._state == "shut down":
            return number, INVALID_REQUEST, "it is shut down"
        return None

    def _wrong(self, number: Any, message: dict[str, Any]) -> tuple[Any, int, str] | None:
        """Return the problem of a message whose types are not those of its method."""
        method = message["method"]
        try:
            self._protocol.structure_message(message)
        except (JsonRpcException, RecursionError):
            return number, INVALID_PARAMS, f"params are not those of {method[:80]}"
        params = message.get("params")
        cancelled = params.get("id") if isinstance(params, dict) else None
        if method == "$/cancelRequest" and not isinstance(cancelled, str | int):
            return number, INVALID_PARAMS, "params.id is a text or an integer"
        if not self._is_open(method, params):
            return number, INVALID_PARAMS, "params.textDocument.uri is that of no open document"
        if number is not _LEFT:
            self._state = {"initialize": "open", "shutdown": "shut down"}.get(method, self._state)
        return None

    def _is_open(self, method: str, params: Any) -> bool:
        """Return whether the document of a message has an address, and is open if it must be."""
        document = params.get("textDocument") if isinstance(params, dict) else None
        if not isinstance(document, dict):
            return True
        uri = str(document.get("uri"))
        try:
            urlsplit(uri)
        except ValueError:
            return False
        return method not in _OF_OPEN or uri in self._protocol.workspace.text_documents

    def _answer(self, number: Any, code: int, text: str) -> None:
        error = {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": text}}
        body = json.dumps(error).encode()
        self._send(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
