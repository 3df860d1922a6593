"""The columns of kubectl's tables.

columns.yaml has them by kind; cells.py fills those that are more than a field.
"""

from policy_sched.embedded.apiserver.printers.cells import selector_text as selector_text
from policy_sched.embedded.apiserver.printers.jsonpath import values_at as values_at
from policy_sched.embedded.apiserver.printers.tables import (
    definitions as definitions,
    metadata as metadata,
    row as row,
)
