"""The limits that an operator sets on the command line."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from policy_sched.language.diagnostics import MAX_ANNOTATED_COST, MAX_RULE_COST

MaxCostLimit = Annotated[
    int, Parameter(validator=Number(gte=MAX_RULE_COST, lte=MAX_ANNOTATED_COST))
]
"""Between what every rule may cost and what a policy may ask for at most."""
