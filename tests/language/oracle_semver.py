"""The oracle's semantic versions: reading, normalising and precedence (semver.org, item 11)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from .oracle_values import ABSENT, Optional, OracleError, some

FORM: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?",
    re.ASCII,
)
LOOSE: Final = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?([-+].*)?", re.ASCII)
Version = tuple[tuple[int, int, int], tuple[tuple[bool, int, str], ...]]


def semver(text: str, normalize: bool = False) -> Version:
    """Read a version; ``normalize`` also takes a leading v, missing parts and leading zeros."""
    if normalize and (found := LOOSE.fullmatch(text)):
        numbers = ".".join(str(int(n or 0)) for n in found.groups()[:3])
        text = numbers + (found[4] or "")
    exact = FORM.fullmatch(text)
    if exact is None:
        raise OracleError("conversion")
    labels = exact[4].split(".") if exact[4] else []
    if any(p.isdigit() and p != "0" and p[0] == "0" for p in labels):
        raise OracleError("conversion")
    parts = tuple((not p.isdigit(), int(p) if p.isdigit() else 0, p) for p in labels)
    if any(int(number) >= 2**63 for number in exact.groups()[:3]):
        raise OracleError("conversion")
    return (int(exact[1]), int(exact[2]), int(exact[3])), parts


def compare(left: Version, right: Version) -> int:
    """Return -1, 0 or 1 by precedence; a pre-release comes before its release."""
    first, second = ((v[0], not v[1], v[1]) for v in (left, right))
    return (first > second) - (first < second)


def is_semver(text: str, normalize: bool = False) -> bool:
    """Tell whether a text is a version."""
    return try_semver(text, normalize).present


def try_semver(text: str, normalize: bool = True) -> Optional:
    """Return the version that a text is, if any."""
    try:
        return some(semver(text, normalize))
    except OracleError:
        return ABSENT


CALLS: Final[dict[str, Callable[..., Any]]] = {
    "semver_string": semver,
    "semver_string_bool": semver,
    "isSemver_string": is_semver,
    "isSemver_string_bool": is_semver,
    "trySemver_string": try_semver,
    "major_semver": lambda v: v[0][0],
    "minor_semver": lambda v: v[0][1],
    "patch_semver": lambda v: v[0][2],
    "compareTo_semver_semver": compare,
    "isLessThan_semver_semver": lambda a, b: compare(a, b) < 0,
    "isGreaterThan_semver_semver": lambda a, b: compare(a, b) > 0,
}
