"""Writes a text as a string literal of the rule language."""

from __future__ import annotations

from typing import Final

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
