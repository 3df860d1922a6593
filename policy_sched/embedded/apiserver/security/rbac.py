"""RBAC: the rules of a user, and whether they allow a request.

Theory of operation: roles and bindings are read from the store and kept as they were decoded for
as long as none of them changes. A request is authorized by going through the bindings that name
the user, those of the cluster first; rules only ever allow.

The attributes of a request follow from method and path alone. So a user without the right to read
a resource does not learn whether it exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar
from urllib.parse import unquote

import msgspec

from policy_sched.client.apimachinery import ApiError, Resource, Stored, cannot_be_handled, encoded
from policy_sched.embedded.admission import invalid
from policy_sched.embedded.apiserver.registry import quoted
from policy_sched.embedded.apiserver.request import ACCOUNT_PREFIX, UserInfo, is_set
from policy_sched.embedded.store import ObjectStore
from policy_sched.manifests import Plain
from policy_sched.model import ApiValue, Kind, LabelSelector

_T = TypeVar("_T")
GROUP: Final = "rbac.authorization.k8s.io"
ROLE: Final[Kind] = (f"{GROUP}/v1", "Role")
CLUSTER_ROLE: Final[Kind] = (f"{GROUP}/v1", "ClusterRole")
ROLE_BINDING: Final[Kind] = (f"{GROUP}/v1", "RoleBinding")
CLUSTER_ROLE_BINDING: Final[Kind] = (f"{GROUP}/v1", "ClusterRoleBinding")
KINDS: Final = (ROLE, CLUSTER_ROLE, ROLE_BINDING, CLUSTER_ROLE_BINDING)
ALL: Final = "*"

Words = tuple[str, ...] | None
_REQUIRED: Final = "FieldValueRequired"


class PolicyRule(ApiValue, frozen=True):
    """Verbs, and the resources or URLs that they are allowed for."""

    verbs: Words = ()
    api_groups: Words = ()
    resources: Words = ()
    resource_names: Words = ()
    non_resource_urls: Words = msgspec.field(default=(), name="nonResourceURLs")

    def data(self) -> Plain:
        """Return the rule as plain data."""
        plain: Plain = msgspec.to_builtins(self)
        return {"verbs": plain.pop("verbs", []), **plain}


class Aggregation(ApiValue, frozen=True):
    """Selectors of the cluster roles that a role aggregates."""

    cluster_role_selectors: tuple[LabelSelector, ...] | None = ()


class Role(ApiValue, frozen=True):
    """A role of a namespace or of the cluster."""

    rules: tuple[PolicyRule, ...] | None = ()
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


class RoleBinding(ApiValue, frozen=True):
    """Gives a role to subjects."""

    subjects: tuple[Subject, ...] | None = ()
    role_ref: RoleRef = RoleRef()


def _decoded(stored: Stored, kind: type[_T]) -> _T:
    """Return a stored role or binding; an empty one for invalid data that the API has not seen."""
    try:
        return msgspec.json.decode(stored.raw, type=kind)
    except msgspec.ValidationError:
        return kind()


def completed(resource: Resource, data: Plain) -> Role | RoleBinding:
    """Complete what is to be stored as a role or binding, in place, and return it.

    Raises ApiError if it is not valid.
    """
    if resource.key in (ROLE, CLUSTER_ROLE):
        role = _read(resource, data, Role)
        _check_rules(resource, data, role)
        return role
    read = _read(resource, data, RoleBinding)
    ref = data.setdefault("roleRef", {})
    ref["apiGroup"] = read.role_ref.api_group or GROUP
    for subject in data.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = GROUP
    binding = _read(resource, data, RoleBinding)
    _check_reference(resource, data, binding)
    for index, subject in enumerate(binding.subjects or ()):
        _check_subject(resource, data, index, subject)
    return binding


def _read(resource: Resource, data: Plain, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(encoded(data), type=kind)
    except msgspec.ValidationError as error:
        raise cannot_be_handled(resource.key, f"json: cannot unmarshal: {error}") from None


def _refuse(resource: Resource, data: Plain, field: str, reason: str, why: str) -> ApiError:
    return invalid(resource, data["metadata"].get("name") or "", field, reason, why)


def _check_rules(resource: Resource, data: Plain, role: Role) -> None:
    for index, rule in enumerate(role.rules or ()):
        at = f"rules[{index}]"
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


def _check_reference(resource: Resource, data: Plain, binding: RoleBinding) -> None:
    ref = binding.role_ref
    kinds = ("ClusterRole", "Role") if resource.namespaced else ("ClusterRole",)
    for field, value, choices in (("apiGroup", ref.api_group, (GROUP,)), ("kind", ref.kind, kinds)):
        if value not in choices:
            supported = ", ".join(map(quoted, choices))
            why = f"Unsupported value: {quoted(value)}: supported values: {supported}"
            raise _refuse(resource, data, f"roleRef.{field}", "FieldValueNotSupported", why)
    if not ref.name:
        raise _refuse(resource, data, "roleRef.name", _REQUIRED, "Required value")


def _check_subject(resource: Resource, data: Plain, index: int, subject: Subject) -> None:
    at = f"subjects[{index}]"
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


_VERBS: Final = {
    "GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch",
    "DELETE": "delete",
}  # fmt: skip
_PARTS_OF_NAMESPACES: Final = frozenset({"status", "finalize"})
_NAME_FIELD: Final = "metadata.name"


@dataclass(frozen=True, slots=True)
class Attributes:
    """A verb on a resource, or, if that is empty, on a path."""

    verb: str
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def combined(self) -> str:
        """Resource and subresource as rules name them: ``pods/status``."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    @property
    def qualified(self) -> str:
        """The resource with its group: ``leases.coordination.k8s.io``."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


def attributes_of(method: str, path: str, query: Mapping[str, str]) -> Attributes:
    """Return what a request is about; ``path`` is percent-encoded."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    match parts:
        case ["api", _version, *rest] if rest:
            group = ""
        case ["apis", group, _version, *rest] if rest:
            pass
        case _:
            return Attributes(method.lower(), unquote(path))
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _PARTS_OF_NAMESPACES:
            rest = rest[2:]
    resource, name, subresource = [*rest, "", ""][:3]
    verb = _VERBS.get(method, "")
    if not name and verb == "get":
        verb = "watch" if is_set(query, "watch") else "list"
        name = _named(query.get("fieldSelector", ""))
    elif not name and verb == "delete":
        verb = "deletecollection"
    return Attributes(verb, "", group, resource, subresource, namespace, name)


def _named(selector: str) -> str:
    """Return the only name that a field selector lets through, "" if there are others."""
    for part in selector.split(","):
        field, equal, value = part.partition("=")
        if field.strip() == _NAME_FIELD and equal:
            return value.removeprefix("=").strip()
    return ""


def refusal(user: UserInfo, attributes: Attributes, reason: str = "") -> ApiError:
    """Return the message of a request that is forbidden."""
    cannot = f"User {quoted(user.name)} cannot {attributes.verb}"
    if not attributes.resource:
        why = f"{cannot} path {quoted(attributes.path)}"
        return ApiError(403, "Forbidden", f"forbidden: {why}", {})
    scope = f"in the namespace {quoted(attributes.namespace)}" if attributes.namespace else ""
    group = f"in API group {quoted(attributes.group)}"
    scope = scope or "at the cluster scope"
    why = f"{cannot} resource {quoted(attributes.combined)} {group} {scope}"
    if reason:
        why = f"{why}: {reason}"
    name = f" {quoted(attributes.name)}" if attributes.name else ""
    details = {"name": attributes.name, "group": attributes.group, "kind": attributes.resource}
    message = f"{attributes.qualified}{name} is forbidden: {why}"
    return ApiError(403, "Forbidden", message, {k: v for k, v in details.items() if v})


_KNOWN_USERS: Final = 1000
"""Users whose rules are kept; then they are worked out anew."""


class Decision(NamedTuple):
    """Whether something is allowed, and why."""

    allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Granted:
    """Rules of one binding that apply to a user; ``why`` names binding, role and subject."""

    namespace: str
    rules: tuple[PolicyRule, ...]
    why: str


def allows(rule: PolicyRule, attributes: Attributes) -> bool:
    """Return whether a rule allows a request."""
    if not _has(rule.verbs, attributes.verb):
        return False
    if not attributes.resource:
        return any(covers_path(url, attributes.path) for url in rule.non_resource_urls or ())
    names = rule.resource_names
    return (
        _has(rule.api_groups, attributes.group)
        and any(_covers_resource(resource, attributes) for resource in rule.resources or ())
        and (not names or attributes.name in names)
    )


def _has(words: tuple[str, ...] | None, word: str) -> bool:
    return words is not None and (word in words or ALL in words)


def _covers_resource(resource: str, attributes: Attributes) -> bool:
    if resource in (ALL, attributes.combined):
        return True
    return bool(attributes.subresource) and resource == f"{ALL}/{attributes.subresource}"


def covers_path(url: str, path: str) -> bool:
    """Return whether a path is a rule's URL, or begins with what is before its ``*``."""
    if url in (ALL, path):
        return True
    return url.endswith(ALL) and path.startswith(url.rstrip(ALL))


class Rbac:
    """Authorizes by the roles and bindings of a store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._version = -1
        self._bindings: list[tuple[Stored, RoleBinding]] = []
        self._granted: dict[UserInfo, tuple[list[Granted], list[str]]] = {}

    def decide(self, user: UserInfo, attributes: Attributes) -> Decision:
        """Return whether a user may do something, and why."""
        if user.master:
            return Decision(allowed=True)
        granted, problems = self._of(user)
        for grant in granted:
            if grant.namespace and grant.namespace != attributes.namespace:
                continue
            if any(allows(rule, attributes) for rule in grant.rules):
                return Decision(True, f"RBAC: allowed by {grant.why}")
        if not problems:
            return Decision(allowed=False)
        text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        return Decision(False, f"RBAC: {text}")

    def rules(self, user: UserInfo, namespace: str) -> Iterator[PolicyRule]:
        """Yield the rules that apply to a user in a namespace; "" for the cluster's alone."""
        for grant in self._of(user)[0]:
            if not grant.namespace or grant.namespace == namespace:
                yield from grant.rules

    def role_rules(self, kind: str, namespace: str, name: str) -> tuple[PolicyRule, ...] | None:
        """Return the rules of a role, None if there is no such role."""
        cluster = kind == "ClusterRole"
        key = CLUSTER_ROLE if cluster else ROLE
        stored = self._store.find(key, "" if cluster else namespace, name)
        return None if stored is None else _decoded(stored, Role).rules or ()

    def _of(self, user: UserInfo) -> tuple[list[Granted], list[str]]:
        """Return what bindings give a user, and which roles are missing."""
        version = max(self._store.changed_at(kind) for kind in KINDS)
        if version != self._version:
            self._version = version
            self._granted.clear()
            self._bindings = [
                (stored, _decoded(stored, RoleBinding))
                for kind in (CLUSTER_ROLE_BINDING, ROLE_BINDING)
                for stored in self._store.select(kind)
            ]
        granted = self._granted.get(user)
        if granted is None:
            if len(self._granted) >= _KNOWN_USERS:
                self._granted.clear()
            granted = self._granted[user] = self._collect_rules(user)
        return granted

    def _collect_rules(self, user: UserInfo) -> tuple[list[Granted], list[str]]:
        granted, problems = [], []
        for stored, binding in self._bindings:
            subject = _subject_of(binding, user, stored.namespace)
            if subject is None:
                continue
            ref = binding.role_ref
            rules = self.role_rules(ref.kind, stored.namespace, ref.name)
            if rules is None:
                problems.append(f"{ref.kind.lower()}.{GROUP} {quoted(ref.name)} not found")
                continue
            suffix = f"/{stored.namespace}" if stored.namespace else ""
            name = quoted(f"{stored.name}{suffix}")
            role = f"{ref.kind} {quoted(ref.name)}"
            shown = _described(subject, stored.namespace)
            why = f"{stored.resource.kind} {name} of {role} to {shown}"
            granted.append(Granted(stored.namespace, rules, why))
        return granted, problems


def _subject_of(binding: RoleBinding, user: UserInfo, namespace: str) -> Subject | None:
    for subject in binding.subjects or ():
        match subject.kind:
            case "User":
                applies = user.name == subject.name
            case "Group":
                applies = subject.name in user.groups
            case _:
                account_namespace = subject.namespace or namespace
                applies = user.name == f"{ACCOUNT_PREFIX}{account_namespace}:{subject.name}"
        if applies:
            return subject
    return None


def _described(subject: Subject, namespace: str) -> str:
    if subject.kind != "ServiceAccount":
        return f"{subject.kind} {quoted(subject.name)}"
    return f"{subject.kind} {quoted(f'{subject.name}/{subject.namespace or namespace}')}"
