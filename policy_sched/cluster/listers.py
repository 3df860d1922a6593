"""The cluster's other API objects: services, workloads, claims, by kind and name.

Theory of operation: plugins look objects up when they decide, so there is no copy to keep in
step. A change raises ``version`` and is noted in the journal as one that every row shares: no
answer that was kept before it is used again. Disruption budgets change with every eviction and
say nothing of where a pod may run: they are not in the journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar, cast

from policy_sched.cluster.tables import STRUCTURE, Journal
from policy_sched.model import CLUSTER_SCOPED, ApiObject, Namespace, Node, Pod, PodDisruptionBudget

T = TypeVar("T", bound=ApiObject)

#: Kinds that the cache holds; they are passed over here.
_CACHED: Final = (Node, Pod, Namespace)
#: Kinds that no filter or score may read.
_OF_NO_ROW: Final = (PodDisruptionBudget,)


class ApiObjects:
    """API objects by kind, then by namespace ("" where the kind has none) and name.

    ``version`` rises with every change.
    """

    def __init__(self, objects: Iterable[object] = (), journal: Journal | None = None) -> None:
        self.version = 0
        self._kinds: dict[type[ApiObject], dict[tuple[str, str], ApiObject]] = {}
        self._lists: dict[type[ApiObject], tuple[ApiObject, ...]] = {}
        self._journal = journal
        for one in objects:
            if isinstance(one, ApiObject) and not isinstance(one, _CACHED):
                self.put(one)

    def of(self, kind: type[T]) -> Sequence[T]:
        """Return all objects of a kind, in order of arrival."""
        listed = self._lists.get(kind)
        if listed is None:
            listed = self._lists[kind] = tuple(self._kinds.get(kind, {}).values())
        return cast("Sequence[T]", listed)

    def named(self, kind: type[T], namespace: str, name: str) -> T | None:
        """Return one object, None if there is none; ``namespace`` is "" where the kind has none."""
        return cast("T | None", self._kinds.get(kind, {}).get((namespace, name)))

    def put(self, one: ApiObject) -> None:
        """Take an object in, or replace it by its newer form."""
        self._kinds.setdefault(type(one), {})[_place(one)] = one
        self._changed(type(one))

    def remove(self, one: ApiObject) -> None:
        """Drop an object if it is known."""
        if self._kinds.get(type(one), {}).pop(_place(one), None) is not None:
            self._changed(type(one))

    def _changed(self, kind: type[ApiObject]) -> None:
        self._lists.pop(kind, None)
        self.version += 1
        if self._journal is not None and kind not in _OF_NO_ROW:
            self._journal.append(0, STRUCTURE)


def _place(one: ApiObject) -> tuple[str, str]:
    meta = one.metadata
    namespace = "" if one.kind in CLUSTER_SCOPED else meta.namespace or "default"
    return namespace, meta.name
