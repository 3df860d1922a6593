"""Probes of a policy: every rule, and every condition within one, compiled separately.

Theory of operation. The scheduler runs a policy's rules together and stops at the first that
rejects. Coverage needs the value of each of them. So each expression, and each condition below
``?:``, ``&&`` and ``||``, is compiled alone. A probe runs only on the nodes for which its rule
reaches it: the right side of ``a && b`` where ``a`` is true, a filter rule where the rules before
it let the node pass.

A condition in a loop, such as ``t.effect == e`` in ``taints.all(t, t.key == k || t.effect == e)``,
has no value by itself. Two quantified expressions stand for it: one is true if some element
reaches the condition and it is true there, the other if some element reaches it and it is false.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from policy_sched.cluster.tables import NodeTable, PodTable
from policy_sched.language import BoundExpression, Expression, compile_expression
from policy_sched.language.check import Checked, CheckedPolicy, children
from policy_sched.language.diagnostics import StepRule, Text
from policy_sched.language.ir import Reads
from policy_sched.language.lower import Refusal
from policy_sched.language.runtime import Activation
from policy_sched.language.syntax import ast
from policy_sched.language.values import Some, types
from policy_sched.model import PodInfo
from policy_sched.plugins.rules import DeviceCase
from policy_sched.preemption import Case

Quantifier: TypeAlias = Callable[[ast.Core], ast.Core]
"""From a condition on an element to the expression that is true if there is such an element."""

_OPTIONAL = frozenset({"optMap", "optFlatMap", "fold"})
"""Macros whose variables are no elements of a list alone."""


def negated(core: ast.Core) -> ast.Core:
    """Return the opposite of a condition."""
    return ast.Call(overload="not_bool", args=(core,), type=types.BOOL, span=core.span)


@dataclass(frozen=True, slots=True)
class _Reached:
    """Where a tree stands: its rule, and what asks for elements of the loops around it."""

    text: Text
    path: str
    quantify: Quantifier | None = None
    """None outside of loops."""

    def after(self, condition: ast.Core) -> _Reached:
        """Return what is reached where a condition is true."""
        if self.quantify is None:
            return self
        return self.inside(
            lambda body: ast.And(args=(condition, body), type=types.BOOL, span=body.span)
        )

    def inside(self, loop: Quantifier) -> _Reached:
        """Return what is reached in a loop, or for some of its elements."""
        around = self.quantify
        return replace(self, quantify=lambda body: around(loop(body)) if around else loop(body))

    def in_let(self, core: ast.Let) -> _Reached:
        """Return what is reached where a variable has its value."""
        name, value, span = core.name, core.value, core.span
        return self.inside(
            lambda body: ast.Let(name=name, value=value, body=body, type=types.BOOL, span=span)
        )

    def in_macro(self, core: ast.Macro) -> _Reached:
        """Return what is reached for each element of a list."""
        kind, names, span = "exists", core.names, core.span
        return self.inside(
            lambda body: ast.Macro(
                kind=kind, operand=core.operand, names=names, test=body, type=types.BOOL, span=span
            )
        )


Mask: TypeAlias = npt.NDArray[np.bool_]
CoverageCriterion = Literal["both", "values", "once"]
"""The values that coverage needs: true and false; two different values; any one value."""


@dataclass(frozen=True, slots=True, order=True)
class SourceLocation:
    """The location of a rule, or of a condition within one. ``path`` is such as ``filter[0]``."""

    file: str
    line: int
    column: int
    policy: str
    path: str
    is_rule: bool
    text: str


@dataclass(frozen=True, slots=True)
class Probe:
    """One expression, compiled by itself; conditions that are reached through it come after it.

    ``if_true``, ``if_false``: of a condition whose value decides what is reached next, the probes
    for true and for false. ``opposite``: of a condition in a loop, whether it is false for some
    element; ``expression`` is then only whether it is true for some.
    """

    location: SourceLocation | None
    criterion: CoverageCriterion
    expression: Expression | None
    inner: tuple[Probe, ...] = ()
    if_true: tuple[Probe, ...] = ()
    if_false: tuple[Probe, ...] = ()
    opposite: Expression | None = None


@dataclass(frozen=True, slots=True)
class PolicyProbes:
    """The probes of one policy by section."""

    match: tuple[Probe, ...]
    variables: tuple[Probe, ...]
    gates: tuple[Probe, ...]
    order: tuple[Probe, ...]
    pre_filter: tuple[Probe, ...]
    narrowing: tuple[Probe, ...]
    filter: tuple[Probe, ...]
    score_match: tuple[Probe, ...]
    score: tuple[Probe, ...]
    normalize: tuple[Probe, ...]
    domains: tuple[Probe, ...]
    steps: tuple[Probe, ...]
    timeouts: tuple[Probe, ...]
    failing: tuple[Probe, ...]
    eligible: tuple[Probe, ...]
    victims: tuple[Probe, ...]
    units: tuple[Probe, ...]
    node_order: tuple[Probe, ...]
    device_variables: tuple[Probe, ...]
    device_filter: tuple[Probe, ...]
    device_score: tuple[Probe, ...]
    evict: tuple[Probe, ...]

    @property
    def rates_devices(self) -> bool:
        """Whether there are rules over devices."""
        return bool(self.device_filter or self.device_score)

    def __iter__(self) -> Iterator[Probe]:
        """Yield all probes, those within others too."""
        stack = [probe for section in fields(self) for probe in getattr(self, section.name)]
        while stack:
            probe = stack.pop()
            yield probe
            stack += (*probe.inner, *probe.if_true, *probe.if_false)


class _Prober:
    """Makes the probes of one checked policy."""

    def __init__(self, policy: CheckedPolicy) -> None:
        self._policy = policy
        self._globals = tuple((name, checked.core) for name, checked in policy.variables)
        self._variables = {f"variables.{name}": core for name, core in self._globals}

    def rule(self, checked: Checked, criterion: CoverageCriterion = "both") -> Probe:
        """Return the probe of a whole rule."""
        return self._probe(checked.core, _beginning(checked), criterion, is_rule=True)

    def within(self, checked: Checked) -> tuple[Probe, ...]:
        """Return the probes of the conditions in an expression that is no rule itself."""
        at = _beginning(checked)
        if checked.core.type == types.BOOL:
            return (self._probe(checked.core, at, "both"),)
        return self._inner(checked.core, at)

    def _probe(
        self, core: ast.Core, at: _Reached, criterion: CoverageCriterion, *, is_rule: bool = False
    ) -> Probe:
        expression = self._compiled(core)
        if expression is not None and criterion == "values" and expression.reads == Reads():
            criterion = "values" if self.reads(core, _OF_THE_MOMENT) else "once"
        location = self._location(core, at, is_rule=is_rule)
        return Probe(location, criterion, expression, self._inner(core, at))

    def reads(self, core: ast.Core, names: frozenset[str]) -> bool:
        """Return whether an expression reads one of some variables, itself or by a variable."""
        if isinstance(core, ast.Var):
            inner = self._variables.get(core.name)
            return core.name in names or (inner is not None and self.reads(inner, names))
        return any(self.reads(child, names) for child in children(core))

    def _location(self, core: ast.Core, at: _Reached, *, is_rule: bool = False) -> SourceLocation:
        text = at.text
        start, end = (0, len(text.text)) if is_rule else (core.span.start, core.span.end)
        line, column, _ = text.position(start)
        shown = " ".join(text.text[start:end].split())
        return SourceLocation(
            _shown_file(text.file), line, column, self._policy.name, at.path, is_rule, shown
        )

    def _compiled(self, core: ast.Core) -> Expression | None:
        policy = self._policy
        try:
            return compile_expression(
                core,
                policy.params,
                policy.params_type,
                policy.functions,
                self._globals,
                policy.inputs,
            )
        except Refusal:
            return None

    def _inner(self, core: ast.Core, at: _Reached) -> tuple[Probe, ...]:
        """Return the probes of the conditions below a tree, in evaluation order."""
        match core:
            case ast.Cond(test=test, then=then, otherwise=otherwise):
                true = self._inner(then, at.after(test))
                false = self._inner(otherwise, at.after(negated(test)))
                return self._condition(test, at, true, false)
            case ast.And(args=args):
                return self._chain(args, at, all_true=True)
            case ast.Or(args=args):
                return self._chain(args, at, all_true=False)
            case ast.Let(value=value, body=body):
                return (*self._inner(value, at), *self._inner(body, at.in_let(core)))
            case ast.Macro(operand=operand):
                return (*self._inner(operand, at), *self._looped(core, at.in_macro(core)))
        return tuple(probe for child in children(core) for probe in self._inner(child, at))

    def _looped(self, core: ast.Macro, at: _Reached) -> Iterator[Probe]:
        """Yield the probes of the conditions that read the elements of a list."""
        if core.kind in _OPTIONAL:
            return
        if core.test is not None:
            yield from self._condition(core.test, at)
            at = at.after(core.test)
        if core.body is not None:
            yield from self._inner(core.body, at)

    def _condition(
        self,
        core: ast.Core,
        at: _Reached,
        if_true: tuple[Probe, ...] = (),
        if_false: tuple[Probe, ...] = (),
    ) -> tuple[Probe, ...]:
        """Return the probe of a condition, and of those that are reached through its value."""
        if at.quantify is None:
            return (replace(self._probe(core, at, "both"), if_true=if_true, if_false=if_false),)
        probes = (*self._inner(core, at), *if_true, *if_false)
        if isinstance(core, ast.Const):
            return probes
        true, false = (self._compiled(at.quantify(each)) for each in (core, negated(core)))
        if true is None or false is None:
            return probes
        return (Probe(self._location(core, at), "both", true, opposite=false), *probes)

    def _chain(
        self, args: Sequence[ast.Core], at: _Reached, *, all_true: bool
    ) -> tuple[Probe, ...]:
        """Return the probe of the first operand; the next one is reached through its value."""
        if not args:
            return ()
        first = args[0]
        rest = self._chain(
            args[1:], at.after(first if all_true else negated(first)), all_true=all_true
        )
        return self._condition(first, at, *((rest, ()) if all_true else ((), rest)))


def _beginning(checked: Checked) -> _Reached:
    return _Reached(checked.text, checked.text.path.removesuffix(".expression"))


def probes_of(policy: CheckedPolicy, file: str) -> PolicyProbes:
    """Return the probes of a policy: of the rules that its own file holds.

    What its ``preemption`` section leaves open stands in the shipped policy, and is no rule of it.

    Scores of placements have none, nor has what a scenario has no occasion for: requeue hints.
    """
    prober = _Prober(policy)

    def rules(
        checked_rules: Sequence[Checked], criterion: CoverageCriterion = "both"
    ) -> tuple[Probe, ...]:
        return tuple(
            prober.rule(checked, criterion)
            for checked in checked_rules
            if checked.text.file == file
        )

    before, score, preemption = policy.pre_filter, policy.score, policy.preemption
    normalizer = score.normalize if score else None
    permit, placement = policy.permit, policy.placement
    vetoes: list[StepRule[Checked] | None] = [
        policy.reserve, policy.permit, policy.pre_bind, policy.bind,
    ]  # fmt: skip
    after, devices, evict = policy.post_bind, policy.devices, policy.evict
    of_devices = [
        checked for _, checked in policy.variables if prober.reads(checked.core, _OF_DEVICES)
    ]
    variables = [checked for _, checked in policy.variables if checked not in of_devices]
    return PolicyProbes(
        match=rules(policy.match_conditions),
        variables=tuple(p for checked in variables for p in prober.within(checked)),
        gates=rules([rule.expression for rule in policy.pre_enqueue]),
        order=rules([key.expression for key in policy.queue_sort], "values"),
        pre_filter=rules([rule.expression for rule in before.rules] if before else ()),
        narrowing=rules([before.node_names] if before and before.node_names else (), "values"),
        filter=rules([rule.expression for rule in policy.filter]),
        score_match=rules(score.match_conditions if score else ()),
        score=rules([score.expression] if score else (), "values"),
        normalize=rules([normalizer] if isinstance(normalizer, Checked) else (), "values"),
        domains=rules(placement.domain if placement else (), "values"),
        timeouts=rules([permit.timeout] if permit and permit.timeout else (), "values")
        + rules([permit.activate] if permit and permit.activate else ()),
        failing=rules([permit.reject] if permit and permit.reject else ())
        + rules([policy.post_filter.expression] if policy.post_filter else (), "once"),
        steps=rules([step.expression for step in vetoes if step])
        + rules([after.expression] if after else (), "once"),
        eligible=rules([preemption.eligible] if preemption else ()),
        victims=rules([preemption.victim] if preemption else ())
        + rules(
            [key.expression for key in preemption.victim_order] if preemption else (), "values"
        ),
        units=rules([preemption.unit] if preemption and preemption.unit else (), "values"),
        node_order=rules(
            [key.expression for key in preemption.node_order] if preemption else (), "values"
        ),
        device_variables=tuple(p for checked in of_devices for p in prober.within(checked)),
        device_filter=rules([rule.expression for rule in devices.filter] if devices else ()),
        device_score=rules([devices.score] if devices and devices.score else (), "values"),
        evict=rules([evict.victim] if evict else ())
        + rules([key.expression for key in evict.order] if evict else (), "values"),
    )


_OF_DEVICES: Final = frozenset({"device", "request"})
_OF_THE_MOMENT: Final = _OF_DEVICES | {"score", "scores", "victim", "victims", "pdbViolations"}
"""What is no part of an expression's reads: raw scores, victims, devices."""


def _shown_file(file: str) -> str:
    """Return one name for a file, however it was named: seen from here if it is below."""
    full = Path(file).resolve()
    here = Path.cwd()
    return str(full.relative_to(here) if full.is_relative_to(here) else full)


ERROR: Final = "error"
"""The value recorded for a rule that fails."""


@dataclass(frozen=True, slots=True)
class Fixture:
    """One pod at one moment, and the rows of the nodes that probes run on."""

    nodes: NodeTable
    pods: PodTable
    pod: PodInfo
    cycle: Activation | Case | DeviceCase
    rows: npt.NDArray[np.intp]


class ProbeRunner:
    """Runs probes over a fixture, and records by location the values seen, and `ERROR`."""

    def __init__(self, fixture: Fixture, seen: dict[SourceLocation, set[object]]) -> None:
        self._fixture = fixture
        self._seen = seen

    def run(self, probe: Probe, mask: Mask) -> Mask:
        """Run a probe over the rows of ``mask``; return where it is true.

        A probe that cannot run by itself counts as true.
        """
        values = self.values(probe.expression)
        if values is None:
            return mask
        if probe.opposite is not None:
            self._note_elements(probe, values, mask)
            return mask
        if probe.location is not None:
            seen = self._seen.setdefault(probe.location, set())
            seen.update(value for value, counts in zip(values, mask, strict=True) if counts)
        true = mask & np.array([value is True for value in values], np.bool_)
        false = mask & np.array([value is False for value in values], np.bool_)
        for inner in probe.inner:
            self.run(inner, mask)
        for inner in probe.if_true:
            self.run(inner, true)
        for inner in probe.if_false:
            self.run(inner, false)
        return true

    def run_all(self, probes: Sequence[Probe], mask: Mask) -> Mask:
        """Run probes one after the other, each where all before it are true."""
        for probe in probes:
            mask = self.run(probe, mask)
        return mask

    def _note_elements(self, probe: Probe, elements: Sequence[object], mask: Mask) -> None:
        """Record the values of a condition in a loop; ``found``: where it is true."""
        assert probe.location is not None, "a condition has a place"
        seen = self._seen.setdefault(probe.location, set())
        for passed, values in ((True, elements), (False, self.values(probe.opposite) or ())):
            found_values = {value for value, counts in zip(values, mask, strict=True) if counts}
            seen |= {
                passed if element is True else ERROR
                for element in found_values
                if element is not False
            }

    def values(self, expression: Expression | None) -> list[Any] | None:
        """Return a value per row, hashable, or `ERROR`; None if there is no expression."""
        fixture = self._fixture
        if expression is None:
            return None
        bound: BoundExpression = expression.bind(fixture.nodes, fixture.pods)
        if isinstance(fixture.cycle, Case | DeviceCase):
            case: Any = fixture.cycle
            pairs = [bound.scalar(fixture.pod, case, row) for row in fixture.rows.tolist()]
        elif expression.by_row:
            results, errors = bound.vector(fixture.pod, fixture.cycle, fixture.rows)
            pairs = list(zip(results, errors, strict=True))
        else:
            pairs = [bound.scalar(fixture.pod, fixture.cycle, 0)] * len(fixture.rows)
        return [ERROR if error else _plain(value) for value, error in pairs]


def _plain(value: Any) -> object:
    """Return a value that can be in a set and is equal where the rule's value is equal."""
    if isinstance(value, Some):
        return _plain(value.value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple | set | frozenset):
        return tuple(sorted(str(item) for item in value))
    return value if isinstance(value, bool | int | float | str) else repr(value)
