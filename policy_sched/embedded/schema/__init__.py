"""The types of all fields of all kinds that are served.

Tables of field numbers, names and types, read by admission, protobuf and OpenAPI.
"""

from policy_sched.embedded.schema.types import (
    JSON_ONLY as JSON_ONLY,
    LEAVES as LEAVES,
    MESSAGES as MESSAGES,
    MessageField as MessageField,
    fields_of as fields_of,
    message_of as message_of,
    typed as typed,
)
