"""The cluster's other API objects: services, workloads, claims, by kind and name.

Theory of operation: plugins look objects up when they decide, so there is no copy to keep in
step. A change raises ``version`` and is noted in the journal as one that every row shares: no
result that was kept before it is used again. Disruption budgets change with every eviction and
say nothing of where a pod may run: they are not in the journal. Nor are resource claims, which
change with every pod that has one: the plugin that reads them listens, and notes the rows itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Sized
from typing import Any, Final, TypeAlias, TypeVar

from policy_sched import model
from policy_sched.cluster.tables import Journal

T = TypeVar("T", bound=model.ApiObject)

_STRUCTS: Final = frozenset(model.KINDS.values())
#: Kinds that the cache holds; they are passed over here.
_CACHED: Final = (model.Node, model.Pod, model.Namespace)
#: Kinds that no filter or score may read.
_OF_NO_ROW: Final = (model.PodDisruptionBudget, model.ResourceClaim, model.ResourceClaimTemplate)

_OF_CLAIMS: Final = (model.ResourceClaim, model.ResourceClaimTemplate)
"""Kinds that only the plugin reads that listens to them: they change with every pod."""

Listener: TypeAlias = Callable[[model.ApiObject | None, model.ApiObject | None], None]
"""Called with an object before and after a change; None if it did not exist, or was deleted."""


KindKey: TypeAlias = type[model.ApiObject] | model.Kind
"""A type, or the apiVersion and kind of objects that rules alone read."""


def key_of(kind: KindKey) -> KindKey:
    """Return the key of a kind that is given as either."""
    return model.KINDS.get(kind, kind) if isinstance(kind, tuple) else kind


def key_of_object(item: model.ApiObject) -> KindKey:
    """Return the key of an object's kind."""
    custom = type(item) is model.CustomObject
    return (item.api_version, item.kind) if custom else model.struct_of(item)


class ApiObjects:
    """API objects by kind, then by namespace ("" where the kind has none) and name.

    ``changes`` rises with every change, ``version`` with those of resource claims excepted.
    """

    def __init__(self, objects: Iterable[object] = (), journal: Journal | None = None) -> None:
        self.version = self.changes = 0
        self._kinds: dict[KindKey, dict[tuple[str, str], Any]] = {}
        self._lists: dict[type[model.ApiObject], tuple[Any, ...]] = {}
        self._journal = journal
        self._listeners: dict[KindKey, list[Listener]] = {}
        for item in objects:
            if isinstance(item, model.ApiObject) and not isinstance(item, _CACHED):
                self.put(item)

    def of(self, kind: type[T]) -> Sequence[T]:
        """Return all objects of a kind, in order of arrival."""
        listed = self._lists.get(kind)
        if listed is None:
            listed = self._lists[kind] = tuple(self._kinds.get(kind, {}).values())
        return listed

    def of_kind(self, kind: model.Kind) -> list[model.ApiObject]:
        """Return all objects of an apiVersion and kind, in order of arrival."""
        return list(self._kinds.get(key_of(kind), {}).values())

    def live(self, kind: type[model.ApiObject]) -> Sized:
        """Return the collection of a kind's objects; it stays current."""
        return self._kinds.setdefault(kind, {})

    def every(self) -> list[model.ApiObject]:
        """Return all objects, kind by kind, in order of arrival."""
        return [item for items in self._kinds.values() for item in items.values()]

    def named(self, kind: type[T], namespace: str, name: str) -> T | None:
        """Return one object, None if there is none; ``namespace`` is "" where the kind has none."""
        items = self._kinds.get(kind)
        item: T | None = None if items is None else items.get((namespace, name))
        return item

    def listen(self, kind: KindKey, listener: Listener) -> None:
        """Tell a listener of every change of a kind from now on, after it was made."""
        self._listeners.setdefault(key_of(kind), []).append(listener)

    def unlisten(self, kind: model.Kind, listener: Listener) -> None:
        """Tell a listener of no further change of a kind."""
        self._listeners[key_of(kind)].remove(listener)

    def drop(self, kind: model.Kind) -> None:
        """Drop all objects of a kind that no input declares any more."""
        if self._kinds.pop(key_of(kind), None):
            self._changed(key_of(kind))

    def put(self, item: model.ApiObject) -> None:
        """Take an object in, or replace it by its newer form."""
        kind: KindKey = type(item)
        if kind not in _STRUCTS:  # for speed, here and in `remove`: claims change with each pod
            kind = key_of_object(item)
        key = _key(item)
        items = self._kinds.setdefault(kind, {})
        old = items.get(key)
        items[key] = item
        self._changed(kind)
        for listener in self._listeners.get(kind, ()):
            listener(old, item)

    def remove(self, item: model.ApiObject) -> None:
        """Drop an object if it is known."""
        kind: KindKey = type(item)
        if kind not in _STRUCTS:
            kind = key_of_object(item)
        old = self._kinds.get(kind, {}).pop(_key(item), None)
        if old is not None:
            self._changed(kind)
            for listener in self._listeners.get(kind, ()):
                listener(old, None)

    def _changed(self, kind: KindKey) -> None:
        self.changes += 1
        if isinstance(kind, tuple):
            return  # rules alone read it: see `Inputs`
        self._lists.pop(kind, None)
        if kind not in _OF_CLAIMS:
            self.version += 1
        if self._journal is not None and kind not in _OF_NO_ROW:
            self._journal.changed_everything()


def _key(item: model.ApiObject) -> tuple[str, str]:
    meta = item.metadata
    namespace = "" if item.kind in model.CLUSTER_SCOPED else meta.namespace or "default"
    return namespace, meta.name
