"""The inputs of policies: objects of declared kinds as records, looked up by key.

Theory of operation. A policy declares an input when it is bound; policies that declare the same
share it. Objects reach `ApiObjects` from watches, manifests, tests and snapshots alike, and a
listener reads each as the input's record. Of two objects with one key the older counts. A change
is noted in the journal: on the row of the node that has the key as its name, if rules read the
input by `node.name`; as a change of everything, if any rule reads it in another way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

import msgspec

from policy_sched.cluster.listers import ApiObjects, KindKey, key_of, key_of_object
from policy_sched.cluster.tables import ANY, ROOT, InputTable, NodeTable
from policy_sched.model import ApiObject, CustomObject, Kind

MAX_OBJECTS: Final = 100_000
"""Objects of a kind that an input has; later ones are left out."""

MAX_BYTES: Final = 256 << 20
"""Bytes of the JSON of all objects of a kind, metadata not counted; later ones are left out."""
TOLD: Final = 100
"""Problems that are told one by one; the others are only counted."""

MAX_SHARED: Final = 100
"""Objects with one key that are known, so that the next one counts when the oldest goes."""

_NAMESPACE: Final = ("v1", "Namespace")
_NODE: Final = ("v1", "Node")
_CACHED: Final = (_NAMESPACE, _NODE)
"""Kinds whose objects the cache has, by name."""

Place = tuple[str, str]
"""Namespace ("" for none) and name of an object."""


class DeclaredInput(msgspec.Struct, frozen=True, eq=False):
    """An input, as the objects of its kind become records.

    ``read`` returns the record of an object that arrived at a time (ns); it raises ValueError.
    ``key`` returns a record's key, None if the rule of the key fails. ``everywhere``: a rule reads
    more than the object of a node's name. ``most``: see `InputTable`.
    """

    identity: str
    name: str
    kind: Kind
    read: Callable[[ApiObject, int], Any]
    key: Callable[[Any], str | None]
    everywhere: bool
    most: int = 0


class InputProblem(msgspec.Struct, frozen=True):
    """An object that an input cannot have: why, and where in the object."""

    input: str
    kind: Kind
    place: Place
    message: str
    code: str = "PS805"


class InputProblems(dict[tuple[str, Place], InputProblem]):
    """Objects that are left out, by the input's identity and their place.

    ``tell`` is called with the first `TOLD` that are there at a time.
    """

    tell: Callable[[InputProblem], None] = staticmethod(lambda _problem: None)

    def note(self, identity: str, problem: InputProblem) -> None:
        """Take a problem in."""
        key = identity, problem.place
        if self.get(key) != problem:
            self[key] = problem
            if len(self) <= TOLD:
                self.tell(problem)


class InputChange(msgspec.Struct, frozen=True):
    """An object of inputs that came, changed or went: its key by the identity of each input.

    None where an input has not got it, or keeps it under a name that only the cache has.
    """

    keys: Mapping[str, str | None]


class Inputs:
    """All inputs of one scheduler; ``now`` returns ns since 1970."""

    def __init__(self, nodes: NodeTable, objects: ApiObjects, now: Callable[[], int]) -> None:
        self._nodes = nodes
        self._objects = objects
        self._now = now
        self._declared: dict[str, _Input] = {}
        self._readers: dict[KindKey, list[_Input]] = {}
        """The inputs of each kind."""
        self.problems = InputProblems()
        nodes.quota_problem = self._quota_problem

    def _quota_problem(self, identity: str, key: str, why: str) -> None:
        """Note what is wrong with an object's place in a tree of quotas; "": nothing any more."""
        problem = self.problem_of(identity, key, why, "PS821")
        if problem is not None and why:
            self.problems.note(identity, problem)
        elif problem is not None:
            self.problems.pop((identity, problem.place), None)

    def problem_of(self, identity: str, key: str, why: str, code: str) -> InputProblem | None:
        """Return a problem of the object of a key; None where there is none."""
        declared = self.holder(identity, key)
        if declared is None:
            return None
        given, place = declared
        return InputProblem(given.name, given.kind, place, why, code)

    def holder(self, identity: str, key: str) -> tuple[DeclaredInput, Place] | None:
        """Return the input, and the object that counts for a key; None where there is none."""
        declared = self._declared.get(identity)
        place = None if declared is None else declared.holder(key)
        return None if declared is None or place is None else (declared.given, place)

    def read(self, item: ApiObject) -> bool:
        """Tell whether inputs read the kind of an object."""
        return bool(self._readers.get(key_of_object(item)))

    def keys_of(self, item: ApiObject) -> InputChange | None:
        """Return the keys that an object has now in inputs; None if none reads its kind."""
        readers = self._readers.get(key_of_object(item))
        if not readers:
            return None
        place = _place(item)
        return InputChange({reader.given.identity: reader.keys.get(place) for reader in readers})

    @property
    def kinds(self) -> frozenset[Kind]:
        """The kinds of objects that are read."""
        return frozenset(declared.given.kind for declared in self._declared.values())

    def declare(self, given: DeclaredInput) -> None:
        """Keep an input from now on, with the objects of its kind that are there."""
        declared = self._declared.get(given.identity)
        if declared is not None:
            declared.everywhere = declared.everywhere or given.everywhere
            return
        declared = _Input(given, self._nodes, self._now, self.problems)
        self._declared[given.identity] = declared
        self._readers.setdefault(key_of(given.kind), []).append(declared)
        cached = self._cached(given)
        if cached is not None:
            declared.table.by_key = cached
            return
        for item in self._objects.of_kind(given.kind):
            declared.changed(None, item)
        self._objects.listen(given.kind, declared.changed)

    def counts(self) -> dict[str, tuple[int, int]]:
        """Return by name how many objects the inputs have, and how many they cannot have."""
        invalid = Counter(identity for identity, _ in self.problems)
        counts: dict[str, tuple[int, int]] = {}
        for identity, declared in self._declared.items():
            before = counts.get(declared.given.name, (0, 0))
            counts[declared.given.name] = (
                before[0] + len(declared.table.by_key),
                before[1] + invalid[identity],
            )
        return counts

    def set_root(self, identity: str, root: Any) -> None:
        """Let an input say this beside its objects."""
        table = self._nodes.inputs.get(identity)
        if table is not None and table.root != root:  # of what rules read of it
            table.root = root
            table.changed(ANY)
            self._nodes.aggregates.input_changed(identity, ROOT)
            if self._declared[identity].everywhere:
                self._nodes.journal.changed_everything()

    def keep(self, identities: Collection[str]) -> None:
        """Drop all inputs but these."""
        for identity in [name for name in self._declared if name not in identities]:
            dropped = self._declared.pop(identity)
            self._readers[key_of(dropped.given.kind)].remove(dropped)
            self._nodes.drop_input(identity)
            if dropped.given.kind not in _CACHED:
                self._objects.unlisten(dropped.given.kind, dropped.changed)
            for name, place in [key for key in self.problems if key[0] == identity]:
                del self.problems[name, place]

    def _cached(self, given: DeclaredInput) -> _CachedObjects | None:
        """Return the objects of a kind that the cache has, which notes their changes itself."""
        table = self._nodes
        if given.kind == _NAMESPACE:
            return _CachedObjects(table.namespaces, table.namespaces.get, given)
        if given.kind == _NODE:
            rows = table.row_of

            def node(name: str) -> ApiObject | None:
                row = rows.get(name)
                return None if row is None else table.nodes[row]

            return _CachedObjects(rows, node, given)
        return None


class _Input:
    """One input: which object has which key."""

    def __init__(
        self,
        given: DeclaredInput,
        nodes: NodeTable,
        now: Callable[[], int],
        problems: InputProblems,
    ) -> None:
        self.given = given
        self._now = now
        self.everywhere = given.everywhere
        self.table = nodes.inputs[given.identity] = InputTable(given.most)
        self._nodes = nodes
        self._problems = problems
        self._bytes = 0
        self._kept_bytes: dict[Place, int] = {}
        """Of objects whose last version was refused for bytes: those of the one that stays."""
        self.keys: dict[Place, str] = {}
        """The key of each object."""
        self._holders: dict[str, tuple[tuple[Place, Any], ...]] = {}
        """By key, the objects that have it: most have one, and a tuple is small."""

    def holder(self, key: str) -> Place | None:
        """Return the object that counts for a key."""
        holders = self._holders.get(key, ())
        record = self.table.by_key.get(key)
        return next((place for place, held in holders if held is record), None)

    def changed(self, old: ApiObject | None, new: ApiObject | None) -> None:
        """Follow a change of an object."""
        item = new or old
        if item is None:
            return
        place = _place(item)
        before = 0 if old is None else _size(old)
        if self._kept_bytes:
            before = self._kept_bytes.pop(place, before)
        total = self._bytes - before + (0 if new is None else _size(new))
        if total > MAX_BYTES and isinstance(new, CustomObject):
            if before:
                self._kept_bytes[place] = before
            new.content = None  # nothing holds it any more
            self._refuse(place, f"the objects have more than {MAX_BYTES >> 20} MiB")
            return
        self._bytes = total
        if new is not None:
            self._put(place, new)
        else:
            self._remove(place)

    def _put(self, place: Place, item: ApiObject) -> None:
        """Take an object in, or replace it; one that cannot be read leaves what was there."""
        before = self.keys.get(place)
        if before is None and len(self.keys) >= MAX_OBJECTS:
            self._refuse(place, f"more than {MAX_OBJECTS} objects")
            return
        try:
            record = self.given.read(item, self._now())
        except ValueError as error:
            self._refuse(place, str(error))
            return
        key = self.given.key(record)
        if key is None:
            self._refuse(place, "the rule of the input's key fails")
            return
        others = self._holders.get(key, ())
        if before != key and len(others) >= MAX_SHARED:
            self._refuse(place, f"more than {MAX_SHARED} objects have the key {key!r}")
            return
        self.keys[place] = key
        if before is not None and before != key:
            self._drop(before, place)
        if others:
            others = tuple([holder for holder in others if holder[0] != place])
        self._holders[key] = (*others, (place, record))
        self._settle(key)

    def _remove(self, place: Place) -> None:
        """Leave an object out that was deleted."""
        self._problems.pop((self.given.identity, place), None)
        key = self.keys.pop(place, None)
        if key is not None:
            self._drop(key, place)

    def _refuse(self, place: Place, why: str) -> None:
        given = self.given
        self._problems.note(given.identity, InputProblem(given.name, given.kind, place, why))

    def _drop(self, key: str, place: Place) -> None:
        others = tuple([holder for holder in self._holders[key] if holder[0] != place])
        if others:
            self._holders[key] = others
        else:
            del self._holders[key]
        self._settle(key)

    def _settle(self, key: str) -> None:
        """Let the oldest object of a key count, and note the change."""
        holders, table = self._holders.get(key), self.table
        if holders is None:
            table.remove(key)
        else:
            if len(holders) > 1:
                holders = tuple(sorted(holders, key=_by_age))
            oldest, record = holders[0]
            if self._problems:
                self._problems.pop((self.given.identity, oldest), None)
            for place, _ in holders[1:]:
                first = "/".join(filter(None, oldest))
                self._refuse(place, f"{first} has the key {key!r}, too, and is older")
            if table.by_key.get(key) is record:
                return
            table.put(key, record)
        self._nodes.input_changed(self.given.identity, key, everywhere=self.everywhere)


def _size(item: ApiObject) -> int:
    content = item.content if isinstance(item, CustomObject) else None
    return len(content) if isinstance(content, bytes) else 0


def _by_age(holder: tuple[Place, Any]) -> tuple[int, Place]:
    place, record = holder
    return record.f_creationTime, place


def _place(item: ApiObject) -> Place:
    return item.metadata.namespace, item.metadata.name


class _CachedObjects(dict[str, Any]):
    """Objects that the cache has as records, by name: each is read when it is looked up."""

    def __init__(
        self,
        names: Collection[str],
        look_up: Callable[[str], ApiObject | None],
        given: DeclaredInput,
    ) -> None:
        super().__init__()
        self._names = names
        self._look_up = look_up
        self._given = given

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the record of an object."""
        item = self._look_up(name)
        return default if item is None else self._given.read(item, 0)

    def values(self) -> Iterator[Any]:  # type: ignore[override]  # read once, in order
        """Yield all records."""
        return (self.get(name) for name in self._names)
