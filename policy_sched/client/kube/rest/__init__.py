"""Requests to an API server: transport, TLS, retries, rate limits, decoding.

One request at a time, with client-go's rules for retries and back-off. What is listed or watched
is the concern of cache/.
"""

from policy_sched.client.kube.rest.client import MERGE_PATCH, STRATEGIC_PATCH, Api
from policy_sched.client.kube.rest.decoding import Decoding, Unread, WatchEvent
from policy_sched.client.kube.rest.errors import (
    CONFLICT,
    NOT_FOUND,
    TOO_MANY,
    Malformed,
    Place,
    Selection,
    Status,
    Unreachable,
    collection_path,
    error_of_status,
    expired,
    object_path,
    wait_of,
)
from policy_sched.client.kube.rest.keyed_executor import Begin, Ended, KeyedExecutor, at_once
from policy_sched.client.kube.rest.retry import REQUEST_BACKOFF, RetryPolicy, Room, away, first_of
from policy_sched.client.kube.rest.settings import Environment, Settings
from policy_sched.client.kube.rest.transport import JSON

__all__ = [
    "CONFLICT",
    "JSON",
    "MERGE_PATCH",
    "NOT_FOUND",
    "REQUEST_BACKOFF",
    "STRATEGIC_PATCH",
    "TOO_MANY",
    "Api",
    "Begin",
    "Decoding",
    "Ended",
    "Environment",
    "KeyedExecutor",
    "Malformed",
    "Place",
    "RetryPolicy",
    "Room",
    "Selection",
    "Settings",
    "Status",
    "Unreachable",
    "Unread",
    "WatchEvent",
    "at_once",
    "away",
    "collection_path",
    "error_of_status",
    "expired",
    "first_of",
    "object_path",
    "wait_of",
]
