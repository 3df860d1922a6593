"""Rollouts: a set of policies decides some pods beside the set in force, step by step.

Everything here is pure: the time, what was counted and what was kept come in as values, and what
is to be done goes out as effects. ``state_machine`` says how steps follow one another.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from policy_sched.rollout.measures import (
    MEASURES as MEASURES,
    Counts as Counts,
    Measures as Measures,
    Observed as Observed,
)
from policy_sched.rollout.plan import (
    AbortRule as AbortRule,
    Plan as Plan,
    Step as Step,
    Verdict as Verdict,
)
from policy_sched.rollout.report import (
    EXAMPLES as EXAMPLES,
    Action as Action,
    Example as Example,
    RolloutControl as RolloutControl,
    RolloutReport as RolloutReport,
    RuleReport as RuleReport,
    measure_text as measure_text,
    rollout_report as rollout_report,
    seconds_text as seconds_text,
    step_text as step_text,
)
from policy_sched.rollout.sides import (
    By as By,
    Sides as Sides,
    key_of as key_of,
    share_of as share_of,
)
from policy_sched.rollout.state import (
    MAX_STATE as MAX_STATE,
    Phase as Phase,
    State as State,
    StateError as StateError,
    read_state as read_state,
)
from policy_sched.rollout.state_machine import (
    LONGEST_GAP as LONGEST_GAP,
    Abort as Abort,
    BeginStep as BeginStep,
    Effect as Effect,
    Promote as Promote,
    Replace as Replace,
    abort as abort,
    advance as advance,
    promote as promote,
    reconcile as reconcile,
)

if TYPE_CHECKING:
    from policy_sched.rollout.documents import (
        ANNOTATIONS as ANNOTATIONS,
        answered_by as answered_by,
        plan_of as plan_of,
        plan_of_object as plan_of_object,
        report_of_object as report_of_object,
        requested as requested,
        state_of_object as state_of_object,
        status_of as status_of,
    )


def __getattr__(name: str) -> Any:
    """Import what compiles rules when it is first named: few schedulers have a rollout."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.documents"), name)
