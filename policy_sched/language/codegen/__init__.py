"""Code generation: IR becomes Python and NumPy source, then code objects.

For each program one scalar function (one row) and one vector function (many rows).
"""

from policy_sched.language.codegen.fused import (
    FusedFunctions,
    FusedProgram,
    FusedRule,
    RuleRoots,
    fuse,
)
from policy_sched.language.codegen.module import (
    Functions,
    Program,
    SortProgram,
    generate,
    sort_program,
)
from policy_sched.language.codegen.row_classes import ClassProgram, Marks, class_program
from policy_sched.language.codegen.victims import (
    Rows,
    VictimProgram,
    VictimScope,
    over_victims,
)

__all__ = [
    "ClassProgram",
    "Functions",
    "FusedFunctions",
    "FusedProgram",
    "FusedRule",
    "Marks",
    "Program",
    "Rows",
    "RuleRoots",
    "SortProgram",
    "VictimProgram",
    "VictimScope",
    "class_program",
    "fuse",
    "generate",
    "over_victims",
    "sort_program",
]
