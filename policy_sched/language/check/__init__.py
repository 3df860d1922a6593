"""Type checking: the AST becomes a typed AST; every problem is reported at once.

Names, calls, operators, macros and the sections of a policy. Code is not generated here.
"""

from policy_sched.language.check.definitions import Checked as Checked
from policy_sched.language.check.expressions import (
    check_selector as check_selector,
    children as children,
    walk as walk,
)
from policy_sched.language.check.inputs import URL_PARAM as URL_PARAM, CheckedInput as CheckedInput
from policy_sched.language.check.moments import moments_of as moments_of
from policy_sched.language.check.policy import (
    CheckedPolicy as CheckedPolicy,
    aggregates_type as aggregates_type,
    check_beside as check_beside,
    check_expression as check_expression,
    check_policy as check_policy,
    diagnostic as diagnostic,
    path_of as path_of,
)
