"""Requests to an API server: transport, TLS, retries, rate limits, decoding.

One request at a time, with client-go's rules for retries and back-off. What is listed or watched
is the concern of cache/.
"""

from policy_sched.client.kube.rest.client import (
    MERGE_PATCH as MERGE_PATCH,
    STRATEGIC_PATCH as STRATEGIC_PATCH,
    TOGETHER_ASIDE as TOGETHER_ASIDE,
    Api as Api,
)
from policy_sched.client.kube.rest.decoding import (
    CustomDecoding as CustomDecoding,
    Decoding as Decoding,
    Unread as Unread,
    WatchEvent as WatchEvent,
    decoding_of as decoding_of,
)
from policy_sched.client.kube.rest.errors import (
    CONFLICT as CONFLICT,
    NOT_FOUND as NOT_FOUND,
    TOO_MANY as TOO_MANY,
    ApiStatus as ApiStatus,
    Malformed as Malformed,
    Place as Place,
    Selection as Selection,
    Unreachable as Unreachable,
    collection_path as collection_path,
    error_of_status as error_of_status,
    expired as expired,
    object_path as object_path,
    version_path as version_path,
    wait_of as wait_of,
)
from policy_sched.client.kube.rest.keyed_executor import (
    Begin as Begin,
    Ended as Ended,
    KeyedExecutor as KeyedExecutor,
    at_once as at_once,
)
from policy_sched.client.kube.rest.retry import (
    REQUEST_BACKOFF as REQUEST_BACKOFF,
    RetryPolicy as RetryPolicy,
    away as away,
    first_of as first_of,
)
from policy_sched.client.kube.rest.settings import (
    ClientEnvironment as ClientEnvironment,
    Settings as Settings,
)
from policy_sched.client.kube.rest.transport import JSON as JSON
