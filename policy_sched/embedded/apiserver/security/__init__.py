"""Authentication, RBAC, tokens and access reviews.

The counterpart of kube-apiserver's authentication and authorization chain.
"""

from policy_sched.embedded.apiserver.security.account_tokens import (
    TOKEN_REQUEST as TOKEN_REQUEST,
    AccountTokens as AccountTokens,
    token_for as token_for,
)
from policy_sched.embedded.apiserver.security.authentication import (
    HEALTH as HEALTH,
    Authenticator as Authenticator,
    Gate as Gate,
    Tokens as Tokens,
    kubeconfig as kubeconfig,
    write_kubeconfig as write_kubeconfig,
)
from policy_sched.embedded.apiserver.security.client_certificates import publish as publish
from policy_sched.embedded.apiserver.security.escalation import (
    Granting as Granting,
    install as install,
)
from policy_sched.embedded.apiserver.security.rbac import Attributes as Attributes, Rbac as Rbac
from policy_sched.embedded.apiserver.security.reviews import Reviews as Reviews
