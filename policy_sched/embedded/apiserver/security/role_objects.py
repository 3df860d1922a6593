"""Roles and their bindings as they are stored: structs, completion and checks."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from policy_sched.client.apimachinery import ApiError, Resource, Stored, cannot_be_handled, encoded
from policy_sched.embedded.admission import invalid
from policy_sched.embedded.apiserver.registry import quoted
from policy_sched.manifests import Plain
from policy_sched.model import ApiValue, Kind, LabelSelector

GROUP: Final = "rbac.authorization.k8s.io"
ROLE: Final[Kind] = (f"{GROUP}/v1", "Role")
CLUSTER_ROLE: Final[Kind] = (f"{GROUP}/v1", "ClusterRole")
ROLE_BINDING: Final[Kind] = (f"{GROUP}/v1", "RoleBinding")
CLUSTER_ROLE_BINDING: Final[Kind] = (f"{GROUP}/v1", "ClusterRoleBinding")
KINDS: Final = (ROLE, CLUSTER_ROLE, ROLE_BINDING, CLUSTER_ROLE_BINDING)
ALL: Final = "*"

Words = tuple[str, ...] | None
_REQUIRED: Final = "FieldValueRequired"


class Rule(ApiValue, frozen=True):
    """What may be done to what."""

    verbs: Words = ()
    api_groups: Words = ()
    resources: Words = ()
    resource_names: Words = ()
    non_resource_urls: Words = msgspec.field(default=(), name="nonResourceURLs")

    def data(self) -> Plain:
        """Return the rule as plain data."""
        found: Plain = msgspec.to_builtins(self)
        return {"verbs": found.pop("verbs", []), **found}


class Aggregation(ApiValue, frozen=True):
    """Which cluster roles a role is made of."""

    cluster_role_selectors: tuple[LabelSelector, ...] | None = ()


class Role(ApiValue, frozen=True):
    """A role of a namespace or of the cluster."""

    rules: tuple[Rule, ...] | None = ()
    aggregation_rule: Aggregation | None = None


class Subject(ApiValue, frozen=True):
    """A user, group or service account that a role is given to."""

    kind: str = ""
    api_group: str = ""
    name: str = ""
    namespace: str = ""


class RoleRef(ApiValue, frozen=True):
    """The role that a binding gives."""

    api_group: str = ""
    kind: str = ""
    name: str = ""


class Binding(ApiValue, frozen=True):
    """Gives a role to subjects."""

    subjects: tuple[Subject, ...] | None = ()
    role_ref: RoleRef = RoleRef()


_ROLE: Final = msgspec.json.Decoder(Role)
_BINDING: Final = msgspec.json.Decoder(Binding)


def role_of(stored: Stored) -> Role:
    """Return a stored role; one that came past the API and cannot be read allows nothing."""
    try:
        return _ROLE.decode(stored.raw)
    except msgspec.ValidationError:
        return Role()


def binding_of(stored: Stored) -> Binding:
    """Return a stored binding; one that came past the API and cannot be read gives nothing."""
    try:
        return _BINDING.decode(stored.raw)
    except msgspec.ValidationError:
        return Binding()


def completed(resource: Resource, data: Plain) -> Role | Binding:
    """Complete what is to be stored as a role or binding, in place, and return it.

    Raises ApiError if it is not valid.
    """
    if resource.key in (ROLE, CLUSTER_ROLE):
        role: Role = _read(resource, data, _ROLE)
        _check_rules(resource, data, role)
        return role
    read: Binding = _read(resource, data, _BINDING)
    ref = data.setdefault("roleRef", {})
    ref["apiGroup"] = read.role_ref.api_group or GROUP
    for subject in data.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = GROUP
    binding: Binding = _read(resource, data, _BINDING)
    _check_reference(resource, data, binding)
    for place, subject in enumerate(binding.subjects or ()):
        _check_subject(resource, data, place, subject)
    return binding


def _read(resource: Resource, data: Plain, decoder: msgspec.json.Decoder[Any]) -> Any:
    try:
        return decoder.decode(encoded(data))
    except msgspec.ValidationError as error:
        raise cannot_be_handled(resource.key, f"json: cannot unmarshal: {error}") from None


def _refuse(resource: Resource, data: Plain, field: str, reason: str, why: str) -> ApiError:
    return invalid(resource, data["metadata"].get("name") or "", field, reason, why)


def _check_rules(resource: Resource, data: Plain, role: Role) -> None:
    for place, rule in enumerate(role.rules or ()):
        at = f"rules[{place}]"
        if not rule.verbs:
            why = "Required value: verbs must contain at least one value"
            raise _refuse(resource, data, f"{at}.verbs", _REQUIRED, why)
        if rule.non_resource_urls:
            field = f"{at}.nonResourceURLs"
            shown = encoded(rule.non_resource_urls).decode()
            why = f"Invalid value: {shown}: "
            if resource.namespaced:
                why += "namespaced rules cannot apply to non-resource URLs"
                raise _refuse(resource, data, field, "FieldValueInvalid", why)
            if rule.api_groups or rule.resources or rule.resource_names:
                why += "rules cannot apply to both regular resources and non-resource URLs"
                raise _refuse(resource, data, field, "FieldValueInvalid", why)
            continue
        if not rule.api_groups:
            why = "Required value: resource rules must supply at least one api group"
            raise _refuse(resource, data, f"{at}.apiGroups", _REQUIRED, why)
        if not rule.resources:
            why = "Required value: resource rules must supply at least one resource"
            raise _refuse(resource, data, f"{at}.resources", _REQUIRED, why)


def _check_reference(resource: Resource, data: Plain, binding: Binding) -> None:
    ref = binding.role_ref
    kinds = ("ClusterRole", "Role") if resource.namespaced else ("ClusterRole",)
    for field, value, known in (("apiGroup", ref.api_group, (GROUP,)), ("kind", ref.kind, kinds)):
        if value not in known:
            supported = ", ".join(map(quoted, known))
            why = f"Unsupported value: {quoted(value)}: supported values: {supported}"
            raise _refuse(resource, data, f"roleRef.{field}", "FieldValueNotSupported", why)
    if not ref.name:
        raise _refuse(resource, data, "roleRef.name", _REQUIRED, "Required value")


def _check_subject(resource: Resource, data: Plain, place: int, subject: Subject) -> None:
    at = f"subjects[{place}]"
    if not subject.name:
        raise _refuse(resource, data, f"{at}.name", _REQUIRED, "Required value")
    groups = {"ServiceAccount": "", "User": GROUP, "Group": GROUP}
    if subject.kind not in groups:
        supported = ", ".join(map(quoted, groups))
        why = f"Unsupported value: {quoted(subject.kind)}: supported values: {supported}"
        raise _refuse(resource, data, f"{at}.kind", "FieldValueNotSupported", why)
    if subject.api_group != groups[subject.kind]:
        supported = quoted(groups[subject.kind])
        why = f"Unsupported value: {quoted(subject.api_group)}: supported values: {supported}"
        raise _refuse(resource, data, f"{at}.apiGroup", "FieldValueNotSupported", why)
    if subject.kind == "ServiceAccount" and not subject.namespace and not resource.namespaced:
        raise _refuse(resource, data, f"{at}.namespace", _REQUIRED, "Required value")
