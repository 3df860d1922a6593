"""The managers of an object's fields, as metadata.managedFields keeps them.

Theory of operation: fields have no managers until an object is applied for the first time; what
was there then belongs to ``kubectl-client-side-apply``, if it has the annotation, or to
``before-first-apply``. From then on every request that
comes through the API and changes fields takes them from their managers. A manager that
applies has all fields of its file, even if others have them too; what the file has no more, and
no other manager has, is removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from policy_sched.client.apimachinery import ApiError
from policy_sched.embedded.apiserver.managedfields.fields import (
    Fields,
    Lists,
    Path,
    as_fields_v1,
    fields_of,
    from_fields_v1,
    merged,
    text,
    without,
)
from policy_sched.embedded.apiserver.registry import quoted
from policy_sched.embedded.store import LAST_APPLIED
from policy_sched.manifests import Plain

APPLY: Final = "Apply"
UPDATE: Final = "Update"
BEFORE: Final = "before-first-apply"
CLIENT_SIDE: Final = "kubectl-client-side-apply"
FIELD: Final = "managedFields"
_UNOWNED: Final = frozenset({
    ("f:apiVersion",), ("f:kind",),
    *((("f:metadata", f"f:{name}")) for name in (
        "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
        "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generateName", FIELD,
    )),
})  # fmt: skip
"""Fields without managers."""


@dataclass(frozen=True, slots=True)
class ManagedFieldsEntry:
    """One manager and its fields. ``time`` is when they were last changed, RFC 3339."""

    manager: str
    operation: str
    api_version: str
    time: str
    fields: frozenset[Path]
    subresource: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The entry's identity; a file may change the version that it is written in."""
        version = "" if self.operation == APPLY else self.api_version
        return self.manager, self.operation, version, self.subresource

    @property
    def described(self) -> str:
        """The manager as messages name it."""
        name = quoted(self.manager)
        if self.subresource:
            name += f" with subresource {quoted(self.subresource)}"
        if self.operation == UPDATE:
            at = f" at {self.time}" if self.time else ""
            name += f" using {self.api_version}{at}"
        return name

    def data(self) -> Plain:
        """Return the entry as the API has it."""
        plain: Plain = {"manager": self.manager, "operation": self.operation}
        plain["apiVersion"] = self.api_version
        if self.time:
            plain["time"] = self.time
        plain |= {"fieldsType": "FieldsV1", "fieldsV1": as_fields_v1(self.fields)}
        if self.subresource:
            plain["subresource"] = self.subresource
        return plain


def entries_of(data: Plain) -> list[ManagedFieldsEntry]:
    """Return the managers of an object."""
    given = (data.get("metadata") or {}).get(FIELD)
    return [_entry(item) for item in given or () if isinstance(item, dict)]


def _entry(item: Plain) -> ManagedFieldsEntry:
    words = [str(item.get(key) or "") for key in ("manager", "operation", "apiVersion", "time")]
    manager, operation, version, time = words
    fields = from_fields_v1(item.get("fieldsV1"))
    return ManagedFieldsEntry(
        manager, operation, version, time, fields, str(item.get("subresource") or "")
    )


def _write(data: Plain, entries: Iterable[ManagedFieldsEntry]) -> None:
    kept = [entry for entry in entries if entry.fields]
    kept.sort(key=lambda entry: (entry.operation, entry.time, entry.manager, entry.subresource))
    if kept:
        data["metadata"][FIELD] = [entry.data() for entry in kept]
    else:
        data["metadata"].pop(FIELD, None)


def owned(lists: Lists, data: Plain, *, status: bool, strict: bool = False) -> Fields:
    """Return the fields of an object that can be managed: those of its status, or all others."""
    fields = fields_of(lists, data, strict=strict)
    return {
        path: value
        for path, value in fields.items()
        if path not in _UNOWNED and path[:2] not in _UNOWNED and (path[0] == "f:status") is status
    }


def applied(
    lists: Lists, live: Plain, given: Plain, entry: ManagedFieldsEntry, *, force: bool
) -> Plain:
    """Return an object as it is once a manager's file is applied; ``entry``: whose, and when.

    ``live`` is {} if the object is not there. Raises ApiError if others have fields that it
    changes, unless it takes them by force.
    """
    status = entry.subresource == "status"
    wanted = frozenset(owned(lists, given, status=status, strict=True))
    before = owned(lists, live, status=status)
    entries = entries_of(live)
    if live and not entries:
        entries = _before(lists, live, given["apiVersion"], entry.time)
    mine = next((other for other in entries if other.key == entry.key), None)
    others = [other for other in entries if other is not mine]
    result: Plain = merged(lists, live, _part(given, status=status))
    if mine is not None:
        gone = _pruned(mine.fields - wanted, wanted, others)
        result = without(lists, result, gone)
    after = owned(lists, result, status=status)
    changed = {path for path, value in after.items() if before.get(path, _ABSENT) != value}
    if not force:
        _check(others, changed & wanted)
    removed = before.keys() - after.keys()
    others = [
        replace(other, fields=other.fields - (changed & wanted) - removed) for other in others
    ]
    time = mine.time if mine is not None and mine.fields == wanted else entry.time
    result["metadata"] = dict(result["metadata"])
    _write(result, [*others, replace(entry, fields=wanted, time=time)])
    return result


def _before(lists: Lists, live: Plain, version: str, time: str) -> list[ManagedFieldsEntry]:
    """Return the managers of the fields of an object that is applied for the first time.

    The annotation of a client-side apply names the fields that it has written. kubectl takes these
    over, and removes fields that its file has no more.
    """
    everything = frozenset(owned(lists, live, status=False))
    mine: frozenset[Path] = frozenset()
    text = ((live.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
    if text:
        try:
            last_applied = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            last_applied = None
        if isinstance(last_applied, dict):
            noted = ("f:metadata", "f:annotations", f"f:{LAST_APPLIED}")
            mine = everything & {*owned(lists, last_applied, status=False), noted}
    parts = ((CLIENT_SIDE, mine), (BEFORE, everything - mine))
    return [
        ManagedFieldsEntry(name, UPDATE, version, time, fields) for name, fields in parts if fields
    ]


_ABSENT: Final = object()


def _part(given: Plain, *, status: bool) -> Plain:
    """Return what of a file counts."""
    if status:
        return {"status": given.get("status") or {}}
    return {key: value for key, value in given.items() if key != "status"}


def _pruned(
    gone: frozenset[Path], wanted: frozenset[Path], others: list[ManagedFieldsEntry]
) -> list[Path]:
    """Return those of some fields that neither a file nor another manager has."""
    held = {
        path[:length]
        for fields in (wanted, *(other.fields for other in others))
        for path in fields
        for length in range(1, len(path) + 1)
    }
    return [path for path in gone if path not in held]


def _check(others: list[ManagedFieldsEntry], changed: set[Path]) -> None:
    """Raise ApiError if others have fields that are changed."""
    conflicts = [(manager, path) for manager in others for path in sorted(manager.fields & changed)]
    if not conflicts:
        return
    causes: list[dict[str, Any]] = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {manager.described}",
            "field": text(path),
        }
        for manager, path in conflicts
    ]
    if len(conflicts) == 1:
        manager, path = conflicts[0]
        words = f"1 conflict: conflict with {manager.described}: {text(path)}"
    else:
        lines = []
        for manager in sorted(
            {manager for manager, _ in conflicts}, key=lambda manager: manager.described
        ):
            lines.append(f"conflicts with {manager.described}:")
            lines += [f"- {text(path)}" for other, path in conflicts if other is manager]
        words = f"{len(conflicts)} conflicts: " + "\n".join(lines)
    raise ApiError(409, "Conflict", f"Apply failed with {words}", {"causes": causes})


def updated(lists: Lists, live: Plain, data: Plain, entry: ManagedFieldsEntry) -> None:
    """Note in an object, in place, the manager of the fields that changed since ``live``.

    ``entry``: the manager and the time; without fields. Managers that the request gives replace
    the present ones.
    """
    status = entry.subresource == "status"
    given = data["metadata"].get(FIELD)
    entries = entries_of(live if given is None or status else data)
    data["metadata"].pop(FIELD, None)
    if not entries:
        return
    before, after = owned(lists, live, status=status), owned(lists, data, status=status)
    changed = {path for path, value in after.items() if before.get(path, _ABSENT) != value}
    removed = before.keys() - after.keys()
    if not changed and not removed:
        _write(data, entries)
        return
    mine = next(
        (other for other in entries if other.key == entry.key), replace(entry, fields=frozenset())
    )
    rest = [
        replace(other, fields=other.fields - changed - removed)
        for other in entries
        if other is not mine
    ]
    fields = (mine.fields - removed) | changed
    _write(data, [*rest, replace(entry, fields=fields, time=entry.time if changed else mine.time)])
