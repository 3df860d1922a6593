"""The kinds that are served: resources, discovery, OpenAPI, conversion, errors.

Tables and pure functions; no HTTP.
"""

from policy_sched.embedded.apiserver.registry import discovery
from policy_sched.embedded.apiserver.registry.conversion import check_event
from policy_sched.embedded.apiserver.registry.errors import (
    JSON,
    LIMIT,
    STORED,
    NoSuchPage,
    no_such_resource,
    no_version,
    not_acceptable,
    not_allowed,
    not_there_yet,
    quoted,
    too_large,
    too_slow,
    unauthorized,
    unreadable,
    unsupported,
    wrong_option,
)
from policy_sched.embedded.apiserver.registry.resources import (
    BY_PATH,
    VERSIONS,
    Served,
    Subresource,
    field_selector,
)

__all__ = [
    "BY_PATH",
    "JSON",
    "LIMIT",
    "STORED",
    "VERSIONS",
    "NoSuchPage",
    "Served",
    "Subresource",
    "check_event",
    "discovery",
    "field_selector",
    "no_such_resource",
    "no_version",
    "not_acceptable",
    "not_allowed",
    "not_there_yet",
    "quoted",
    "too_large",
    "too_slow",
    "unauthorized",
    "unreadable",
    "unsupported",
    "wrong_option",
]
