"""A request about one API object, whose response is the object: what plugins send by themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, TypeAlias

from policy_sched.errors import ClusterError
from policy_sched.model import KINDS, ApiObject, Kind


@dataclass(frozen=True, slots=True)
class ObjectRequest:
    """Get, create, patch or delete an object.

    ``body`` is the object that is created, or the patch: a merge patch, or with ``strategic`` one
    that knows the keys of lists. A patch that carries metadata.resourceVersion is refused with a
    conflict if the object has changed since. ``exact``: the object, a ResourceClaim, holds what
    JSON cannot keep, and an API server is sent all of it with these changes, in protobuf.
    """

    verb: Literal["get", "create", "patch", "delete"]
    kind: type[ApiObject]
    namespace: str
    name: str
    body: Mapping[str, Any] = field(default_factory=dict)
    subresource: str = ""
    strategic: bool = False
    exact: bool = False

    @property
    def api_kind(self) -> Kind:
        """The apiVersion and kind."""
        return _kinds()[self.kind]


@cache
def _kinds() -> Mapping[type[ApiObject], Kind]:
    return {struct: kind for kind, struct in KINDS.items()}


ObjectResponse: TypeAlias = Callable[[ApiObject | None, ClusterError | None], None]
"""Called with the object as it is now (None if it was deleted), or with the error."""
