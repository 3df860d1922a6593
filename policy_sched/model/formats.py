"""Formats of texts: names and labels, with the API server's messages, and durations.

Each function on names yields the problems of a text. (apimachinery's util/validation.)
Durations have the form "90s", "1h30m", "250ms", or are a plain number of seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache
from typing import Final

import msgspec

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_RFC1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_VALUE: Final = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_PART: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_CONFIG_KEY: Final = "[-._a-zA-Z0-9]+"
_LABEL_WORDS: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and"
    " must start and end with an alphanumeric character"
)
_SUBDOMAIN_WORDS: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or"
    " '.', and must start and end with an alphanumeric character"
)
_RFC1035_WORDS: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an"
    " alphabetic character, and end with an alphanumeric character"
)
_VALUE_WORDS: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.',"
    " and must start and end with an alphanumeric character"
)
_PART_WORDS: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an"
    " alphanumeric character"
)
_KEY_WORDS: Final = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
NOT_NEGATIVE: Final = "must be greater than or equal to 0"


def quoted(text: str) -> str:
    """Return a text in quotes, in the form of API messages."""
    return msgspec.json.encode(text).decode()


def _formed(words: str, form: str, *examples: str) -> str:
    """Return the message for a text that does not match, with examples in pairs."""
    given = " or ".join(f"'{example}', " for example in examples)
    return f"{words} (e.g. {given}regex used for validation is '{form}')"


_LONGEST: Final = 10_000
"""Characters of a text that are checked; every format has a smaller limit."""


def _has(form: str, text: str) -> bool:
    return len(text) > _LONGEST or re.fullmatch(form, text) is not None


def _long(text: str, most: int) -> Iterator[str]:
    if len(text) > most:
        yield f"must be no more than {most} bytes"


def label(text: str) -> Iterator[str]:
    """Check a DNS label (RFC 1123): the name of a container, a namespace."""
    yield from _long(text, 63)
    if not _has(_LABEL, text):
        if _has(_SUBDOMAIN, text):
            yield "must not contain dots"
        else:
            yield _formed(_LABEL_WORDS, _LABEL, "my-name", "123-abc")


def subdomain(text: str) -> Iterator[str]:
    """Check a DNS subdomain (RFC 1123): most names."""
    yield from _long(text, 253)
    if not _has(_SUBDOMAIN, text):
        yield _formed(_SUBDOMAIN_WORDS, _SUBDOMAIN, "example.com")


def rfc1035_label(text: str) -> Iterator[str]:
    """Check a DNS label that begins with a letter: the name of a service."""
    yield from _long(text, 63)
    if not _has(_RFC1035, text):
        yield _formed(_RFC1035_WORDS, _RFC1035, "my-name", "abc-123")


def label_value(text: str) -> Iterator[str]:
    """Check the value of a label."""
    yield from _long(text, 63)
    if not _has(_VALUE, text):
        yield _formed(_VALUE_WORDS, _VALUE, "MyValue", "my_value", "12345")


@lru_cache(maxsize=4096)
def qualified(text: str) -> tuple[str, ...]:
    """Check a qualified name: the key of a label, a resource."""
    return tuple(_qualified(text))


def _qualified(text: str) -> Iterator[str]:
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        why = _formed(f"a qualified name {_PART_WORDS}", _PART, "MyName", "my.name", "123-abc")
        yield f"{why} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return
    if slash and not prefix:
        yield "prefix part must be non-empty"
    elif slash:
        yield from (f"prefix part {why}" for why in subdomain(prefix))
    if not name:
        yield "name part must be non-empty"
    else:
        yield from (f"name part {why}" for why in _long(name, 63))
    if not _has(_PART, name):
        yield f"name part {_formed(_PART_WORDS, _PART, 'MyName', 'my.name', '123-abc')}"


def config_key(text: str) -> Iterator[str]:
    """Check the key of a config map or a secret."""
    yield from _long(text, 253)
    if not _has(_CONFIG_KEY, text):
        yield _formed(_KEY_WORDS, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name")
    if text == ".":
        yield "must not be '.'"
    elif text == "..":
        yield "must not be '..'"
    elif text.startswith(".."):
        yield "must not start with '..'"


def port(number: object) -> Iterator[str]:
    """Check the number of a port."""
    if not isinstance(number, int) or not 1 <= number <= 65535:
        yield "must be between 1 and 65535, inclusive"


def port_name(text: str) -> Iterator[str]:
    """Check the name of a port."""
    yield from _long(text, 15)
    if not _has("[-a-z0-9]+", text):
        yield "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if not re.search("[a-z]", text):
        yield "must contain at least one letter (a-z)"
    if "--" in text:
        yield "must not contain consecutive hyphens"
    if text.startswith("-") or text.endswith("-"):
        yield "must not begin or end with a hyphen"


#: The annotation with the duration of a simulated pod, after which it has succeeded.
DURATION_ANNOTATION: Final = "policysched.dev/duration"

_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "\N{MICRO SIGN}s": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_DURATION_PART: Final = re.compile(r"([0-9]++(?:\.[0-9]++)?+)(ns|us|\N{MICRO SIGN}s|ms|s|m|h)")
_DURATION: Final = re.compile(rf"(?:{_DURATION_PART.pattern})+")
_NUMBER: Final = re.compile(r"[0-9]++(?:\.[0-9]++)?+")
#: Characters of a text that are parsed; every valid duration is shorter.
_MAX_TEXT: Final = 256
_SHOWN: Final = 40
#: Fewer characters than this are no number of seconds that is too long.
_SHORT: Final = 11
_MAX_INT64: Final = 2**63 - 1


def nanoseconds_of(text: str) -> int:
    """Return a duration in nanoseconds; parts as in Go's durations, none of them negative.

    Raises ValueError if the text is not a duration, or one of more than 292 years, as in Go.
    """
    if text[-1:] == "s" and text[:-1].isdecimal() and text.isascii() and len(text) < _SHORT:
        return int(text[:-1]) * _UNITS["s"]  # as traces have them
    if len(text) > _MAX_TEXT:
        raise ValueError(f"{text[:_SHOWN] + '...'!r} is not a duration: {len(text)} characters")
    if _NUMBER.fullmatch(text):
        nanoseconds = round(Decimal(text) * _UNITS["s"])
    elif _DURATION.fullmatch(text):
        parts = _DURATION_PART.finditer(text)
        nanoseconds = sum(round(Decimal(part[1]) * _UNITS[part[2]]) for part in parts)
    else:
        raise ValueError(f'{text!r} is not a duration; write it as "90s", "1h30m" or "2.5"')
    if nanoseconds > _MAX_INT64:
        raise ValueError(f"{text!r} is longer than durations can be: 292 years")
    return nanoseconds
