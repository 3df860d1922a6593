"""The claims of a PolicyProof as terms, and how the scheduler judges what refutes them.

What a claim says of `passes` and `score` is put into its rule as terms, or, when a counterexample
is judged, as what the scheduler did; the rest of the rule is then computed by its own program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, Final

from policy_sched.errors import Diagnostic
from policy_sched.language import check, compile_expression, lower
from policy_sched.language.ir import ops
from policy_sched.language.runtime import FAILED
from policy_sched.language.syntax import Span, ast
from policy_sched.language.values import DOUBLES, INT64, types
from policy_sched.model import PodInfo
from policy_sched.preemption import Case
from policy_sched.profiles.check import (
    ELIGIBLE,
    ENQUEUES,
    NORMALIZED,
    PASSES,
    SCORE,
    TAKES_PART,
    VICTIM,
    CheckedProof,
    ClaimRule,
    check_proof,
    is_proof,
    resolved,
)
from policy_sched.profiles.load import load_file
from policy_sched.prove.claims import Claim, comparisons
from policy_sched.prove.counterexample import VICTIM_UID, Run, bound_says, cycle_of, loaded, node_of
from policy_sched.prove.printer import Printer
from policy_sched.prove.rules import PolicyPrinter, PolicyTerms, Rule, ScoreTerm, read, refuse
from policy_sched.prove.scores import scores_beside
from policy_sched.prove.terms import Double, Term, conjunction, is_term, ite, negation, plus
from policy_sched.prove.world import ChangedWorld, World

_Names = dict[tuple[str, str], ast.Core]
_ONE_NUMBER: Final = (
    "`in` must be one number that rules read, such as node.requested[...] or pod.priority; "
    "what is free follows from two"
)
_SAID: Final = {
    PASSES: "passes",
    TAKES_PART: "matches",
    ENQUEUES: "enqueues",
    ELIGIBLE: "preempts",
    VICTIM: "evicts",
}
"""By function of claims that is a bool, what it is of a policy."""
_LIMIT: Final = "another number of pods or of their requests"


def proofs_in(path: str) -> list[CheckedProof]:
    """Return the PolicyProofs of a file. Raises PolicyError with the errors of all of them."""
    file = load_file(Path(path))
    proofs: list[CheckedProof] = []
    problems: list[Diagnostic] = list(file.problems)
    for document in file.documents:
        if is_proof(document.marked):
            proof, wrong = check_proof(document.marked)
            problems += wrong
            proofs += [] if proof is None else [proof]
    refuse(problems)
    return proofs


class ProofClaims:
    """Makes the claims of one document, over one pod and node."""

    def __init__(self, proof: CheckedProof, world: World) -> None:
        self._proof, self._world = proof, world
        self._assumed = [rule for path, rule in proof.rules.items() if path[0] == "assume"]
        self._policies = {p.name: PolicyPrinter(p, world).terms() for p in proof.policies}
        self._printer = Printer(world)
        self._low = lower.make_lowering({}, types.RecordType("record"), {})
        self._names = self._variables()

    def _variables(self) -> _Names:
        """Return a variable for each call of a policy; the world has their terms."""
        called = {
            (part.name, str(part.args[0].value))
            for rule in self._proof.rules.values()
            for part in check.walk(rule.core)
            if isinstance(part, ast.UserCall) and isinstance(part.args[0], ast.Const)
        }
        scores = [p.score for p in self._policies.values() if p.score is not None]
        double = any(isinstance(score.number, Double) for score in scores)
        names: _Names = {}
        for function, name in sorted(called):
            kind, term = types.BOOL, self._made(function, name)
            if function == NORMALIZED or (function == SCORE and not double):
                kind = types.INT
            elif function == SCORE:
                kind = types.DOUBLE
                term = term if isinstance(term, Double) else self._world.terms.of_int(term)
            names[function, name] = self._variable(f"{function}:{name}", kind, term)
        return names

    def _made(self, function: str, name: str) -> Any:
        """Return what a policy makes of the pod and the node."""
        if not name:
            return conjunction(*(policy.passes for policy in self._policies.values()))
        policy = self._policies[name]
        if function in _SAID:
            return getattr(policy, _SAID[function])
        assert policy.score is not None
        number = policy.score.number
        return number if function == SCORE else self._normalized(policy.score)

    def _normalized(self, score: ScoreTerm) -> Any:
        """Return the normalised score, 0 where that fails."""
        number, fails = score.final(scores_beside(self._world.terms, score.number))
        return ite(fails, 0, number)

    def _variable(self, name: str, kind: types.Type, term: Any) -> ast.Var:
        low, rep = self._low, lower.rep_of(kind)
        self._world.given[name] = term
        op = low.op(ops.FIELD_OF_POD, low.op(ops.POD, rep="o"), rep=rep, data=name)
        low.globals[name] = lower.Value(op, None, kind, INT64 if kind == types.INT else DOUBLES)
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
                for rule, other in combinations(rules, 2):
                    both = [(rule, True), (other, True)]
                    yield self._rule(name, both, f"rules {rule[-1]} and {other[-1]} are both true")
            elif claim.monotone is not None:
                yield self._monotone(i)
            elif claim.equivalent is not None:
                yield from self._equivalent(i)

    def _term(self, rule: ClaimRule) -> tuple[Term, Term]:
        """Return whether a rule is true, and whether it fails."""
        core = resolved(rule.core, self._names)
        return self._printer.outcome(self._low.plain(self._low.lower(core, {})))

    def _is(self, rule: ClaimRule, *, true: bool) -> Term:
        """Return whether a rule is true, or whether it is not: false, or a failure."""
        holds, fails = self._term(rule)
        fine = conjunction(negation(fails), holds)
        return fine if true else negation(fine)

    def _called(self, rules: list[ClaimRule], *functions: str) -> tuple[str, ...]:
        """Return the policies of which rules call one of some functions."""
        called = {
            str(part.args[0].value)
            for rule in rules
            for part in check.walk(rule.core)
            if isinstance(part, ast.UserCall)
            and part.name in functions
            and isinstance(part.args[0], ast.Const)
        }
        return tuple(sorted(self._policies if "" in called else called))

    def _given(self, rules: list[ClaimRule]) -> Term:
        """Return the assumptions of the document, and that pod and node come that far.

        A pod that preEnqueue holds back passes nothing, and has no score.
        """
        assumed = [self._is(rule, true=True) for rule in self._assumed]
        scores = [self._policies[name].enqueues for name in self._called(rules, PASSES)]
        for name in self._called(rules, SCORE, NORMALIZED):
            policy = self._policies[name]
            assert policy.score is not None
            scores += [policy.scores, negation(policy.score.fails)]
        return conjunction(*assumed, *scores)

    def _rule(self, name: str, wanted: list[tuple[Any, bool]], refuted: str) -> Claim:
        rules = [(self._proof.rules[path], true) for path, true in wanted]
        assumed = [(rule, True) for rule in self._assumed]
        read = [rule for rule, _ in (*assumed, *rules)]
        wished = (self._is(rule, true=true) for rule, true in rules)
        scored = self._called(read, SCORE, NORMALIZED)
        return Claim(
            name, conjunction(self._given(read), *wished), refuted, rules[-1][0],
            tuple(self._policies), self._judge([*assumed, *rules]), self._all_rules(), never=True,
            plugin=scored[0] if len(scored) == 1 else "",
            final=bool(self._called(read, NORMALIZED)), evicts=bool(self._called(read, VICTIM)),
        )  # fmt: skip

    def _all_rules(self) -> list[Rule]:
        return [rule for policy in self._policies.values() for rule in policy.rules]

    def _judge(self, rules: list[tuple[ClaimRule, bool]]) -> Callable[[Run], bool]:
        """Return what says whether each rule is as wanted, with what the scheduler made."""
        called = {pair for pair in self._names if pair[1]}
        if (PASSES, "") in self._names:
            called |= {(PASSES, name) for name in self._policies}
        read = [rule for rule, _ in rules]
        used = {(f, n) for f, n in called if n in self._called(read, f)}

        @cache  # what policies made has few values, and a long rule takes as long as a run
        def program(number: int, *known: tuple[tuple[str, str], ast.Const]) -> Any:
            return compile_expression(resolved(read[number].core, dict[Any, ast.Core](known)))

        def judge(run: Run) -> bool:
            try:
                seen = {(f, name): self._seen(f, name, run) for f, name in sorted(used)}
            except NoScoreError:
                return False
            every = [bool(said.value) for (function, _), said in seen.items() if function == PASSES]
            seen[PASSES, ""] = _constant(all(every), types.BOOL)
            test, _ = run(tuple(self._policies))
            return all(
                _evaluated(rule.core, program(number, *seen.items()), test) is true
                for number, (rule, true) in enumerate(rules)
            )

        return judge

    def _seen(self, function: str, name: str, run: Run) -> ast.Const:
        """Return what a policy made of a pod and a node."""
        if function in (TAKES_PART, ELIGIBLE, VICTIM):
            said = bound_says(run((name,))[0], name)[function]
            return _constant(said is True or bool(said and VICTIM_UID in said), types.BOOL)
        scored = function in (SCORE, NORMALIZED)
        test, seen = run((name,), name if scored else "")
        if function == ENQUEUES:
            return _constant(seen.pre_enqueue is None, types.BOOL)
        node = node_of(test)
        if function == PASSES:
            return _constant(node in (seen.feasible or ()), types.BOOL)
        number: Any = (seen.raw or {}).get(node)
        if number in (None, FAILED):
            raise NoScoreError
        if function == NORMALIZED:
            number = ((seen.scores or {})[node].plugins or {}).get(name, 0)
        kind = self._names[function, name].type
        return _constant(float(number) if kind == types.DOUBLE else int(number), kind)

    def _monotone(self, number: int) -> Claim:
        claim = self._proof.model.claims[number]
        assert claim.monotone is not None
        rule = self._proof.rules["claims", number, "monotone", "in"]
        name, world, rising = claim.monotone.score, self._world, claim.monotone.direction
        raw, _ = self._term(rule)
        keys = [k for k, leaf in world.leaves.items() if is_term(raw) and _same(leaf, raw)]
        if not keys:
            idle = (lambda _run: False), (), True
            return Claim(claim.name, False, "", rule, (name,), *idle, caution=_ONE_NUMBER)
        other_world = ChangedWorld(world, keys[0])
        policy = next(p for p in self._proof.policies if p.name == name)
        other = PolicyPrinter(policy, other_world, salt="changed").terms()
        term = self._falls(self._policies[name], other, rising == "Increasing", keys[0], raw)
        words = "falls" if rising == "Increasing" else "rises"
        world.terms.notes[f"changed.{'.'.join(map(str, keys[0]))}"] = _LIMIT

        def judge(run: Run) -> bool:
            scores = []
            for changed in (False, True):
                _, seen = run((name,), name, changed=changed)
                scores += list((seen.raw or {}).values())
            falls = len(scores) == 2 and (scores[0] - scores[1]) * (1 if words == "falls" else -1)
            return falls > 0

        return Claim(
            claim.name, term, f"the score {words} as the number grows", rule, (name,),
            judge, self._all_rules(), never=True, plugin=name,
        )  # fmt: skip

    def _falls(
        self, policy: PolicyTerms, other: PolicyTerms, rising: bool, key: Any, number: Term
    ) -> Term:
        """Return whether the score moves against a number that is greater in the other world."""
        assert policy.score is not None
        assert other.score is not None
        grown = self._world.leaves["changed", *key]
        a, b = policy.score.number, other.score.number
        if isinstance(a, Double):
            a, b = a.value, b.value
            difference = plus(a, -b)
        else:
            difference = a - b
        against = difference > 0 if rising else difference < 0
        fine = [negation(score.fails) for score in (policy.score, other.score)]
        return conjunction(
            self._given([]), policy.scores, other.scores, *fine, grown > number, against
        )

    def _equivalent(self, number: int) -> Iterator[Claim]:
        claim = self._proof.model.claims[number]
        assert claim.equivalent is not None
        sides = (
            self._proof.files(claim.equivalent.old),
            self._proof.files(claim.equivalent.new),
        )
        made = [_terms_of(paths, self._world) for paths in sides]
        for comparison in comparisons(made[0], made[1], self._world.terms):
            yield comparison.of_document(claim.name, sides)


def _terms_of(paths: tuple[str, ...], world: World) -> list[PolicyTerms]:
    return [PolicyPrinter(policy, world).terms(rest=True) for policy in read(paths)]


def _same(leaf: Any, term: Any) -> bool:
    return is_term(leaf) and bool(leaf.eq(term))


def _constant(value: object, kind: types.Type) -> ast.Const:
    return ast.Const(value=value, type=kind, span=Span(0, 0))


class NoScoreError(Exception):
    """The node of a counterexample has no score of a policy."""


def _evaluated(core: ast.Core, program: Any, test: dict[str, Any]) -> bool:
    """Return whether a rule is true of the pod and the node of a test, by its own program."""
    scenario, scheduler, _ = loaded(test)
    nodes, pod = scheduler.cache.nodes, PodInfo.of(scenario.pending[0])
    bound = program.bind(nodes)
    cycle: Any = cycle_of(scheduler, pod)
    if any(isinstance(part, ast.Var) and part.name == VICTIM for part in check.walk(core)):
        victim = next((p for p in nodes.pods_on(0).values() if p.uid == VICTIM_UID), None)
        cycle = Case(scenario.now, victim)
    value, error = bound.scalar(pod, cycle, nodes.row_of[node_of(test)])
    return not error and bool(value)
