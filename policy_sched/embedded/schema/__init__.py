"""The types of all fields of all kinds that are served.

Tables of field numbers, names and types, read by admission, protobuf and OpenAPI.
"""

from policy_sched.embedded.schema.definition_checks import unknown_fields as unknown_fields
from policy_sched.embedded.schema.definitions import (
    CLEANUP as CLEANUP,
    CustomKinds as CustomKinds,
    CustomVersion as CustomVersion,
    refuse_creation as refuse_creation,
    terminating as terminating,
)
from policy_sched.embedded.schema.problems import (
    IMMUTABLE as IMMUTABLE,
    Problems as Problems,
    check_annotations as check_annotations,
    check_labels as check_labels,
    check_metadata as check_metadata,
    inside as inside,
    items as items,
)
from policy_sched.embedded.schema.types import JSON_ONLY as JSON_ONLY, typed as typed
