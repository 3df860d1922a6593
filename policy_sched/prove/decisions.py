"""Whether policies whose rules were written anew decide as before, whatever the pod and the node.

`policy-sched diff` asks this before it simulates, so an answer has to come soon, and only a proof
for lists of any length counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from policy_sched.language import check
from policy_sched.language.diagnostics import PolicySource
from policy_sched.profiles.reload import LimitedProcess, NoResultError, ProcessLimits
from policy_sched.prove.claims import comparisons
from policy_sched.prove.rules import PolicyPrinter, PolicyTerms
from policy_sched.prove.solving import Question
from policy_sched.prove.terms import Opaque, Terms
from policy_sched.prove.world import World

if TYPE_CHECKING:  # it takes as long to import as everything here
    from policy_sched.diff import Rewrite

LONGEST: Final = 10
"""Seconds of processor time that all questions may take together."""
#: Seconds of the solver for each question, in steps of a common machine.
_EACH: Final = 1.0


def decide_alike(rewrites: Sequence[Rewrite]) -> bool:
    """Return whether it is proven that each policy decides as it did before.

    The policies differ in filter and score, and in what these share, alone.
    """
    limits = ProcessLimits(LONGEST)
    asked: LimitedProcess[Sequence[Rewrite], bool] = LimitedProcess(all_alike, limits, forks=True)
    with asked as process:
        process.begin(rewrites)
        try:
            return process.result()
        except NoResultError:
            return False


def all_alike(rewrites: Sequence[Rewrite]) -> bool:
    """Return whether it is proven that each policy decides as it did before, in this process."""
    return all(_alike(old, new) for old, new in rewrites)


class _Unlisted(World):
    """A pod and a node with lists of which nothing is known, so that no proof rests on a length.

    What equal operations make of such a list is the same unknown on both sides.
    """

    def __init__(self) -> None:
        super().__init__(Terms(), 0)

    def list_of(self, key: tuple[Any, ...], kind: str) -> Any:
        """Return a list without a term."""
        del kind
        return Opaque(key)


def _alike(old: PolicySource, new: PolicySource) -> bool:
    if any(rule.on_error == "Abort" for rule in (*old.filter, *new.filter)):
        return False  # the terms do not tell a node that is rejected from an attempt that ends
    world = _Unlisted()
    before, after = (_printed(source, world) for source in (old, new))
    claims = comparisons([before], [after], world.terms)
    conditions = [claim.term for claim in claims if not claim.final]  # raw scores are alike
    world.finish()
    return all(
        Question(world.facts, condition).answer(world.leaves, (), _EACH, small=False).impossible
        for condition in conditions
    )


def _printed(source: PolicySource, world: World) -> PolicyTerms:
    policy, problems = check.check_policy(source)
    assert policy is not None, problems
    return PolicyPrinter(policy, world).terms()
