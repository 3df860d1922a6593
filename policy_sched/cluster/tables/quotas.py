"""Quotas: what pods use of what objects of an input grant, by key.

A quota's use is an aggregate of the requests of reserved and bound pods, by the key that a rule
gives each pod; only keys that have an object count. Amounts are read from an object once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from policy_sched.cluster.tables.aggregates import BOUND, Aggregate, Contribution, OtherPod
from policy_sched.cluster.tables.inputs import InputTable
from policy_sched.model import PodInfo

Resources: TypeAlias = Mapping[str, int]


class QuotaState(msgspec.Struct, frozen=True):
    """A quota as rules see it; without an object nothing is granted, and nothing counted.

    ``limit``: a resource that is not in it has none.
    """

    name: str = ""
    exists: bool = False
    used: Resources = {}
    nominal: Resources = {}
    limit: Resources = {}

    @property
    def borrowed(self) -> Resources:
        """What is used beyond the nominal amounts."""
        beyond = {name: used - self.nominal.get(name, 0) for name, used in self.used.items()}
        return {name: amount for name, amount in beyond.items() if amount > 0}


NO_QUOTA = QuotaState()


class Quotas:
    """The quotas of one entry of a policy's ``quotas``.

    ``key_of``: the key of a pod, "" for none. ``amounts``: the nominal amounts and the limit that
    an object states.
    """

    def __init__(
        self,
        objects: InputTable,
        key_of: Callable[[PodInfo], str],
        amounts: Callable[[Any], tuple[Resources, Resources]],
    ) -> None:
        self.objects = objects
        self._amounts = amounts
        self._read: dict[str, tuple[Any, Resources, Resources]] = {}
        self._granted: tuple[int, Resources] = (-1, {})
        self._counted: set[str] = set()
        self.key_of = key_of
        self.used = Aggregate("sumOfResources", frozenset({BOUND}), self._contribute)

    def _contribute(self, pod: PodInfo, _row: int) -> Contribution | None:
        key = self.key_of(pod)
        if key not in self.objects.by_key:
            return None
        return Contribution(key, pod.requests)

    def concerned(self, key: str) -> bool:
        """Return whether pods count otherwise after a change of a key's object."""
        exists = key in self.objects.by_key
        changes = exists != (key in self._counted)
        (self._counted.add if exists else self._counted.discard)(key)
        return changes

    def state(
        self, key: str, apart: PodInfo | None = None, others: Iterable[OtherPod] = ()
    ) -> QuotaState:
        """Return the quota of a key, without a pod and with changes of others."""
        record = self.objects.by_key.get(key)
        if record is None:
            return NO_QUOTA
        nominal, limit = self._amounts_of(key, record)
        return QuotaState(key, True, self.used.value(key, apart, others), nominal, limit)

    def total(self, apart: PodInfo | None = None, others: Iterable[OtherPod] = ()) -> QuotaState:
        """Return all quotas together; a resource has no limit."""
        version, granted = self._granted
        if version != self.objects.version:
            total: Counter[str] = Counter()
            for key, record in self.objects.by_key.items():
                total.update(self._amounts_of(key, record)[0])
            granted = dict(total)
            self._granted = self.objects.version, granted
        return QuotaState("", True, self.used.total(apart, others), granted)

    def _amounts_of(self, key: str, record: Any) -> tuple[Resources, Resources]:
        known = self._read.get(key)
        if known is None or known[0] is not record:
            if len(self._read) > 2 * len(self.objects.by_key):
                self._read.clear()
            known = self._read[key] = (record, *self._amounts(record))
        return known[1], known[2]
