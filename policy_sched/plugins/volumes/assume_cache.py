"""The assume cache: claims and volumes as they will be once a binding that is under way has ended.

Theory of operation: Reserve decides that a volume is kept for a claim, or that a volume is to be
made for it on a node, long before the API server shows it; the next pod must see it at once. An
assumed object covers the one that it was made of, and only that one: when the API server shows a
newer one, that is what counts. Only VolumeBinding looks at assumed objects. Assuming and taking
back are noted in the journal as a change that every row shares: no answer that was kept before it
is used again.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic, TypeVar

from policy_sched.cluster import ApiObjects
from policy_sched.cluster.tables import STRUCTURE, Journal
from policy_sched.errors import ClusterError
from policy_sched.model import ApiObject

T = TypeVar("T", bound=ApiObject)


class AssumeCache(Generic[T]):
    """Objects of one kind, by namespace ("" where the kind has none) and name."""

    def __init__(self, kind: type[T], objects: ApiObjects, journal: Journal) -> None:
        self._kind = kind
        self._objects = objects
        self._journal = journal
        self._assumed: dict[tuple[str, str], tuple[T, T]] = {}

    def get(self, namespace: str, name: str) -> T | None:
        """Return an object as assumed, else as the API server has it, else None."""
        one = self._objects.named(self._kind, namespace, name)
        kept = self._assumed.get((namespace, name))
        if kept is None:
            return one
        base, assumed = kept
        if base is one:
            return assumed
        del self._assumed[namespace, name]
        return one

    def names(self) -> Collection[tuple[str, str]]:
        """Return namespace and name of what is assumed now."""
        for namespace, name in tuple(self._assumed):
            self.get(namespace, name)  # drops what the watch has overtaken
        return self._assumed.keys()

    def all(self) -> list[T]:
        """Return what is assumed now, in the order in which it was."""
        return [self._assumed[key][1] for key in self.names()]

    def waits_for_watch(self, namespace: str, name: str) -> bool:
        """Tell whether the API server has not shown the object since it was assumed."""
        return (namespace, name) in self._assumed and self.get(
            namespace, name
        ) is not self._objects.named(self._kind, namespace, name)

    def assume(self, namespace: str, one: T) -> None:
        """Cover the object of that name by a changed copy; ClusterError if it is gone."""
        name = one.metadata.name
        base = self._objects.named(self._kind, namespace, name)
        if base is None:
            raise ClusterError(f'could not find {self._kind.__name__} "{name}"')
        self._assumed[namespace, name] = (base, one)
        self._journal.append(0, STRUCTURE)

    def restore(self, namespace: str, name: str) -> None:
        """Take an assumption back; there may be none any more."""
        if self._assumed.pop((namespace, name), None) is not None:
            self._journal.append(0, STRUCTURE)
