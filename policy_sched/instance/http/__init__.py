"""The HTTPS endpoints of a running scheduler.

healthz, readyz, metrics, explain and status pages, with delegated authentication and
authorization.
"""

from policy_sched.instance.http.delegated_auth import (
    ANONYMOUS as ANONYMOUS,
    AlwaysAllow as AlwaysAllow,
    Authorizer as Authorizer,
    Caller as Caller,
    DelegatingAuthorizer as DelegatingAuthorizer,
    Permission as Permission,
    Plain as Plain,
    RequestAttributes as RequestAttributes,
)
from policy_sched.instance.http.endpoints import (
    OPEN as OPEN,
    Endpoints as Endpoints,
    Offered as Offered,
)
from policy_sched.instance.http.listener import (
    Listener as Listener,
    renew as renew,
    self_signed as self_signed,
    server_context as server_context,
)
from policy_sched.instance.http.status_pages import Explaining as Explaining
