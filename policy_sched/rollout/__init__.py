"""Rollouts: a set of policies decides some pods beside the set in force, step by step.

Everything here is pure: the time, what was counted and what was kept come in as values, and what
is to be done goes out as effects. ``state_machine`` says how steps follow one another.
"""

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
    plan_of as plan_of,
)
from policy_sched.rollout.sides import By as By, key_of as key_of, share_of as share_of
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
    refuse as refuse,
)
