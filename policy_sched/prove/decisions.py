"""Whether policies whose rules were written anew decide as before, whatever the pod and the node.

`policy-sched diff` asks this before it simulates, so an answer has to come soon, and only a proof
counts: what would have to look at lists element by element, or takes the solver long, is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import z3

from policy_sched.diff import Rewrite
from policy_sched.language import check
from policy_sched.language.diagnostics import PolicySource
from policy_sched.profiles.load import content_hash
from policy_sched.profiles.reload import LimitedProcess, NoResultError, ProcessLimits
from policy_sched.prove.claims import comparisons, unlike
from policy_sched.prove.rules import PolicyPrinter, PolicyTerms, RuleTerm
from policy_sched.prove.solving import Question
from policy_sched.prove.terms import Term, Terms, conjunction, disjunction, names_in, negation
from policy_sched.prove.world import World

LONGEST: Final = 10
"""Seconds of processor time that all questions may take together."""
#: Seconds of the solver for each question, in steps of a common machine.
_EACH: Final = 1.0
#: What rules read besides the pod and the node.
_SHARED: Final = ("params", "functions", "variables")


def decide_alike(rewrites: Sequence[Rewrite]) -> bool:
    """Return whether it is proven that each policy decides as it did before.

    The policies differ in filter and score, and in what these share, alone.
    """
    limits = ProcessLimits(LONGEST)
    with LimitedProcess[Sequence[Rewrite], bool](all_alike, limits, forks=True) as process:
        process.begin(rewrites)
        try:
            return process.result()
        except NoResultError:
            return False


def all_alike(rewrites: Sequence[Rewrite]) -> bool:
    """Return whether it is proven that each policy decides as it did before, in this process."""
    return all(_alike(old, new) for old, new in rewrites)


def _alike(old: PolicySource, new: PolicySource) -> bool:
    if any(rule.on_error == "Abort" for rule in (*old.filter, *new.filter)):
        return False  # the terms do not tell a node that is rejected from an attempt that ends
    world = World(Terms(), bound=1)
    before, after = (_printed(source, world) for source in (old, new))
    if len({content_hash([getattr(s, part) for part in _SHARED]) for s in (old, new)}) == 1:
        before, after = _sharing(world, before, after, old, new)
    conditions = list(_differences(before, after, world.terms))
    world.finish()
    facts = world.terms.facts()
    return all(_never(Question(facts, condition), world) for condition in conditions)


def _never(question: Question, world: World) -> bool:
    """Return whether it is proven that a condition never holds."""
    if _lengths(world) & question.constants:
        return False
    return question.answer(world.leaves, (), _EACH, small=False).impossible


def _printed(source: PolicySource, world: World) -> PolicyTerms:
    policy, problems = check.check_policy(source)
    assert policy is not None, problems
    return PolicyPrinter(policy, world).terms()


def _sharing(
    world: World, before: PolicyTerms, after: PolicyTerms, old: PolicySource, new: PolicySource
) -> tuple[PolicyTerms, PolicyTerms]:
    """Return both policies with the same terms for rules of the same text.

    What has no exact term would be another unknown on each side. What reads a list becomes an
    unknown, the same on both sides, as lists are not looked at.
    """

    def shared(
        ours: Sequence[RuleTerm],
        theirs: Sequence[RuleTerm],
        was: Sequence[object],
        now: Sequence[object],
    ) -> Iterator[tuple[RuleTerm, ...]]:
        same = {i for i, texts in enumerate(zip(was, now, strict=False)) if texts[0] == texts[1]}
        kept = {i: _plain(ours[i], world) for i in same}
        for side in (ours, theirs):
            yield tuple(kept.get(i, rule) for i, rule in enumerate(side))

    match = shared(before.match, after.match, old.match_conditions, new.match_conditions)
    rules = shared(before.filter, after.filter, old.filter, new.filter)
    before, after = (
        replace(side, match=next(match), filter=next(rules)) for side in (before, after)
    )
    score = before.score
    if old.score is None or new.score is None or score is None:
        return before, after
    texts = old.score.match_conditions, new.score.match_conditions
    match = shared(before.score_match, after.score_match, *texts)
    before, after = (replace(side, score_match=next(match)) for side in (before, after))
    if old.score.expression == new.score.expression:
        alike = replace(score, number=0, fails=False)
        before, after = (replace(side, score=alike) for side in (before, after))
    return before, after


def _plain(rule: RuleTerm, world: World) -> RuleTerm:
    """Return an unknown in place of a rule that reads lists."""
    if not _lengths(world) & names_in(rule.holds, rule.fails, rule.reason):
        return rule
    holds, fails = (world.terms.fresh(z3.BoolSort()) for _ in range(2))
    return replace(rule, holds=holds, fails=fails, reason=world.terms.fresh(z3.StringSort()))


def _lengths(world: World) -> set[str]:
    """Return the names of the lengths of lists that were unrolled."""
    return {f"{name}.length" for name in world.unrolled}


def _differences(before: PolicyTerms, after: PolicyTerms, made: Terms) -> Iterator[Term]:
    """Yield all that must not be for a pod and a node."""
    for claim in comparisons([before], [after], made):
        yield claim.term
    yield unlike(before.match_fails, after.match_fails)
    yield unlike(_fails(before.score_match), _fails(after.score_match))


def _fails(conditions: Sequence[RuleTerm]) -> Term:
    """Whether a condition fails and no other is false."""
    wrong = disjunction(*(rule.fails for rule in conditions))
    return conjunction(wrong, negation(disjunction(*(rule.rejects for rule in conditions))))
