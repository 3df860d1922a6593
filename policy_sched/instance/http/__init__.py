"""The HTTPS endpoints of a running scheduler.

healthz, readyz, metrics, explain and status pages, with delegated authentication and
authorization.
"""

from policy_sched.instance.http.delegated_auth import (
    ANONYMOUS,
    AlwaysAllow,
    Authorizer,
    Caller,
    DelegatingAuthorizer,
    Permission,
    Plain,
    RequestAttributes,
)
from policy_sched.instance.http.endpoints import OPEN, Endpoints, Offered
from policy_sched.instance.http.listener import Listener, renew, self_signed, server_context
from policy_sched.instance.http.status_pages import Explaining

__all__ = [
    "ANONYMOUS",
    "OPEN",
    "AlwaysAllow",
    "Authorizer",
    "Caller",
    "DelegatingAuthorizer",
    "Endpoints",
    "Explaining",
    "Listener",
    "Offered",
    "Permission",
    "Plain",
    "RequestAttributes",
    "renew",
    "self_signed",
    "server_context",
]
