"""Code generation: IR becomes Python and NumPy source, then code objects.

For each program one scalar function (one row) and one vector function (many rows).
"""

from policy_sched.language.codegen.fused import FusedFunctions, fuse
from policy_sched.language.codegen.fused_rows import fuse_rows
from policy_sched.language.codegen.module import Functions, Program, generate
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
    "Marks",
    "Program",
    "Rows",
    "VictimProgram",
    "VictimScope",
    "class_program",
    "fuse",
    "fuse_rows",
    "generate",
    "over_victims",
]
