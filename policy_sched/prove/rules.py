"""The rules of a policy as terms: what passes, what fails, what the score is.

A policy takes part for a pod whose matchConditions hold. What cannot be lowered was refused by
`check` before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec
import z3

from policy_sched.errors import Diagnostic, PolicyError, Severity
from policy_sched.language import check, diagnostics, lower, problems_of
from policy_sched.language.ir import ops
from policy_sched.language.syntax import ast
from policy_sched.language.values import types
from policy_sched.profiles.load import policy_source, read_policies
from policy_sched.prove.printer import Printer
from policy_sched.prove.scores import Scores
from policy_sched.prove.terms import (
    Term,
    conjunction,
    disjunction,
    failed,
    is_term,
    ite,
    joined,
    negation,
)
from policy_sched.prove.world import World

_NOTHING: Final = check.CheckedPolicy(name="", params={}, params_type=types.RecordType(""))
#: What terms are made of, and what other rules are written with.
_COMPARED: Final = {
    *("name", "params", "params_type", "functions", "variables", "cost_limit", "measures"),
    *("match_conditions", "pre_enqueue", "filter", "score"),
}
#: Normalisers, under which a raw score may leave 0..100.
_NO_NORMALIZER: Final = (None, "None")


@dataclass(frozen=True, slots=True)
class RuleTerm:
    """A rule: whether it is true, and whether it fails instead; ``source`` is as it is written."""

    name: str
    source: check.Checked
    holds: Term
    fails: Term
    allows: bool = False
    """Whether it lets a node pass where it fails."""
    handled: bool = False
    """Whether the policy says what an error means."""
    settled: bool = False
    """Whether it need not reject anything: parameters alone make it true, or it has no term."""
    reason: Term = ""
    """Why it rejects, a text."""

    @property
    def passes(self) -> Term:
        """Whether the rule lets a node pass."""
        if self.allows:
            return disjunction(self.fails, self.holds)
        return conjunction(negation(self.fails), self.holds)

    @property
    def rejects(self) -> Term:
        """Whether the rule rejects a node without failing."""
        return conjunction(negation(self.fails), negation(self.holds))


@dataclass(frozen=True, slots=True)
class ScoreTerm:
    """A raw score: its number, and whether it fails instead; a double is a `Double`."""

    source: check.Checked
    number: Any
    fails: Term
    normalized: bool
    handled: bool
    bounded: bool
    """Whether the compiler has proved that it is within 0..100."""
    final: Callable[[Scores], tuple[Any, Term]]
    """What normalisation makes of it beside the scores of all nodes, and whether that fails."""
    normalizer: Any
    """What equal normalisers have in common."""
    aborts: bool = False
    """Whether the pod has no node where it fails."""
    name: str = "score"

    def settled(self) -> tuple[Any, Term]:
        """Return the number that counts, and whether it fails: 0 without a normalizer."""
        if self.normalized or self.aborts:
            return self.number, self.fails
        return ite(self.fails, 0, self.number), False


Rule: TypeAlias = RuleTerm | ScoreTerm


@dataclass(frozen=True, slots=True)
class PolicyTerms:
    """A policy over one pod and node; ``gates`` are of preEnqueue, ``before`` of preFilter."""

    name: str
    match: tuple[RuleTerm, ...] = ()
    filter: tuple[RuleTerm, ...] = ()
    score: ScoreTerm | None = None
    score_match: tuple[RuleTerm, ...] = ()
    gates: tuple[RuleTerm, ...] = ()
    before: tuple[RuleTerm, ...] = ()
    eligible: RuleTerm | None = None
    victim: RuleTerm | None = None
    rest: tuple[tuple[str, Any], ...] = ()
    """Sections of which no term is made, in a form that equal ones have in common."""

    @property
    def rules(self) -> tuple[Rule, ...]:
        """All its rules."""
        steps = (*self.match, *self.gates, *self.before, *self.filter, *self.score_match)
        others = (self.score, self.eligible, self.victim)
        return (*steps, *(rule for rule in others if rule is not None))

    @property
    def matches(self) -> Term:
        """Whether the policy takes part for the pod."""
        return conjunction(*(rule.passes for rule in self.match))

    @property
    def match_fails(self) -> Term:
        """Whether a matchCondition fails and no other is false."""
        return _one_fails(self.match)

    @property
    def conditions_fail(self) -> Term:
        """Whether conditions of the policy or of its score fail, so that no node gets a score."""
        if self.score is None:
            return False
        return disjunction(
            self.match_fails, conjunction(self.matches, _one_fails(self.score_match))
        )

    def _let(self, rules: Sequence[RuleTerm], *, lenient: bool = False) -> Term:
        """Return whether rules let something pass; ``lenient``: where a matchCondition fails."""
        if not rules:
            return True
        inside = conjunction(self.matches, *(rule.passes for rule in rules))
        idle = conjunction(negation(self.matches), disjunction(lenient, negation(self.match_fails)))
        return disjunction(idle, inside)

    @property
    def enqueues(self) -> Term:
        """Whether all rules of preEnqueue let the pod into the queue."""
        return self._let(self.gates, lenient=all(gate.allows for gate in self.gates))

    @property
    def passes(self) -> Term:
        """Whether all rules of preFilter and filter let the node pass."""
        return self._let((*self.before, *self.filter))

    @property
    def preempts(self) -> Term:
        """Whether the policy lets the pod evict others at all."""
        return False if self.eligible is None else conjunction(self.matches, self.eligible.passes)

    @property
    def evicts(self) -> Term:
        """Whether the pod may evict the victim."""
        return False if self.victim is None else conjunction(self.preempts, self.victim.passes)

    def why(self, rules: Sequence[RuleTerm]) -> Term:
        """Return why the first of some rules that does not pass rejects; "" where all pass."""
        reason: Term = ""
        for rule in reversed(rules):
            wrong = ite(rule.fails, f"rule {self.name}.{rule.name}", reason)
            reason = ite(rule.rejects, rule.reason, reason if rule.allows else wrong)
        return ite(self.matches, reason, "")

    def reaches(self, number: int) -> Term:
        """Whether filter rule ``number`` is asked, as those before it let the node pass."""
        before = (*self.before, *self.filter[:number])
        return conjunction(self.enqueues, self.matches, *(rule.passes for rule in before))

    @property
    def scores(self) -> Term:
        """Whether the node gets a score of the policy."""
        matched = conjunction(*(rule.passes for rule in self.score_match))
        return conjunction(self.reaches(len(self.filter)), matched)


def _one_fails(conditions: Sequence[RuleTerm]) -> Term:
    """Return whether one of some conditions fails and no other is false."""
    wrong = disjunction(*(rule.fails for rule in conditions))
    return conjunction(wrong, negation(disjunction(*(rule.rejects for rule in conditions))))


def refuse(problems: Sequence[Diagnostic]) -> None:
    """Raise PolicyError with the errors among some problems, if there are any."""
    errors = [problem for problem in problems if problem.severity is Severity.ERROR]
    if errors:
        raise PolicyError(sorted(set(errors)))


def read(paths: Sequence[str]) -> list[check.CheckedPolicy]:
    """Return the policies of files. Raises PolicyError with the errors of all of them."""
    policies, problems = read_policies(paths)
    checked: list[check.CheckedPolicy] = []
    for policy in policies:
        checked_policy, wrong = check.check_policy(policy_source(policy))
        problems += wrong
        if checked_policy is not None and policy.sound:
            problems += problems_of(checked_policy)
            checked.append(checked_policy)
    refuse(problems)
    return checked


class PolicyPrinter:
    """Lowers the rules of one checked policy and makes terms of them."""

    def __init__(self, policy: check.CheckedPolicy, world: World, salt: str = "") -> None:
        self._policy = policy
        self._printer = Printer(world, salt)
        world.counts.update(
            kind.identity
            for kind in policy.aggregates
            if kind.kind == "count" and not kind.half_life
        )
        world.inputs |= {given.identity: given.source.kind for given in policy.inputs}
        self.low = lower.make_lowering(policy.params, policy.params_type, policy.functions)
        self.low.objects = {kind.name: kind for kind in policy.objects}
        if policy.inputs:
            self.low.globals["inputs"] = lower.identities(policy.inputs)
        for name, variable in policy.variables:
            self.low.globals[f"variables.{name}"] = self.low.thunk(variable.core, {})

    def terms(self, *, rest: bool = False) -> PolicyTerms:
        """Return the policy's terms; ``rest``: with what else it has."""
        policy = self._policy
        score, evicts = policy.score, policy.preemption
        matched = () if score is None else score.match_conditions
        return PolicyTerms(
            policy.name,
            self._conditions(policy.match_conditions, "matchConditions"),
            self._rules(policy.filter, "filter"),
            None if score is None else self._score(score),
            self._conditions(matched, "score.matchConditions"),
            self._rules(policy.pre_enqueue, "preEnqueue"),
            self._before(policy.pre_filter),
            None if evicts is None else self.rule(evicts.eligible, "preemption.eligible"),
            None if evicts is None else self._victim(evicts.victim),
            tuple(self._rest()) if rest else (),
        )

    def _victim(self, checked: check.Checked) -> RuleTerm:
        """Return the rule about victims, which holds of none where there is none."""
        world, rule = self._printer.world, self.rule(checked, "preemption.victim")
        world.victim()
        there = conjunction(world.leaves["victim", "length"] == 1, rule.holds)
        return replace(rule, holds=there)

    def _rest(self) -> Iterator[tuple[str, Any]]:
        """Yield the sections of which no term is made, without those that are not stated.

        For which pods they count is said by matchConditions, which come last.
        """
        policy, others = self._policy, sorted({*self._policy.__struct_fields__} - _COMPARED)
        forms = [(name, self._form(getattr(policy, name))) for name in others]
        stated = [pair for pair in forms if pair[1] != self._form(getattr(_NOTHING, pair[0]))]
        if stated:
            stated.append(("match_conditions", self._form(policy.match_conditions)))
        for name, form in stated:
            first, *words = name.split("_")
            yield first + "".join(map(str.title, words)), form

    def _form(self, value: Any) -> Any:
        """Return what equal rules, and records of rules, have in common."""
        if isinstance(value, check.Checked):
            return self._printer.shape(self._lowered(value.core).op)
        if isinstance(value, diagnostics.PreemptionRules):
            value = (value.victim_order, value.node_order, value.unit)
        if isinstance(value, msgspec.Struct):
            value = [(name, getattr(value, name)) for name in value.__struct_fields__]
        if isinstance(value, tuple | list):
            return tuple(map(self._form, value))
        return repr(value)

    def _conditions(self, given: Sequence[check.Checked], name: str) -> tuple[RuleTerm, ...]:
        return tuple(self.rule(checked, f"{name}[{i}]") for i, checked in enumerate(given))

    def _rules(
        self, given: Sequence[diagnostics.Rule[check.Checked]], name: str
    ) -> tuple[RuleTerm, ...]:
        return tuple(
            self.rule(rule.expression, f"{name}[{i}]", rule.on_error or "", self._reason(rule))
            for i, rule in enumerate(given)
        )

    def _before(
        self, given: diagnostics.PreFilterRule[check.Checked] | None
    ) -> tuple[RuleTerm, ...]:
        """Return the rules of preFilter; whether its ``nodeNames`` has the node may be either."""
        if given is None:
            return ()
        rules = self._rules(given.rules, "preFilter.rules")
        if given.node_names is None:
            return rules
        names, made = given.node_names, self._printer.made
        self.low.lower(names.core, {})
        among = made.once(
            ("nodeNames", names.text.text), lambda: made.fresh(z3.BoolSort(), "nodeNames")
        )
        return (*rules, RuleTerm("preFilter.nodeNames", names, among, False, settled=True))

    def value(self, core: ast.Core) -> tuple[Any, Term]:
        """Return the term of an expression, and whether it fails."""
        return self._printer.outcome(self._lowered(core))

    def _lowered(self, core: ast.Core) -> lower.Value:
        return self.low.plain(self.low.lower(core, {}))

    def rule(
        self, checked: check.Checked, name: str, on_error: str = "", reason: Term = ""
    ) -> RuleTerm:
        """Return a rule that is a bool."""
        holds, fails = self.value(checked.core)
        settled = holds is True and self._reads_params(checked.core)
        allows, handled = on_error == "Allow", bool(on_error)
        return RuleTerm(name, checked, holds, fails, allows, handled, settled, reason)

    def _reason(self, rule: diagnostics.Rule[check.Checked]) -> Term:
        """Return why a rule rejects, and whether preemption may help, as one text.

        It may be any text where that has no term; how an error is worded is not told apart.
        """
        words, helps = rule.reasons or rule.message_expression, rule.resolvable
        text: Term = rule.message
        if words is not None:
            value = self.low.plain(self.low.lower(words.core, {}))
            text = self._printer.text(value.op)
            if value.err is not None:
                text = ite(failed(self._printer.term(value.err)), f"{rule.message} fails", text)
        if isinstance(helps, check.Checked):
            holds, fails = self.value(helps.core)
            helps = conjunction(negation(fails), holds)
        mark = ite(helps, "resolvable: ", "unresolvable: ")
        return joined(mark, text)

    def _reads_params(self, core: ast.Core) -> bool:
        """Return whether an expression, or a variable or function of the policy, reads params."""
        bodies = {f"variables.{name}": of.core for name, of in self._policy.variables}
        bodies |= {name: function.body for name, function in self._policy.functions.items()}
        todo, seen = [core], set[str]()
        while todo:
            for part in check.walk(todo.pop()):
                name = getattr(part, "name", "")
                if isinstance(part, ast.Var) and name == "params":
                    return True
                if name in bodies and name not in seen and isinstance(part, ast.Var | ast.UserCall):
                    seen.add(name)
                    todo.append(bodies[name])
        return False

    def _score(self, score: Any) -> ScoreTerm:
        checked: check.Checked = score.expression
        normalizer = score.normalize
        keeps = isinstance(normalizer, check.Checked) or normalizer not in _NO_NORMALIZER
        value = self.low.val(self.low.lower(checked.core, {}))
        if value.type == types.DOUBLE:
            whole = lower.to_int(self.low, value, checked.core.span)
            value = (
                whole if not keeps else lower.Value(value.op, whole.err, value.type, value.range)
            )
        number, fails = self._printer.outcome(value)
        bounded = self.low.range(value).within(0, 100)
        if bounded and is_term(number):
            inside = conjunction(number >= 0, number <= 100)
            self._printer.made.hint(disjunction(fails, inside))
        op = self.low.node_op(ops.SCORE, rep="f" if value.type == types.DOUBLE else "i", data=None)
        self.low.globals["score"] = lower.Value(op, None, value.type, value.range)
        return ScoreTerm(
            checked,
            number,
            fails,
            keeps,
            score.on_error is not None,
            bounded,
            partial(self._normalized, normalizer, number),
            self._form(normalizer or "None"),
            score.on_error == "Abort",
        )

    def _normalized(self, normalizer: Any, number: Any, scores: Scores) -> tuple[Any, Term]:
        """Return what the normaliser makes of a raw score, and whether it fails."""
        if not isinstance(normalizer, check.Checked):
            return scores.normalized(normalizer or "None", number), False
        with self._printer.scored(number, scores):
            value = self.low.val(self.low.lower(normalizer.core, {}))
            if value.type == types.DOUBLE:
                near = lower.rounded(self.low, value)
                value = lower.to_int(self.low, near, normalizer.core.span)
            return self._printer.outcome(value)
