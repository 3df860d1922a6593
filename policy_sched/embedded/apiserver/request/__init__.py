"""The attributes of a request, and its user.

The counterpart of RequestInfo and user.Info.
"""

from policy_sched.embedded.apiserver.request.request_info import (
    ACCOUNT_PREFIX,
    ANONYMOUS,
    AUTHENTICATED,
    MASTERS,
    UNAUTHENTICATED,
    UNSECURED,
    Options,
    Sent,
    Target,
    User,
    account_of,
    account_user,
    is_set,
    target_of,
    with_authenticated,
)

__all__ = [
    "ACCOUNT_PREFIX",
    "ANONYMOUS",
    "AUTHENTICATED",
    "MASTERS",
    "UNAUTHENTICATED",
    "UNSECURED",
    "Options",
    "Sent",
    "Target",
    "User",
    "account_of",
    "account_user",
    "is_set",
    "target_of",
    "with_authenticated",
]
