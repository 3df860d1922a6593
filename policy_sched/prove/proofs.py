"""The claims of a PolicyProof as terms, and how the scheduler judges what refutes them.

What a claim says of `passes` and `score` is put into its rule as terms, or, when a counterexample
is judged, as what the scheduler did; the rest of the rule is then computed by its own program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import Any, Final

from policy_sched.cluster import Cache
from policy_sched.language import check, compile_expression, lower
from policy_sched.language.ir import ops
from policy_sched.language.runtime import Activation
from policy_sched.language.syntax import Span, ast
from policy_sched.language.values import INT64, types
from policy_sched.model import PodInfo
from policy_sched.policytest import scenarios_of
from policy_sched.profiles.check import PASSES, SCORE, CheckedProof, ClaimRule, resolved
from policy_sched.prove.claims import Claim, Run, comparisons
from policy_sched.prove.counterexample import text_of
from policy_sched.prove.printer import Printer
from policy_sched.prove.reading import read
from policy_sched.prove.rules import PolicyPrinter, PolicyTerms
from policy_sched.prove.terms import Double, Term, conjunction, failed, is_term, negation, plus
from policy_sched.prove.world import ChangedWorld, World
from policy_sched.scheduler.setup import load_cluster

_Names = dict[tuple[str, str], ast.Core]
_ONE_NUMBER: Final = (
    "`in` must be one number that rules read, such as node.requested[...] or pod.priority; "
    "what is free follows from two"
)
_LIMIT: Final = "another number of pods or of their requests"


class ProofClaims:
    """Makes the claims of one document, over one pod and node."""

    def __init__(self, proof: CheckedProof, world: World) -> None:
        self._proof, self._world = proof, world
        self._policies = {p.name: PolicyPrinter(p, world).terms() for p in proof.policies}
        self._printer = Printer(world)
        self._low = lower.make_lowering({}, types.RecordType("record"), {})
        self._names = self._variables()

    def _variables(self) -> _Names:
        """Return a variable for each call of passes and score; the world has their terms."""
        passes = {name: policy.passes for name, policy in self._policies.items()}
        passes[""] = conjunction(*passes.values())
        names: _Names = {}
        for name, term in passes.items():
            names[PASSES, name] = self._variable(f"{PASSES}:{name}", types.BOOL, term)
        scores = {n: p.score for n, p in self._policies.items() if p.score is not None}
        double = any(isinstance(score.number, Double) for score in scores.values())
        for name, score in scores.items():
            number = score.number
            if double and not isinstance(number, Double):
                number = self._world.terms.of_int(number)
            kind = types.DOUBLE if double else types.INT
            names[SCORE, name] = self._variable(f"{SCORE}:{name}", kind, number)
        return names

    def _variable(self, name: str, kind: types.Type, term: Any) -> ast.Var:
        low, rep = self._low, lower.rep_of(kind)
        self._world.given[name] = term
        op = low.op(ops.FIELD_OF_POD, low.op(ops.POD, rep="o"), rep=rep, data=name)
        if kind == types.INT:
            low.globals[name] = lower.Value(op, None, kind, INT64)
        else:
            low.globals[name] = lower.Value(op, None, kind)
        return ast.Var(name=name, type=kind, span=Span(0, 0))

    def claims(self) -> Iterator[Claim]:
        """Yield the claims in their order."""
        for i, claim in enumerate(self._proof.model.claims):
            at, name = ("claims", i), claim.name
            if claim.always is not None:
                yield self._rule(name, [((*at, "always"), False)], "it is false")
            elif claim.never is not None:
                yield self._rule(name, [((*at, "never"), True)], "it is true")
            elif claim.implies is not None:
                inner = [((*at, "implies", "if"), True), ((*at, "implies", "then"), False)]
                yield self._rule(name, inner, "the first holds and the second does not")
            elif claim.disjoint:
                rules = [(*at, "disjoint", j) for j in range(len(claim.disjoint))]
                for one, other in combinations(rules, 2):
                    both = [(one, True), (other, True)]
                    yield self._rule(name, both, f"rules {one[-1]} and {other[-1]} are both true")
            elif claim.monotone is not None:
                yield self._monotone(i)
            elif claim.equivalent is not None:
                yield from self._equivalent(i)

    def _term(self, rule: ClaimRule) -> tuple[Term, Term]:
        """Return whether a rule is true, and whether it fails."""
        core = resolved(rule.core, self._names)
        value = self._low.plain(self._low.lower(core, {}))
        wrong = False if value.err is None else failed(self._printer.term(value.err))
        return self._printer.term(value.op), wrong

    def _is(self, rule: ClaimRule, *, true: bool) -> Term:
        """Return whether a rule is true, or whether it is not: false, or a failure."""
        holds, fails = self._term(rule)
        fine = conjunction(negation(fails), holds)
        return fine if true else negation(fine)

    def _scored(self, rules: list[ClaimRule]) -> tuple[str, ...]:
        """Return the policies whose scores rules read."""
        found = {
            str(part.args[0].value)
            for rule in rules
            for part in check.walk(rule.core)
            if isinstance(part, ast.UserCall)
            and part.name == SCORE
            and isinstance(part.args[0], ast.Const)
        }
        return tuple(sorted(found))

    def _given(self, scored: tuple[str, ...]) -> Term:
        """Return the assumptions of the document, and that the node has the scores."""
        assumed = [
            self._is(rule, true=True)
            for path, rule in self._proof.rules.items()
            if path[0] == "assume"
        ]
        scores = []
        for name in scored:
            policy = self._policies[name]
            assert policy.score is not None
            scores += [policy.scores, negation(policy.score.fails)]
        return conjunction(*assumed, *scores)

    def _rule(self, name: str, wanted: list[tuple[Any, bool]], refuted: str) -> Claim:
        rules = [(self._proof.rules[path], true) for path, true in wanted]
        scored = self._scored([rule for rule, _ in rules])
        term = conjunction(
            self._given(scored), *(self._is(rule, true=true) for rule, true in rules)
        )
        first = rules[-1][0]
        span = (first.core.span.start, first.core.span.end)
        assumed = [(r, True) for path, r in self._proof.rules.items() if path[0] == "assume"]
        judge = self._judge([*assumed, *rules], scored)
        return Claim(
            name, term, True, refuted, first.text, span, tuple(self._policies),
            lambda _seen: True, judge=judge, rules=self._all_rules(),
        )  # fmt: skip

    def _all_rules(self) -> tuple[Any, ...]:
        parts = [(*p.match, *p.filter, *p.score_match) for p in self._policies.values()]
        scores = [p.score for p in self._policies.values() if p.score is not None]
        return tuple(rule for rules in parts for rule in rules) + tuple(scores)

    def _judge(
        self, rules: list[tuple[ClaimRule, bool]], scored: tuple[str, ...]
    ) -> Callable[[Run], bool]:
        """Return what says whether each rule is as wanted, with what the scheduler made."""

        def judge(run: Run) -> bool:
            known: _Names = {}
            everyone = True
            for name in self._policies:
                test, seen = run((name,), name if name in scored else "", False)
                passes = bool(seen.feasible)
                everyone = everyone and passes
                known[PASSES, name] = _constant(passes, types.BOOL)
                score = next(iter((seen.raw or {}).values()), None)
                if name in scored and score is None:
                    return False
                kind = getattr(self._names.get((SCORE, name)), "type", types.INT)
                number = float(score or 0) if kind == types.DOUBLE else int(score or 0)
                known[SCORE, name] = _constant(number, kind)
            known[PASSES, ""] = _constant(everyone, types.BOOL)
            test, _ = run(tuple(self._policies), "", False)
            return all(_evaluated(rule.core, known, test) is true for rule, true in rules)

        return judge

    def _monotone(self, number: int) -> Claim:
        claim = self._proof.model.claims[number]
        assert claim.monotone is not None
        rule = self._proof.rules["claims", number, "monotone", "in"]
        name, world, rising = claim.monotone.score, self._world, claim.monotone.direction
        one, _ = self._term(rule)
        keys = [k for k, leaf in world.leaves.items() if is_term(one) and _same(leaf, one)]
        span = (rule.core.span.start, rule.core.span.end)
        if not keys:
            return Claim(
                claim.name, False, True, "", rule.text, span, (name,), lambda _seen: True,
                caution=_ONE_NUMBER,
            )  # fmt: skip
        other_world = ChangedWorld(world, keys[0])
        policy = next(p for p in self._proof.policies if p.name == name)
        other = PolicyPrinter(policy, other_world, salt="changed").terms()
        term = self._falls(self._policies[name], other, rising == "Increasing", keys[0], one)
        words = "falls" if rising == "Increasing" else "rises"
        world.terms.notes[f"changed.{'.'.join(map(str, keys[0]))}"] = _LIMIT

        def judge(run: Run) -> bool:
            scores = []
            for changed in (False, True):
                _, seen = run((name,), name, changed)
                scores += list((seen.raw or {}).values())
            falls = len(scores) == 2 and (scores[0] - scores[1]) * (1 if words == "falls" else -1)
            return falls > 0

        return Claim(
            claim.name, term, True, f"the score {words} as the number grows", rule.text, span,
            (name,), lambda _seen: True, plugin=name, judge=judge, rules=self._all_rules(),
        )  # fmt: skip

    def _falls(
        self, one: PolicyTerms, other: PolicyTerms, rising: bool, key: Any, number: Term
    ) -> Term:
        """Return whether the score moves against a number that is greater in the other world."""
        assert one.score is not None
        assert other.score is not None
        grown = self._world.leaves["changed", *key]
        a, b = one.score.number, other.score.number
        if isinstance(a, Double):
            a, b = a.value, b.value
            difference = plus(a, -b)
        else:
            difference = a - b
        against = difference > 0 if rising else difference < 0
        fine = [negation(score.fails) for score in (one.score, other.score)]
        return conjunction(
            self._given(()), one.scores, other.scores, *fine, grown > number, against
        )

    def _equivalent(self, number: int) -> Iterator[Claim]:
        claim = self._proof.model.claims[number]
        assert claim.equivalent is not None
        sides = (
            self._proof.files(claim.equivalent.old),
            self._proof.files(claim.equivalent.new),
        )
        made = [_terms_of(paths, self._world) for paths in sides]
        for comparison in comparisons(*made):
            yield comparison.of_document(claim.name, sides)


def _terms_of(paths: tuple[str, ...], world: World) -> list[PolicyTerms]:
    return [PolicyPrinter(policy, world).terms() for policy in read(paths)]


def _same(leaf: Any, term: Any) -> bool:
    return is_term(leaf) and bool(leaf.eq(term))


def _constant(value: object, kind: types.Type) -> ast.Const:
    return ast.Const(value=value, type=kind, span=Span(0, 0))


def _evaluated(core: ast.Core, known: Mapping[Any, ast.Core], test: dict[str, Any]) -> bool:
    """Return whether a rule is true of the pod and the node of a test, by its own program."""
    (scenario,) = scenarios_of("counterexample.yaml", text_of({**test, "policies": []}))
    cache = Cache()
    load_cluster(cache, scenario.objects)
    bound = compile_expression(resolved(core, dict(known))).bind(cache.nodes)
    cycle = Activation(now=scenario.now)
    value, error = bound.scalar(PodInfo.of(scenario.pending[0]), cycle, 0)
    return not error and bool(value)
