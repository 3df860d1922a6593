"""A runtime that notes what it is asked: results over it are computed anew when that changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from policy_sched import model
from policy_sched.cluster import tables
from policy_sched.language.runtime.context import Runtime


class TracedRuntime(Runtime):
    """A runtime over the node table that notes reads of aggregates, quotas, inputs, namespaces."""

    def __init__(self, table: tables.NodeTable, dependencies: tables.Dependencies) -> None:
        super().__init__(table)
        self._tables = table
        self._dependencies = dependencies

    def aggregate(self, name: str, key: Any, pod: model.PodInfo | None) -> Any:
        """Return the value of an aggregate for a key, without the pod that is decided."""
        noted = tuple(key) if isinstance(key, list) else key
        self._dependencies.read(self._tables.aggregates[name], noted)
        return super().aggregate(name, key, pod)

    def aggregate_open(self, name: str, key: Sequence[str], pod: model.PodInfo | None) -> Any:
        """Return the values of an aggregate by the last part of its key."""
        self._dependencies.read(self._tables.aggregates[name], tables.ANY)
        return super().aggregate_open(name, key, pod)

    def aggregate_total(self, name: str, pod: model.PodInfo | None) -> Any:
        """Return the value of an aggregate for all keys together, without the pod."""
        self._dependencies.read(self._tables.aggregates[name], tables.ANY)
        return super().aggregate_total(name, pod)

    def quota(self, name: str, pod: model.PodInfo) -> Any:
        """Return the quota of the pod that is decided; what it uses is noted once it is read."""
        return _TracedQuota(super().quota, self._tables.quotas[name], pod, name, self._dependencies)

    def quota_total(self, name: str, pod: model.PodInfo) -> tables.QuotaState:
        """Return all quotas of an entry together, without the pod that is decided."""
        quotas = self._tables.quotas[name]
        for kind in quotas.kinds:
            self._dependencies.read(kind.objects, tables.ANY)
        self._dependencies.read(quotas.used, tables.ANY)
        self._dependencies.read(quotas.wanted, tables.ANY)
        return super().quota_total(name, pod)

    def input(self, identity: str) -> Mapping[str, Any]:
        """Return the objects of an input by key."""
        table = self._tables.input_table(identity)
        return _TracedObjects(table, self._dependencies)

    def input_root(self, identity: str, default: Any) -> Any:
        """Return what a polled answer says beside its items, else ``default``."""
        self._dependencies.read(self._tables.input_table(identity), tables.ANY)
        return super().input_root(identity, default)

    def input_exceeds(self, identity: str) -> bool:
        """Return whether an input has more objects than a rule may read at once."""
        self._dependencies.read(self._tables.input_table(identity), tables.ANY)
        return super().input_exceeds(identity)

    def namespace(self, name: str) -> model.Namespace:
        """Return a namespace; one without labels if it is not known."""
        self._dependencies.read(self._tables.aggregates, tables.ANY)
        return super().namespace(name)


class _TracedObjects(Mapping[str, Any]):
    """The objects of an input by key."""

    def __init__(self, table: tables.InputTable, dependencies: tables.Dependencies) -> None:
        self._table = table
        self._dependencies = dependencies

    def __getitem__(self, key: str) -> Any:
        self._dependencies.read(self._table, key)
        record = self._table.by_key.get(key)  # objects that the cache has are read by `get` alone
        if record is None:
            raise KeyError(key)
        return record

    def __contains__(self, key: object) -> bool:
        self._dependencies.read(self._table, key)
        return key in self._table.by_key

    def __iter__(self) -> Iterator[str]:
        self._dependencies.read(self._table, tables.ANY)
        return iter(self._table.by_key)

    def __len__(self) -> int:
        self._dependencies.read(self._table, tables.ANY)
        return len(self._table.by_key)


class _TracedQuota:
    """A quota of which it matters whether its name is read, or a number that changes with pods."""

    def __init__(
        self,
        quota: Any,
        quotas: tables.Quotas,
        pod: model.PodInfo,
        name: str,
        dependencies: tables.Dependencies,
    ) -> None:
        self._quota = quota
        self._quotas = quotas
        self._pod = pod
        self._name = name
        self._dependencies = dependencies

    def __getattr__(self, attribute: str) -> Any:
        quotas, key = self._quotas, self._quotas.key_of(self._pod)
        if attribute in ("name", "exists"):
            self._dependencies.read(quotas.objects, key)
        else:
            for kind in quotas.kinds:
                self._dependencies.read(kind.objects, tables.ANY)
            self._dependencies.read(quotas.used, tables.ANY if quotas.nested else key)
        if attribute in ("demand", "fair", "saturation", "path", "with_request"):
            self._dependencies.read(quotas.wanted, tables.ANY)
            self._dependencies.read(quotas.used, tables.ANY)
        return getattr(self._quota(self._name, self._pod), attribute)
