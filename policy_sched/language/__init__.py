"""The rule language: a typed, CEL-like language that is compiled to Python and NumPy.

Stages, in the order a rule passes them: syntax, check, lint, lower, ir, codegen, runtime. values/
has the types, stdlib/ the functions, format/ the formatter. The language knows columns of nodes
and pods; it does not know scheduling.
"""

from policy_sched.language.compile import compile_policy, make_unit, problems_of
from policy_sched.language.cost_report import ANNOTATION, CostPart, breakdown, names_read
from policy_sched.language.expression import (
    FIRST_ERROR,
    BoundExpression,
    Expression,
    compile_expression,
)
from policy_sched.language.reference import (
    Entry,
    entries,
    nearest,
    of_device,
    of_field,
    of_macro,
    of_overload,
    of_variable,
)
from policy_sched.language.sections import (
    BoundUnit,
    Choice,
    CompiledPolicy,
    FilterRule,
    GateRule,
    LifeCycle,
    Out,
    PlacementRules,
    PreemptionChoices,
    Score,
    Sections,
    StatedEvents,
    Step,
    Unit,
)
from policy_sched.language.values import RuleError

__all__ = [
    "ANNOTATION",
    "FIRST_ERROR",
    "BoundExpression",
    "BoundUnit",
    "Choice",
    "CompiledPolicy",
    "CostPart",
    "Entry",
    "Expression",
    "FilterRule",
    "GateRule",
    "LifeCycle",
    "Out",
    "PlacementRules",
    "PreemptionChoices",
    "RuleError",
    "Score",
    "Sections",
    "StatedEvents",
    "Step",
    "Unit",
    "breakdown",
    "compile_expression",
    "compile_policy",
    "entries",
    "make_unit",
    "names_read",
    "nearest",
    "of_device",
    "of_field",
    "of_macro",
    "of_overload",
    "of_variable",
    "problems_of",
]
