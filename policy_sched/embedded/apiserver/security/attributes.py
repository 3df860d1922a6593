"""What a request is about, for those who decide whether it is allowed.

This is worked out from method and path alone, whether there is such a resource or not: who may
not ask for a thing does not learn that it is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from policy_sched.client.apimachinery import ApiError
from policy_sched.embedded.apiserver.registry import quoted
from policy_sched.embedded.apiserver.request import User, is_set

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


def refusal(user: User, asked: Attributes, reason: str = "") -> ApiError:
    """Return what is said to who may not do something."""
    cannot = f"User {quoted(user.name)} cannot {asked.verb}"
    if not asked.resource:
        why = f"{cannot} path {quoted(asked.path)}"
        return ApiError(403, "Forbidden", f"forbidden: {why}", {})
    place = f"in the namespace {quoted(asked.namespace)}" if asked.namespace else ""
    group = f"in API group {quoted(asked.group)}"
    place = place or "at the cluster scope"
    why = f"{cannot} resource {quoted(asked.combined)} {group} {place}"
    if reason:
        why = f"{why}: {reason}"
    name = f" {quoted(asked.name)}" if asked.name else ""
    details = {"name": asked.name, "group": asked.group, "kind": asked.resource}
    message = f"{asked.qualified}{name} is forbidden: {why}"
    return ApiError(403, "Forbidden", message, {k: v for k, v in details.items() if v})
