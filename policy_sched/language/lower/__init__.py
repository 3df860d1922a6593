"""Lowering: the typed AST becomes IR, by abstract interpretation.

Constants are folded and errors become explicit on the way.
"""

from policy_sched.language.lower.abstract_values import (
    Abstract,
    Constant,
    ImageRecord,
    NodeMap,
    NodeRecord,
    Opt,
    Value,
    default_of,
    rep_of,
)
from policy_sched.language.lower.arithmetic import rounded, to_int
from policy_sched.language.lower.context import Env, Lowering, Refusal
from policy_sched.language.lower.dispatch import make_lowering
from policy_sched.language.lower.logic import coded
from policy_sched.language.lower.records import snake

__all__ = [
    "Abstract",
    "Constant",
    "Env",
    "ImageRecord",
    "Lowering",
    "NodeMap",
    "NodeRecord",
    "Opt",
    "Refusal",
    "Value",
    "coded",
    "default_of",
    "make_lowering",
    "rep_of",
    "rounded",
    "snake",
    "to_int",
]
