"""Rules that can fail where their author may not have thought of it (PS412, PS413)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from policy_sched.language.check import Checked, CheckedPolicy
from policy_sched.language.diagnostics import Problem
from policy_sched.language.lint.visitor import Finding, Trees, walk
from policy_sched.language.syntax import Call, Const, Core, Has, Index, Span, UserCall, Var
from policy_sched.language.values import KINDS, MapType

UNEQUAL: Final = "PS412"
UNSTATED: Final = "PS413"
_FUNCTION: Final = re.compile(r"([A-Za-z_][\w.]*)\(")
_NOTHING_IS_STATED: Final = {
    "filter": "the node is rejected then; state onError: Reject, Allow or Abort",
    "score": "the node's score is 0 then; state onError: Zero or Abort",
}


def possible_errors(trees: Trees, policy: CheckedPolicy) -> Iterator[Finding]:
    """Yield inequalities over missing keys, and rules that fail without a word about it."""
    told = set()
    for checked, _ in trees.expressions:
        for found in _unequal(checked):
            told.add(id(checked))
            yield found
    rules = [(rule.expression, "filter", rule.on_error) for rule in policy.filter]
    if policy.score is not None:
        rules.append((policy.score.expression, "score", policy.score.on_error))
    for checked, section, stated in rules:
        if stated is not None or id(checked) in told:
            continue
        failure = _failure(trees, checked)
        if failure:
            message = f"this rule can fail ({failure}), and onError is not stated"
            hint = _NOTHING_IS_STATED[section]
            yield Finding(Problem(0, len(checked.text.text), UNSTATED, message, hint), checked.text)


def _failure(trees: Trees, checked: Checked) -> str:
    """Return how a rule can fail; empty if it cannot."""
    tree = checked.core
    places: dict[Span | None, set[str]] = {}
    for site in trees.ask(tree).sites:
        words = KINDS[site.kind].replace("_", " ")
        places.setdefault(site.span, set()).add(
            f"{words} '{site.detail}'" if site.detail else words
        )
    calls: dict[Span | None, str] = {}
    owns: list[str] = []
    for part in walk(tree):
        if _succeeds(part):
            places.pop(part.span, None)
        if isinstance(part, Call):
            calls[part.span] = _called(checked.text.text[part.span.start : part.span.end], part)
        elif isinstance(part, UserCall):
            owns.append(f"`{part.name}(...)`")
    for span, kinds in places.items():
        if span not in calls and len(kinds) == 1:
            return min(kinds)
        words = min(kinds) if len(kinds) == 1 else "no value for some arguments"
        return f"{calls.get(span) or next(iter(owns), 'a call')}: {words}"
    return ""


def _called(text: str, call: Call) -> str:
    """Return a call as a message names it."""
    found = _FUNCTION.match(text)
    return f"`{found[1] if found else call.overload.partition('_')[0]}(...)`"


def _succeeds(tree: Core) -> bool:
    """Tell whether a call that may fail in general cannot fail with these arguments."""
    match tree:
        case Call(overload="stableHash_string_int", args=(_, Const(value=int() as buckets))):
            return buckets > 0
        case Call(overload=overload, args=(Var(name="now"), *rest)):
            return overload.startswith("get") and all(isinstance(one, Const) for one in rest)
    return False


def _unequal(checked: Checked) -> Iterator[Finding]:
    """Yield ``m["k"] != v`` and ``!(m["k"] == v)`` where nothing makes sure that k is there."""
    sure = {_tested(part) for part in walk(checked.core)}
    for part in walk(checked.core):
        match part:
            case Call(overload="ne_any_any", args=args):
                comparison = args
            case Call(overload="not_bool", args=(Call(overload="eq_any_any", args=args),)):
                comparison = args
            case _:
                continue
        for one, other in (comparison, comparison[::-1]):
            if isinstance(one, Index) and _may_be_missing(one) and _key(one) not in sure:
                hint = _total(checked.text.text, one, other)
                message = "without this key the comparison is an error, not true"
                problem = Problem(part.span.start, part.span.end, UNEQUAL, message, hint)
                yield Finding(problem, checked.text)


def _may_be_missing(tree: Core) -> bool:
    """Tell whether a tree is a map's value by a key, of a map that is not a parameter."""
    if not isinstance(tree, Index) or tree.optional:
        return False
    names = {part.name for part in walk(tree.operand) if isinstance(part, Var)}
    return isinstance(tree.operand.type, MapType) and "params" not in names


def _tested(tree: Core) -> tuple[Core, Core] | None:
    """Return the map and the key that a tree tests to be there."""
    match tree:
        case Has(operand=operand, key=key) | Call(overload="in_any_map", args=(key, operand)):
            return operand, key
    return None


def _key(tree: Index) -> tuple[Core, Core]:
    return tree.operand, tree.index


def _total(text: str, entry: Index, other: Core) -> str:
    """Return how to write the inequality so that a missing key makes it true."""
    operand = text[entry.operand.span.start : entry.operand.span.end]
    key = entry.index
    shown = text[key.span.start : key.span.end]
    if isinstance(key, Const):
        shown = json.dumps(key.value, ensure_ascii=False)
    value = text[other.span.start : other.span.end]
    return f"write {operand}[?{shown}] != optional.of({value})"
