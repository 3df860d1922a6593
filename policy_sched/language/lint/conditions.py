"""Lints about values: constant conditions, duplicates, and errors that are not handled.

`Trees` holds the trees of a policy by name; `expressions` and `walk` yield all of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from policy_sched.language import lower
from policy_sched.language.check import Checked, CheckedPolicy, children, walk
from policy_sched.language.diagnostics import (
    PolicySource,
    Problem,
    Rule,
    StepRule,
    Text,
    field_names,
)
from policy_sched.language.ir import Site, ops
from policy_sched.language.syntax import Span, ast
from policy_sched.language.values import KINDS, types

VARIABLES = "variables."


class Finding(msgspec.Struct, frozen=True):
    """A problem, and the text that it is in."""

    problem: Problem
    text: Text

    @classmethod
    def of_all(cls, text: Text, code: str, message: str, hint: str) -> Finding:
        """Return a finding about the whole of a text."""
        return cls(Problem(0, len(text.text), code, message, hint), text)


class AbstractResult(msgspec.Struct, frozen=True):
    """The compiler's result for an expression: its value if constant, and where it fails.

    ``sites``: places of possible errors; of a call that may fail in any way there are several.
    """

    value: object = None
    sites: tuple[Site, ...] = ()


class Trees:
    """The trees of one policy, and the definitions that names in them stand for."""

    def __init__(self, source: PolicySource, policy: CheckedPolicy) -> None:
        self.source = source
        self.policy = policy
        self._variables: Mapping[str, ast.Core] = {
            VARIABLES + name: checked.core for name, checked in policy.variables
        }
        self.expressions = tuple(expressions(policy))
        """What `expressions` yields."""
        # The policy keeps its trees alive, so that their ids are names of them.
        self._reads: dict[int, frozenset[str]] = {}
        self._results: dict[int, AbstractResult] = {}

    def reads(self, tree: ast.Core) -> frozenset[str]:
        """Return what a tree reads, by itself and through variables and functions.

        Names as they are written: ``now``, ``pod.name``, ``params.limit``, ``variables.x``,
        ``frag()``; ``params`` where parameters are read as a whole.
        """
        kept = self._reads.get(id(tree))
        if kept is not None:
            return kept
        names: set[str] = set()
        stack = [tree]
        while stack:
            part = stack.pop()
            match part:
                case ast.Field(operand=ast.Var(name=name), name=field):
                    names.add(f"{name}.{field}")
                    continue
                case ast.Var(name=name):
                    names.add(name)
                    names |= self._through(self._variables.get(name))
                case ast.UserCall(name=name):
                    names.add(f"{name}()")
                    function = self.policy.functions.get(name)
                    names |= self._through(function.body if function else None)
            stack.extend(children(part))
        self._reads[id(tree)] = frozenset(names)
        return self._reads[id(tree)]

    def _through(self, tree: ast.Core | None) -> frozenset[str]:
        return frozenset() if tree is None else self.reads(tree)

    def depends_on_params(self, tree: ast.Core) -> bool:
        """Return whether a parameter has a part in a tree's value."""
        return any(name.partition(".")[0] == "params" for name in self.reads(tree))

    def closed(self, tree: ast.Core) -> bool:
        """Return whether a tree has a value outside of macros and functions."""
        bound = {name for part in walk(tree) for name in _binds(part)}
        names = {part.name for part in walk(tree) if isinstance(part, ast.Var)}
        return not any(name not in bound and self._is_local(name) for name in names)

    def _is_local(self, name: str) -> bool:
        parameters = (name for f in self.policy.functions.values() for name in f.params)
        return "#" in name or name in parameters

    def analyze(self, tree: ast.Core) -> AbstractResult:
        """Return the compiler's result for a closed tree; nothing if it rejects it."""
        analysis = self._results.get(id(tree))
        if analysis is None:
            analysis = self._results[id(tree)] = self._evaluated(tree)
        return analysis

    def _evaluated(self, tree: ast.Core) -> AbstractResult:
        policy = self.policy
        low = lower.make_lowering(policy.params, policy.params_type, policy.functions)
        for name, body in self._variables.items():
            low.globals[name] = low.thunk(body, {})
        try:
            value = low.lower(tree, {})
            if isinstance(value, lower.Constant):
                return AbstractResult(value.value)
            plain = low.plain(value)
        except lower.Refusal:
            return AbstractResult()
        if plain.err is not None:
            return AbstractResult(None, tuple(site for site in low.build.sites if site.kind))
        return AbstractResult(_constant(plain))


def _constant(value: lower.Value) -> object:
    return value.op.data if value.op.kind is ops.CONST else None


def _binds(tree: ast.Core) -> tuple[str, ...]:
    match tree:
        case ast.Macro(names=names):
            return names
        case ast.Let(name=name):
            return (name,)
    return ()


def expressions(policy: CheckedPolicy) -> Iterator[tuple[Checked, bool]]:
    """Yield the expressions of all sections, and whether each is a condition."""
    yield from ((checked, False) for _, checked in policy.variables)
    yield from ((checked, True) for checked in policy.match_conditions)
    for name in field_names(type(policy)):
        if name not in ("variables", "match_conditions", "functions"):
            yield from _inside(getattr(policy, name), rule=False)


def _inside(value: object, *, rule: bool) -> Iterator[tuple[Checked, bool]]:
    if isinstance(value, Checked):
        yield value, rule
    elif isinstance(value, tuple):
        for part in value:
            yield from _inside(part, rule=rule)
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _inside(part, rule=rule)
    else:
        condition = isinstance(value, Rule | StepRule)
        for name in field_names(type(value)):
            yield from _inside(getattr(value, name), rule=condition and name == "expression")


TRUE: Final = "PS401"
FALSE: Final = "PS402"
UNREACHABLE: Final = "PS403"
TWICE: Final = "PS405"


def conditions(trees: Trees, tree: ast.Core, *, rule: bool) -> list[Problem]:
    """Return what is wrong with the conditions in one expression; ``rule``: it is one itself."""
    return _Visitor(trees).visit(tree, condition=rule)


def constant_conditions(policy: CheckedPolicy, tree: ast.Core) -> list[Problem]:
    """Return what is wrong with the conditions of a rule beside a policy's definitions."""
    return conditions(Trees(PolicySource(policy.name), policy), tree, rule=True)


def filter_order(trees: Trees, policy: CheckedPolicy) -> Iterator[Finding]:
    """Yield filter rules that no node or device reaches, and rules that stand there twice."""
    of_devices = () if policy.devices is None else policy.devices.filter
    for what, section in (
        ("node", policy.filter),
        ("", policy.pre_enqueue),
        ("device", of_devices),
    ):
        seen: list[ast.Core] = []
        closed = False
        for core, text in ((rule.expression.core, rule.expression.text) for rule in section):
            if closed:
                message = f"no {what} reaches this rule: the one before rejects all"
                yield Finding.of_all(text, UNREACHABLE, message, "remove one of them")
                break
            if core in seen:
                message = "this rule is there twice"
                yield Finding.of_all(text, TWICE, message, "remove one of them")
            seen.append(core)
            constant = not trees.depends_on_params(core) and trees.analyze(core).value is False
            closed = constant and what != ""


class _Visitor:
    """Goes through one tree; what was reported inside is not reported again outside."""

    def __init__(self, trees: Trees) -> None:
        self._trees = trees

    def visit(self, tree: ast.Core, *, condition: bool) -> list[Problem]:
        """Return the problems of a tree; ``condition``: a condition is expected at its position."""
        problems: list[Problem] = []
        match tree:
            case ast.And(args=args) | ast.Or(args=args):
                for arg in args:
                    problems += self.visit(arg, condition=True)
                problems += _repeated(args)
                problems += _contradictions(args, tree, self._fails)
            case ast.Cond():
                problems += self._branches(tree)
                for part in (tree.then, tree.otherwise):
                    problems += self.visit(part, condition=False)
            case _:
                for part in children(tree):
                    problems += self.visit(part, condition=False)
        if condition and not problems:
            problems += self._constant(tree)
        return problems

    def _constant(self, tree: ast.Core) -> list[Problem]:
        value = self._value(tree)
        if value is None:
            return []
        code, word = (TRUE, "true") if value else (FALSE, "false")
        message = f"this is always {word}"
        return [Problem(tree.span.start, tree.span.end, code, message, "")]

    def _fails(self, tree: ast.Core) -> bool:
        """Return whether a tree may be an error in place of a value; yes if that is unknown."""
        return not self._trees.closed(tree) or bool(self._trees.analyze(tree).sites)

    def _branches(self, tree: ast.Cond) -> list[Problem]:
        problems = self.visit(tree.test, condition=False)
        value = self._value(tree.test)
        if value is not None and not problems:
            branch = tree.otherwise if value else tree.then
            word = "true" if value else "false"
            message = f"this branch is never reached: the condition is always {word}"
            span = branch.span
            problems.append(Problem(span.start, span.end, UNREACHABLE, message, ""))
        if tree.then == tree.otherwise:
            span = tree.otherwise.span
            message = "both branches are the same"
            problems.append(Problem(span.start, span.end, TWICE, message, "remove the condition"))
        return problems

    def _value(self, tree: ast.Core) -> bool | None:
        """Return what a condition always is; None if it changes, or a parameter can change it."""
        trees = self._trees
        if tree.type != types.BOOL or not trees.closed(tree) or trees.depends_on_params(tree):
            return None
        value = trees.analyze(tree).value
        return value if isinstance(value, bool) else None


def _repeated(args: Sequence[ast.Core]) -> Iterator[Problem]:
    for i, arg in enumerate(args):
        if arg in args[:i]:
            message = "this condition is there twice"
            yield Problem(arg.span.start, arg.span.end, TWICE, message, "remove one of them")


def _contradictions(
    args: Sequence[ast.Core], tree: ast.And | ast.Or, fails: Callable[[ast.Core], bool]
) -> Iterator[Problem]:
    """Yield pairs of comparisons of one term that make the whole constant.

    ``a == 1 && a == 2`` is false as ``a == 1 && a != 1`` is; with ``||`` the mirror image. If the
    term is an error, so is the whole: it is never true then, but not always false.
    """
    both = isinstance(tree, ast.And)
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
                    why = "one of these comparisons of one term holds for any value of it"
                message = f"this is {words}: {why}"
                yield Problem(tree.span.start, tree.span.end, code, message, "")
                return


def _comparison(tree: ast.Core) -> tuple[str, ast.Core, object] | None:
    """Return sign, term and constant of ``term == constant`` or ``term != constant``."""
    match tree:
        case ast.Call(
            overload="eq_any_any" | "ne_any_any" as name, args=(left, ast.Const(value=value))
        ):
            return name[:2], left, value
        case ast.Call(
            overload="eq_any_any" | "ne_any_any" as name, args=(ast.Const(value=value), right)
        ):
            return name[:2], right, value
    return None


UNEQUAL: Final = "PS412"
UNSTATED: Final = "PS413"
_FUNCTION: Final = re.compile(r"([A-Za-z_][\w.]*)\(")
_NOTHING_IS_STATED: Final = {
    "filter": "the node is rejected then; state onError: Reject, Allow or Abort",
    "score": "the node's score is 0 then; state onError: Zero or Abort",
    "devices.filter": "the device is not considered then; state onError: Reject, Allow or Abort",
    "devices.score": "the device's score is 0 then; state onError: Zero or Abort",
}


def possible_errors(trees: Trees, policy: CheckedPolicy) -> Iterator[Finding]:
    """Yield inequalities over missing keys, and rules that fail without a word about it."""
    reported = set()
    for checked, _ in trees.expressions:
        for finding in _unequal(checked):
            reported.add(id(checked))
            yield finding
    rules = [(rule.expression, "filter", rule.on_error) for rule in policy.filter]
    if policy.score is not None:
        rules.append((policy.score.expression, "score", policy.score.on_error))
    devices = policy.devices
    if devices is not None:
        rules += [(rule.expression, "devices.filter", rule.on_error) for rule in devices.filter]
        if devices.score is not None:
            rules.append((devices.score, "devices.score", devices.score_on_error))
    for checked, section, stated in rules:
        if stated is not None or id(checked) in reported:
            continue
        failure = _failure(trees, checked)
        if failure:
            message = f"this rule can fail ({failure}), and onError is not stated"
            yield Finding.of_all(checked.text, UNSTATED, message, _NOTHING_IS_STATED[section])


def _failure(trees: Trees, checked: Checked) -> str:
    """Return how a rule can fail; empty if it cannot."""
    tree = checked.core
    places: dict[Span | None, set[str]] = {}
    for site in trees.analyze(tree).sites:
        words = KINDS[site.kind].replace("_", " ")
        places.setdefault(site.span, set()).add(
            f"{words} '{site.detail}'" if site.detail else words
        )
    calls: dict[Span | None, str] = {}
    owns: list[str] = []
    for part in walk(tree):
        if _succeeds(part):
            places.pop(part.span, None)
        if isinstance(part, ast.Call):
            calls[part.span] = _called(checked.text.text[part.span.start : part.span.end], part)
        elif isinstance(part, ast.UserCall):
            owns.append(f"`{part.name}(...)`")
    for span, kinds in places.items():
        if span not in calls and len(kinds) == 1:
            return min(kinds)
        words = min(kinds) if len(kinds) == 1 else "no value for some arguments"
        return f"{calls.get(span) or next(iter(owns), 'a call')}: {words}"
    return ""


def _called(text: str, call: ast.Call) -> str:
    """Return a call as a message names it."""
    match = _FUNCTION.match(text)
    return f"`{match[1] if match else call.overload.partition('_')[0]}(...)`"


def _succeeds(tree: ast.Core) -> bool:
    """Return whether a call that may fail in general cannot fail with these arguments."""
    match tree:
        case ast.Call(
            overload="stableHash_string_int", args=(_, ast.Const(value=int() as buckets))
        ):
            return buckets > 0
        case ast.Call(overload=overload, args=(ast.Var(name="now"), *rest)):
            return overload.startswith("get") and all(isinstance(arg, ast.Const) for arg in rest)
    return False


def _unequal(checked: Checked) -> Iterator[Finding]:
    """Yield ``m["k"] != v`` and ``!(m["k"] == v)`` where nothing makes sure that k is there."""
    sure = {_tested(part) for part in walk(checked.core)}
    for part in walk(checked.core):
        match part:
            case ast.Call(overload="ne_any_any", args=args):
                comparison = args
            case ast.Call(overload="not_bool", args=(ast.Call(overload="eq_any_any", args=args),)):
                comparison = args
            case _:
                continue
        for indexed, other in (comparison, comparison[::-1]):
            if (
                isinstance(indexed, ast.Index)
                and _may_be_missing(indexed)
                and _key(indexed) not in sure
            ):
                hint = _total(checked.text.text, indexed, other)
                message = "without this key the comparison is an error, not true"
                problem = Problem(part.span.start, part.span.end, UNEQUAL, message, hint)
                yield Finding(problem, checked.text)


def _may_be_missing(tree: ast.Core) -> bool:
    """Return whether a tree is a map's value by a key, of a map that is not a parameter."""
    if not isinstance(tree, ast.Index) or tree.optional:
        return False
    names = {part.name for part in walk(tree.operand) if isinstance(part, ast.Var)}
    return isinstance(tree.operand.type, types.MapType) and "params" not in names


def _tested(tree: ast.Core) -> tuple[ast.Core, ast.Core] | None:
    """Return the map and the key that a tree tests to be there."""
    match tree:
        case (
            ast.Has(operand=operand, key=key) | ast.Call(overload="in_any_map", args=(key, operand))
        ):
            return operand, key
    return None


def _key(tree: ast.Index) -> tuple[ast.Core, ast.Core]:
    return tree.operand, tree.index


def _total(text: str, entry: ast.Index, other: ast.Core) -> str:
    """Return how to write the inequality so that a missing key makes it true."""
    operand = text[entry.operand.span.start : entry.operand.span.end]
    key = entry.index
    shown = text[key.span.start : key.span.end]
    if isinstance(key, ast.Const):
        shown = json.dumps(key.value, ensure_ascii=False)
    value = text[other.span.start : other.span.end]
    return f"write {operand}[?{shown}] != optional.of({value})"
