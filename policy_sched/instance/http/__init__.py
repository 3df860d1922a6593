"""The HTTPS endpoints of a running scheduler.

healthz, readyz, metrics, explain and status pages, with delegated authentication and
authorization. What only a process with endpoints needs is imported when it is first named.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from policy_sched.instance.http.delegated_auth import (
    ANONYMOUS as ANONYMOUS,
    OPEN as OPEN,
    AlwaysAllow as AlwaysAllow,
    Authorizer as Authorizer,
    Caller as Caller,
    DelegatingAuthorizer as DelegatingAuthorizer,
    Permission as Permission,
    Plain as Plain,
    RequestAttributes as RequestAttributes,
)

if TYPE_CHECKING:
    from policy_sched.instance.http.admission_reviews import AdmissionReviews as AdmissionReviews
    from policy_sched.instance.http.endpoints import Endpoints as Endpoints, Offered as Offered
    from policy_sched.instance.http.listener import (
        Listener as Listener,
        renew as renew,
        self_signed as self_signed,
        server_context as server_context,
    )

_LATER: Final = {
    "AdmissionReviews": "admission_reviews",
    "Endpoints": "endpoints",
    "Listener": "listener",
    "Offered": "endpoints",
    "renew": "listener",
    "self_signed": "listener",
    "server_context": "listener",
}
"""Names and their modules."""


def __getattr__(name: str) -> Any:
    """Import what only a process with endpoints needs."""
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
