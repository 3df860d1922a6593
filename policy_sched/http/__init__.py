"""HTTP servers: accepting connections, limits, and answers to what is no request.

Shared by the embedded API server and the endpoints of a running scheduler.
"""

from policy_sched.http.accepting import raise_descriptors
from policy_sched.http.connections import Bounds, Connections, Site, failure, recognized

__all__ = [
    "Bounds",
    "Connections",
    "Site",
    "failure",
    "raise_descriptors",
    "recognized",
]
