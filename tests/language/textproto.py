"""A reader of protobuf's text format, as far as the files of cel-spec use it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

Message: TypeAlias = dict[str, list["Value"]]
Value: TypeAlias = "Message | str | bytes | bool | float | int"

TOKEN = re.compile(
    r"""(?P<space>[\s,;]+|\#[^\n]*)
    |(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    |(?P<extension>\[[^\]]*\])
    |(?P<word>[-+]?[A-Za-z0-9_.]+(?:[eE]?[-+][0-9]+)?)
    |(?P<mark>[{}<>:\[\]-])""",
    re.VERBOSE,
)
ESCAPE = re.compile(
    rb"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.DOTALL
)
PLAIN = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


@dataclass(slots=True)
class Reader:
    """Tokens of a text, read once from left to right."""

    tokens: list[tuple[str, str]]
    place: int = 0

    def next(self) -> tuple[str, str]:
        """Take a token."""
        self.place += 1
        return self.tokens[self.place - 1]

    def peek(self) -> tuple[str, str]:
        """Look at the next token; ("end", "") after the last."""
        return self.tokens[self.place] if self.place < len(self.tokens) else ("end", "")


def tokens_of(text: str) -> Iterator[tuple[str, str]]:
    """Cut a text into (kind, token), leaving out blanks and comments."""
    for found in TOKEN.finditer(text):
        if found.lastgroup != "space":
            yield str(found.lastgroup), found.group()


def unescape(literal: str) -> bytes:
    """Return the bytes of one quoted string."""

    def one(found: re.Match[bytes]) -> bytes:
        body = found.group(1)
        if body[:1] == b"x" and len(body) > 1:
            return bytes([int(body[1:], 16)])
        if body[:1] in b"uU" and len(body) > 1:
            return chr(int(body[1:], 16)).encode()
        if body[:1].isdigit():
            return bytes([int(body, 8) & 255])
        return PLAIN.get(body, body)

    return ESCAPE.sub(one, literal[1:-1].encode())


def read(text: str) -> Message:
    """Read one message: field name to the list of its values, in order."""
    return _message(Reader(list(tokens_of(text))), "")


def _message(reader: Reader, closing: str) -> Message:
    message: Message = {}
    while reader.peek()[0] != "end":
        _, name = reader.next()
        if name == closing:
            return message
        if reader.peek()[1] == ":":
            reader.next()
        message.setdefault(name, []).append(_value(reader))
    return message


def _value(reader: Reader) -> Value:
    kind, token = reader.next()
    if token in {"{", "<"}:
        return _message(reader, "}" if token == "{" else ">")
    if kind == "string":
        data = unescape(token)
        while reader.peek()[0] == "string":
            data += unescape(reader.next()[1])
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data
    if token == "-":
        token += reader.next()[1]
    if token in {"true", "false"}:
        return token == "true"
    try:
        return int(token, 0)
    except ValueError:
        pass
    try:
        return float(token)
    except ValueError:
        return token
