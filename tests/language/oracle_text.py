"""The oracle's string functions, written from the language's description and cel-go's strings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

import re2

from .oracle_values import INT_MAX, INT_MIN, OracleError

#: Unicode's White_Space, as Go's unicode.IsSpace knows it.
WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


def char_at(text: str, position: int) -> str:
    """Return the code point at ``position``; at the end the empty string, beyond an error."""
    if not 0 <= position <= len(text):
        raise OracleError("index_out_of_range")
    return text[position : position + 1]


def index_of(text: str, part: str, start: int = 0) -> int:
    """Return where ``part`` first stands at or after ``start``, or -1."""
    if part == "":
        return start if 0 <= start <= len(text) else _out_of_range()
    if not 0 <= start <= len(text):
        _out_of_range()
    return text.find(part, start)


def last_index_of(text: str, part: str, last: int | None = None) -> int:
    """Return where ``part`` last stands at or before ``last``, or -1."""
    if last is None:
        return text.rfind(part)
    if not 0 <= last <= len(text):
        _out_of_range()
    return text.rfind(part, 0, last + len(part))


def _out_of_range() -> int:
    raise OracleError("index_out_of_range")


def lower_ascii(text: str) -> str:
    """Lower the ASCII letters only."""
    return "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in text)


def upper_ascii(text: str) -> str:
    """Raise the ASCII letters only."""
    return "".join(chr(ord(c) - 32) if "a" <= c <= "z" else c for c in text)


def replace(text: str, old: str, new: str, limit: int = -1) -> str:
    """Replace the first ``limit`` occurrences of ``old``, all for a negative limit."""
    return text.replace(old, new) if limit < 0 else text.replace(old, new, limit)


def split(text: str, separator: str, limit: int = -1) -> list[str]:
    """Split as Go's SplitN: limit 0 gives nothing, 1 the text, negative all the pieces."""
    if limit == 0:
        return []
    if separator == "":
        characters = list(text)
        if limit < 0 or limit >= len(characters):
            return characters
        return [*characters[: limit - 1], "".join(characters[limit - 1 :])]
    return text.split(separator) if limit < 0 else text.split(separator, limit - 1)


def substring(text: str, start: int, end: int | None = None) -> str:
    """Return the code points in [start, end); bounds outside the text or crossed are errors."""
    last = len(text) if end is None else end
    if not 0 <= start <= last <= len(text):
        raise OracleError("index_out_of_range")
    return text[start:last]


def trim(text: str) -> str:
    """Drop Unicode white space at both ends."""
    return text.strip(WHITE_SPACE)


def quote(text: str) -> str:
    """Return ``text`` as a double-quoted literal that is safe to print."""
    return '"' + "".join(ESCAPES.get(c, c) for c in text) + '"'


def matches(text: str, pattern: str) -> bool:
    """Tell whether RE2 finds ``pattern`` anywhere in ``text``."""
    return re2.search(pattern, text) is not None


def find(text: str, pattern: str) -> str:
    """Return the leftmost match of ``pattern`` in ``text``, or the empty string."""
    found = re2.search(pattern, text)
    return "" if found is None else str(found.group(0))


def int_of_text(text: str) -> int:
    """Read a decimal int64 as Go's ParseInt(s, 10, 64)."""
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if not digits or not all("0" <= c <= "9" for c in digits):
        raise OracleError("conversion")
    number = int(digits) * (-1 if text[0] == "-" else 1)
    if not INT_MIN <= number <= INT_MAX:
        raise OracleError("conversion")
    return number


def bool_of_text(text: str) -> bool:
    """Read the spellings of true and false that CEL accepts."""
    if text in {"1", "t", "T", "true", "TRUE", "True"}:
        return True
    if text in {"0", "f", "F", "false", "FALSE", "False"}:
        return False
    raise OracleError("conversion")


def text_of_double(number: float) -> str:
    """Print as Go's FormatFloat(f, 'g', -1, 64): the shortest text that reads back."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(number)).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0") or "0"
    if number == 0:
        return "-0" if sign else "0"
    point = len(digits) + exponent
    if not -4 <= point - 1 < 6:
        mantissa = text[0] + ("." + text[1:] if len(text) > 1 else "")
        body = f"{mantissa}e{'-' if point - 1 < 0 else '+'}{abs(point - 1):02d}"
    elif point <= 0:
        body = "0." + "0" * -point + text
    elif len(text) <= point:
        body = text + "0" * (point - len(text))
    else:
        body = text[:point] + "." + text[point:]
    return ("-" if sign else "") + body


def join(parts: Sequence[str], separator: str = "") -> str:
    """Join the strings of a list."""
    return separator.join(parts)
