"""Conditions that say nothing: always true, always false, written twice, never reached."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from policy_sched.language.check import Checked, CheckedPolicy, children
from policy_sched.language.diagnostics import Problem
from policy_sched.language.lint.visitor import Finding, Trees
from policy_sched.language.syntax import And, Call, Cond, Const, Core, Or
from policy_sched.language.values import BOOL

TRUE: Final = "PS401"
FALSE: Final = "PS402"
UNREACHABLE: Final = "PS403"
TWICE: Final = "PS405"


def conditions(trees: Trees, checked: Checked, *, rule: bool) -> Iterator[Finding]:
    """Yield what is wrong with the conditions in one expression; ``rule``: it is one itself."""
    for problem in _Visitor(trees).visit(checked.core, asked=rule):
        yield Finding(problem, checked.text)


def filter_order(trees: Trees, policy: CheckedPolicy) -> Iterator[Finding]:
    """Yield filter rules that no node reaches, and rules that stand there twice."""
    for section in (policy.filter, policy.pre_enqueue):
        seen: list[Core] = []
        closed = False
        for rule in section:
            core, text = rule.expression.core, rule.expression.text
            whole = (0, len(text.text))
            if closed:
                message = "no node reaches this rule: the one before rejects all"
                yield Finding(Problem(*whole, UNREACHABLE, message, "remove one of them"), text)
                break
            if core in seen:
                message = "this rule is there twice"
                yield Finding(Problem(*whole, TWICE, message, "remove one of them"), text)
            seen.append(core)
            constant = not trees.depends_on_params(core) and trees.ask(core).value is False
            closed = constant and section is policy.filter


class _Visitor:
    """Goes through one tree; what was reported inside is not reported again outside."""

    def __init__(self, trees: Trees) -> None:
        self._trees = trees

    def visit(self, tree: Core, *, asked: bool) -> list[Problem]:
        """Return the problems of a tree; ``asked``: a condition is expected at its position."""
        found: list[Problem] = []
        match tree:
            case And(args=args) | Or(args=args):
                for arg in args:
                    found += self.visit(arg, asked=True)
                found += _repeated(args)
                found += _contradictions(args, tree, self._fails)
            case Cond():
                found += self._branches(tree)
                for part in (tree.then, tree.otherwise):
                    found += self.visit(part, asked=False)
            case _:
                for part in children(tree):
                    found += self.visit(part, asked=False)
        if asked and not found:
            found += self._constant(tree)
        return found

    def _constant(self, tree: Core) -> list[Problem]:
        value = self._value(tree)
        if value is None:
            return []
        code, word = (TRUE, "true") if value else (FALSE, "false")
        message = f"this is always {word}"
        return [Problem(tree.span.start, tree.span.end, code, message, "")]

    def _fails(self, tree: Core) -> bool:
        """Tell whether a tree may be an error in place of a value; yes if that is unknown."""
        return not self._trees.closed(tree) or bool(self._trees.ask(tree).sites)

    def _branches(self, tree: Cond) -> list[Problem]:
        found = self.visit(tree.test, asked=False)
        value = self._value(tree.test)
        if value is not None and not found:
            branch = tree.otherwise if value else tree.then
            word = "true" if value else "false"
            message = f"this branch is never reached: the condition is always {word}"
            span = branch.span
            found.append(Problem(span.start, span.end, UNREACHABLE, message, ""))
        if tree.then == tree.otherwise:
            span = tree.otherwise.span
            message = "both branches are the same"
            found.append(Problem(span.start, span.end, TWICE, message, "remove the condition"))
        return found

    def _value(self, tree: Core) -> bool | None:
        """Return what a condition always is; None if it changes, or a parameter can change it."""
        trees = self._trees
        if tree.type != BOOL or not trees.closed(tree) or trees.depends_on_params(tree):
            return None
        value = trees.ask(tree).value
        return value if isinstance(value, bool) else None


def _repeated(args: Sequence[Core]) -> Iterator[Problem]:
    for i, arg in enumerate(args):
        if arg in args[:i]:
            message = "this condition is there twice"
            yield Problem(arg.span.start, arg.span.end, TWICE, message, "remove one of them")


def _contradictions(
    args: Sequence[Core], tree: And | Or, fails: Callable[[Core], bool]
) -> Iterator[Problem]:
    """Yield pairs of comparisons of one term that make the whole constant.

    ``a == 1 && a == 2`` is false as ``a == 1 && a != 1`` is; with ``||`` the mirror image. If the
    term is an error, so is the whole: it is never true then, but not always false.
    """
    both = isinstance(tree, And)
    strong, weak = ("eq", "ne") if both else ("ne", "eq")
    terms = [term for arg in args if (term := _comparison(arg)) is not None]
    for i, (sign, left, right) in enumerate(terms):
        for other, again, value in terms[:i]:
            if left != again:
                continue
            different = sign == other == strong and right != value
            opposite = {sign, other} == {strong, weak} and right == value
            if different or opposite:
                always, never, code = ("false", "true", FALSE) if both else ("true", "false", TRUE)
                words = f"never {never}" if fails(left) else f"always {always}"
                why = "these comparisons of one term exclude each other"
                if not both:
                    why = "one of these comparisons of one term holds, whatever it is"
                message = f"this is {words}: {why}"
                yield Problem(tree.span.start, tree.span.end, code, message, "")
                return


def _comparison(tree: Core) -> tuple[str, Core, object] | None:
    """Return sign, term and constant of ``term == constant`` or ``term != constant``."""
    match tree:
        case Call(overload="eq_any_any" | "ne_any_any" as name, args=(left, Const(value=value))):
            return name[:2], left, value
        case Call(overload="eq_any_any" | "ne_any_any" as name, args=(Const(value=value), right)):
            return name[:2], right, value
    return None
