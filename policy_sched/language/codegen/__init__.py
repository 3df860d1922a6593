"""Code generation: IR becomes Python and NumPy source, then code objects.

For each program one scalar function (one row) and one vector function (many rows).
"""

from policy_sched.language.codegen.fused import (
    FusedProgram as FusedProgram,
    FusedRule as FusedRule,
    RuleRoots as RuleRoots,
    fuse as fuse,
)
from policy_sched.language.codegen.module import (
    ClassProgram as ClassProgram,
    Functions as Functions,
    Marks as Marks,
    Program as Program,
    SortProgram as SortProgram,
    class_program as class_program,
    generate as generate,
    sort_program as sort_program,
)
from policy_sched.language.codegen.victims import (
    Rows as Rows,
    VictimProgram as VictimProgram,
    VictimScope as VictimScope,
    over_victims as over_victims,
)
