"""Code generation: IR becomes Python and NumPy source, then code objects.

For each program one scalar function (one row) and one vector function (many rows).
"""

from policy_sched.language.codegen.module import Functions, Program, generate
from policy_sched.language.codegen.victims import (
    Rows,
    VictimProgram,
    VictimScope,
    over_victims,
)

__all__ = [
    "Functions",
    "Program",
    "Rows",
    "VictimProgram",
    "VictimScope",
    "generate",
    "over_victims",
]
