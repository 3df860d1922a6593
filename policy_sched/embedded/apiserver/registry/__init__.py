"""The kinds that are served: resources, discovery, OpenAPI, conversion, errors.

Tables and pure functions; no HTTP.
"""

from policy_sched.embedded.apiserver.registry import discovery as discovery
from policy_sched.embedded.apiserver.registry.conversion import check_event as check_event
from policy_sched.embedded.apiserver.registry.errors import (
    JSON as JSON,
    LIMIT as LIMIT,
    STORED as STORED,
    NoSuchPage as NoSuchPage,
    no_such_resource as no_such_resource,
    no_version as no_version,
    not_acceptable as not_acceptable,
    not_allowed as not_allowed,
    not_there_yet as not_there_yet,
    quoted as quoted,
    too_large as too_large,
    too_slow as too_slow,
    unauthorized as unauthorized,
    unreadable as unreadable,
    unsupported as unsupported,
    wrong_option as wrong_option,
)
from policy_sched.embedded.apiserver.registry.resources import (
    BUILT_IN as BUILT_IN,
    Catalog as Catalog,
    Catalogs as Catalogs,
    ServedResource as ServedResource,
    Subresource as Subresource,
    field_selector as field_selector,
)
