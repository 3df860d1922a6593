"""Where the write-ahead log of an SQLite file is damaged.

Theory of operation. The log is a header and records (frames) of one page each, with a running
checksum. SQLite reads records up to the first one that is not whole, and says nothing of what comes
after it. Records behind the last one may be left over from before the log began anew: these have
other salts. The form is that of https://sqlite.org/fileformat2.html#walformat.
"""

from __future__ import annotations

import struct
from typing import IO, Final

_HEADER: Final = struct.Struct(">8I")
_FRAME: Final = struct.Struct(">6I")
_MAGIC: Final = (0x377F0682, 0x377F0683)
_LARGEST_PAGE: Final = 1 << 16
MAX_LOG: Final = 64 << 20
"""Bytes of a log that are looked at."""

Sums = tuple[int, int]


def log_damage(path: str) -> str:
    """Return where the log of a database is damaged, "" if it is whole, missing or not readable."""
    try:
        with open(f"{path}-wal", "rb") as log:
            return _damage(log)
    except OSError:
        return ""


def _damage(log: IO[bytes]) -> str:
    head = log.read(_HEADER.size)
    if not head:
        return ""
    magic, _, page, *_ = words = _HEADER.unpack(head.ljust(_HEADER.size, b"\0"))
    order = ">" if magic & 1 else "<"
    if len(head) < _HEADER.size:
        return f"cut after {len(head)} bytes"
    sums = _summed(head[:24], order, (0, 0))
    if magic not in _MAGIC or not 512 <= page <= _LARGEST_PAGE or sums != words[6:]:
        return "damaged at byte 0"
    salts = words[4:6]
    number, at = 0, _HEADER.size
    while at < MAX_LOG and (frame := log.read(_FRAME.size)):
        number += 1
        known = _FRAME.unpack(frame.ljust(_FRAME.size, b"\0"))
        if len(frame) >= 16 and known[2:4] != salts:
            return ""
        content = log.read(page) if len(frame) == _FRAME.size else b""
        if len(content) < page:
            return f"cut in record {number}, after {at + len(frame) + len(content)} bytes"
        sums = _summed(content, order, _summed(frame[:8], order, sums))
        if sums != known[4:]:
            return f"damaged in record {number}, from byte {at}"
        at += _FRAME.size + page
    return ""


def _summed(data: bytes, order: str, sums: Sums) -> Sums:
    """Return the running checksum after more words of 32 bits, of which there is an even number."""
    first, second = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second
