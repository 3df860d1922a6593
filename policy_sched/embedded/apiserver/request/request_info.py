"""A request taken apart: which resource, namespace, object and subresource a path names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from policy_sched.client.apimachinery import bad_request
from policy_sched.embedded.apiserver import registry
from policy_sched.embedded.store import Key
from policy_sched.manifests import Plain

MASTERS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
ACCOUNT_PREFIX: Final = "system:serviceaccount:"
ACCOUNTS: Final = "system:serviceaccounts"

Extra = tuple[tuple[str, tuple[str, ...]], ...]
"""Further attributes of a user: keys and their values."""


@dataclass(frozen=True, slots=True)
class UserInfo:
    """A name, and the groups that it belongs to."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Extra = ()

    @property
    def master(self) -> bool:
        """Whether nothing is forbidden."""
        return MASTERS in self.groups

    def info(self) -> Plain:
        """Return the user as authentication.k8s.io's UserInfo."""
        info: Plain = {"username": self.name} if self.name else {}
        if self.uid:
            info["uid"] = self.uid
        if self.groups:
            info["groups"] = list(self.groups)
        if self.extra:
            info["extra"] = {key: list(values) for key, values in self.extra}
        return info


ANONYMOUS: Final = UserInfo("system:anonymous", groups=(UNAUTHENTICATED,))
"""The user of a request without credentials."""
UNSECURED: Final = UserInfo("system:unsecured", groups=(MASTERS, AUTHENTICATED))
"""The user of all requests to a server that is open to this machine."""


def account_user(namespace: str, name: str, uid: str = "", extra: Extra = ()) -> UserInfo:
    """Return the user that a service account is."""
    groups = (ACCOUNTS, f"{ACCOUNTS}:{namespace}", AUTHENTICATED)
    return UserInfo(f"{ACCOUNT_PREFIX}{namespace}:{name}", uid, groups, extra)


def account_of(user_name: str) -> tuple[str, str] | None:
    """Return namespace and name of the service account that a user is, None if it is none."""
    parts = user_name.removeprefix(ACCOUNT_PREFIX).split(":")
    if not user_name.startswith(ACCOUNT_PREFIX) or len(parts) != 2 or not all(parts):
        return None
    return parts[0], parts[1]


def with_authenticated(groups: tuple[str, ...]) -> tuple[str, ...]:
    """Return groups with that of all authenticated users."""
    return groups if AUTHENTICATED in groups else (*groups, AUTHENTICATED)


_TRUE: Final = frozenset({"", "1", "t", "T", "true", "TRUE", "True"})
"""Texts that Go reads as true; an option without a value is set."""
_VERBS: Final = {
    ("GET", True): "get", ("GET", False): "list",
    ("POST", False): "create", ("PUT", True): "update", ("PATCH", True): "patch",
    ("DELETE", True): "delete", ("DELETE", False): "deletecollection",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """The objects of a request's path; ``namespace`` and ``name`` are empty if the path has
    none."""

    served: registry.ServedResource
    namespace: str = ""
    name: str = ""
    part: registry.Subresource | None = None

    @property
    def key(self) -> Key:
        """The object's key in the store."""
        return Key(self.served.resource.key, self.namespace, self.name)

    @property
    def subresource(self) -> str:
        """The subresource's name, "" if the object itself is meant."""
        return self.part.name if self.part else ""

    def verb(self, method: str) -> str:
        """Return what a method does. Raises ApiError if it cannot be done here."""
        if self.part is not None:
            verbs = {"GET": "get", "PUT": "update", "PATCH": "patch", "POST": "create"}
            verb = verbs.get(method, "")
            allowed = self.part.verbs
        else:
            verb = _VERBS.get((method, bool(self.name)), "")
            allowed = self.served.verbs
        everywhere = self.served.resource.namespaced and not self.namespace
        if verb not in allowed or (everywhere and verb != "list"):
            raise registry.not_allowed()
        return verb


def target_of(path: str, catalog: registry.Catalog = registry.BUILT_IN) -> RequestTarget:
    """Return what a path (percent-encoded) names. Raises ApiError or NoSuchPage."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    group, version, rest = _group_of(parts)
    if version not in catalog.versions.get(group, ()):
        raise registry.NoSuchPage
    namespace = ""
    if group == "" and rest[0] == "namespaces" and rest[2:] == ["bindings"]:
        pods = catalog.by_path["", "v1", "pods"]
        return RequestTarget(pods, rest[1], "", pods.subresource("binding"))
    if rest[0] == "namespaces" and len(rest) > 2:
        inner = catalog.by_path.get((group, version, rest[2]))
        if inner is not None and inner.resource.namespaced:
            namespace, rest = rest[1], rest[2:]
    served = catalog.by_path.get((group, version, rest[0]))
    if served is None or len(rest) > 3 or "" in rest:
        raise registry.no_such_resource()
    name = rest[1] if len(rest) > 1 else ""
    if name and served.resource.namespaced and not namespace:
        raise registry.no_such_resource()
    part = served.subresource(rest[2]) if len(rest) > 2 else None
    if len(rest) > 2 and part is None:
        raise registry.no_such_resource()
    return RequestTarget(served, namespace, name, part)


def _group_of(parts: list[str]) -> tuple[str, str, list[str]]:
    match parts:
        case ["api", version, *rest] if rest:
            return "", version, rest
        case ["apis", group, version, *rest] if rest and group:
            return group, version, rest
    raise registry.NoSuchPage


def is_set(query: Mapping[str, str], name: str) -> bool:
    """Return whether an option of a query is set."""
    return name in query and query[name] in _TRUE


class RequestOptions:
    """The query of a request. ``kind`` is how its options are called: ListOptions."""

    def __init__(self, query: Mapping[str, str], kind: str) -> None:
        self._query = query
        self._kind = kind

    def text(self, name: str) -> str:
        """Return an option's text, "" if it is not given."""
        return self._query.get(name, "")

    def flag(self, name: str) -> bool:
        """Return whether an option is set."""
        return is_set(self._query, name)

    def given(self, name: str) -> bool:
        """Return whether an option is given, true or false."""
        return name in self._query

    def number(self, name: str) -> int | None:
        """Return a number, None if it is not given. Raises ApiError if it is none."""
        text = self.text(name)
        if not text:
            return None
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
            raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
        return int(text)

    def refused(self, field: str, reason: str, why: str) -> Exception:
        """Return the refusal of an option."""
        return registry.wrong_option(self._kind, field, reason, why)

    @property
    def dry_run(self) -> bool:
        """Whether the request is a dry run. Raises ApiError if the option has another value."""
        text = self.text("dryRun")
        if text not in ("", "All"):
            why = f'Unsupported value: "{text}": supported values: "All"'
            raise self.refused("dryRun", "FieldValueNotSupported", why)
        return text == "All"


@dataclass(frozen=True, slots=True)
class Sent:
    """A request that writes: its target, body and user."""

    target: RequestTarget
    options: RequestOptions
    body: bytes
    content_type: str
    user: UserInfo
    agent: str = ""
    warnings: list[str] = field(default_factory=list)
    """Warnings of the response."""

    @property
    def manager(self) -> str:
        """The manager of the fields that the request writes."""
        return self.options.text("fieldManager") or self.agent.partition("/")[0] or "unknown"
