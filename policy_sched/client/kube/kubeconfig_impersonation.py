"""Acting as somebody else: what ``as`` and its companions in a kubeconfig become in requests."""

from __future__ import annotations

import string
from typing import Final

from policy_sched.client.kube.kubeconfig_text import BAD_VALUE, MISSING, Entry, Reader

Headers = tuple[tuple[str, str], ...]
"""Names and values; a name may come more than once."""

_COMPANIONS: Final = ("as-uid", "as-groups", "as-user-extra")
_LEGAL: Final = frozenset(string.ascii_letters + string.digits + "!#$&'*+-.^_`|~")
"""What a header's name may have (RFC 7230), without the percent sign, which escapes the rest."""


def impersonation(entry: Entry) -> Headers:
    """Return the headers for whom a user of a kubeconfig acts; problems are reported."""
    reader, where = entry.reader, ("users", entry.index, "user")
    user = _value(reader, *where, "as")
    found = [("Impersonate-User", user), ("Impersonate-Uid", _value(reader, *where, "as-uid"))]
    found += _values(reader, "Impersonate-Group", *where, "as-groups")
    for key in reader.mapping(*where, "as-user-extra"):
        name = f"Impersonate-Extra-{_escaped(str(key))}"
        found += _values(reader, name, *where, "as-user-extra", key)
    given = tuple((name, value) for name, value in found if value)
    if given and not user:
        key = next(key for key in _COMPANIONS if reader.mapping(*where).get(key))
        reader.report((*where, key), MISSING, f"{key} needs `as`: a user to act as", key=True)
    return given


def _values(reader: Reader, name: str, *where: str | int) -> Headers:
    """Return a header for each text of a list."""
    indices = range(len(reader.items(*where)))
    return tuple((name, _value(reader, *where, index)) for index in indices)


def _value(reader: Reader, *where: str | int) -> str:
    """Return a text that can be a header's value."""
    text = reader.text(*where)
    if text.isprintable():
        return text
    key = next(part for part in reversed(where) if isinstance(part, str))
    reader.report(where, BAD_VALUE, f"{key} has characters that no header can have")
    return ""


def _escaped(key: str) -> str:
    """Return a key as a part of a header's name, as client-go writes it."""
    bytes_ = key.encode("utf-8", "surrogateescape")
    return "".join(chr(b) if chr(b) in _LEGAL else f"%{b:02X}" for b in bytes_)
