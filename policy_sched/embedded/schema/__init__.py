"""The types of all fields of all kinds that are served.

Tables of field numbers, names and types, read by admission, protobuf and OpenAPI.
"""

from policy_sched.embedded.schema.types import (
    JSON_ONLY,
    LEAVES,
    MESSAGES,
    Field,
    fields_of,
    message_of,
    typed,
)

__all__ = [
    "JSON_ONLY",
    "LEAVES",
    "MESSAGES",
    "Field",
    "fields_of",
    "message_of",
    "typed",
]
