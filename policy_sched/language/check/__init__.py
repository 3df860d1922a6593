"""Type checking: the AST becomes a typed AST; every problem is reported at once.

Names, calls, operators, macros and the sections of a policy. Code is not generated here.
"""

from policy_sched.language.check.definitions import Checked, params_type
from policy_sched.language.check.expressions import check_selector, children, type_depth
from policy_sched.language.check.policy import (
    CheckedDevices,
    CheckedKey,
    CheckedPlacement,
    CheckedPolicy,
    CheckedPreemption,
    CheckedRequeue,
    CheckedRule,
    CheckedScore,
    CheckedStep,
    check_beside,
    check_expression,
    check_policy,
    diagnostic,
)
from policy_sched.language.check.upstream import compilation_failed

__all__ = [
    "Checked",
    "CheckedDevices",
    "CheckedKey",
    "CheckedPlacement",
    "CheckedPolicy",
    "CheckedPreemption",
    "CheckedRequeue",
    "CheckedRule",
    "CheckedScore",
    "CheckedStep",
    "check_beside",
    "check_expression",
    "check_policy",
    "check_selector",
    "children",
    "compilation_failed",
    "diagnostic",
    "params_type",
    "type_depth",
]
