"""Authenticates and authorizes callers of the endpoints as the embedded cluster's API does.

Without an authenticator every caller on this machine is accepted. Otherwise a caller needs a
certificate of the client CA, or a token of the token file or of a service account; with RBAC,
roles and bindings authorize it. A file of its own, as ``run --kubeconfig`` loads nothing of the
embedded cluster.
"""

from __future__ import annotations

from policy_sched.embedded.apiserver import security
from policy_sched.embedded.apiserver.request import UserInfo
from policy_sched.embedded.store import ObjectStore
from policy_sched.http import Access
from policy_sched.instance import http


def embedded_authorizer(given: Access, store: ObjectStore) -> http.Authorizer:
    """Return the authorizer for a cluster in this process. Raises ClusterError."""
    if not given.knows and not given.limited:
        return http.AlwaysAllow()
    tokens = security.Tokens.read(given.tokens) if given.tokens else None
    users = security.Authenticator(tokens, security.AccountTokens(store), anonymous=False)
    return EmbeddedAuthorizer(users, security.Rbac(store) if given.limited else None)


class EmbeddedAuthorizer:
    """Authorizer for an embedded cluster; without ``rbac`` every user may do everything."""

    def __init__(self, users: security.Authenticator, rbac: security.Rbac | None) -> None:
        self._users = users
        self._rbac = rbac

    async def authenticate(self, authorization: str) -> http.Caller | None:
        """Return the user of the token; with RBAC a caller without a token is anonymous."""
        if not authorization and self._rbac is not None:
            return http.ANONYMOUS
        scheme, _, token = authorization.partition(" ")
        user_and_version = self._users.user(token.strip()) if scheme.lower() == "bearer" else None
        if user_and_version is None:
            return None
        user, _ = user_and_version
        return http.Caller(user.name, user.uid, user.groups, user.extra)

    async def authorize(
        self, caller: http.Caller, attributes: http.RequestAttributes
    ) -> http.Permission:
        """Return whether the roles of the cluster allow it."""
        if self._rbac is None:
            return http.Permission(allowed=caller is not http.ANONYMOUS)
        user = UserInfo(caller.name, caller.uid, caller.groups, caller.extra)
        request = security.Attributes(
            attributes.verb,
            "" if attributes.resource else attributes.path,
            resource=attributes.resource,
            namespace=attributes.namespace,
            name=attributes.name,
        )
        return http.Permission(*self._rbac.decide(user, request))
