"""The kinds that CustomResourceDefinitions add: one generic resource with a schema.

Objects of such a kind are kept under one key, whatever version they were sent in, and with the
apiVersion of the storage version. Conversion is None: versions differ in apiVersion, in what they
prune and in what they validate. An object that was stored under an earlier schema is pruned and
completed when it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from typing import Any, Final

from policy_sched.client import apimachinery
from policy_sched.embedded.schema import structural
from policy_sched.embedded.schema.definition_checks import check_definition, schema_of
from policy_sched.embedded.schema.problems import Problems, check_metadata
from policy_sched.embedded.schema.structural import MISSING
from policy_sched.embedded.schema.types import typed
from policy_sched.embedded.schema.validation_rules import SchemaRules, unchecked
from policy_sched.manifests import Plain
from policy_sched.model import KINDS, SKIPPED_KINDS, ApiObject, Kind, formats, messages

CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer of a definition whose objects are deleted first."""
STATUS: Final = "status"
_META: Final = "ObjectMeta"
COSCHEDULING: Final = "scheduling.x-k8s.io"
"""A group that is served without a definition, and according to one once there is one."""
_OWN_GROUPS: Final = {version.rpartition("/")[0] for version, _ in (*KINDS, *SKIPPED_KINDS)} - {
    COSCHEDULING
}
"""Groups of Kubernetes' own: a definition in one of these adds nothing."""


class CustomVersion:
    """One version of a custom kind: its schema, subresources and columns."""

    def __init__(self, kind: CustomKind, given: Plain) -> None:
        self.kind = kind
        self.name: str = given["name"]
        self.served = bool(given.get("served"))
        self.columns: list[Plain] = given.get("additionalPrinterColumns") or []
        self.selectable = [
            f["jsonPath"].removeprefix(".") for f in given.get("selectableFields") or ()
        ]
        self.deprecation = ""
        if given.get("deprecated"):
            usual = f"{kind.group}/{self.name} {kind.names['kind']} is deprecated"
            self.deprecation = given.get("deprecationWarning") or usual
        self.given_schema: Plain = given["schema"]["openAPIV3Schema"]
        parts: Plain = given.get("subresources") or {}
        self.has_status = parts.get(STATUS) is not None
        self.scale: Plain | None = parts.get("scale")

    @property
    def api_version(self) -> str:
        """The apiVersion of its objects."""
        return f"{self.kind.group}/{self.name}"

    @cached_property
    def schema(self) -> structural.Schema:
        """What it says of its objects."""
        return schema_of(self.given_schema)

    @cached_property
    def rules(self) -> SchemaRules:
        """The schema's rules in CEL."""
        return SchemaRules(self.schema)

    @cached_property
    def merging(self) -> structural.MergeRules:
        """How server-side apply takes its objects apart."""
        return structural.MergeRules(self.schema)

    def coerced(self, data: Plain) -> tuple[Plain, list[str]]:
        """Return an object as it is stored, pruned and complete, and the fields that it lost.

        Raises ApiError if its metadata have fields of other types.
        """
        key = self.api_version, self.kind.names["kind"]
        given = typed(key, data).get("metadata") or {}
        if not isinstance(given, dict):
            raise apimachinery.cannot_be_handled(
                key, "json: cannot unmarshal metadata into an object"
            )
        fields = messages.fields_of(_META)
        unknown = [f"metadata.{name}" for name in given if name not in fields]
        meta = {name: value for name, value in given.items() if name in fields}
        data = {**data, "metadata": typed(key, meta, _META)}
        unknown += structural.prune(self.schema, data, "", root=True)
        structural.complete(self.schema, data)
        return data, unknown

    def check(self, data: Plain, old: Plain | None, *, status: bool = False) -> None:
        """Raise ApiError with all that is wrong with an object; ``status``: of its status alone."""
        problems, schema = Problems(), self.schema
        before: Any = MISSING if old is None else old
        meta = data["metadata"]
        if not meta.get("name"):
            problems.required("metadata.name", "name or generateName is required")
        elif old is None:
            problems.each("metadata.name", meta["name"], formats.subdomain(meta["name"]))
        check_metadata(problems, meta)
        if not status:
            structural.validate(problems, schema, data, "", before)
        elif STATUS in data and STATUS in schema.properties:
            former = MISSING if old is None else old.get(STATUS, MISSING)
            structural.validate(problems, schema.properties[STATUS], data[STATUS], STATUS, former)
        if self.rules and not unchecked(problems):
            self.rules.check(problems, data, before)
        if problems.causes:
            name = data["metadata"].get("name") or ""
            raise problems.refusal(self.kind.resource, name)


class CustomKind:
    """One definition that is in force. ``since``: the version of the store at its last change."""

    def __init__(self, data: Plain, since: int) -> None:
        spec: Plain = data["spec"]
        self.name: str = data["metadata"]["name"]
        self.since = since
        self.spec = spec
        self.group: str = spec["group"]
        self.names: Plain = data["status"]["acceptedNames"]
        self.terminating = data["metadata"].get("deletionTimestamp") is not None
        self.versions = {given["name"]: CustomVersion(self, given) for given in spec["versions"]}
        self.storage = next(self.versions[v["name"]] for v in spec["versions"] if v["storage"])
        kinds = [(version.api_version, self.names["kind"]) for version in self.versions.values()]
        own = next((kind for kind in kinds if kind in KINDS), None)  # read by the scheduler
        key = own or (self.group, self.names["kind"])
        self.resource = apimachinery.Resource(
            key=key,
            api_version=self.storage.api_version,
            kind=self.names["kind"],
            group=self.group,
            plural=self.names["plural"],
            namespaced=spec["scope"] == "Namespaced",
            has_status=self.storage.has_status,
            status_reported=self.storage.has_status,
            has_generation=True,
            freely_named=False,
            struct=KINDS[own] if own else ApiObject,
            custom=True,
        )

    def shown(self, stored: apimachinery.Stored, api_version: str) -> Plain:
        """Return an object as a version shows it."""
        data = {**stored.data, "apiVersion": api_version}
        if stored.version <= self.since:  # it was stored under another schema
            version = self.versions[api_version.rpartition("/")[2]]
            data, _ = version.coerced(data)
        return data


class CustomKinds:
    """The custom kinds of a store. ``version`` rises when they change."""

    def __init__(self) -> None:
        self.version = 0
        self._definitions: dict[str, Plain] = {}
        self._kinds: dict[str, CustomKind] = {}
        self._by_key: dict[Kind, CustomVersion] = {}

    def __iter__(self) -> Iterator[CustomKind]:
        return iter(sorted(self._kinds.values(), key=lambda kind: kind.name))

    def find(self, key: Kind) -> CustomVersion | None:
        """Return the version of a custom kind, None if it is not one."""
        return self._by_key.get(key)

    def kind(self, name: str) -> CustomKind | None:
        """Return the kind of a definition, None if it is not in force."""
        return self._kinds.get(name)

    def resource(self, key: Kind) -> apimachinery.Resource:
        """Return a kind's resource. Raises ApiError if there is no such kind."""
        custom = self._by_key.get(key)
        return apimachinery.resource(key) if custom is None else custom.kind.resource

    def present(self, resource: apimachinery.Resource) -> apimachinery.Resource:
        """Return what a stored object's resource is now: its definition may have changed."""
        custom = self._by_key.get(resource.key)
        return resource if custom is None else custom.kind.resource

    def note(self, name: str, data: Plain | None, since: int) -> None:
        """Take note of a definition; None: it is gone. One that is not established adds nothing."""
        before = self._kinds.pop(name, None)
        self._definitions.pop(name, None)
        if data is not None:
            self._definitions[name] = data
            if condition(data, "Established") and _group(data) not in _OWN_GROUPS:
                if before is not None and before.spec == data.get("spec"):
                    since = before.since
                with suppress(LookupError, TypeError, StopIteration):  # it came past the API
                    self._kinds[name] = CustomKind(data, since)
        self._by_key = {}
        for kind in self:
            for version in kind.versions.values():
                self._by_key[version.api_version, kind.names["kind"]] = version
            self._by_key.setdefault(kind.resource.key, kind.storage)
        self.version += 1

    def admit(self, data: Plain, old: Plain | None, now: int) -> None:
        """Complete a definition, in place. Raises ApiError with all that is wrong with it."""
        if old is None:
            data.pop(STATUS, None)
        _fill(data)
        problems = Problems()
        check_definition(problems, data, old)
        if problems.causes:
            name = data["metadata"].get("name") or ""
            raise problems.refusal(apimachinery.resource(apimachinery.DEFINITION), name)
        self.accept_names(data, now)

    def judge(self, data: Plain, now: int) -> bool:
        """Set the conditions of a definition that is stored; return whether they have changed.

        One that came past the API, or of an earlier release, may have any content.
        """
        if condition(data, "Established") and condition(data, "NamesAccepted"):
            return False
        problems, before = Problems(), apimachinery.copied(data)
        _fill(data)
        try:
            check_definition(problems, data, None)
            why = problems.text
        except apimachinery.ApiError as error:
            why = error.message
        if not why:
            self.accept_names(data, now)
            return data != before
        status = data.setdefault(STATUS, {})
        _condition(status, ("NonStructuralSchema", True, "Violations", why), now)
        said = "NotAccepted", "the definition is not valid"
        _condition(status, ("Established", False, *said), now)
        return data != before

    def accept_names(self, data: Plain, now: int) -> None:
        """Set a definition's accepted names and conditions."""
        status, names = data[STATUS], dict(data["spec"]["names"])
        others = [
            (other.get(STATUS) or {}).get("acceptedNames") or {}
            for name, other in self._definitions.items()
            if name != data["metadata"]["name"] and _group(other) == _group(data)
        ]
        accepted = dict(status.get("acceptedNames") or {"plural": "", "kind": ""})
        reason, message = "NoConflicts", "no conflicts found"
        for field in ("plural", "singular", "shortNames", "kind", "listKind"):
            taken = _taken(field, names.get(field), others)
            if taken:
                reason = f"{field[0].upper()}{field[1:]}Conflict"
                message = f'"{taken}" is already in use'
            else:
                _set(accepted, field, names.get(field))
        _set(accepted, "categories", names.get("categories"))
        status["acceptedNames"] = accepted
        free = reason == "NoConflicts"
        _condition(status, ("NamesAccepted", free, reason, message), now)
        if free:
            said = "InitialNamesAccepted", "the initial names have been accepted"
            _condition(status, ("Established", True, *said), now)
        elif not condition(data, "Established"):
            said = "NotAccepted", "not all names are accepted"
            _condition(status, ("Established", False, *said), now)


def _fill(data: Plain) -> None:
    """Write the defaults of a definition, in place."""
    spec: Plain = data.setdefault("spec", {})
    names: Plain = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    names.setdefault("singular", kind.lower())
    names.setdefault("listKind", f"{kind}List")
    spec.setdefault("conversion", {}).setdefault("strategy", "None")
    status = data[STATUS] = dict(data.get(STATUS) or {})
    stored = status.setdefault("storedVersions", [])
    for version in spec.get("versions") or ():
        version.setdefault("served", False)
        version.setdefault("storage", False)
        if version["storage"] and version.get("name") not in stored:
            stored.append(version.get("name"))


def _group(data: Plain) -> Any:
    return (data.get("spec") or {}).get("group")


def _set(names: Plain, field: str, value: Any) -> None:
    if value:
        names[field] = value
    else:
        names.pop(field, None)


_RESOURCES: Final = ("plural", "singular", "shortNames")
_KINDS: Final = ("kind", "listKind")


def _taken(field: str, given: Any, others: Iterable[Plain]) -> str:
    """Return the first of some names that another definition of the group has, "" if none."""
    used = {
        name
        for other in others
        for kind in (_KINDS if field in _KINDS else _RESOURCES)
        for name in _listed(other.get(kind))
    }
    return next((name for name in _listed(given) if name in used), "")


def _listed(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value] if value else []


def condition(data: Plain, kind: str) -> bool:
    """Return whether a condition of a definition is true."""
    conditions = (data.get(STATUS) or {}).get("conditions") or ()
    return any(c.get("type") == kind and c.get("status") == "True" for c in conditions)


def _condition(status: Plain, wanted: tuple[str, bool, str, str], now: int) -> None:
    kind, holds, reason, message = wanted
    conditions: list[Plain] = status.setdefault("conditions", [])
    said = {"message": message, "reason": reason, "status": str(holds), "type": kind}
    for index, given in enumerate(conditions):
        if given.get("type") == kind:
            same = given.get("status") == said["status"]
            since = given.get("lastTransitionTime") if same else apimachinery.timestamp(now)
            conditions[index] = {"lastTransitionTime": since, **said}
            return
    conditions.append({"lastTransitionTime": apimachinery.timestamp(now), **said})


def terminating(data: Plain, now: int) -> Plain:
    """Return a definition that is deleted once its objects have gone."""
    meta = data["metadata"]
    meta["finalizers"] = [*(meta.get("finalizers") or ()), CLEANUP]
    said = "InstanceDeletionInProgress", "CustomResource deletion is in progress"
    _condition(data.setdefault(STATUS, {}), ("Terminating", True, *said), now)
    return data


def refuse_creation(kind: CustomKind) -> None:
    """Raise ApiError if objects of a kind cannot be created any more."""
    if kind.terminating:
        message = "create not allowed while custom resource definition is terminating"
        details = {"group": kind.group, "kind": kind.names["plural"]}
        raise apimachinery.ApiError(405, "MethodNotAllowed", message, details)
