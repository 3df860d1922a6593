"""Requests that change objects: create, update, patch, delete, and deletion of many.

Each is worked out and done in one go, between two turns of the event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from policy_sched.client import apimachinery
from policy_sched.embedded.admission import conflict, forbidden, invalid
from policy_sched.embedded.apiserver import managedfields, registry
from policy_sched.embedded.apiserver.endpoints import negotiation
from policy_sched.embedded.apiserver.endpoints.list import selection
from policy_sched.embedded.apiserver.request import RequestTarget, Sent
from policy_sched.embedded.apiserver.security import Granting
from policy_sched.embedded.apiserver.validation import checks
from policy_sched.embedded.schema import typed
from policy_sched.embedded.store import (
    JSON as JSON_PATCH,
    MERGE,
    PATCHES,
    STRATEGIC,
    DeleteOptions,
    ObjectStore,
)
from policy_sched.manifests import Plain

OPERATIONS: Final = 10_000
"""Operations that a JSON patch may have (the API server's limit)."""
_CREATED_BY_UPDATE: Final = frozenset({"Lease", "Event"})
"""Kinds of which an update may name an object that is not there."""
_RETURNED: Final = frozenset({
    "Pod", "Service", "PersistentVolume", "PersistentVolumeClaim", "PodTemplate", "ResourceQuota",
    "ServiceAccount", "CSINode", "CSIDriver", "StorageClass", "VolumeAttachment",
})  # fmt: skip
"""Kinds of which a deletion returns the object; of others the response is a Status."""
_IMMORTAL: Final = frozenset({"default", "kube-public", "kube-system"})
"""Namespaces that stay."""
_POLICIES: Final = ("Background", "Foreground", "Orphan")
_DELETE: Final = "DeleteOptions"
TURN_SECONDS: Final = 0.005
"""How long many deletions keep others waiting."""
APPLY_PATCH: Final = "application/apply-patch+yaml"
_MANAGED: Final = b'"managedFields":['
_MANAGER_LENGTH: Final = 128


class Writing:
    """Requests that change the objects of a store."""

    def __init__(self, store: ObjectStore, granting: Granting) -> None:
        self._store = store
        self._granting = granting

    @contextmanager
    def committing(self, *, dry: bool) -> Iterator[None]:
        """Commit nothing in this context if it is a dry run."""
        if not dry:
            yield
            return
        with self._store.rehearsal():
            yield

    def create(self, sent: Sent) -> apimachinery.Stored:
        """Create an object."""
        target = sent.target
        data = negotiation.object_of(sent.body, sent.content_type, target.served)
        negotiation.check_fields(sent, data)
        _set_name(data, target)
        _check_size(data)
        checks.check_new(target.served.resource, data)
        self._granting.check(sent.user, target, data, None)
        with self.committing(dry=sent.options.dry_run):
            return self._store.create(data)

    def update(self, sent: Sent) -> tuple[int, apimachinery.Stored]:
        """Replace an object, or its status; return the status code too."""
        data = negotiation.object_of(sent.body, sent.content_type, sent.target.served)
        negotiation.check_fields(sent, data)
        _set_name(data, sent.target)
        return self.replace(sent, data)

    def replace(
        self, sent: Sent, data: Plain, *, already_noted: bool = False
    ) -> tuple[int, apimachinery.Stored]:
        """Replace an object. ``already_noted``: the managers of its fields are noted."""
        target = sent.target
        key = target.key
        _check_size(data)
        old = self._store.find(key.kind, key.namespace, key.name)
        self._granting.check(sent.user, target, data, old)

        def check(old: apimachinery.Stored, new: Plain) -> None:
            checks.check_change(old, new, target.subresource)
            if not already_noted:
                self.note(sent, old, new)

        with self.committing(dry=sent.options.dry_run):
            named = target.served.kind in _CREATED_BY_UPDATE and not target.subresource
            named = named and not target.served.custom
            if old is None and named:
                self._granting.check_create(sent.user, target)
                return 201, self._store.create(data)
            return 200, self._store.update(data, target.subresource, check)

    def patch(self, sent: Sent) -> apimachinery.Stored:
        """Patch an object, or its status."""
        key, served = sent.target.key, sent.target.served
        if sent.options.flag("force"):
            why = "Forbidden: may not be specified for non-apply patch"
            raise sent.options.refused("force", "FieldValueForbidden", why)
        if served.custom and negotiation.media_type(sent.content_type) == STRATEGIC:
            raise registry.unsupported((JSON_PATCH, MERGE, APPLY_PATCH))
        patch = patch_of(sent.body, sent.content_type)
        stored = self._store.get(key.kind, key.namespace, key.name)
        result = patched(served.form.data(stored), patch, sent.content_type)
        negotiation.check_values(result)
        data = negotiation.checked(result, served)
        negotiation.check_fields(sent, data)
        _set_name(data, sent.target)
        _check_uid(stored, data)
        return self.replace(sent, data)[1]

    def apply(self, sent: Sent) -> tuple[int, apimachinery.Stored]:
        """Apply a file of a manager (server-side apply); return the status code too."""
        target, served = sent.target, sent.target.served
        given = applied_data(sent)
        negotiation.check_fields(sent, given)
        _set_name(given, target)
        key = target.key
        stored = self._store.find(key.kind, key.namespace, key.name)
        if stored is None and target.subresource:
            self._store.get(key.kind, key.namespace, key.name)
        live = {} if stored is None else served.form.data(stored)
        force = sent.options.flag("force")
        data = negotiation.checked(
            managedfields.applied(
                _lists(served), live, given, self._entry(sent, managedfields.APPLY), force=force
            ),
            served,
        )
        if stored is not None:
            _check_uid(stored, data)
            return self.replace(sent, data, already_noted=True)
        if uid := data["metadata"].get("uid"):
            why = f"uid mismatch: the provided object specified uid {uid}, and no existing"
            raise conflict(served.resource, target.name, f"{why} object was found")
        _check_size(data)
        self._granting.check_create(sent.user, target)
        self._granting.check(sent.user, target, data, None)
        checks.check_new(served.resource, data)
        with self.committing(dry=sent.options.dry_run):
            return 201, self._store.create(data)

    def note(self, sent: Sent, old: apimachinery.Stored, data: Plain) -> None:
        """Note in an object, in place, the manager of changed fields, if it has managers."""
        if _MANAGED in old.raw:
            entry = self._entry(sent, managedfields.UPDATE)
            managedfields.updated(_lists(sent.target.served), old.data, data, entry)

    def _entry(self, sent: Sent, operation: str) -> managedfields.ManagedFieldsEntry:
        """Return the manager, the time and the operation; without fields."""
        version, time = sent.target.served.group_version, apimachinery.timestamp(self._store.now())
        part = sent.target.subresource
        return managedfields.ManagedFieldsEntry(
            sent.manager, operation, version, time, frozenset(), part
        )

    def delete(self, sent: Sent) -> tuple[int, apimachinery.Stored, bool]:
        """Delete an object. Return status code, its last state, and whether to show it."""
        target, given = sent.target, _Deletion(sent)
        if target.served.resource.key == apimachinery.NAMESPACE and target.name in _IMMORTAL:
            why = "this namespace may not be deleted"
            raise forbidden(target.served.resource, target.name, why)
        with self.committing(dry=given.dry):
            last = self._store.delete(target.key, given.options)
        return 200, last, self._shown(target, last, given)

    def _shown(self, target: RequestTarget, last: apimachinery.Stored, given: _Deletion) -> bool:
        key = target.key
        stays = self._store.find(key.kind, key.namespace, key.name)
        waits = stays is not None and stays.uid == last.uid and not given.dry
        return waits or (target.served.kind in _RETURNED and not target.served.custom)

    async def delete_many(self, sent: Sent) -> list[apimachinery.Stored]:
        """Delete what is selected; return it as it was, or as it awaits its end.

        One after the other, as in an API server: others have their turn in between.
        """
        target, given = sent.target, _Deletion(sent)
        wanted = selection(target, sent.options)
        selected = self._store.select(target.served.resource.key, target.namespace)
        result = []
        turn = time.monotonic() + TURN_SECONDS
        for stored in selected:
            if time.monotonic() >= turn:
                await asyncio.sleep(0)
                turn = time.monotonic() + TURN_SECONDS
            if not wanted.selects(stored):
                continue
            key = stored.key
            present = self._store.find(key.kind, key.namespace, key.name)
            if present is not None and present.uid == stored.uid:
                with self.committing(dry=given.dry):
                    result.append(self._store.delete(key, given.options))
        return result


def _lists(served: registry.ServedResource) -> managedfields.Lists:
    """Return how the objects of a resource are taken apart."""
    return served.custom.merging if served.custom else managedfields.KindLists(served.kind)


def deleted(target: RequestTarget, last: apimachinery.Stored) -> Plain:
    """Return the Status of a deletion."""
    served = target.served
    details: Plain = {"name": last.name}
    if served.group:
        details["group"] = served.group
    details |= {"kind": served.name, "uid": last.uid}
    head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return {**head, "details": details}


def patch_of(body: bytes, content_type: str) -> Any:
    """Return the patch that a body holds. Raises ApiError if it is none."""
    if negotiation.media_type(content_type) not in PATCHES:
        raise registry.unsupported((*PATCHES, APPLY_PATCH))
    patch = negotiation.decoded(body, "Patch")
    operations = negotiation.media_type(content_type) == JSON_PATCH
    if not isinstance(patch, list if operations else dict):
        raise apimachinery.bad_request("error decoding patch: json: cannot unmarshal")
    if operations and len(patch) > OPERATIONS:
        most = f"The allowed maximum operations in a JSON patch is {OPERATIONS}"
        raise registry.too_large(f"{most}, got {len(patch)}")
    values = (
        [operation.get("value") for operation in patch if isinstance(operation, dict)]
        if operations
        else patch
    )
    negotiation.check_values(values)
    return patch


def patched(data: Plain, patch: Any, content_type: str) -> Any:
    """Return data with a patch applied. Raises ApiError if it cannot be."""
    try:
        return PATCHES[negotiation.media_type(content_type)](data, patch)
    except (TypeError, AttributeError, ValueError, LookupError, RecursionError) as error:
        raise apimachinery.bad_request(f"error applying patch: {error}") from None


def applied_data(sent: Sent) -> Plain:
    """Return the file of a manager. Raises ApiError if it is none."""
    served, manager = sent.target.served, sent.options.text("fieldManager")
    if not manager:
        why = "Required value: is required for apply patch"
        raise sent.options.refused("fieldManager", "FieldValueRequired", why)
    if len(manager) > _MANAGER_LENGTH:
        why = f"Too long: may not be more than {_MANAGER_LENGTH} bytes"
        raise sent.options.refused("fieldManager", "FieldValueTooLong", why)
    data = negotiation.yaml_data(sent.body, served.kind)
    if not isinstance(data, dict):
        raise apimachinery.bad_request("error decoding YAML: the patch is no object")
    negotiation.check_values(data)
    meta = data.get("metadata")
    if isinstance(meta, dict) and meta.get("managedFields"):
        raise apimachinery.bad_request("metadata.managedFields must be nil")
    negotiation.check_kind(data, served)
    data = typed((served.group_version, served.kind), data)
    data.setdefault("metadata", {})
    return data


def _check_size(data: Plain) -> None:
    """Raise ApiError if an object is too large to be stored."""
    raw = apimachinery.encoded(data)
    negotiation.check_values(data, raw)
    if len(raw) > registry.STORED:
        raise registry.too_large(f"limit of an object is {registry.STORED}")


def _check_uid(stored: apimachinery.Stored, data: Plain) -> None:
    uid = data["metadata"].get("uid")
    if uid not in (None, "", stored.uid):
        why = f"Invalid value: {registry.quoted(str(uid))}: field is immutable"
        raise invalid(stored.resource, stored.name, "metadata.uid", "FieldValueInvalid", why)


def _set_name(data: Plain, target: RequestTarget) -> None:
    """Complete name and namespace from the path. Raises ApiError if they say something else."""
    meta = data["metadata"]
    if target.served.resource.namespaced:
        if (meta.get("namespace") or target.namespace) != target.namespace:
            raise apimachinery.bad_request(
                "the namespace of the provided object does not match the namespace sent on the"
                " request"
            )
        meta["namespace"] = target.namespace
    name = meta.get("name") or target.name
    if target.name and name != target.name:
        raise apimachinery.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        )
    if name:
        meta["name"] = name


class _Deletion:
    """The options of a deletion, from the query and the body."""

    def __init__(self, sent: Sent) -> None:
        options, given = sent.options, _delete_options(sent.body, sent.content_type)
        policy = given.get("propagationPolicy") or options.text("propagationPolicy")
        orphan = given.get("orphanDependents")
        if orphan is None and options.given("orphanDependents"):
            orphan = options.flag("orphanDependents")
        if policy and orphan is not None:
            why = (
                'Invalid value: "' + str(policy) + '": orphanDependents and'
                " deletionPropagation cannot be both set"
            )
            raise registry.wrong_option(_DELETE, "propagationPolicy", "FieldValueInvalid", why)
        if policy and policy not in _POLICIES:
            kinds = ", ".join(f'"{word}"' for word in (*_POLICIES, "nil"))
            why = f'Unsupported value: "{policy}": supported values: {kinds}'
            raise registry.wrong_option(_DELETE, "propagationPolicy", "FieldValueNotSupported", why)
        grace = given.get("gracePeriodSeconds")
        if grace is None:
            grace = options.number("gracePeriodSeconds")
        before = given.get("preconditions") or {}
        self.dry = options.dry_run or given.get("dryRun") == ["All"]
        self.options = DeleteOptions(
            grace_seconds=grace,
            uid=before.get("uid"),
            version=before.get("resourceVersion"),
            orphan=policy == "Orphan" or orphan is True,
            foreground=policy == "Foreground",
        )


def _delete_options(body: bytes, content_type: str) -> Plain:
    """Return the options in a deletion's body. Raises ApiError if it is none."""
    if not body.strip():
        return {}
    given = negotiation.object_data(body, content_type, _DELETE)
    if not isinstance(given, dict):
        raise registry.unreadable(_DELETE, "couldn't get version/kind", body)
    if given.get("kind") not in (None, _DELETE):
        kind = given["kind"]
        raise apimachinery.bad_request(f"{kind} cannot be handled as {_DELETE}")
    return typed(("v1", _DELETE), given)
