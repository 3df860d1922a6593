"""Kubernetes' CEL over devices: the second environment of the language.

Parser, checker, types, functions and problems are the rule language's, with the environment of
`stdlib.selector_environment`. What is `any` is known only of a device; so expressions are checked
as far as types go and evaluated value by value.
"""

from policy_sched.language.cel.costs import estimated_cost
from policy_sched.language.cel.evaluator import Evaluation
from policy_sched.language.cel.library import plain
from policy_sched.language.cel.selectors import (
    Selector,
    check_selector,
    compile_selector,
    device_record,
    selector_type,
)
from policy_sched.language.cel.unknown_attributes import DeviceNames, unknown_attributes
from policy_sched.language.cel.values import CelError, InterruptError, Record

__all__ = [
    "CelError",
    "DeviceNames",
    "Evaluation",
    "InterruptError",
    "Record",
    "Selector",
    "check_selector",
    "compile_selector",
    "device_record",
    "estimated_cost",
    "plain",
    "selector_type",
    "unknown_attributes",
]
