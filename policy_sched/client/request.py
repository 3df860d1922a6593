"""A request about one API object, whose response is the object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal, TypeAlias

import msgspec

from policy_sched.errors import ClusterError
from policy_sched.model import KINDS, ApiObject, Kind


class ObjectRequest(msgspec.Struct, frozen=True):
    """Get, create, patch or delete an object.

    A deletion with the subresource ``eviction`` is refused where a disruption budget forbids it.
    """

    verb: Literal["get", "create", "patch", "delete"]
    kind: type[ApiObject]
    namespace: str
    name: str
    body: Mapping[str, Any] = {}
    """The object that is created, or the patch.

    A patch that has metadata.resourceVersion is refused with a conflict if the object has changed
    since; any other is sent again after a conflict.
    """
    subresource: str = ""
    strategic: bool = False
    """The patch knows the keys of lists; otherwise it is a merge patch."""
    exact: bool = False
    """The object, a ResourceClaim, has fields that JSON cannot keep: an API server gets all of it
    with these changes, in protobuf."""
    uid: str = ""
    """The UID that the object must have to be patched or deleted, empty for any.

    Requests with the same UID, and the binding of that pod, are sent one after the other.
    """
    ignore_not_found: bool = False
    """An object that does not exist any more, or has another UID, is no error."""

    @property
    def api_kind(self) -> Kind:
        """The apiVersion and kind."""
        return _kinds()[self.kind]

    @property
    def call(self) -> str:
        """Verb and kind, as RBAC has them: ``patch pods/status``."""
        part = f"/{self.subresource}" if self.subresource else ""
        verb = "create" if self.subresource == "eviction" else self.verb
        return f"{verb} {self.kind.__name__.lower()}s{part}"

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@cache
def _kinds() -> Mapping[type[ApiObject], Kind]:
    return {struct: kind for kind, struct in KINDS.items()}


ObjectResponse: TypeAlias = Callable[[ApiObject | None, ClusterError | None], None]
"""Called with the object as it is now (None if it was deleted), or with the error."""
