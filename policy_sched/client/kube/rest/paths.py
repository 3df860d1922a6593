"""Paths of the API: collections, objects and subresources."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from policy_sched.client.apimachinery import resource
from policy_sched.model import Kind

Place = tuple[str, str]
"""Namespace ("" for what lives in none) and name."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Objects of one kind: in one namespace or all (""), and those that selectors select."""

    kind: Kind
    namespace: str = ""
    field_selector: str = ""
    label_selector: str = ""

    @property
    def path(self) -> str:
        """The path of the collection."""
        return collection_path(self.kind, self.namespace)

    def query(self, **more: str) -> dict[str, str]:
        """Return the selectors as parameters of a request, with others."""
        given = {"fieldSelector": self.field_selector, "labelSelector": self.label_selector}
        return {name: value for name, value in {**given, **more}.items() if value}


def collection_path(kind: Kind, namespace: str = "") -> str:
    """Return the path of a kind's objects. Raises ApiError for a kind that is not known."""
    found = resource(kind)
    root = f"/apis/{kind[0]}" if found.group else f"/api/{kind[0]}"
    inside = f"/namespaces/{quote(namespace, safe='')}" if namespace and found.namespaced else ""
    return f"{root}{inside}/{found.plural}"


def object_path(kind: Kind, namespace: str, name: str, subresource: str = "") -> str:
    """Return the path of an object or of a subresource of it."""
    path = f"{collection_path(kind, namespace)}/{quote(name, safe='')}"
    return f"{path}/{subresource}" if subresource else path
