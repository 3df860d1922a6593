"""Reading string literals: quotes, raw strings and escapes."""

from __future__ import annotations

from typing import Final

from policy_sched.language.diagnostics import Problem

_SIMPLE: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "?": "?",
    '"': '"',
    "'": "'",
    "`": "`",
}
_HEX_DIGITS: Final = {"x": 2, "X": 2, "u": 4, "U": 8}
_SURROGATES: Final = range(0xD800, 0xE000)


def unquote(token: str, at: int) -> tuple[str, list[Problem]]:
    """Return the value of the literal ``token``, which begins at offset ``at`` of its text."""
    raw = token[0] in "rR"
    start = 1 if raw else 0
    quotes = 3 if token[start : start + 3] in ('"""', "'''") and len(token) >= start + 6 else 1
    body = token[start + quotes : len(token) - quotes]
    if raw or "\\" not in body:
        return body, []
    return _unescape(body, at + start + quotes)


def unquote_bytes(token: str, at: int) -> tuple[bytes, list[Problem]]:
    """Return the value of a bytes literal: escapes of two hexadecimal digits or octal are bytes."""
    text, problems = unquote(token[1:], at + 1)
    escaped = "\\" in token and token[1] not in "rR"
    try:
        return (text.encode("latin-1") if escaped else text.encode()), problems
    except UnicodeEncodeError:
        return text.encode(), problems


def _unescape(body: str, at: int) -> tuple[str, list[Problem]]:
    parts: list[str] = []
    problems: list[Problem] = []
    position = 0
    while (slash := body.find("\\", position)) >= 0:
        parts.append(body[position:slash])
        char, length = _escape(body, slash + 1)
        position = slash + 1 + length
        if char is None:
            written = body[slash:position]
            problems.append(
                Problem(
                    at + slash,
                    at + position,
                    "PS003",
                    f"{written} is not an escape",
                    r"write \\ for a backslash, or r'...' for a text without escapes",
                )
            )
        else:
            parts.append(char)
    parts.append(body[position:])
    return "".join(parts), problems


def _escape(body: str, at: int) -> tuple[str | None, int]:
    """Return the character of an escape, and the escape's length after the backslash."""
    letter = body[at : at + 1]
    if letter in _SIMPLE:
        return _SIMPLE[letter], 1
    if letter in _HEX_DIGITS:
        digits = body[at + 1 : at + 1 + _HEX_DIGITS[letter]]
        return _code_point(digits, 16, _HEX_DIGITS[letter]), 1 + len(digits)
    if letter and letter in "0123":
        digits = body[at : at + 3]
        return _code_point(digits, 8, 3), len(digits)
    return None, 1


def _code_point(digits: str, base: int, length: int) -> str | None:
    allowed = "0123456789abcdefABCDEF" if base == 16 else "01234567"
    if len(digits) != length or any(d not in allowed for d in digits):
        return None
    value = int(digits, base)
    if value in _SURROGATES or value > 0x10FFFF:
        return None
    return chr(value)


ESCAPES: Final = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    "\\": r"\\",
}
"""Characters that a literal shows by an escape, whatever its quotes."""


def quote(written: str, value: str) -> str:
    """Return a literal of ``value`` in double quotes; in single ones if it has double quotes.

    ``written`` is how the author wrote it, which stays for raw strings and for those over
    several lines.
    """
    if written[:1] in "rR" or written[:3] in ('"""', "'''"):
        return written
    sign = "'" if '"' in value and "'" not in value else '"'
    return sign + "".join(_character(c, sign) for c in value) + sign


def _character(c: str, sign: str) -> str:
    if c == sign:
        return f"\\{c}"
    if c in ESCAPES:
        return ESCAPES[c]
    if c.isprintable():
        return c
    code = ord(c)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
