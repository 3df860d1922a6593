"""HTTP servers: accepting connections, limits, and responses to what is no request.

Shared by the embedded API server and the endpoints of a running scheduler. aiohttp's server is
imported when the first of what needs it is named.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from policy_sched.http.access import (
    ALWAYS_ALLOW as ALWAYS_ALLOW,
    RBAC as RBAC,
    Access as Access,
    Address as Address,
    address_of as address_of,
    from_here as from_here,
    reason_of as reason_of,
)

if TYPE_CHECKING:
    from policy_sched.http.connections import (
        Bounds as Bounds,
        Connections as Connections,
        Site as Site,
        failure as failure,
        recognized as recognized,
    )

_SERVING: Final = frozenset({"Bounds", "Connections", "Site", "failure", "recognized"})


def __getattr__(name: str) -> Any:
    """Import what only a server needs."""
    if name not in _SERVING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.connections"), name)
