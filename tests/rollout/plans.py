"""Plans, counts and rules of rollouts for tests."""

from __future__ import annotations

from policy_sched.rollout import AbortRule, Counts, Measures, Observed, Plan, Step, Verdict

SECOND = 10**9
MINUTE = 60 * SECOND


def worse(stable: Measures, candidate: Measures) -> Verdict:
    """Hold where the candidate finds more pods unschedulable."""
    return Verdict(candidate.unschedulable > stable.unschedulable + 0.02)


def divided(stable: Measures, candidate: Measures) -> Verdict:
    """Fail without victims of the stable side."""
    if stable.victims == 0:
        return Verdict(error="division by zero")
    return Verdict(candidate.victims // stable.victims > 2)


WORSE = AbortRule(
    "candidate.unschedulable > stable.unschedulable + 0.02",
    "more pods find no node",
    worse,
    reads=("candidate.unschedulable", "stable.unschedulable"),
)
DIVIDED = AbortRule("candidate.victims / stable.victims > 2", "more victims", divided)

PLAN = Plan(
    "careful",
    "careful",
    (
        Step(least=10 * MINUTE, decisions=500),
        Step(10, "Owner", 20 * MINUTE),
        Step(50, "Owner", 20 * MINUTE, 100),
    ),
    (WORSE,),
)


def counted(decisions: int = 0, failed: int = 0, *, of_stable: int | None = None) -> Observed:
    """Return counts of a candidate of whose decisions ``failed`` found no node."""
    given = decisions if of_stable is None else of_stable
    candidate = Counts(decisions=decisions, scheduled=decisions - failed, unschedulable=failed)
    return Observed(Counts(decisions=given, scheduled=given), candidate)
