"""Texts of clusters as pages show them, and data inside of a script element."""

from __future__ import annotations

import json
import re
from typing import Final

_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f"  # controls but the tab
    "\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"  # what is not seen, or turns text
    "\ud800-\udfff]"  # halves of characters
)
_UNSEEN_IN_LINES: Final = re.compile(_UNSEEN.pattern.replace("\x0a-\x1f", "\x0b\x0c\x0e-\x1f"))
LONGEST: Final = 40
"""Characters after which a line may end in a word that is longer."""
_PIECE: Final = re.compile(rf"\S{{1,{LONGEST}}}\s*|\s+")
_NAMED: Final = {"\n": "\\n", "\r": "\\r", "\x1b": "\\e"}


def visible(text: str) -> str:
    """Return a text on one line, in which characters that cannot be seen are escapes."""
    return _UNSEEN.sub(_escape, text)


def visible_lines(text: str) -> str:
    """Return a text of several lines, in which characters that cannot be seen are escapes."""
    return _UNSEEN_IN_LINES.sub(_escape, text.replace("\r\n", "\n").replace("\r", "\n"))


def pieces(text: str) -> list[str]:
    """Return a text in pieces between which a line may end, although it has no blank there."""
    return _PIECE.findall(text)


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    code = ord(char)
    return _NAMED.get(char) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def json_for_script(data: object) -> str:
    """Return plain data as JSON that may stand in a script element: nothing in it ends one."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
