"""The columns of kubectl's tables.

One module per family of kinds.
"""

from policy_sched.embedded.apiserver.printers.tables import definitions, metadata, row
from policy_sched.embedded.apiserver.printers.workloads import selector_text

__all__ = [
    "definitions",
    "metadata",
    "row",
    "selector_text",
]
