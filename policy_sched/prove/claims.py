"""The claims that `prove` makes of policies without a file: what every author would ask.

A claim says that something never happens, or that it happens for some pod and node. What shows
the contrary of the first, and what shows the second, is a pod and a node, which the scheduler has
to confirm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple

from policy_sched.language import check
from policy_sched.language.runtime import FAILED
from policy_sched.policytest import ExpectedOutcome
from policy_sched.profiles.check import ELIGIBLE, VICTIM, ClaimRule
from policy_sched.prove.counterexample import CONDITIONS_FAIL, FAILS, Run, bound_says
from policy_sched.prove.examples import Sights
from policy_sched.prove.rules import PolicyTerms, Rule, RuleTerm, ScoreTerm
from policy_sched.prove.scores import scores_beside
from policy_sched.prove.terms import (
    Double,
    Term,
    Terms,
    conjunction,
    disjunction,
    is_term,
    ite,
    negation,
    unlike,
    unlike_numbers,
)

Judge = Callable[[Run], bool | str]
"""Returns whether the scheduler confirms what the solver found; a text says what it does."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim: ``term`` must hold for some pod and node or, with ``never``, for none.

    ``refuted``: what it means if the claim is wrong. ``policies``: the names of those that are
    enabled in a counterexample; ``plugin``: whose score is seen there. ``rules``: what it is about.
    """

    name: str
    term: Term
    refuted: str
    source: check.Checked | ClaimRule
    policies: tuple[str, ...]
    judge: Judge
    rules: Sequence[Rule]
    never: bool = False
    plugin: str = ""
    rule: str = ""
    """The rule that a counterexample is about, which may be one of several that reject."""
    about: str = ""
    """In a comparison: the policy of which there are two versions."""
    differ: Callable[[ExpectedOutcome, ExpectedOutcome], bool] | None = None
    """In a comparison: whether what is seen of both sides is what the claim denies."""
    sides: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    """The files of both sides of a comparison, where they are not those of all claims."""
    caution: str = ""
    """Why what the solver finds may not be what the scheduler does, though all is exact."""
    sight: tuple[str, str] = ("", "")
    """A rule of the policy, and what it is, in a word, in a test that decides the claim."""
    evicts: bool = False
    """Whether a counterexample is about a pod that is evicted."""
    final: bool = False
    """Whether normalised scores are seen in a counterexample."""
    varies: Any = None
    """A number that must not be the same for all pods and nodes that meet ``term``."""

    def shown_by(self, sights: Sights) -> bool:
        """Return whether what rules were in a test decides the claim."""
        path, word = self.sight
        seen = sights.get((self.policies[0], path), ())
        return word in seen if self.varies is None else len({*seen} - {"error"}) > 1

    def of_document(self, name: str, sides: tuple[tuple[str, ...], tuple[str, ...]]) -> Claim:
        """Return the claim as a part of one that a document states of two sides."""
        return replace(self, name=f"{name}: {self.name}", sides=sides)


def claims_of(policy: PolicyTerms) -> Iterator[Claim]:
    """Yield the claims of a policy."""
    yield from _of_conditions(policy)
    *of_pods, filters = _sections(policy)
    for section in of_pods:
        yield from _of_section(policy, section)
    yield from _of_preemption(policy)
    yield from _of_section(policy, filters)
    if policy.filter:
        yield _claim(
            policy, "some node passes", conjunction(policy.matches, policy.passes),
            "the policy rejects every node", lambda run: bool(run.seen.feasible),
            (*policy.match, *policy.filter), at=policy.filter[0],
            sight=(policy.filter[-1].name, "true"),
        )  # fmt: skip
    if policy.score is not None:
        yield from _of_score(policy, policy.score)


def claim_of_both(first: PolicyTerms, other: PolicyTerms) -> Claim:
    """Return the claim of two policies that filter."""
    return Claim(
        f"{first.name} and {other.name}: some node passes both",
        conjunction(first.passes, other.passes), "together they reject every node",
        first.filter[0].source, (first.name, other.name), lambda run: bool(run.seen.feasible),
        (*first.match, *first.filter, *other.match, *other.filter),
    )  # fmt: skip


def _claim(
    policy: PolicyTerms, words: str, term: Term, refuted: str, judge: Judge,
    rules: Sequence[Rule], **more: Any,
) -> Claim:  # fmt: skip
    """Return a claim of one policy; ``at``: the rule that has its place, the last one if none."""
    source, names = more.pop("at", rules[-1]).source, (policy.name,)
    return Claim(f"{policy.name}: {words}", term, refuted, source, names, judge, rules, **more)


def _never_fails(
    policy: PolicyTerms, given: Term, judge: Judge, rules: Sequence[Rule], **more: Any
) -> Iterator[Claim]:
    """Yield that the last of some rules does not fail where it is asked.

    Nothing is claimed where the policy says what it means if the rule fails.
    """
    *_, rule = rules
    if rule.fails is not False and not rule.handled:
        term, words = conjunction(given, rule.fails), f"{rule.name} never fails"
        more = {"sight": (rule.name, "error"), **more}
        yield _claim(policy, words, term, "it fails", judge, rules, never=True, **more)


def _of_conditions(policy: PolicyTerms) -> Iterator[Claim]:
    match = policy.match
    if match and (policy.filter or policy.score is not None):
        yield _claim(
            policy, "matchConditions hold for some pod", policy.matches,
            "the policy takes part for no pod", lambda run: run.seen.pre_filter is None, match,
            at=match[0], sight=(match[-1].name, "true"),
        )  # fmt: skip
    for rule in match:
        rules, wrong = (*match, rule), policy.match_fails
        more = {"sight": ("", "")}  # another condition that is false may come after it
        yield from _never_fails(policy, wrong, lambda run: not run.seen.feasible, rules, **more)


class _Section(NamedTuple):
    """Rules that are asked one after the other, and what is claimed of each.

    ``reached``: whether the first is asked; ``stage``: where it is seen what they reject.
    """

    rules: tuple[RuleTerm, ...]
    reached: Term
    stage: str
    does: str
    idle: str


def _sections(policy: PolicyTerms) -> tuple[_Section, ...]:
    asked = conjunction(policy.enqueues, policy.matches)
    rows = (
        (policy.gates, policy.matches, "pre_enqueue", "holds back", "pod"),
        (policy.before, asked, "pre_filter", "rejects", "pod"),
        (policy.filter, policy.reaches(0), "rejected", "rejects", "node"),
    )
    return tuple(
        _Section(rules, reached, stage, f"{does} some {what}", f"it {does} no {what}")
        for rules, reached, stage, does, what in rows
    )


def _of_section(policy: PolicyTerms, section: _Section) -> Iterator[Claim]:
    """Yield of rules that they do not fail, and that they reject something."""
    for i, rule in enumerate(section.rules):
        given = conjunction(section.reached, *(earlier.passes for earlier in section.rules[:i]))
        rules, name = (*policy.match, *section.rules[: i + 1]), f"{policy.name}.{rule.name}"
        wrong = partial(_says, section.stage, f"rule {name}: ")
        yield from _never_fails(policy, given, wrong, rules)
        if rule.settled:
            continue
        idle, judge = section.idle, partial(_says, section.stage, "")
        more: dict[str, Any] = {"sight": (rule.name, "false")}
        if section.stage == "rejected":
            idle += " that the rules before it and matchConditions let pass" if i else ""
            judge, more["rule"] = partial(_rejected_by, name), name
        term = conjunction(given, rule.rejects)
        yield _claim(policy, f"{rule.name} {section.does}", term, idle, judge, rules, **more)


def _says(stage: str, words: str, run: Run) -> bool:
    """Return whether a stage rejects, in words that begin so."""
    seen = getattr(run.seen, stage)
    rejections = seen.values() if isinstance(seen, Mapping) else [seen] if seen else ()
    return any(str(reason).startswith(words) for why in rejections for reason in why.reasons or ())


def _rejected_by(rule: str, run: Run) -> bool:
    """Return whether a rule of a policy rejected a node."""
    return any(why.rule == rule for why in (run.seen.rejected or {}).values())


def _of_preemption(policy: PolicyTerms) -> Iterator[Claim]:
    """Yield that the rules about evictions do not fail, and that some pod evicts another."""
    if policy.eligible is None or policy.victim is None:
        return
    name = policy.name

    def said(function: str) -> Judge:
        return lambda run: bool(bound_says(run((name,))[0], name)[function])

    for rule, given, function, holds, words in (
        (policy.eligible, policy.matches, ELIGIBLE, policy.preempts, "some pod may evict others"),
        (policy.victim, policy.preempts, VICTIM, policy.evicts, "some pod may be evicted"),
    ):
        rules: list[Rule] = [*policy.match, rule]
        yield from _never_fails(policy, given, said(FAILS), rules, evicts=True)
        more = {"evicts": True, "sight": (rule.name, "true")}
        yield _claim(policy, words, holds, "none may", said(function), rules, **more)


def _outside(number: Any) -> Term:
    value = number.value if isinstance(number, Double) else number
    return disjunction(value < 0, value > 100)


def _of_score(policy: PolicyTerms, score: ScoreTerm) -> Iterator[Claim]:
    plugin, conditions = policy.name, (*policy.match, *policy.filter, *policy.score_match)
    rules: list[Rule] = [*conditions, score]
    yield from _never_fails(policy, policy.scores, _score_failed, rules, plugin=plugin)
    fine = conjunction(policy.scores, negation(score.fails))
    if not score.normalized:
        yield _claim(
            policy, "score is within 0..100",
            False if score.bounded else conjunction(fine, _outside(score.number)), "it is not",
            lambda run: any(not 0 <= n <= 100 for n in (run.seen.raw or {}).values()), rules,
            never=True, plugin=plugin,
        )  # fmt: skip
    number = score.number.value if isinstance(score.number, Double) else score.number
    if is_term(number):  # one that is written down, or follows from parameters, is meant
        yield _claim(
            policy, "score is not the same for all nodes", fine,
            "every node has the same score", lambda run: bool(run.seen.raw), rules,
            plugin=plugin, varies=score.number, sight=(score.name, ""),
        )  # fmt: skip


def _score_failed(run: Run) -> bool:
    """Return whether the node's score may be one that failed: marked, or counted as 0."""
    raw = run.seen.raw or {"": 1}
    return bool(run.seen.feasible) and all(n in (0, FAILED) for n in raw.values())


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
    claim = partial(_of_versions, (old, new))
    yield from _pass_alike(old, new, claim)
    yield from _score_alike(old, new, claim, made)
    for words, function, before, other, of in (
        ("evict others", ELIGIBLE, old.preempts, new.preempts, [old.eligible, new.eligible]),
        ("be evicted", VICTIM, old.evicts, new.evicts, [old.victim, new.victim]),
    ):
        if any(of):
            yield claim(
                f"the same pods may {words}", unlike(before, other), "it may on one side", of,
                says=function, evicts=True,
            )  # fmt: skip
    if old.rest or new.rest:
        changed = sorted(set(dict(set(old.rest) ^ set(new.rest))))
        caution = f"not compared, and not the same: {', '.join(changed)}" if changed else ""
        yield claim(ELSEWHERE, False, "", [*old.rules, *new.rules], caution=caution)


def _of_versions(
    sides: tuple[PolicyTerms, PolicyTerms], words: str, term: Term, refuted: str,
    of: Sequence[Rule | None], *, says: str = "", **more: Any,
) -> Claim:  # fmt: skip
    """Return a claim of two versions, at the last of the rules that it is of.

    ``says``: the function of claims that is asked of both sides, if it is not seen.
    """
    name, names = sides[0].name, [(side.name,) if side.rules else () for side in sides]
    rules, source = (*sides[0].rules, *sides[1].rules), [rule for rule in of if rule][-1].source

    def judge(run: Run) -> str:
        ran = [run(names[i], claim.plugin, new=bool(i)) for i in (0, 1)]
        if claim.differ is not None:
            differ = claim.differ(ran[0][1], ran[1][1])
            told = [_outcome(seen, claim) for _, seen in ran]
        else:
            said = [bound_says(ran[i][0], "".join(names[i]))[says] for i in (0, 1)]
            told, differ = ["yes" if answer else "no" for answer in said], said[0] != said[1]
        return f"{refuted}: {told[0]} before, {told[1]} now" if differ else ""

    claim = Claim(
        f"{name}: {words}", term, refuted, source, names[0], judge, rules, never=True,
        about=name, **more,
    )  # fmt: skip
    return claim


def _outcome(seen: ExpectedOutcome, claim: Claim) -> str:
    """Return what became of the pod or the node, in a few words."""
    if seen.pre_enqueue is not None:
        return f"it is held back ({'; '.join(map(str, seen.pre_enqueue.reasons or ()))})"
    if seen.feasible:
        scores: list[Any] = [*(seen.raw or {}).values()]
        if claim.final:
            finals = (seen.scores or {}).values()
            scores = [(of.plugins or {}).get(claim.plugin) for of in finals]
        return f"it passes with score {scores[0]}" if scores else "it passes"
    reasons = [str(r) for why in (seen.rejected or {}).values() for r in why.reasons or ()]
    return f"it is rejected ({'; '.join(reasons)})" if reasons else "the pod is rejected"


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
    wrong = unlike(old.conditions_fail, new.conditions_fail)
    if wrong is not False:
        conditions = [rule for side in (old, new) for rule in (*side.match, *side.score_match)]
        yield claim(
            "matchConditions of the score fail for the same pods", conjunction(both, wrong),
            "they fail on one side", conditions, says=CONDITIONS_FAIL,
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
    """Return whether normalisation makes different scores of the same raw ones."""
    other = unlike_numbers(old.number, new.number)
    if other is False and old.normalizer == new.normalizer:
        return False
    scores = scores_beside(made, old.number)
    (a, a_fails), (b, b_fails) = old.final(scores), new.final(scores)
    fine = conjunction(negation(old.fails), negation(new.fails), negation(other))
    return conjunction(fine, unlike(ite(a_fails, 0, a), ite(b_fails, 0, b)))


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
