"""The attributes of a request, and its user.

The counterpart of RequestInfo and user.Info.
"""

from policy_sched.embedded.apiserver.request.request_info import (
    ACCOUNT_PREFIX as ACCOUNT_PREFIX,
    ANONYMOUS as ANONYMOUS,
    UNSECURED as UNSECURED,
    RequestOptions as RequestOptions,
    RequestTarget as RequestTarget,
    Sent as Sent,
    UserInfo as UserInfo,
    account_of as account_of,
    account_user as account_user,
    is_set as is_set,
    target_of as target_of,
    with_authenticated as with_authenticated,
)
