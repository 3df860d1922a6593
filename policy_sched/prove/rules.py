"""The rules of a policy as terms: what passes, what fails, what the score is.

A policy takes part for a pod whose matchConditions hold. What cannot be lowered was refused by
`check` before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from policy_sched.language import check, diagnostics, lower
from policy_sched.language.diagnostics import Text
from policy_sched.language.syntax import ast
from policy_sched.language.values import types
from policy_sched.prove.printer import Printer
from policy_sched.prove.terms import (
    Double,
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

#: Normalisers, under which a raw score may leave 0..100.
_NO_NORMALIZER: Final = (None, "None")


@dataclass(frozen=True, slots=True)
class RuleTerm:
    """A rule: whether it is true, and whether it fails instead; ``text`` is as it is written."""

    name: str
    text: Text
    span: tuple[int, int]
    holds: Term
    fails: Term
    allows: bool = False
    """Whether it lets a node pass where it fails."""
    handled: bool = False
    """Whether the policy says what an error means."""
    core: ast.Core | None = None
    settled: bool = False
    """Whether the policy's parameters alone make it true."""
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

    text: Text
    span: tuple[int, int]
    number: Any
    fails: Term
    normalized: bool
    handled: bool
    bounded: bool
    """Whether the compiler has proved that it is within 0..100."""
    core: ast.Core
    aborts: bool = False
    """Whether the pod has no node where it fails."""

    def settled(self) -> tuple[Any, Term]:
        """Return the number that counts, and whether it fails: 0 without a normalizer."""
        if self.normalized or self.aborts:
            return self.number, self.fails
        return ite(self.fails, 0, self.number), False


@dataclass(frozen=True, slots=True)
class PolicyTerms:
    """A policy over one pod and node."""

    name: str
    match: tuple[RuleTerm, ...]
    filter: tuple[RuleTerm, ...]
    score: ScoreTerm | None
    score_match: tuple[RuleTerm, ...]

    @property
    def matches(self) -> Term:
        """Whether the policy takes part for the pod."""
        return conjunction(*(rule.passes for rule in self.match))

    @property
    def match_fails(self) -> Term:
        """Whether a matchCondition fails and no other is false."""
        wrong = disjunction(*(rule.fails for rule in self.match))
        return conjunction(wrong, negation(disjunction(*(rule.rejects for rule in self.match))))

    @property
    def passes(self) -> Term:
        """Whether all filter rules let the node pass, or the policy takes no part."""
        inside = conjunction(*(rule.passes for rule in self.filter))
        if not self.filter:
            return True
        idle = conjunction(negation(self.matches), negation(self.match_fails))
        return disjunction(idle, conjunction(self.matches, inside))

    @property
    def reason(self) -> Term:
        """Why the node does not pass; "" where it does."""
        found: Term = ""
        for rule in reversed(self.filter):
            wrong = ite(rule.fails, f"rule {self.name}.{rule.name}", found)
            found = ite(rule.rejects, rule.reason, found if rule.allows else wrong)
        return ite(self.matches, found, "")

    def reaches(self, number: int) -> Term:
        """Whether filter rule ``number`` is asked, as those before it let the node pass."""
        return conjunction(self.matches, *(rule.passes for rule in self.filter[:number]))

    @property
    def scores(self) -> Term:
        """Whether the node gets a score of the policy."""
        inside = conjunction(*(rule.passes for rule in self.filter))
        matched = conjunction(*(rule.passes for rule in self.score_match))
        return conjunction(self.matches, inside, matched)


class PolicyPrinter:
    """Lowers the rules of one checked policy and makes terms of them."""

    def __init__(self, policy: check.CheckedPolicy, world: World, salt: str = "") -> None:
        self._policy = policy
        self._printer = Printer(world, salt)
        self.low = lower.make_lowering(policy.params, policy.params_type, policy.functions)
        self.low.objects = {kind.name: kind for kind in policy.objects}
        if policy.inputs:
            self.low.globals["inputs"] = lower.identities(policy.inputs)
        for name, variable in policy.variables:
            self.low.globals[f"variables.{name}"] = self.low.thunk(variable.core, {})

    def terms(self) -> PolicyTerms:
        """Return the policy's terms."""
        policy = self._policy
        score = policy.score
        return PolicyTerms(
            policy.name,
            self._conditions(policy.match_conditions, "matchConditions"),
            tuple(
                self.rule(
                    rule.expression,
                    f"filter[{i}]",
                    on_error=rule.on_error or "",
                    reason=self._reason(rule),
                )
                for i, rule in enumerate(policy.filter)
            ),
            None if score is None else self._score(score),
            ()
            if score is None
            else self._conditions(score.match_conditions, "score.matchConditions"),
        )

    def _conditions(self, given: Sequence[check.Checked], name: str) -> tuple[RuleTerm, ...]:
        return tuple(self.rule(checked, f"{name}[{i}]") for i, checked in enumerate(given))

    def value(self, core: ast.Core) -> tuple[Any, Term]:
        """Return the term of an expression, and whether it fails."""
        lowered = self.low.lower(core, {})
        value = self.low.val(lowered) if isinstance(lowered, lower.Opt) else self.low.plain(lowered)
        error = False if value.err is None else failed(self._printer.term(value.err))
        return self._printer.term(value.op), error

    def rule(
        self, checked: check.Checked, name: str, *, on_error: str = "", reason: Term = ""
    ) -> RuleTerm:
        """Return a rule that is a bool."""
        holds, fails = self.value(checked.core)
        span = checked.core.span
        return RuleTerm(
            name,
            checked.text,
            (span.start, span.end),
            holds,
            fails,
            on_error == "Allow",
            bool(on_error),
            checked.core,
            holds is True and self._reads_params(checked.core),
            reason,
        )

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
        number = self._printer.term(value.op)
        fails = False if value.err is None else failed(self._printer.term(value.err))
        span, bounded = checked.core.span, self.low.range(value).within(0, 100)
        if bounded and is_term(number):
            inside = conjunction(number >= 0, number <= 100)
            self._printer.made.hint(disjunction(fails, inside))
        return ScoreTerm(
            checked.text,
            (span.start, span.end),
            number,
            fails,
            keeps,
            score.on_error is not None,
            bounded,
            checked.core,
            score.on_error == "Abort",
        )


def is_double(number: object) -> bool:
    """Return whether a score is a double."""
    return isinstance(number, Double)
