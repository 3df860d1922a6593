"""Lowering: the typed AST becomes IR, by abstract interpretation.

Constants are folded and errors become explicit on the way.
"""

from policy_sched.language.lower.abstract_values import (
    Abstract as Abstract,
    Constant as Constant,
    ImageRecord as ImageRecord,
    NodeMap as NodeMap,
    NodeRecord as NodeRecord,
    Opt as Opt,
    Value as Value,
    default_of as default_of,
    range_of as range_of,
    rep_of as rep_of,
)
from policy_sched.language.lower.arithmetic import rounded as rounded, to_int as to_int
from policy_sched.language.lower.context import Env as Env, Lowering as Lowering, Refusal as Refusal
from policy_sched.language.lower.dispatch import (
    identities as identities,
    make_lowering as make_lowering,
)
from policy_sched.language.lower.logic import coded as coded
