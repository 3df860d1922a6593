"""Kubernetes' CEL over devices: the second environment of the language.

Parser, checker, types, functions and problems are the rule language's, with the environment of
`stdlib.selector_environment`. What is `any` is known only of a device; so expressions are checked
as far as types go and evaluated value by value.
"""

from policy_sched.language.cel.costs import Shape as Shape, estimated_cost as estimated_cost
from policy_sched.language.cel.evaluator import Evaluation as Evaluation
from policy_sched.language.cel.library import plain as plain
from policy_sched.language.cel.selectors import (
    DeviceNames as DeviceNames,
    Expression as Expression,
    Selector as Selector,
    check_selector as check_selector,
    compile_expression as compile_expression,
    compile_selector as compile_selector,
    device_record as device_record,
    selector_type as selector_type,
    unknown_attributes as unknown_attributes,
)
from policy_sched.language.cel.values import (
    CelError as CelError,
    CelMap as CelMap,
    CostError as CostError,
    Duration as Duration,
    InterruptError as InterruptError,
    Optional as Optional,
    Record as Record,
    Timestamp as Timestamp,
)
