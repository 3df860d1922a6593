"""Code generation: IR becomes Python and NumPy source, then code objects.

For each program one scalar function (one row) and one vector function (many rows).
"""

from policy_sched.language.codegen.module import Functions, Program, generate
from policy_sched.language.codegen.victim_columns import BoundPlan, Rows, VictimScope
from policy_sched.language.codegen.victim_plan import Plan, plan_of

__all__ = [
    "BoundPlan",
    "Functions",
    "Plan",
    "Program",
    "Rows",
    "VictimScope",
    "generate",
    "plan_of",
]
