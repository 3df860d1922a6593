"""Numbers of quotas in the status of their objects, where a policy publishes them.

Theory of operation. From time to time what each object shows is compared with its quota, between
two decisions and a few objects at a time. What differs is written: one object after the other, so
that at most one request is under way. An object that cannot be written is tried again later each
time, and a round ends after a few failures. What is shown is read from the object itself, so a
restart writes nothing anew, and what other clients write there is put right.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from policy_sched.cluster import DeclaredInput, Inputs
from policy_sched.cluster.tables import QuotaKind, Quotas, QuotaState
from policy_sched.errors import ClusterError
from policy_sched.model import quantity_text

EVERY: Final = 10.0
"""Seconds between two rounds."""
SPACING: Final = 0.05
"""Seconds between two writes."""
AT_A_TIME: Final = 200
"""Objects that are compared between two decisions."""
MOST_FAILURES: Final = 5
"""Failures after which a round ends."""
LONGEST: Final = 5
"""An object that fails again and again is left alone for two to the power of this many rounds."""
_GRANTED: Final = frozenset({"nominal", "limit"})


class StatusPatch(msgspec.Struct, frozen=True):
    """What has to be written to the status of an object."""

    input: DeclaredInput
    namespace: str
    name: str
    status: Mapping[str, Any]


def status_patch(
    publish: Sequence[tuple[str, tuple[str, ...]]], quota: QuotaState, shown: Sequence[Any]
) -> dict[str, Any]:
    """Return the merge patch of a status after which it shows the quota; {} if it does already.

    ``publish``: numbers, each with the path in the object. ``shown``: what is there, None where
    that cannot be read. A resource that the object grants is shown also where it is 0.
    """
    patch: dict[str, Any] = {}
    for (number, path), old in zip(publish, shown, strict=True):
        new: Any = getattr(quota, number)
        if isinstance(new, Mapping):
            granted = () if number in _GRANTED else (*quota.nominal, *quota.limit)
            amounts = {**dict.fromkeys(granted, 0), **new}
            if amounts == old:
                continue
            new = {name: quantity_text(name, amount) for name, amount in sorted(amounts.items())}
            new |= dict.fromkeys(sorted((old or {}).keys() - amounts.keys()))
        elif new == old:
            continue
        fields = patch
        for step in path[1:-1]:
            fields = fields.setdefault(step, {})
        fields[path[-1]] = new
    return patch


def _objects(quotas: Sequence[Quotas]) -> Iterator[tuple[Quotas, int, QuotaKind, str]]:
    """Yield the objects that show numbers."""
    for tree in quotas:
        for number, kind in enumerate(tree.kinds):
            if kind.publish:
                for key in list(kind.objects.by_key):
                    yield tree, number, kind, key


class PublishedQuotas:
    """Writes the numbers. ``run`` it as a task.

    ``quotas`` returns what is counted, once no decision is made; None if nothing may be written
    now. ``write`` raises ClusterError. ``told`` is called after each write, with the error or "".
    ``sleep`` is that of the world unless another one is set.
    """

    def __init__(
        self,
        inputs: Inputs,
        quotas: Callable[[], Awaitable[Sequence[Quotas] | None]],
        write: Callable[[StatusPatch], Awaitable[None]],
        told: Callable[[StatusPatch, str], None],
    ) -> None:
        self._inputs = inputs
        self._quotas = quotas
        self._write = write
        self._told = told
        self.sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
        self._round = 0
        self._failed: dict[tuple[str, str], tuple[int, int]] = {}
        """By input and key: how often a write failed, and the round to try again."""

    async def run(self) -> None:
        """Write what changed, until cancelled."""
        while True:
            await self.sleep(EVERY)
            await self.publish()

    async def publish(self) -> None:
        """Write what changed, once."""
        self._round += 1
        quotas, failures, seen = await self._quotas(), 0, set()
        waiting = _objects(quotas or ())
        while objects := list(islice(waiting, AT_A_TIME)):
            if await self._quotas() is None:
                return
            seen |= {(kind.input, key) for _, _, kind, key in objects}
            for where, patch in [*self._changed(objects)]:
                failures += not await self._written(where, patch)
                if failures >= MOST_FAILURES:
                    return
                await self.sleep(SPACING)
        if quotas is not None:
            self._failed = {where: tries for where, tries in self._failed.items() if where in seen}

    def _changed(
        self, objects: Sequence[tuple[Quotas, int, QuotaKind, str]]
    ) -> Iterator[tuple[tuple[str, str], StatusPatch]]:
        for tree, number, kind, key in objects:
            record, where = kind.objects.by_key.get(key), (kind.input, key)
            holder = self._inputs.holder(kind.input, key)
            if record is None or holder is None or self._failed.get(where, (0, 0))[1] > self._round:
                continue
            state = tree.state_of(number, key)
            status = status_patch(kind.publish, state, kind.shown(record)) if state.exists else {}
            if status:
                given, (namespace, name) = holder
                yield where, StatusPatch(given, namespace, name, status)

    async def _written(self, where: tuple[str, str], patch: StatusPatch) -> bool:
        try:
            await self._write(patch)
        except ClusterError as error:
            failures = self._failed.get(where, (0, 0))[0] + 1
            self._failed[where] = failures, self._round + 2 ** min(failures, LONGEST)
            self._told(patch, str(error))
            return False
        self._failed.pop(where, None)
        self._told(patch, "")
        return True
