"""Common parts of the lints: all trees of a policy, and what a tree reads through names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Final

from policy_sched.language.check import Checked, CheckedPolicy, children
from policy_sched.language.diagnostics import PolicySource, Problem, Rule, StepRule, Text
from policy_sched.language.ir import Site, ops
from policy_sched.language.lower import Constant, Refusal, Value, make_lowering
from policy_sched.language.syntax import Core, Field, Let, Macro, UserCall, Var

VARIABLES = "variables."


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem, and the text that it is in."""

    problem: Problem
    text: Text


@dataclass(frozen=True, slots=True)
class AbstractResult:
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
        self._variables: Mapping[str, Core] = {
            VARIABLES + name: checked.core for name, checked in policy.variables
        }
        self.expressions = tuple(expressions(policy))
        """What `expressions` yields."""
        # The policy keeps its trees alive, so that their ids are names of them.
        self._reads: dict[int, frozenset[str]] = {}
        self._answers: dict[int, AbstractResult] = {}

    def reads(self, tree: Core) -> frozenset[str]:
        """Return what a tree reads, by itself and through variables and functions.

        Names as they are written: ``now``, ``pod.name``, ``params.limit``, ``variables.x``,
        ``frag()``; ``params`` where parameters are read as a whole.
        """
        known = self._reads.get(id(tree))
        if known is not None:
            return known
        found: set[str] = set()
        stack = [tree]
        while stack:
            part = stack.pop()
            match part:
                case Field(operand=Var(name=name), name=field):
                    found.add(f"{name}.{field}")
                    continue
                case Var(name=name):
                    found.add(name)
                    found |= self._through(self._variables.get(name))
                case UserCall(name=name):
                    found.add(f"{name}()")
                    function = self.policy.functions.get(name)
                    found |= self._through(function.body if function else None)
            stack.extend(children(part))
        self._reads[id(tree)] = frozenset(found)
        return self._reads[id(tree)]

    def _through(self, tree: Core | None) -> frozenset[str]:
        return frozenset() if tree is None else self.reads(tree)

    def depends_on_params(self, tree: Core) -> bool:
        """Tell whether a parameter has a part in a tree's value."""
        return any(name.partition(".")[0] == "params" for name in self.reads(tree))

    def closed(self, tree: Core) -> bool:
        """Tell whether a tree has a value outside of macros and functions."""
        bound = {name for part in walk(tree) for name in _binds(part)}
        names = {part.name for part in walk(tree) if isinstance(part, Var)}
        return not any(name not in bound and self._is_local(name) for name in names)

    def _is_local(self, name: str) -> bool:
        parameters = (name for f in self.policy.functions.values() for name in f.params)
        return "#" in name or name in parameters

    def ask(self, tree: Core) -> AbstractResult:
        """Return the compiler's result for a closed tree; nothing if it rejects it."""
        known = self._answers.get(id(tree))
        if known is None:
            known = self._answers[id(tree)] = self._asked(tree)
        return known

    def _asked(self, tree: Core) -> AbstractResult:
        policy = self.policy
        low = make_lowering(policy.params, policy.params_type, policy.functions)
        for name, body in self._variables.items():
            low.globals[name] = low.thunk(body, {})
        try:
            value = low.lower(tree, {})
            if isinstance(value, Constant):
                return AbstractResult(value.value)
            plain = low.plain(value)
        except Refusal:
            return AbstractResult()
        if plain.err is not None:
            return AbstractResult(None, tuple(site for site in low.build.sites if site.kind))
        return AbstractResult(_constant(plain))


def _constant(value: Value) -> object:
    return value.op.data if value.op.kind is ops.CONST else None


def _binds(tree: Core) -> tuple[str, ...]:
    match tree:
        case Macro(names=names):
            return names
        case Let(name=name):
            return (name,)
    return ()


def walk(tree: Core) -> Iterator[Core]:
    """Yield every part of a tree, outer ones first."""
    stack = [tree]
    while stack:
        part = stack.pop()
        yield part
        stack.extend(reversed(children(part)))


def expressions(policy: CheckedPolicy) -> Iterator[tuple[Checked, bool]]:
    """Yield the expressions of all sections, and whether each is a rule that says yes or no."""
    yield from ((checked, False) for _, checked in policy.variables)
    yield from ((checked, True) for checked in policy.match_conditions)
    for name in _fields(type(policy)):
        if name not in ("variables", "match_conditions", "functions"):
            yield from _inside(getattr(policy, name), rule=False)


_FIELDS: Final[dict[type, tuple[str, ...]]] = {}


def _fields(record: type) -> tuple[str, ...]:
    """Return the names of a dataclass's fields; of another class none."""
    if record not in _FIELDS:
        found = fields(record) if is_dataclass(record) else ()
        _FIELDS[record] = tuple(one.name for one in found)
    return _FIELDS[record]


def _inside(value: object, *, rule: bool) -> Iterator[tuple[Checked, bool]]:
    if isinstance(value, Checked):
        yield value, rule
    elif isinstance(value, tuple):
        for one in value:
            yield from _inside(one, rule=rule)
    else:
        says = isinstance(value, Rule | StepRule)
        for name in _fields(type(value)):
            yield from _inside(getattr(value, name), rule=says and name == "expression")
