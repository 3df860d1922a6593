"""The rule language: a typed, CEL-like language that is compiled to Python and NumPy.

Stages, in the order a rule passes them: syntax, check, lint, lower, ir, codegen, runtime. values/
has the types, stdlib/ the functions. The language knows columns of nodes
and pods; it does not know scheduling. What checks, compiles and formats is imported when it is
first named: a scheduler that starts with kept rules runs them, and its compiler is another process.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from policy_sched.language.sections import (
    SCHEMA_DIFFERS as SCHEMA_DIFFERS,
    BoundUnit as BoundUnit,
    Choice as Choice,
    CompiledAggregate as CompiledAggregate,
    CompiledPolicy as CompiledPolicy,
    CompiledQuotaObjects as CompiledQuotaObjects,
    CompiledQuotas as CompiledQuotas,
    ConditionPart as ConditionPart,
    Eviction as Eviction,
    FilterRule as FilterRule,
    GateRule as GateRule,
    Input as Input,
    LifeCycle as LifeCycle,
    Out as Out,
    PlacementRules as PlacementRules,
    PreemptionChoices as PreemptionChoices,
    Score as Score,
    Sections as Sections,
    StatedEvents as StatedEvents,
    Step as Step,
    Unit as Unit,
    schema_hint as schema_hint,
)
from policy_sched.language.values import RuleError as RuleError

if TYPE_CHECKING:
    from policy_sched.language.compile import (
        compile_policy as compile_policy,
        compiled_inputs as compiled_inputs,
        make_unit as make_unit,
        problems_of as problems_of,
    )
    from policy_sched.language.cost_report import (
        CostPart as CostPart,
        breakdown as breakdown,
        names_read as names_read,
    )
    from policy_sched.language.expression import (
        FIRST_ERROR as FIRST_ERROR,
        BoundExpression as BoundExpression,
        Expression as Expression,
        compile_expression as compile_expression,
    )
    from policy_sched.language.formatter import (
        WIDTH as WIDTH,
        flat_expression as flat_expression,
        format_expression as format_expression,
        plain_expression as plain_expression,
    )
    from policy_sched.language.reference import (
        Entry as Entry,
        entries as entries,
        of_device as of_device,
        of_field as of_field,
        of_macro as of_macro,
        of_overload as of_overload,
        of_variable as of_variable,
        topics as topics,
    )

_LATER: Final = {
    "BoundExpression": "expression",
    "breakdown": "cost_report",
    "compile_expression": "expression",
    "compile_policy": "compile",
    "compiled_inputs": "compile",
    "CostPart": "cost_report",
    "entries": "reference",
    "Entry": "reference",
    "Expression": "expression",
    "FIRST_ERROR": "expression",
    "flat_expression": "formatter",
    "format_expression": "formatter",
    "make_unit": "compile",
    "names_read": "cost_report",
    "of_device": "reference",
    "of_field": "reference",
    "of_macro": "reference",
    "of_overload": "reference",
    "of_variable": "reference",
    "plain_expression": "formatter",
    "problems_of": "compile",
    "topics": "reference",
    "WIDTH": "formatter",
}
"""Names and their modules."""


def __getattr__(name: str) -> Any:
    """Import what checks, compiles or formats rules."""
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
