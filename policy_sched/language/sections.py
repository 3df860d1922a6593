"""A compiled policy, section by section, and its units over a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from policy_sched.language.codegen import Functions, Program, VictimProgram
from policy_sched.language.ir import Reads, Site
from policy_sched.language.runtime import Activation, Runtime
from policy_sched.language.values import KINDS, Failure, Interval, LimitError
from policy_sched.model import PodInfo


@dataclass(frozen=True, slots=True)
class Root:
    """Where a section's program has one expression's value, and its error (None: cannot fail)."""

    value: int
    error: int | None
    zero: object = 0
    """The zero of the value's type."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Some expressions that one program computes together."""

    program: Program
    roots: tuple[Root, ...]
    reads: Reads
    sites: tuple[Site, ...]
    can_fail: bool
    passes_with_more_pods: bool = False
    """Whether adding a pod to a node may make a filter accept the node."""

    @property
    def units(self) -> float:
        """The cost per pod and node, without that of materialized columns."""
        return self.program.kept.units

    def words(self, site: int) -> str:
        """Return the message of an error, such as ``no such key 'zone'``."""
        found = self.sites[site]
        text = KINDS[found.kind].replace("_", " ")
        return f"{text} '{found.detail}'" if found.detail else text


@dataclass(frozen=True, slots=True)
class FilterRule:
    """What a filter rule reports about a node that it rejects.

    ``explain`` computes, of those that are not constant, first ``resolvable``, then the message (a
    string) or the reasons (a list of strings).
    """

    name: str
    message: str
    resolvable: bool | None
    explain: Unit | None
    listed: bool
    on_error: str


@dataclass(frozen=True, slots=True)
class GateRule:
    """A preEnqueue rule: its constant message, or the unit that computes one for gated pods."""

    name: str
    message: str
    unit: Unit
    on_error: str
    explain: Unit | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """The score rule: its unit, its normaliser by name or by unit, and its proved range.

    A node whose rule fails has the final score 0 and counts in no statistic, or, if it ``aborts``,
    ends the attempt, provided that the pod can run there. ``double``: raw scores are doubles, which
    only normalisation makes ints of.
    """

    unit: Unit
    range: Interval
    normalizer: str | None
    expression: Unit | None
    aborts: bool = False
    double: bool = False

    @property
    def marks_failures(self) -> bool:
        """Whether raw scores of nodes where the rule failed are distinguishable from others."""
        return self.aborts or self.normalizer is not None or self.expression is not None

    @property
    def normalizes_by_row(self) -> bool:
        """Whether the normaliser reads more than raw scores, or may end the attempt."""
        unit = self.expression
        return self.aborts or (unit is not None and unit.reads != Reads())


@dataclass(frozen=True, slots=True)
class Step:
    """A rule that runs after a node was chosen, for that node: ``reserve``, ``permit`` and so on.

    ``explain`` computes the message where it is not constant, ``timeout`` how long ``permit``
    lets a pod wait, in ns; without it the pod does not wait.
    """

    name: str
    unit: Unit
    message: str
    explain: Unit | None
    on_error: str
    timeout: Unit | None = None

    @property
    def reads(self) -> Reads:
        """What decides, the wording of the message included."""
        parts = (self.unit, self.explain, self.timeout)
        return reduce(or_, (part.reads for part in parts if part is not None))


@dataclass(frozen=True, slots=True)
class LifeCycle:
    """The rules that run after a node was chosen, and when a rejected pod is tried again.

    ``hint`` is evaluated for events, instead of the rules' reads. ``every`` is in ns; 0: never.
    """

    reserve: Step | None = None
    permit: Step | None = None
    pre_bind: Step | None = None
    bind: Step | None = None
    post_bind: Step | None = None
    hint: Unit | None = None
    every: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """One expression of ``preemption``: for one pod or node, and, where it can be, for many."""

    name: str
    unit: Unit
    victims: VictimProgram | None
    descending: bool = False


@dataclass(frozen=True, slots=True)
class PreemptionChoices:
    """The ``preemption`` section."""

    eligible: Choice
    victim: Choice
    victim_order: tuple[Choice, ...]
    node_order: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class PlacementRules:
    """The ``placement`` section; a domain is the code of a string."""

    domain: Unit | None
    score: Unit | None
    aborts: bool


@dataclass(frozen=True, slots=True)
class Sections:
    """The units of a policy, by section; what the policy has not is None or empty."""

    name: str = ""
    match: Unit | None = None
    score_match: Unit | None = None
    pre_enqueue: tuple[GateRule, ...] = ()
    queue_sort: Unit | None = None
    descending: tuple[bool, ...] = ()
    node_names: Unit | None = None
    pre_filter_message: str = ""
    filter: Unit | None = None
    rules: tuple[FilterRule, ...] = field(default=())
    score: Score | None = None
    life: LifeCycle = LifeCycle()
    preemption: PreemptionChoices | None = None
    placement: PlacementRules | None = None


Out = Sequence[Any] | Failure
"""The values and errors of one row, or why there are none."""


class BoundUnit:
    """A unit over a table."""

    __slots__ = ("functions", "scalar", "unit")

    scalar: Callable[[PodInfo | None, Any, int], Out]
    """Returns the values of one row, for `one`; a Failure where they take too much work."""

    def __init__(self, unit: Unit, runtime: Runtime) -> None:
        self.unit = unit
        self.functions: Functions = unit.program.bind(runtime)
        self.scalar = self._limited if unit.program.metered else self.functions.scalar

    def _limited(self, pod: PodInfo | None, cycle: Any, row: int) -> Out:
        try:
            return self.functions.scalar(pod, cycle, row)
        except LimitError as error:
            return Failure("exhausted", str(error))

    def one(self, root: Root, out: Out) -> Any:
        """Return a root's value, or the Failure in its place."""
        if isinstance(out, Failure):
            return out
        if root.error is not None and out[root.error]:
            site = int(out[root.error])
            return Failure(KINDS[self.unit.sites[site].kind], self.unit.words(site))
        return out[root.value]

    def answer(self, root: int, pod: PodInfo | None, cycle: Any, row: int) -> Any:
        """Return the value of the root of a number for one row, or the Failure in its place."""
        return self.one(self.unit.roots[root], self.scalar(pod, cycle, row))

    def vector(self, pod: PodInfo | None, cycle: Activation, rows: Any, n: int) -> Any:
        """Run the vector function over ``n`` rows: a slice, row numbers, or None for all rows.

        Arrays may be read-only; values of dead rows are undefined.
        """
        with np.errstate(all="ignore"):
            if rows is None:
                return self.functions.every_row(pod, cycle, n)
            return self.functions.vector(pod, cycle, rows, n)
