"""Kernels over semantic versions (semver.org 2.0, precedence by its item 11)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from policy_sched.language.values import CONVERSION, INT_MAX, Fault, Some

_NUMBER: Final = r"(0|[1-9][0-9]*)"
_EXACT: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?"
)
_LOOSE: Final = re.compile(r"v?([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?([-+].*)?")
#: Characters of a text that is read as a version.
_MAX_TEXT: Final = 1_024
#: A number of a version with more digits does not fit int64.
_DIGITS: Final = 19
_LABEL: Final = re.compile(r"0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*")


@dataclass(frozen=True, slots=True)
class Version:
    """A version; ``order`` compares as the versions do."""

    major: int
    minor: int
    patch: int
    order: tuple[Any, ...]


def version(text: str, normalize: bool = False) -> Version:
    """Read a version; ``normalize`` also takes "v1.36". Fault: conversion."""
    if len(text) > _MAX_TEXT:
        raise Fault(CONVERSION)
    if normalize and (loose := _LOOSE.fullmatch(text)):
        text = ".".join((n or "").lstrip("0") or "0" for n in loose.groups()[:3]) + (loose[4] or "")
    found = _EXACT.fullmatch(text)
    if found is None:
        raise Fault(CONVERSION)
    labels = found[4].split(".") if found[4] else []
    if not all(_LABEL.fullmatch(label) for label in labels):
        raise Fault(CONVERSION)
    if max(map(len, found.groups()[:3])) > _DIGITS:
        raise Fault(CONVERSION)
    numbers = (int(found[1]), int(found[2]), int(found[3]))
    if max(numbers) > INT_MAX:
        raise Fault(CONVERSION)
    # A longer number is a greater one: labels have no zeros in front.
    ranks = tuple((0, len(x), x) if x.isdigit() else (1, 0, x) for x in labels)
    return Version(*numbers, (*numbers, not labels, ranks))


def _try(text: str) -> Some | None:
    try:
        return Some(version(text, True))
    except Fault:
        return None


def _is(text: str, normalize: bool = False) -> bool:
    try:
        version(text, normalize)
    except Fault:
        return False
    return True


TOTAL: Final[dict[str, Callable[..., Any]]] = {
    "trySemver_string": _try,
    "isSemver_string": _is,
    "isSemver_string_bool": _is,
    "major_semver": lambda v: v.major,
    "minor_semver": lambda v: v.minor,
    "patch_semver": lambda v: v.patch,
    "compareTo_semver_semver": lambda a, b: (a.order > b.order) - (a.order < b.order),
    "isLessThan_semver_semver": lambda a, b: a.order < b.order,
    "isGreaterThan_semver_semver": lambda a, b: a.order > b.order,
}
PARTIAL: Final[dict[str, Callable[..., Any]]] = {
    "semver_string": version,
    "semver_string_bool": version,
}
