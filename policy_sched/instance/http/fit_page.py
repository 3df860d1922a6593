"""The page /fit: how many replicas of a pod fit on the cluster of a running scheduler.

Theory of operation. The objects are listed between two decisions, which takes milliseconds. The
replicas are counted in a copy of the cluster and in a thread of its own, so the scheduler goes on
deciding. One request is served at a time.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from policy_sched.errors import PolicyError, PolicySchedError, nearest
from policy_sched.fit import Fit, FitCluster, FitUnit, fit, objects_of, unit_of
from policy_sched.instance.app import Instance, Worker
from policy_sched.manifests import load
from policy_sched.model import ApiObject
from policy_sched.profiles.build import CompiledPlan, raise_errors

LIMIT: Final = 1_000
"""Replicas up to which they are counted unless the request states another number."""
PREEMPTING: Final = 10
MOST: Final = 50_000
"""Most pods that a request may have counted."""
BODY: Final = "body"
_NUMBERS: Final = ("limit", "preempting")
_STDIN: Final = "-"


class FitBusy(PolicySchedError):  # noqa: N818 - a response, not a failure
    """Another request is being served."""


@dataclass(frozen=True, slots=True)
class FitQuery:
    """The parameters of a request."""

    limit: int = LIMIT
    preempting: int = PREEMPTING
    per: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> FitQuery:
        """Read the query of a URL. Raises PolicySchedError."""
        parameters = (*_NUMBERS, "per")
        for name in query:
            if name not in parameters:
                close = nearest(name, parameters) or ", ".join(parameters)
                raise PolicySchedError(f'unknown parameter "{name}": known is {close}')
        return cls(
            _number(query, "limit", LIMIT, 1),
            _number(query, "preempting", PREEMPTING, 0),
            query.get("per", ""),
        )


def _number(query: Mapping[str, str], name: str, default: int, least: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10 and least <= int(text) <= MOST):
        raise PolicySchedError(f"{name} must be a number from {least} to {MOST}")
    return int(text)


class Fitting:
    """Counts replicas on the cluster of one instance."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._worker = Worker(lambda: None)
        self._listing = False

    async def of(self, body: bytes, query: FitQuery) -> Fit:
        """Count the replicas of what a body describes.

        Raises PolicySchedError for a body that describes no replica, Busy while another request is
        served.
        """
        if self._listing or self._worker.busy:
            raise FitBusy("another request is being served")
        instance, self._listing = self._instance, True
        try:
            objects = await instance.undisturbed(partial(objects_of, instance.scheduler))
        finally:
            self._listing = False
        plans, now = instance.reloader.store.current.plans, instance.now()
        return await self._worker.run(partial(_counted, body, query, objects, plans, lambda: now))


def _counted(
    body: bytes,
    query: FitQuery,
    objects: Sequence[ApiObject],
    plans: Sequence[CompiledPlan],
    now: Callable[[], int],
) -> Fit:
    unit = _unit(body, objects)
    limit = min(query.limit, max(1, MOST // len(unit.pods)))
    cluster = FitCluster.of(plans, objects, now=now)
    try:
        return fit(cluster, unit, limit=limit, preempting=query.preempting, label=query.per)
    finally:
        cluster.close()


def _unit(body: bytes, objects: Sequence[ApiObject]) -> FitUnit:
    """Return the unit that a body describes. Raises PolicySchedError with every problem."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise PolicySchedError("the body is not UTF-8") from None
    manifests = load([_STDIN], io.StringIO(text), cluster=objects)
    try:
        raise_errors(manifests.diagnostics)
        return unit_of(manifests, objects, _STDIN)
    except PolicyError as error:
        lines = (f"{BODY}:{d.line}:{d.column}: {d.message}" for d in error.diagnostics)
        raise PolicySchedError("; ".join(lines)) from None
