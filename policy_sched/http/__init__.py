"""HTTP servers: accepting connections, limits, and responses to what is no request.

Shared by the embedded API server and the endpoints of a running scheduler.
"""

from policy_sched.http.accepting import raise_descriptors
from policy_sched.http.access import (
    ALWAYS_ALLOW,
    RBAC,
    Access,
    Address,
    address_of,
    from_here,
    reason_of,
)
from policy_sched.http.connections import Bounds, Connections, Site, failure, recognized

__all__ = [
    "ALWAYS_ALLOW",
    "RBAC",
    "Access",
    "Address",
    "Bounds",
    "Connections",
    "Site",
    "address_of",
    "failure",
    "from_here",
    "raise_descriptors",
    "reason_of",
    "recognized",
]
