"""The claims that `prove` makes of policies without a file: what every author would ask.

A claim says that something never happens, or that it happens for some pod and node. What shows
the contrary of the first, and what shows the second, is a pod and a node, which the scheduler has
to confirm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import Any, Final

from policy_sched.language.diagnostics import Text
from policy_sched.language.runtime import FAILED
from policy_sched.policytest import ExpectedOutcome, PluginOutcome
from policy_sched.profiles.check import ELIGIBLE, VICTIM
from policy_sched.prove.counterexample import FAILS, bound_says
from policy_sched.prove.rules import PolicyTerms, RuleTerm, ScoreTerm
from policy_sched.prove.scores import scores_beside
from policy_sched.prove.terms import (
    Double,
    Term,
    Terms,
    as_real,
    conjunction,
    disjunction,
    equal,
    is_term,
    ite,
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
    says: str = ""
    """In a comparison: the function of claims that is asked of both sides."""
    evicts: bool = False
    """Whether a counterexample is about a pod that is evicted."""
    final: bool = False
    """Whether normalised scores are seen in a counterexample."""
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
        yield from _of_pod_rules(policy)
        yield from _of_preemption(policy)
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


def _of_pod_rules(policy: PolicyTerms) -> Iterator[Claim]:
    """Yield of rules about the pod alone that they do not fail, and that they do something."""
    gates = (policy.gates, "holds back some pod", "it holds back no pod", "pre_enqueue")
    before = (policy.before, "rejects some pod", "it rejects no pod", "pre_filter")
    for rules, does, refuted, stage in (gates, before):
        reached = policy.matches if rules is policy.gates else policy.enqueues
        reached = conjunction(reached, policy.matches)
        for i, rule in enumerate(rules):
            given = conjunction(reached, *(one.passes for one in rules[:i]))
            place = _place(rule) | {"rules": (*policy.match, *rules[: i + 1])}
            words = f"rule {policy.name}.{rule.name}: "
            if rule.fails is not False and not rule.handled:
                yield Claim(
                    f"{policy.name}: {rule.name} never fails",
                    conjunction(given, rule.fails),
                    True,
                    "it fails",
                    policies=(policy.name,),
                    confirm=partial(_says, stage, words),
                    **place,
                )
            if not rule.settled and rule.core is not None:
                yield Claim(
                    f"{policy.name}: {rule.name} {does}",
                    conjunction(given, rule.rejects),
                    False,
                    refuted,
                    policies=(policy.name,),
                    confirm=partial(_says, stage, ""),
                    **place,
                )


def _says(stage: str, words: str, seen: ExpectedOutcome) -> bool:
    """Return whether a pod was rejected before nodes were looked at, in words that begin so."""
    status: PluginOutcome | None = getattr(seen, stage)
    return status is not None and any(str(r).startswith(words) for r in status.reasons or ())


def _of_preemption(policy: PolicyTerms) -> Iterator[Claim]:
    """Yield that the rules about evictions do not fail, and that some pod evicts another."""
    if policy.eligible is None or policy.victim is None:
        return
    name = policy.name

    def said(function: str) -> Callable[[Run], bool]:
        return lambda run: bound_says(run((name,), "", False)[0], name)[function]

    asked = (
        (policy.eligible, policy.matches, ELIGIBLE, policy.preempts, "some pod may evict others"),
        (policy.victim, policy.preempts, VICTIM, policy.evicts, "some pod may be evicted"),
    )
    for rule, given, function, holds, words in asked:
        place = _place(rule) | {"rules": (*policy.match, rule)}
        place |= {"policies": (name,), "confirm": lambda _seen: True, "evicts": True}
        if rule.fails is not False:
            failing = conjunction(given, rule.fails)
            yield Claim(
                f"{name}: {rule.name} never fails", failing, True, "it fails",
                judge=said(FAILS), **place,
            )  # fmt: skip
        yield Claim(f"{name}: {words}", holds, False, "none may", judge=said(function), **place)


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
        policies=(one.name, other.name),
        confirm=lambda seen: bool(seen.feasible),
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


def comparisons(
    old: Sequence[PolicyTerms], new: Sequence[PolicyTerms], made: Terms
) -> Iterator[Claim]:
    """Yield that policies of two sets decide alike, each with the one of its name."""
    by_name = {policy.name: policy for policy in new}
    for before in old:
        after = by_name.pop(before.name, PolicyTerms(before.name))
        yield from _alike(before, after, made)
    for after in by_name.values():
        yield from _alike(PolicyTerms(after.name), after, made)


def _alike(old: PolicyTerms, new: PolicyTerms, made: Terms) -> Iterator[Claim]:
    """Yield that two versions of a policy make the same of each pod and node."""
    if not (old.rules or new.rules):
        return
    claim = partial(_of_versions, old, new)
    yield from _pass_alike(old, new, claim)
    yield from _score_alike(old, new, claim, made)
    for words, function, one, other, of in (
        ("evict others", ELIGIBLE, old.preempts, new.preempts, [old.eligible, new.eligible]),
        ("be evicted", VICTIM, old.evicts, new.evicts, [old.victim, new.victim]),
    ):
        if any(of):
            yield claim(
                f"the same pods may {words}", unlike(one, other), "it may on one side", of,
                says=function, evicts=True,
            )  # fmt: skip
    if old.rest or new.rest:
        changed = sorted(set(dict(set(old.rest) ^ set(new.rest))))
        caution = f"not compared, and not the same: {', '.join(changed)}" if changed else ""
        yield claim(ELSEWHERE, False, "", [*old.rules, *new.rules], caution=caution)


def _of_versions(
    old: PolicyTerms, new: PolicyTerms, words: str, term: Term, refuted: str,
    of: Sequence[Any], **more: Any,
) -> Claim:  # fmt: skip
    """Return a claim of two versions, at the last of the rules that it is of."""
    last = [rule for rule in of if rule is not None][-1]
    given = {"differ": lambda _a, _b: False, "confirm": lambda _seen: True, **more}
    return Claim(
        f"{old.name}: {words}", term, True, refuted, last.text, last.span,
        (old.name,) if old.rules else (), rivals=(new.name,) if new.rules else (),
        rules=(*old.rules, *new.rules), **given,
    )  # fmt: skip


def _pass_alike(old: PolicyTerms, new: PolicyTerms, claim: Callable[..., Claim]) -> Iterator[Claim]:
    gates, before = [*old.gates, *new.gates], [*old.before, *new.before]
    filters = [*before, *old.filter, *new.filter]
    if gates:
        yield claim(
            "the same pods enter the queue", unlike(old.enqueues, new.enqueues),
            "a pod enters the queue on one side", gates,
            differ=lambda a, b: (a.pre_enqueue is None) != (b.pre_enqueue is None),
        )  # fmt: skip
    if filters:
        both = conjunction(old.enqueues, new.enqueues)
        yield claim(
            "the same nodes pass", conjunction(both, unlike(old.passes, new.passes)),
            "a node passes one and not the other", filters,
            differ=lambda a, b: set(a.feasible or ()) != set(b.feasible or ()),
        )  # fmt: skip
    if gates or filters:
        yield claim(
            "the reasons are the same", _unlike_reasons(old, new),
            "another reason is given", [*gates, *filters], differ=_other_reasons,
        )  # fmt: skip


def _score_alike(
    old: PolicyTerms, new: PolicyTerms, claim: Callable[..., Claim], made: Terms
) -> Iterator[Claim]:
    scores = [score for score in (old.score, new.score) if score is not None]
    both = conjunction(old.enqueues, new.enqueues, old.passes, new.passes)
    if scores:
        yield claim(
            "the raw scores are the same", conjunction(both, _unlike_scores(old, new)),
            "a node has another score", scores, plugin=old.name,
            differ=lambda a, b: a.raw != b.raw,
        )  # fmt: skip
    if len(scores) > 1 and any(score.normalized for score in scores):
        unlike_finals = _unlike_normalized(*scores, made=made)
        yield claim(
            "the normalised scores are the same",
            conjunction(both, old.scores, new.scores, unlike_finals),
            "a node has another normalised score", scores, plugin=old.name, final=True,
            differ=lambda a, b: a.raw == b.raw and a.scores != b.scores,
        )  # fmt: skip


ELSEWHERE: Final = "nothing else differs"
"""The claim about sections of which no terms are made."""


def _unlike_reasons(old: PolicyTerms, new: PolicyTerms) -> Term:
    """Return whether what both sides hold back or reject has other reasons."""
    held = conjunction(negation(old.enqueues), negation(new.enqueues))
    rejected = conjunction(
        old.enqueues, new.enqueues, negation(old.passes), negation(new.passes),
        *(rule.passes for policy in (old, new) for rule in policy.before),
    )  # fmt: skip
    matched = conjunction(negation(old.match_fails), negation(new.match_fails))
    other = disjunction(
        conjunction(held, unlike(old.why(old.gates), new.why(new.gates))),
        conjunction(rejected, unlike(old.why(old.filter), new.why(new.filter))),
    )
    return conjunction(matched, other)


def _unlike_normalized(old: ScoreTerm, new: ScoreTerm, *, made: Terms) -> Term:
    """Return whether normalisation makes different scores of the same raw ones.

    An example is of the node alone.
    """
    scores = scores_beside(made, old.number)
    made.prefer(scores.count, scores.of_two(old.number, old.number, False))
    (a, a_fails), (b, b_fails) = old.final(scores), new.final(scores)
    same = negation(unlike_numbers(old.number, new.number))
    fine = conjunction(negation(old.fails), negation(new.fails), same)
    return conjunction(fine, unlike(ite(a_fails, 0, a), ite(b_fails, 0, b)))


def unlike(a: Term, b: Term) -> Term:
    """Return whether two bools, ints or texts differ."""
    return negation(equal(a, b))


def _other_reasons(old: ExpectedOutcome, new: ExpectedOutcome) -> bool:
    """Return whether what both sides hold back or reject has other reasons."""
    a, b = ({**(seen.rejected or {}), "": seen.pre_enqueue} for seen in (old, new))
    pairs = ((a[node], b[node]) for node in a.keys() & b.keys())
    return any((x.code, x.reasons) != (y.code, y.reasons) for x, y in pairs if x and y)


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
