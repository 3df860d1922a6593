"""Hypothetical pods: a view over the tables for dry runs.

An overlay adds or removes pods for the duration of a dry run and restores the rows afterwards.
"""

from policy_sched.cluster.overlay.overlay import WhatIf, WhatIfGuests, WhatIfRows

__all__ = [
    "WhatIf",
    "WhatIfGuests",
    "WhatIfRows",
]
