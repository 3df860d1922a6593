"""The object store: what an API server and its etcd do, as functions of one process.

Theory of operation: all objects are `Stored` values, by kind, namespace and name. A request is
checked and worked out to the end before anything changes; then its changes get the next versions,
are kept by the storage, and only then replace what was there (`_commit`). So a request happens
altogether or not at all, and versions rise by one with every change. Nothing happens by itself
and nothing is called back in the middle of a request: changes are read from a `Watch`, and
``on_commit`` only signals that there are some; ``tell`` decides where that callback runs.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from policy_sched.client.apimachinery import (
    DEFINITION,
    GROUP,
    NAMESPACE,
    NODE,
    POD,
    PRIORITY_CLASS,
    RUNTIME_CLASS,
    WORKLOAD,
    ApiError,
    Key,
    Resource,
    Stored,
    bad_request,
    copied,
    encoded,
    managed,
    read,
    resource,
    seal,
    timestamp,
)
from policy_sched.embedded import admission
from policy_sched.embedded.admission import pod_strategy as pod_changes
from policy_sched.embedded.schema import CustomKinds, refuse_creation, terminating, typed
from policy_sched.embedded.store import deletion, watch_history
from policy_sched.embedded.store.patch import MERGE, PATCHES
from policy_sched.embedded.store.sqlite import Row, Storage
from policy_sched.manifests import MOST_PODS, Plain, Priorities, suffix
from policy_sched.model import Kind, PriorityClass, RuntimeClass

_UUIDS: Final = bytes.fromhex("6f1d3a2e5b1c5d0e9a510b7d0c9c1d11")
"""The name space of the UUIDs."""


def uid_of(seed: str) -> str:
    """Return the UUID, of version 5, that belongs to a seed."""
    digest = hashlib.sha1(_UUIDS + seed.encode(), usedforsecurity=False).hexdigest()
    variant = "89ab"[int(digest[16], 16) & 3]
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"


_LOG: Final = logging.getLogger("policy_sched.store")
HISTORY: Final = 20_000
"""Changes that are kept for watches by default."""
STATUS: Final = "status"
EPHEMERAL: Final = "ephemeralcontainers"
FINALIZE: Final = "finalize"
_SERVER_FIELDS: Final = (
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
"""Metadata that only the server writes."""

Checked = Callable[[Stored, Plain], None]
"""Raises ApiError if an object must not become what the second argument is."""
NamespacedName = tuple[str, str]
"""Namespace ("" where a kind has none) and name."""


class ObjectStore:
    """The API objects of a cluster. ``now`` returns nanoseconds since 1970.

    What it refuses is an `ApiError`. ``version`` is the version of the last change.
    ``deleted_owners``: uids of deleted objects that have dependents left, for the garbage
    collector; they are noted if ``controlled``: this process runs the controllers.
    ``sync_errors`` counts the failures of each controller, ``set_aside`` has why objects of the
    storage were not taken in; they stay there until others of their names are created.
    """

    def __init__(
        self, now: Callable[[], int], storage: Storage | None = None, history: int = HISTORY
    ) -> None:
        self.now = now
        self.on_commit: list[Callable[[], None]] = []
        self.tell: Callable[[Callable[[], None]], None] = _call
        self.controlled = True
        self.sync_errors: Counter[str] = Counter()
        self._rehearsing = False
        self.storage = storage or Storage()
        self._objects: dict[Kind, dict[NamespacedName, Stored]] = {}
        self._owned: dict[str, dict[Key, None]] = {}
        self._priorities: Priorities | None = None
        self._changed_at: dict[Kind, int] = {}
        self.set_aside: dict[Key, str] = {}
        self.custom = CustomKinds()
        last = self.storage.version()
        rows = list(self.storage.rows())
        for row in sorted(rows, key=lambda row: (row[0], row[1]) != DEFINITION):  # they add kinds
            self._restore(row, last)
        self.deleted_owners = self.storage.deleted_owners(self._owned)
        self.history = watch_history.WatchHistory(last, history)

    @property
    def version(self) -> int:
        """The version of the last change."""
        return self.history.version

    def changed_at(self, kind: Kind) -> int:
        """Return the version of the last change of a kind, 0 if there was none."""
        return self._changed_at.get(kind, 0)

    def _restore(self, row: Row, last: int) -> None:
        """Add an object of the storage; one that cannot be read is left where it is."""
        api_version, kind, namespace, name, version, _ = row
        try:
            stored = self._restored(row, last)
        except (ApiError, ValueError, TypeError, AttributeError, RecursionError) as error:
            key = Key((api_version, kind), namespace, name)
            self.set_aside[key] = str(error)
            text = "%s %s/%s cannot be read and is set aside; create it anew: %s"
            _LOG.error(text, kind, namespace, name, error)
            return
        self._put(stored)
        self._changed_at[stored.resource.key] = max(self.changed_at(stored.resource.key), version)
        if stored.resource.key == DEFINITION:
            self.custom.note(name, stored.data, version)

    # Reading.

    def find(self, kind: Kind, namespace: str, name: str) -> Stored | None:
        """Return an object, None if it is not there."""
        objects = self._objects.get(kind)
        if objects is None and (custom := self.custom.find(kind)) is not None:
            objects = self._objects.get(custom.kind.resource.key)
        return None if objects is None else objects.get((namespace, name))

    def get(self, kind: Kind, namespace: str, name: str) -> Stored:
        """Return an object. Raises ApiError if it is not there."""
        stored = self.find(kind, namespace, name)
        if stored is None:
            raise admission.not_found(self.custom.resource(kind), name)
        return stored

    def select(
        self, kind: Kind, namespace: str = "", labels: str = "", fields: str = ""
    ) -> list[Stored]:
        """Return the objects of a kind, of one namespace or all, in order of their arrival."""
        key = self.custom.resource(kind).key
        wanted = watch_history.Filter.of(key, namespace, labels, fields)
        objects = self._objects.get(key, {}).values()
        return [stored for stored in objects if wanted.covers(stored) and wanted.selects(stored)]

    def everything(self, namespace: str = "") -> Iterable[Stored]:
        """Yield all objects, or those of a namespace, kind by kind."""
        for by_name in self._objects.values():
            for namespaced_name, stored in by_name.items():
                if not namespace or namespaced_name[0] == namespace:
                    yield stored

    def dependents(self, uid: str) -> Iterable[Key]:
        """Return the keys of the objects that name an owner of this uid."""
        return self._owned.get(uid, {}).keys()

    def owned_by(self, uid: str, kind: Kind | None = None) -> list[Stored]:
        """Return the objects that name an owner of this uid."""
        keys = [key for key in self._owned.get(uid, ()) if kind is None or key.kind == kind]
        return [self._objects[key.kind][key.namespace, key.name] for key in keys]

    def watch(
        self,
        kind: Kind | None = None,
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        since: int | None = None,
    ) -> watch_history.Watch:
        """Return a watch of the changes after version `since`; of all kinds if none is named.

        Without a version the watch begins with all objects that are there, as ADDED.
        """
        kind = None if kind is None else self.custom.resource(kind).key
        wanted = watch_history.Filter.of(kind, namespace, labels, fields)
        if since is not None:
            return watch_history.Watch(self.history, wanted, since)
        objects = self.everything() if kind is None else self._objects.get(kind, {}).values()
        present = [stored for stored in objects if wanted.covers(stored) and wanted.selects(stored)]
        return watch_history.Watch(self.history, wanted, self.version, present)

    # Writing.

    def create(self, given: Mapping[str, Any], *, recorded: bool = False) -> Stored:
        """Create an object and return it.

        ``recorded``: the object was read from a cluster: its uid, creation time and status stay.
        """
        kind, data = self._read(given)
        meta = data["metadata"] = data.get("metadata") or {}
        self._name(kind, meta)
        name, namespace = meta["name"], meta.get("namespace", "")
        self._check_namespace(kind, namespace, name)
        if self.find(kind.key, namespace, name) is not None:
            raise admission.already_exists(kind, name)
        if meta.get("resourceVersion") and not recorded:
            raise bad_request("resourceVersion should not be set on objects to be created")
        kept = {key: meta.pop(key) for key in _SERVER_FIELDS if key in meta}
        if recorded:
            meta |= {key: kept[key] for key in ("uid", "creationTimestamp") if kept.get(key)}
        elif kind.status_reported:
            data.pop("status", None)
        meta.setdefault("uid", uid_of(f"{self.version + 1}/{name}/{self.now()}"))
        meta.setdefault("creationTimestamp", timestamp(self.now()))
        if kind.has_generation:
            meta["generation"] = 1
        self._admit(kind, data)
        if kind.key == POD and not recorded:
            admission.admit_runtime(kind, data, self._runtime_class)
        admission.write_nulls(kind.key, data)
        new = seal(kind, data, self.version + 1, checked=kind.key == POD)
        return self._commit([watch_history.StoreChange(watch_history.ADDED, 0, new)])

    def update(
        self, given: Mapping[str, Any], subresource: str = "", check: Checked | None = None
    ) -> Stored:
        """Replace an object, or what a subresource is; its version must be the present one.

        An object without resourceVersion replaces any version. ``check`` is called with the object
        as it is and, complete, as it will be.
        """
        kind, data = self._read(given)
        meta = data["metadata"]
        namespace = (meta.get("namespace") or "default") if kind.namespaced else ""
        stored = self.get(kind.key, namespace, meta["name"])
        return self._replace(stored, data, subresource, check)

    def patch(
        self, key: Key, patch: Any, content_type: str = MERGE, subresource: str = ""
    ) -> Stored:
        """Patch an object, or only its status; see `patches.PATCHES` for the types."""
        stored = self.get(key.kind, key.namespace, key.name)
        _, data = self._read(PATCHES[content_type](stored.data, patch))
        return self._replace(stored, data, subresource)

    def revise(self, stored: Stored, data: Plain) -> Stored:
        """Replace an object by `data`, made of ``stored.data``, without checks.

        For what runs inside the cluster, has just read the object, and writes no quantities.
        Returns what is stored then.
        """
        return self._changed(stored, data, checked=True)

    def revise_all(self, revisions: Iterable[tuple[Stored, Plain]]) -> None:
        """Replace several objects as `revise` does, all of them or none."""
        changes: list[watch_history.StoreChange] = []
        for stored, data in revisions:
            changes += self._changes(stored, data, self.version + len(changes))
        if changes:
            self._commit(changes)

    def delete(self, key: Key, options: deletion.DeleteOptions | None = None) -> Stored:
        """Delete an object; return its last state, or the one in which it awaits its end."""
        stored = self.get(key.kind, key.namespace, key.name)
        if stored.resource.key == DEFINITION and not stored.deleting:
            stored = self.revise(stored, terminating(stored.data, self.now()))
        options = deletion.DeleteOptions.settled(options, owner=stored.uid in self._owned)
        deletion.check_preconditions(stored, options)
        changes = deletion.deletion_changes(stored, options, self.version, self.now())
        return self._commit(changes) if changes else stored

    def bind(self, namespace: str, name: str, binding: Mapping[str, Any]) -> Stored:
        """Bind a pod, as a POST to its binding subresource does."""
        stored = self.get(POD, namespace, name)
        node = self.find(NODE, "", binding["target"]["name"])
        data = pod_changes.bound(stored, binding, node, self.now())
        return self._changed(stored, data, checked=True)

    @contextmanager
    def rehearsal(self) -> Iterator[None]:
        """Work requests out to the end without letting anything change (a dry run)."""
        self._rehearsing = True
        try:
            yield
        finally:
            self._rehearsing = False

    # Inside.

    def _read(self, given: Mapping[str, Any]) -> tuple[Resource, Plain]:
        """Return an object that was sent, as far as its types go. Raises ApiError."""
        key = str(given.get("apiVersion") or ""), str(given.get("kind") or "")
        custom = self.custom.find(key)
        if custom is not None:
            return custom.kind.resource, custom.coerced(copied(given))[0]
        kind = resource(key)
        return kind, typed(kind.key, copied(given))

    def _check_custom(self, data: Plain, old: Plain | None, *, status: bool = False) -> None:
        """Check a custom object, and keep it in its storage version. Raises ApiError."""
        version = self.custom.find((data["apiVersion"], data["kind"]))
        assert version is not None, "it was read"
        if old is None:
            refuse_creation(version.kind)
        version.check(data, old, status=status)
        data["apiVersion"] = version.kind.storage.api_version

    def _name(self, kind: Resource, meta: Plain) -> None:
        """Complete name and namespace."""
        if not meta.get("name") and meta.get("generateName"):
            base, seed = meta["generateName"][:58], f"{self.version + 1}"
            meta["name"] = f"{base}{suffix(base + seed)}"
        meta.setdefault("name", "")
        if not kind.custom:  # whose name is checked with all else
            admission.check_name(kind, meta["name"])
        if kind.namespaced:
            meta["namespace"] = meta.get("namespace") or "default"
        else:
            meta.pop("namespace", None)

    def _check_namespace(self, kind: Resource, namespace: str, name: str) -> None:
        """Raise ApiError if an object cannot be created in a namespace ("": in none)."""
        within = self.find(NAMESPACE, "", namespace) if namespace else None
        if namespace and within is None:
            raise admission.not_found(resource(NAMESPACE), namespace)
        if within is not None and within.deleting:
            why = f"unable to create new content in namespace {namespace}"
            raise admission.forbidden(kind, name, f"{why} because it is being terminated")

    def _admit(self, kind: Resource, data: Plain) -> None:
        if kind.key == POD:
            if len(self._objects.get(POD, ())) >= MOST_PODS:
                name = data["metadata"]["name"]
                raise admission.forbidden(
                    kind, name, f"the cluster has {MOST_PODS} pods, its limit"
                )
            admission.admit_pod(kind, data, self._known_priorities(), self.now())
        elif kind.key == GROUP:
            data["spec"] = data.get("spec") or {}
            reference = (data["spec"].get("podGroupTemplateRef") or {}).get("workload") or {}
            namespace, name = data["metadata"]["namespace"], reference.get("workloadName") or ""
            workload = self.find(WORKLOAD, namespace, name)
            referenced = None if workload is None else workload.data
            admission.admit_pod_group(kind, data, self._known_priorities(), referenced)
        elif kind.key == PRIORITY_CLASS:
            admission.admit_priority_class(kind, data, self._classes())
        elif kind.key == DEFINITION:
            self.custom.admit(data, None, self.now())
        elif kind.custom:
            self._check_custom(data, None)
        else:
            admission.complete(kind, data)

    def _known_priorities(self) -> Priorities:
        if self._priorities is None:
            self._priorities = Priorities(self._classes())
        return self._priorities

    def _runtime_class(self, name: str) -> RuntimeClass | None:
        stored = self.find(RUNTIME_CLASS, "", name)
        typed = stored.typed if stored is not None else None
        return typed if isinstance(typed, RuntimeClass) else None

    def _classes(self) -> Iterator[PriorityClass]:
        for stored in self.select(PRIORITY_CLASS):
            assert isinstance(stored.typed, PriorityClass)
            yield stored.typed

    def _replace(
        self, stored: Stored, data: Plain, subresource: str, check: Checked | None = None
    ) -> Stored:
        """Replace an object by typed data."""
        kind, old = self.custom.present(stored.resource), stored.data
        meta = data["metadata"] = data.get("metadata") or {}
        if meta.get("uid") not in (None, "", stored.uid):
            raise admission.wrong_uid(kind, stored.namespace, stored.name, meta["uid"], stored.uid)
        if meta.get("resourceVersion") not in (None, "", str(stored.version)):
            raise admission.conflict(kind, stored.name, admission.MODIFIED)
        if not kind.custom:
            admission.default(kind, data)
        admission.write_nulls(kind.key, data)
        if check is not None:
            check(stored, data)
        if subresource == STATUS:
            if kind.custom:
                whole = {**old, "apiVersion": data["apiVersion"]}
                self._check_custom({**whole, STATUS: data.get(STATUS) or {}}, old, status=True)
            data = {**old, STATUS: data.get(STATUS) or {}, "metadata": managed(old, meta)}
            return self._changed(stored, data)
        if subresource in (EPHEMERAL, FINALIZE):
            change = admission.added_containers if subresource == EPHEMERAL else admission.finalized
            return self._changed(stored, {**change(stored, data), "metadata": managed(old, meta)})
        for field in _SERVER_FIELDS:
            meta.pop(field, None)
            if field in old["metadata"]:
                meta[field] = old["metadata"][field]
        meta["name"] = stored.name
        if kind.namespaced:
            meta["namespace"] = stored.namespace
        if kind.has_status:
            data.pop(STATUS, None)
            if STATUS in old:
                data[STATUS] = old[STATUS]
        self._admit_change(stored, data)
        if kind.has_generation and _specified(kind, data) != _specified(kind, old):
            meta["generation"] = old["metadata"].get("generation", 0) + 1
        return self._changed(stored, data)

    def _admit_change(self, stored: Stored, data: Plain) -> None:
        """Complete an object's next state, in place. Raises ApiError if it may not be."""
        kind = self.custom.present(stored.resource)
        if kind.key == POD:
            data["spec"] = data.get("spec") or {}
            admission.add_default_tolerations(data["spec"])
            pod_changes.check_update(stored, data)
        elif kind.key in (PRIORITY_CLASS, NAMESPACE):
            self._admit(kind, data)
        elif kind.key == DEFINITION:
            self.custom.admit(data, stored.data, self.now())
        elif kind.custom:
            self._check_custom(data, stored.data)

    def _changed(self, stored: Stored, data: Plain, *, checked: bool = False) -> Stored:
        """Commit an object's next state; nothing happens if it is the same. Return the object."""
        changes = self._changes(stored, data, self.version, checked=checked)
        return self._commit(changes) if changes else stored

    def _changes(
        self, stored: Stored, data: Plain, version: int, *, checked: bool = False
    ) -> list[watch_history.StoreChange]:
        data["metadata"]["resourceVersion"] = str(stored.version)
        admission.write_nulls(stored.resource.key, data)
        raw = encoded(data)
        # For speed, dictionaries are compared only if the texts are as long: the same content in
        # another order is.
        if raw == stored.raw or (len(raw) == len(stored.raw) and data == stored.data):
            return []
        new = seal(self.custom.present(stored.resource), data, version + 1, checked=checked)
        kind = (
            watch_history.DELETED
            if stored.deleting and deletion.released(data)
            else watch_history.UPDATED
        )
        return [watch_history.StoreChange(kind, 0, new, stored)]

    def _commit(self, changes: list[watch_history.StoreChange]) -> Stored:
        """Store and publish the changes; return the state of the first one's object after them."""
        numbered = [watch_history.StoreChange(c.type, c.new.version, c.new, c.old) for c in changes]
        uid = numbered[0].new.uid
        last = next(c for c in reversed(numbered) if c.new.uid == uid)
        result = last.new
        if self._rehearsing:  # a dry run ends before anything is stored
            if last.old is None or last.type == watch_history.DELETED:
                return result
            return seal(result.resource, result.data, last.old.version, checked=True)
        ends = [change.new.uid for change in numbered if change.type == watch_history.DELETED]
        owners = [uid for uid in ends if uid in self._owned] if self.controlled else []
        self.storage.keep(numbered, owners)  # raises NotWritten, before anything is changed here
        self.deleted_owners.update(owners)
        for change in numbered:
            if change.old is not None:
                self._disown(change.old)
            if change.type != watch_history.DELETED:
                self._put(change.new)
            else:
                del self._objects[change.new.resource.key][change.new.namespaced_name]
            if self.deleted_owners and change.old is not None:
                before = {owner.uid for owner in change.old.typed.metadata.owner_references}
                self.deleted_owners -= before - self._owned.keys()
            self._changed_at[change.new.resource.key] = change.version
            if change.new.resource.key == PRIORITY_CLASS:
                self._priorities = None
            if change.new.resource.key == DEFINITION:
                gone = change.type == watch_history.DELETED
                self.custom.note(change.new.name, None if gone else change.new.data, change.version)
            self.history.append(change)
        for callback in self.on_commit:
            self.tell(callback)
        return result

    def _put(self, stored: Stored) -> None:
        key = stored.key
        self.set_aside.pop(key, None)
        self._objects.setdefault(key.kind, {})[stored.namespaced_name] = stored
        for owner in stored.typed.metadata.owner_references:
            self._owned.setdefault(owner.uid, {})[key] = None

    def _disown(self, stored: Stored) -> None:
        """Remove an object's old state from the index of owners."""
        for uid in {owner.uid for owner in stored.typed.metadata.owner_references}:
            self._owned[uid].pop(stored.key)
            if not self._owned[uid]:
                del self._owned[uid]

    def _restored(self, row: Row, last: int) -> Stored:
        """Return the object of a row; ``last``: the version of the last change.

        Raises ApiError, ValueError, TypeError and so on if it is none.
        """
        api_version, kind, namespace, name, version, raw = row
        if not isinstance(version, int) or not 0 < version <= last:
            raise ValueError(f"its version is {version!r}, that of the cluster {last}")
        restored_kind = self.custom.resource((api_version, kind))
        data = typed(restored_kind.key, msgspec.json.decode(bytes(raw)))
        admission.write_nulls(restored_kind.key, data)
        if data != msgspec.json.decode(bytes(raw)):  # nulls of an earlier version, say
            raw = encoded(data)
        stored = Stored(restored_kind, version, bytes(raw), read(restored_kind, bytes(raw)))
        inside = data.get("apiVersion"), data.get("kind"), *stored.namespaced_name
        key = inside[:2] if restored_kind.custom else restored_kind.key
        if inside != (*key, namespace, name):
            raise ValueError(f"it is another object: {' '.join(map(repr, inside))}")
        return stored


def _specified(kind: Resource, data: Plain) -> Any:
    """Return the part whose changes raise the generation; of a custom object all but its
    metadata."""
    if not kind.custom:
        return data.get("spec")
    apart = ("apiVersion", "kind", "metadata", *((STATUS,) if kind.has_status else ()))
    return {key: value for key, value in data.items() if key not in apart}


def _call(act: Callable[[], None]) -> None:
    """Do it here and now."""
    act()
