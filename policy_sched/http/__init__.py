"""HTTP servers: accepting connections, limits, and responses to what is no request.

Shared by the embedded API server and the endpoints of a running scheduler.
"""

from policy_sched.http.access import (
    ALWAYS_ALLOW as ALWAYS_ALLOW,
    RBAC as RBAC,
    Access as Access,
    Address as Address,
    address_of as address_of,
    from_here as from_here,
    reason_of as reason_of,
)
from policy_sched.http.connections import (
    Bounds as Bounds,
    Connections as Connections,
    Site as Site,
    failure as failure,
    raise_descriptors as raise_descriptors,
    recognized as recognized,
)
