"""Suggestions for names that do not exist, and the names of CEL that rules leave out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_MAX_LENGTH: Final = 64

#: CEL's names outside the dialect, as an author writes them, and the feature's name.
OUTSIDE: Final[dict[str, str]] = {
    "dyn": "dyn()",
    "type": "type()",
    "uint": "the type uint",
    "bytes": "the type bytes",
    "null_type": "null",
    "google": "protocol buffers",
    "proto": "protocol buffers",
    "TestAllTypes": "protocol buffers",
    "base64": "base64 encoding",
    "url": "the URL library",
    "isURL": "the URL library",
    "ip": "the IP library",
    "isIP": "the IP library",
    "cidr": "the CIDR library",
    "isCIDR": "the CIDR library",
    "format": "the format library",
    "authorizer": "the authorizer",
    "jsonpatch": "the JSON patch library",
    "sortBy": "sortBy()",
    "slice": "slice()",
    "findAll": "findAll()",
    "transformMapEntry": "transformMapEntry()",
    "regex": "the regex library",
    "block": "cel.block()",
    "iterVar": "cel.iterVar()",
    "accuVar": "cel.accuVar()",
    "index": "cel.index()",
    "getExt": "protocol buffers",
    "hasExt": "protocol buffers",
}
#: Names of types, which are no values here.
TYPE_NAMES: Final = frozenset(
    {"int", "double", "string", "bool", "list", "map", "duration", "timestamp", "optional_type"}
)


def distance(a: str, b: str) -> int:
    """Return the Damerau-Levenshtein distance: insertions, deletions, changes, swaps of two."""
    before_last: list[int] = []
    last = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        row = [i]
        for j, right in enumerate(b, 1):
            cost = min(last[j] + 1, row[-1] + 1, last[j - 1] + (left != right))
            if i > 1 and j > 1 and left == b[j - 2] and a[i - 2] == right:
                cost = min(cost, before_last[j - 2] + 1)
            row.append(cost)
        before_last, last = last, row
    return last[-1]


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that ``name`` most likely meant, or None.

    At most max(1, len/3) typing errors apart, differences of case not counted.
    """
    if len(name) > _MAX_LENGTH:
        return None
    limit = max(1, len(name) // 3)
    best: tuple[int, str] | None = None
    for candidate in sorted(set(candidates)):
        if abs(len(candidate) - len(name)) > limit:
            continue
        apart = distance(name.lower(), candidate.lower())
        if apart <= limit and apart < len(candidate) and (best is None or apart < best[0]):
            best = (apart, candidate)
    return best[1] if best else None


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` or nothing."""
    found = nearest(name, candidates)
    return f"; did you mean '{found}'?" if found else ""
