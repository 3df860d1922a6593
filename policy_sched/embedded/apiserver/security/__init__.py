"""Authentication, RBAC, tokens and access reviews.

The counterpart of kube-apiserver's authentication and authorization chain.
"""

from policy_sched.embedded.apiserver.security.account_tokens import (
    TOKEN_REQUEST,
    AccountTokens,
    token_for,
)
from policy_sched.embedded.apiserver.security.authentication import (
    HEALTH,
    Authenticator,
    Gate,
    Tokens,
    kubeconfig,
    write_kubeconfig,
)
from policy_sched.embedded.apiserver.security.client_certificates import publish
from policy_sched.embedded.apiserver.security.escalation import Granting, install
from policy_sched.embedded.apiserver.security.rbac import Attributes, Rbac
from policy_sched.embedded.apiserver.security.reviews import Reviews

__all__ = [
    "HEALTH",
    "TOKEN_REQUEST",
    "AccountTokens",
    "Attributes",
    "Authenticator",
    "Gate",
    "Granting",
    "Rbac",
    "Reviews",
    "Tokens",
    "install",
    "kubeconfig",
    "publish",
    "token_for",
    "write_kubeconfig",
]
