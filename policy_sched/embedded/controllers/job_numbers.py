"""The numbers of a job: how many pods may run, which indexes are open, when it is over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from policy_sched.client.apimachinery import SECOND
from policy_sched.manifests import JOB_INDEX
from policy_sched.model import Pod

FIRST_BACKOFF: Final = 10 * SECOND
"""How long the first replacement of a failed pod waits; each further one twice as long."""
LONGEST_BACKOFF: Final = 600 * SECOND
BACKOFF_LIMIT: Final = 6
"""Failures after which a job is given up, unless it says otherwise."""


def number(spec: Mapping[str, Any], field: str) -> int | None:
    """Return a field that is a number, None if it is not given."""
    value = spec.get(field)
    return None if value is None else int(value)


def backoff(failures: int) -> int:
    """Return how long the next pod waits after so many failures (ns)."""
    return min(FIRST_BACKOFF << min(failures - 1, 10), LONGEST_BACKOFF) if failures > 0 else 0


def indexed(spec: Mapping[str, Any]) -> bool:
    """Tell whether each pod of a job stands for a number of its own."""
    return spec.get("completionMode") == "Indexed" and spec.get("completions") is not None


def wanted(spec: Mapping[str, Any], succeeded: int) -> int:
    """Return how many pods should run at a time, after so many successes.

    Without a number of completions the first success is a sign to the others to finish: no pod
    is made any more, and those that run are left alone.
    """
    parallel = number(spec, "parallelism")
    parallel = 1 if parallel is None else parallel
    completions = number(spec, "completions")
    if completions is None:
        return 0 if succeeded else parallel
    return max(0, min(parallel, completions - succeeded))


def complete(spec: Mapping[str, Any], succeeded: int, active: int) -> bool:
    """Tell whether a job has done what it was to do."""
    completions = number(spec, "completions")
    if completions is None:
        return succeeded > 0 and active == 0
    return succeeded >= completions


def index_of(pod: Pod) -> int:
    """Return a pod's completion index, -1 if it has none."""
    text = pod.metadata.annotations.get(JOB_INDEX) or pod.metadata.labels.get(JOB_INDEX, "")
    return int(text) if text.isdecimal() else -1


def ignored(spec: Mapping[str, Any], pod: Pod) -> bool:
    """Tell whether the pod failure policy says that a pod's end was no failure (evictions, say)."""
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            status = pattern.get("status") or "True"
            meant = pattern.get("type"), status
            if any((c.type, c.status) == meant for c in pod.status.conditions):
                return bool(rule.get("action") == "Ignore")
    return False
