"""Authenticates and authorizes callers of the endpoints as the embedded cluster's API does.

Without an authenticator every caller on this machine is accepted. Otherwise a caller needs a
certificate of the client CA, or a token of the token file or of a service account; with RBAC,
roles and bindings authorize it.
"""

from __future__ import annotations

from policy_sched.embedded.apiserver.request import User
from policy_sched.embedded.apiserver.security import (
    AccountTokens,
    Attributes,
    Authenticator,
    Rbac,
    Tokens,
)
from policy_sched.embedded.store import ObjectStore
from policy_sched.http import Access
from policy_sched.instance.http import (
    ANONYMOUS,
    AlwaysAllow,
    Authorizer,
    Caller,
    Permission,
    RequestAttributes,
)


def embedded_authorizer(given: Access, store: ObjectStore) -> Authorizer:
    """Return the authorizer for a cluster in this process. Raises ClusterError."""
    if not given.knows and not given.limited:
        return AlwaysAllow()
    known = Tokens.read(given.tokens) if given.tokens else None
    users = Authenticator(known, AccountTokens(store), anonymous=False)
    return EmbeddedAuthorizer(users, Rbac(store) if given.limited else None)


class EmbeddedAuthorizer:
    """Authorizer for an embedded cluster; without ``rbac`` every user may do everything."""

    def __init__(self, users: Authenticator, rbac: Rbac | None) -> None:
        self._users = users
        self._rbac = rbac

    async def authenticate(self, authorization: str) -> Caller | None:
        """Return the user of the token; with RBAC a caller without a token is anonymous."""
        if not authorization and self._rbac is not None:
            return ANONYMOUS
        scheme, _, token = authorization.partition(" ")
        found = self._users.user(token.strip()) if scheme.lower() == "bearer" else None
        if found is None:
            return None
        user, _ = found
        return Caller(user.name, user.uid, user.groups, user.extra)

    async def authorize(self, caller: Caller, attributes: RequestAttributes) -> Permission:
        """Return whether the roles of the cluster allow it."""
        if self._rbac is None:
            return Permission(allowed=caller is not ANONYMOUS)
        user = User(caller.name, caller.uid, caller.groups, caller.extra)
        found = Attributes(
            attributes.verb,
            "" if attributes.resource else attributes.path,
            resource=attributes.resource,
            namespace=attributes.namespace,
            name=attributes.name,
        )
        return Permission(*self._rbac.decide(user, found))
