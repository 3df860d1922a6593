"""Checks of amounts of resources: what a container asks for, and its limits."""

from __future__ import annotations

from typing import Any, Final

from policy_sched.embedded.apiserver.validation.problems import Problems
from policy_sched.embedded.apiserver.validation.selecting import inside
from policy_sched.model import formats, nanos

_STANDARD: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_OF_QUOTAS: Final = _STANDARD | frozenset({
    "pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps",
    "persistentvolumeclaims", "services.nodeports", "services.loadbalancers", "requests.cpu",
    "requests.memory", "requests.storage", "requests.ephemeral-storage", "limits.cpu",
    "limits.memory", "limits.ephemeral-storage",
})  # fmt: skip
_HUGE: Final = "hugepages-"
_WHOLE: Final = 10**9
_NOT_KNOWN: Final = "must be a standard resource type or fully qualified"


def check_requirements(problems: Problems, at: str, given: Any) -> None:
    """Check requests and limits of a container or a pod."""
    requests, limits = inside(given, "requests") or {}, inside(given, "limits") or {}
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            _check_container_resource(problems, f"{at}.{field}", name)
            check_amount(problems, f"{at}.{field}[{name}]", name, amount)
    for name, amount in requests.items():
        here = f"{at}.requests"
        limit = limits.get(name)
        if limit is None:
            if not _overcommits(name):
                why = "Limit must be set for non overcommitable resources"
                problems.required(f"{at}.limits", why)
        elif nanos(amount) > nanos(limit):
            why = f"must be less than or equal to {name} limit of {limit}"
            problems.invalid(here, str(amount), why)
        elif not _overcommits(name) and nanos(amount) != nanos(limit):
            why = f"must be equal to {name} limit of {limit}"
            problems.invalid(here, str(amount), why)


def _overcommits(name: str) -> bool:
    native = "/" not in name or "kubernetes.io/" in name
    return native and not name.startswith(_HUGE)


def _check_container_resource(problems: Problems, at: str, name: str) -> None:
    problems.each(at, name, formats.qualified(name))
    if "/" not in name and name not in _STANDARD and not name.startswith(_HUGE):
        problems.invalid(at, name, "must be a standard resource for containers")


def check_amount(problems: Problems, at: str, name: str, amount: Any) -> None:
    """Check the amount of a resource: not negative, and whole where there are no parts."""
    value = nanos(amount)
    if value < 0:
        problems.invalid(at, str(amount), formats.NOT_NEGATIVE)
    elif value % _WHOLE and not _overcommits(name):
        problems.invalid(at, amount, "must be an integer")


def check_quota(problems: Problems, at: str, hard: Any) -> None:
    """Check what a quota limits."""
    for name, amount in (hard if isinstance(hard, dict) else {}).items():
        here = f"{at}[{name}]"
        problems.each(here, name, formats.qualified(name))
        if "/" not in name and name not in _OF_QUOTAS and _HUGE not in name:
            problems.invalid(here, name, "must be a standard resource for quota")
        _check_readable(problems, here, amount)


def _check_readable(problems: Problems, at: str, amount: Any) -> None:
    try:
        if nanos(amount) < 0:
            problems.invalid(at, str(amount), formats.NOT_NEGATIVE)
    except (ValueError, TypeError):
        problems.invalid(at, amount, "must be a quantity")
