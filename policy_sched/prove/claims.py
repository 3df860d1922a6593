"""The claims that `prove` makes of policies without a file: what every author would ask.

A claim says that something never happens, or that it happens for some pod and node. What shows
the contrary of the first, and what shows the second, is a pod and a node, which the scheduler has
to confirm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from policy_sched.language.diagnostics import Text
from policy_sched.language.runtime import FAILED
from policy_sched.policytest import ExpectedOutcome
from policy_sched.prove.rules import PolicyTerms, RuleTerm, ScoreTerm
from policy_sched.prove.terms import (
    Double,
    Term,
    as_real,
    conjunction,
    disjunction,
    equal,
    is_term,
    negation,
    reals,
)
from policy_sched.prove.tested import shows_scores

Confirm = Callable[[ExpectedOutcome], bool]
Run = Callable[[tuple[str, ...], str, bool], tuple[dict[str, Any], ExpectedOutcome]]
"""Runs a test of the pod and the node with some policies enabled, and returns it and what is seen.

Its arguments: the policies, the one whose raw score is seen, and whether the one number is changed.
"""


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim: ``term`` must hold for no pod and node, or for some.

    ``refuted``: what it means if the claim is wrong. ``policies``: the names of those that are
    enabled in a counterexample; ``plugin``: whose score is seen there.
    """

    name: str
    term: Term
    never: bool
    refuted: str
    text: Text
    span: tuple[int, int]
    policies: tuple[str, ...]
    confirm: Confirm
    plugin: str = ""
    rule: str = ""
    """The rule that a counterexample is about, which may be one of several that reject."""
    rivals: tuple[str, ...] = ()
    """The names of the policies that are enabled on the other side of a comparison."""
    differ: Callable[[ExpectedOutcome, ExpectedOutcome], bool] | None = None
    """In a comparison: whether what is seen of both sides is what the claim denies."""
    judge: Callable[[Run], bool] | None = None
    """Whether a pod and a node refute the claim, given what runs policies on them."""
    sides: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    """The files of both sides of a comparison, where they are not those of all claims."""
    caution: str = ""
    """Why what the solver finds may not be what the scheduler does, though all is exact."""
    tested: Confirm | None = None
    """Whether what becomes of a pod of any test of the policy shows what is claimed to happen."""
    varies: Any = None
    """A number that must not be the same for all pods and nodes that meet ``term``."""
    rules: tuple[RuleTerm | ScoreTerm, ...] = field(default=())

    def of_document(self, name: str, sides: tuple[tuple[str, ...], tuple[str, ...]]) -> Claim:
        """Return the claim as a part of one that a document states of two sides."""
        return replace(self, name=f"{name}: {self.name}", sides=sides)


def claims_of(policies: Sequence[PolicyTerms]) -> Iterator[Claim]:
    """Yield the claims of each policy, and of each two that filter."""
    for policy in policies:
        yield from _of_conditions(policy)
        yield from _of_filters(policy)
        if policy.score is not None:
            yield from _of_score(policy, policy.score)
    filtering = [policy for policy in policies if policy.filter]
    for one, other in combinations(filtering, 2):
        yield _together(one, other)


def _place(rule: RuleTerm | ScoreTerm) -> dict[str, Any]:
    return {"text": rule.text, "span": rule.span, "rules": (rule,)}


def _of_conditions(policy: PolicyTerms) -> Iterator[Claim]:
    if not policy.match:
        return
    rule, names = policy.match[0], (policy.name,)
    if policy.filter or policy.score is not None:
        yield Claim(
            f"{policy.name}: matchConditions hold for some pod",
            policy.matches,
            False,
            "the policy takes part for no pod",
            policies=names,
            confirm=lambda seen: seen.pre_filter is None,
            **_place(rule) | {"rules": policy.match},
        )
    for rule in policy.match:
        if rule.fails is not False:
            yield Claim(
                f"{policy.name}: {rule.name} never fails",
                conjunction(rule.fails, policy.match_fails),
                True,
                "it fails",
                policies=names,
                confirm=lambda seen: not seen.feasible,
                **_place(rule) | {"rules": policy.match},
            )


def _rejected_by(rule: str) -> Confirm:
    """Return whether a rule of a policy, or its error, is why the node was rejected."""

    def confirm(seen: ExpectedOutcome) -> bool:
        reasons = [str(r) for why in (seen.rejected or {}).values() for r in why.reasons or ()]
        return any(reason.startswith(f"rule {rule}: ") for reason in reasons)

    return confirm


def _rejected(rule: str) -> Confirm:
    """Return whether a rule of a policy rejected the node."""

    def confirm(seen: ExpectedOutcome) -> bool:
        return any(why.rule == rule for why in (seen.rejected or {}).values())

    return confirm


def _some_pass(policy: PolicyTerms) -> Confirm:
    """Return whether nodes pass the rules of a policy that takes part."""

    def shown(seen: ExpectedOutcome) -> bool:
        reject = any(why.plugin == policy.name for why in (seen.rejected or {}).values())
        return bool(seen.feasible) and (reject or not policy.match)

    return shown


def _of_filters(policy: PolicyTerms) -> Iterator[Claim]:
    names = (policy.name,)
    for i, rule in enumerate(policy.filter):
        before = policy.filter[: i + 1]
        if rule.fails is not False and not rule.handled:
            yield Claim(
                f"{policy.name}: {rule.name} never fails",
                conjunction(policy.reaches(i), rule.fails),
                True,
                "it fails",
                policies=names,
                confirm=_rejected_by(f"{policy.name}.{rule.name}"),
                **_place(rule) | {"rules": (*policy.match, *before)},
            )
        if rule.settled:
            continue
        yield Claim(
            f"{policy.name}: {rule.name} rejects some node",
            conjunction(policy.reaches(i), rule.rejects),
            False,
            "it rejects no node"
            + (" that the rules before it and matchConditions let pass" if i else ""),
            policies=names,
            confirm=_rejected(f"{policy.name}.{rule.name}"),
            tested=_rejected(f"{policy.name}.{rule.name}"),
            rule=f"{policy.name}.{rule.name}",
            **_place(rule) | {"rules": (*policy.match, *before)},
        )
    if policy.filter:
        yield Claim(
            f"{policy.name}: some node passes",
            conjunction(policy.matches, policy.passes),
            False,
            "the policy rejects every node",
            policies=names,
            confirm=lambda seen: bool(seen.feasible),
            tested=_some_pass(policy),
            **_place(policy.filter[0]) | {"rules": (*policy.match, *policy.filter)},
        )


def _together(one: PolicyTerms, other: PolicyTerms) -> Claim:
    first = one.filter[0]
    return Claim(
        f"{one.name} and {other.name}: some node passes both",
        conjunction(one.passes, other.passes),
        False,
        "together they reject every node",
        policies=(one.name,),
        confirm=lambda seen: bool(seen.feasible),
        judge=lambda run: all(run((p.name,), "", False)[1].feasible for p in (one, other)),
        **_place(first) | {"rules": (*one.match, *one.filter, *other.match, *other.filter)},
    )


def _outside(number: Any) -> Term:
    if isinstance(number, Double):
        return disjunction(number.value < 0, number.value > 100)
    return disjunction(number < 0, number > 100)


def _of_score(policy: PolicyTerms, score: ScoreTerm) -> Iterator[Claim]:
    names, plugin = (policy.name,), policy.name
    rules = (*policy.match, *policy.filter, *policy.score_match, score)
    place = _place(score) | {"rules": rules}
    if score.fails is not False and not score.handled:
        yield Claim(
            f"{policy.name}: score never fails",
            conjunction(policy.scores, score.fails),
            True,
            "it fails",
            policies=names,
            confirm=_score_failed,
            plugin=plugin,
            **place,
        )
    fine = conjunction(policy.scores, negation(score.fails))
    if not score.normalized:
        yield Claim(
            f"{policy.name}: score is within 0..100",
            False if score.bounded else conjunction(fine, _outside(score.number)),
            True,
            "it is not",
            policies=names,
            confirm=lambda seen: any(not 0 <= n <= 100 for n in (seen.raw or {}).values()),
            plugin=plugin,
            **place,
        )
    number = score.number.value if isinstance(score.number, Double) else score.number
    if not is_term(number):
        return  # a number that is written down, or follows from parameters, is meant
    yield Claim(
        f"{policy.name}: score is not the same for all nodes",
        fine,
        False,
        "every node has the same score",
        policies=names,
        confirm=lambda seen: bool(seen.raw),
        tested=shows_scores,
        plugin=plugin,
        varies=score.number,
        **place,
    )


def _score_failed(seen: ExpectedOutcome) -> bool:
    """Return whether the node's score may be one that failed: marked, or counted as 0."""
    return bool(seen.feasible) and all(n in (0, FAILED) for n in (seen.raw or {"": 1}).values())


def differs(number: Any, value: Any) -> Term:
    """Return whether a score differs from a value."""
    if isinstance(number, Double):
        left, right = reals(number.value, value)
        return left != right
    return number != value


def comparisons(old: Sequence[PolicyTerms], new: Sequence[PolicyTerms]) -> Iterator[Claim]:
    """Yield that policies of two sets decide alike, each with the one of its name."""
    by_name = {policy.name: policy for policy in new}
    for before in old:
        after = by_name.pop(before.name, PolicyTerms(before.name, (), (), None, ()))
        yield from _alike(before, after, [*_rules_of(before), *_rules_of(after)])
    for after in by_name.values():
        yield from _alike(PolicyTerms(after.name, (), (), None, ()), after, _rules_of(after))


def _rules_of(policy: PolicyTerms) -> list[RuleTerm | ScoreTerm]:
    score = [] if policy.score is None else [policy.score]
    return [*policy.match, *policy.filter, *policy.score_match, *score]


def _alike(
    old: PolicyTerms, new: PolicyTerms, rules: Sequence[RuleTerm | ScoreTerm]
) -> Iterator[Claim]:
    if not rules:
        return
    given: dict[str, Any] = {
        "never": True,
        "policies": (old.name,) if _rules_of(old) else (),
        "rivals": (new.name,) if _rules_of(new) else (),
        "confirm": lambda _seen: True,
        "rules": tuple(rules),
    }
    filters = [*old.filter, *new.filter]
    if filters:
        place = {"text": filters[-1].text, "span": filters[-1].span}
        yield Claim(
            f"{old.name}: the same nodes pass",
            unlike(old.passes, new.passes),
            refuted="a node passes one and not the other",
            differ=lambda a, b: set(a.feasible or ()) != set(b.feasible or ()),
            **given | place,
        )
        rejected = conjunction(negation(old.passes), negation(new.passes))
        matched = conjunction(negation(old.match_fails), negation(new.match_fails))
        yield Claim(
            f"{old.name}: the reasons are the same",
            conjunction(rejected, matched, unlike(old.reason, new.reason)),
            refuted="a node is rejected for another reason",
            differ=_other_reasons,
            **given | place,
        )
    scores = [score for score in (old.score, new.score) if score is not None]
    if scores:
        place = {"text": scores[-1].text, "span": scores[-1].span}
        yield Claim(
            f"{old.name}: the raw scores are the same",
            conjunction(old.passes, new.passes, _unlike_scores(old, new)),
            refuted="a node has another score",
            differ=lambda a, b: a.raw != b.raw,
            plugin=old.name,
            **given | place,
        )


def unlike(a: Term, b: Term) -> Term:
    """Return whether two bools, ints or texts differ."""
    return negation(equal(a, b))


def _other_reasons(old: ExpectedOutcome, new: ExpectedOutcome) -> bool:
    """Return whether a node that both sides reject is rejected for other reasons."""
    a, b = old.rejected or {}, new.rejected or {}
    return any(
        (a[node].code, a[node].reasons) != (b[node].code, b[node].reasons)
        for node in a.keys() & b.keys()
    )


def _unlike_scores(old: PolicyTerms, new: PolicyTerms) -> Term:
    """Return whether one side scores or fails and the other does not, or the numbers differ."""
    if old.score is None or new.score is None:
        return disjunction(
            conjunction(old.score is not None, old.scores),
            conjunction(new.score is not None, new.scores),
        )
    (a, a_fails), (b, b_fails) = old.score.settled(), new.score.settled()
    fine = conjunction(negation(a_fails), negation(b_fails))
    inside = disjunction(unlike(a_fails, b_fails), conjunction(fine, unlike_numbers(a, b)))
    return disjunction(unlike(old.scores, new.scores), conjunction(old.scores, inside))


def unlike_numbers(a: Any, b: Any) -> Term:
    """Return whether two scores differ, doubles or ints."""
    if not isinstance(a, Double) and not isinstance(b, Double):
        return unlike(a, b)
    left = a if isinstance(a, Double) else Double(as_real(a), True)
    right = b if isinstance(b, Double) else Double(as_real(b), True)
    x, y = reals(left.value, right.value)
    return disjunction(unlike(left.finite, right.finite), conjunction(left.finite, unlike(x, y)))
