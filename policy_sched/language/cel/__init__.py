"""CEL as Kubernetes evaluates it over devices: the second environment of the language.

The parser is the rule language's. Types are known only at run time, as attributes of devices have
none; so expressions are checked as far as types go and evaluated value by value.
"""

from policy_sched.language.cel.evaluator import Record
from policy_sched.language.cel.selectors import Selector, compile_selector, device_record
from policy_sched.language.cel.values import CelError

__all__ = ["CelError", "Record", "Selector", "compile_selector", "device_record"]
