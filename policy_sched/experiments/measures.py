"""Measures: values of a cluster while a run goes on, and of its pods at the end.

Theory of operation. A rule over node is compiled once, and its values are kept for each row of the
node table. At an event only the rows are evaluated that changed since the last one, and the values
are summed. So a measure costs no more than the decision that it measures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.tables import MAX_SUM, STRUCTURE, Changes, NodeTable, PodTable, Scope
from policy_sched.errors import PolicySchedError
from policy_sched.experiments.reading import MAX_POINTS, LoadedExperiment, rule_text
from policy_sched.experiments.variants import CompiledVariant
from policy_sched.language import Expression, compile_expression
from policy_sched.language.check import CheckedPolicy, check_beside, diagnostic
from policy_sched.language.diagnostics import PolicySource, Problem, Text
from policy_sched.language.lower import Refusal
from policy_sched.language.runtime import Activation
from policy_sched.language.values import one_evaluation
from policy_sched.model import Pod, PodInfo
from policy_sched.profiles import models
from policy_sched.profiles.load import LoadedPolicy, content_hash, policy_source

_NO_POD: Final = PodInfo.of(Pod())
_NO_CYCLE: Final = Activation()
_FEW: Final = 8
Rows = NDArray[np.intp]
Curve = dict[str, list[float]]
"""The column ``x`` and one for each measure, by name."""


@dataclass(frozen=True, slots=True)
class MeasureRules:
    """The compiled rules of a measure: a sum over nodes, and its divisor."""

    of: Expression
    per: Expression | None = None


def compiled_measures(
    loaded: LoadedExperiment, variant: CompiledVariant
) -> Mapping[str, MeasureRules]:
    """Return the rules of the measures by name, with the params that a variant has.

    What is wrong is added to the problems of the experiment.
    """
    rules: dict[str, MeasureRules] = {}
    for i, measure in enumerate(loaded.spec.measures):
        if measure.nodes is None and measure.measure is None:
            continue
        at: models.Path = ("spec", "measures", i)
        source = source_of(loaded, variant, measure.policy, (*at, "policy"))
        if source is None:
            continue
        text = _stated(loaded, source, measure.measure, at)
        if measure.nodes is not None:
            text = rule_text(loaded, (*at, "nodes"), measure.nodes)
        per = None
        if measure.percent_of is not None:
            divisor = rule_text(loaded, (*at, "percentOf"), measure.percent_of)
            per = compiled_rule(loaded, divisor, source)
        rule = None if text is None else compiled_rule(loaded, text, source)
        if rule is not None and (per is not None or measure.percent_of is None):
            rules[measure.name] = MeasureRules(rule, per)
    return rules


def source_of(
    loaded: LoadedExperiment, variant: CompiledVariant, name: str | None, at: models.Path
) -> PolicySource | None:
    """Return a policy of a variant, an empty one for no name; None if there is none of the name."""
    if name is None:
        return PolicySource("")
    source = variant.policies.get(name)
    if source is None:
        policies = sorted(variant.policies)
        hint = (
            models.did_you_mean(name, policies)
            or f"policies of {variant.name}: {', '.join(policies)}"
        )
        loaded.problem(at, models.BAD_VALUE, f"variant {variant.name} has no policy {name}", hint)
    return source


def _stated(
    loaded: LoadedExperiment, source: PolicySource, name: str | None, at: models.Path
) -> Text | None:
    if name is None:
        return None
    stated = {measure.name: measure.expression for measure in source.measures}
    if name not in stated:
        names = f"measures: {', '.join(stated)}" if stated else "it states none"
        hint = models.did_you_mean(name, stated) or names
        message = f"policy {source.name} states no measure {name}"
        loaded.problem((*at, "measure"), models.BAD_VALUE, message, hint)
    return stated.get(name)


def compiled_rule(
    loaded: LoadedExperiment, text: Text, source: PolicySource, section: str = "measures"
) -> Expression | None:
    """Return a rule beside a policy's definitions, None if something is wrong with it.

    Measures and variants with the same rule and the same policy share it.
    """
    key = section, text.text, content_hash(source)
    if key not in loaded.rules:
        loaded.rules[key] = _compiled_rule(loaded, text, source, section)
    return loaded.rules[key]


def _compiled_rule(
    loaded: LoadedExperiment, text: Text, source: PolicySource, section: str
) -> Expression | None:
    policy, problems = check_beside(text, section, source)
    loaded.diagnostics += [problem for problem in problems if problem not in loaded.diagnostics]
    if policy is None:
        return None
    try:
        return _only_rule(policy)
    except Refusal as refusal:
        span = refusal.span
        problem = Problem(span.start, span.end, refusal.code, refusal.message, refusal.hint)
        as_diagnostic = diagnostic(problem, policy.match_conditions[0].text)
        loaded.diagnostics += [] if as_diagnostic in loaded.diagnostics else [as_diagnostic]
        return None


def stated_measures(policies: Iterable[LoadedPolicy]) -> dict[str, MeasureRules]:
    """Return the rules of the measures that policies state, by policy and name.

    One that does not fit is left out: `check` says what is wrong with it.
    """
    rules: dict[str, MeasureRules] = {}
    for policy in policies:
        source = policy_source(policy)
        for stated in source.measures:
            rule = _rule_of(stated.expression, source)
            if rule is not None:
                rules[f"{policy.name}: {stated.name}"] = MeasureRules(rule)
    return rules


def _rule_of(text: Text, source: PolicySource) -> Expression | None:
    policy, _ = check_beside(text, "measures", source)
    with suppress(Refusal):
        return None if policy is None else _only_rule(policy)
    return None


def _only_rule(policy: CheckedPolicy) -> Expression:
    """Return the rule that is checked beside a policy's definitions. Raises Refusal."""
    (checked,) = policy.match_conditions
    variables = [(name, variable.core) for name, variable in policy.variables]
    given = (policy.params, policy.params_type, policy.functions, variables)
    with one_evaluation():
        return compile_expression(checked.core, *given)


class Recent:
    """The changes of a table since a version, computed once for all readers of that version."""

    def __init__(self, table: NodeTable) -> None:
        self._journal = table.journal
        self._span = -1, -1
        self._changes: Changes | None = None

    def since(self, version: int) -> Changes | None:
        """Return what changed; None if the journal is too short."""
        span = version, self._journal.version
        if span != self._span:
            self._span, self._changes = span, self._journal.since(version)
        return self._changes


class SumOverNodes:
    """The sum of a rule's values over the nodes of a table, kept up to date.

    Raises PolicySchedError if the rule fails on a node.
    """

    def __init__(
        self, name: str, rule: Expression, table: NodeTable, pods: PodTable, recent: Recent
    ) -> None:
        self._name = name
        self._recent = recent
        self._rule = rule
        self._table = table
        self._bound = rule.bind(table, pods)
        self._static = rule.reads.scope is Scope.STATIC
        self._values = np.zeros(0, np.float64)
        self._version = -1
        self._sum = 0.0

    def __call__(self) -> float:
        """Return the sum now."""
        journal = self._table.journal
        version = journal.static_version if self._static else journal.version
        if version == self._version:
            return self._sum
        changes = None if self._version < 0 else self._recent.since(self._version)
        self._version = version
        if changes is None or changes.kind & STRUCTURE:
            self._refill()
        elif len(changes.rows) <= _FEW:
            names, values, scalar = self._table.names, self._values, self._bound.scalar
            for row in changes.rows:
                if names[row]:
                    value, error = scalar(_NO_POD, _NO_CYCLE, row)
                    if error:
                        raise self._failed(row, error)
                    values[row] = value
        else:
            rows = np.array([row for row in changes.rows if self._table.names[row]], np.intp)
            self._values[rows] = self._many(rows)
        self._sum = float(np.add.reduce(self._values))
        return self._sum

    def _refill(self) -> None:
        rows = np.array(sorted(self._table.row_of.values()), np.intp)
        self._values = np.zeros(self._table.n, np.float64)
        if rows.size:
            self._values[rows] = self._many(rows)

    def _many(self, rows: Rows) -> NDArray[np.float64]:
        values, errors = self._bound.vector(_NO_POD, _NO_CYCLE, rows)
        for row, error in zip(rows.tolist(), errors, strict=True):
            if error:
                raise self._failed(row, error)
        return np.array(values, np.float64)

    def _failed(self, row: int, error: int) -> PolicySchedError:
        node = self._table.names[row]
        return PolicySchedError(f"measure {self._name} has no value on node {node} (PS{error})")


def percent(part: float, whole: float) -> float:
    """Return a part in percent; 0 of nothing."""
    return 100.0 * part / whole if whole else 0.0


Level = Callable[[], float]
"""Returns a value of the cluster as it is now."""


class Sums:
    """The measures over the nodes of a table; those with the same rule share its sum."""

    def __init__(self, table: NodeTable, pods: PodTable) -> None:
        self._table, self._pods = table, pods
        self._made: dict[int, SumOverNodes] = {}
        self.recent = Recent(table)

    def level(self, name: str, rules: MeasureRules) -> Level:
        """Return the value of a measure over nodes."""
        part = self._sum(name, rules.of)
        if rules.per is None:
            return part
        whole = self._sum(name, rules.per)
        return lambda: percent(part(), whole())

    def _sum(self, name: str, rule: Expression) -> SumOverNodes:
        total = self._made.get(id(rule))
        if total is None:
            total = SumOverNodes(name, rule, self._table, self._pods, self.recent)
            self._made[id(rule)] = total
        return total


class Requested:
    """The sum of what pods request of a resource over the nodes of a table, kept up to date.

    It is no further from zero than MAX_SUM, as `NodeTable.total_requested` is.
    """

    def __init__(self, resource: str, table: NodeTable, recent: Recent) -> None:
        self._table = table
        self._recent = recent
        self._column = table.column(("requested", resource))
        self._values: list[int] = []
        self._version = -1
        self._sum = 0

    def __call__(self) -> int:
        """Return the sum now."""
        version = self._table.journal.version
        if version != self._version:
            changes = None if self._version < 0 else self._recent.since(self._version)
            self._version = version
            view, values = self._column.view, self._values
            if changes is None or changes.kind & STRUCTURE:
                self._values = view.tolist()
                self._sum = sum(self._values)
            else:
                for row in changes.rows:
                    now = view[row]
                    self._sum += now - values[row]
                    values[row] = now
        return min(max(self._sum, -MAX_SUM), MAX_SUM)


def of_allocation(resource: str, table: NodeTable, recent: Recent) -> Level:
    """Return what pods request of a resource, in percent of what nodes have."""
    requested = Requested(resource, table, recent)
    return lambda: percent(requested(), table.total_allocatable(resource))


def rounded(level: Level, decimals: int) -> Level:
    """Return a level whose values are rounded to so many digits behind the point."""
    return lambda: round(level(), decimals)


def with_rounded_points(curve: Curve, measures: Sequence[models.Measure]) -> Curve:
    """Return a curve whose points have the digits that measures ask for, rounded as NumPy does."""
    for stated in measures:
        if stated.point_decimals is not None and stated.name in curve:
            curve[stated.name] = np.round(curve[stated.name], stated.point_decimals).tolist()
    return curve


@dataclass(slots=True)
class Series:
    """The values of measures at the events of a run."""

    names: tuple[str, ...]
    times: list[int]
    """Nanoseconds, for virtual time."""
    x: list[float]
    """The position of each event on the curve's axis."""
    values: list[list[float]]

    @classmethod
    def of(cls, names: Sequence[str]) -> Series:
        """Return a series without events."""
        return cls(tuple(names), [], [], [[] for _ in names])

    def note(self, time: int, x: float, values: Iterator[float]) -> None:
        """Add an event; of several events at one time the last one counts."""
        if self.times and self.times[-1] == time and time >= 0:
            self.x[-1] = x
            for column, value in zip(self.values, values, strict=True):
                column[-1] = value
            return
        self.times.append(time)
        self.x.append(x)
        for column, value in zip(self.values, values, strict=True):
            column.append(value)

    def summary(self, index: int, how: str, end: int) -> float | None:
        """Return what stands for the run: Last, Mean, Max, or Integral (over seconds).

        Raises PolicySchedError if a value is infinite or no number.
        """
        values = np.array(self.values[index], np.float64)
        if not values.size:
            return None
        finite = np.isfinite(values)
        if not finite.all():
            event = int(finite.argmin())
            what = f"measure {self.names[index]} is {values[event]:g} at event {event + 1}"
            raise PolicySchedError(f"{what}: a division by zero, or a number beyond doubles")
        if how == "Last":
            return float(values[-1])
        if how == "Max":
            return float(values.max())
        timed = self.times[-1] >= 0
        if not timed:
            return float(values.mean())
        seconds = np.diff(np.array([*self.times, max(end, self.times[-1])], np.int64)) / 1e9
        total, span = float((values * seconds).sum()), float(seconds.sum())
        if how == "Integral":
            return total
        return total / span if span else float(values[-1])

    def by_points(self, step: float, how: str) -> Curve:
        """Return the points of a curve: each event counts at the point that is nearest to it.

        The point is the same as that of Python's round: halves go to the even neighbour. What has
        arrived never becomes less, so the events of a point follow each other.
        """
        indexes = np.rint(np.array(self.x, np.float64) / step).astype(np.int64)
        points, first = np.unique(indexes, return_index=True)
        curve: Curve = {"x": [_plain(point * step) for point in points.tolist()]}
        for name, column in zip(self.names, self.values, strict=True):
            events = np.split(np.array(column, np.float64), first)[1:]
            curve[name] = [
                float(values[-1] if how == "Last" else values.mean()) for values in events
            ]
        return curve

    def by_time(self, start: int, end: int, step: int, how: str) -> Curve:
        """Return the points of a curve over time: hours since the start.

        Raises PolicySchedError if they are too many.
        """
        count = max(1, -(-(end - start) // step))
        if count > MAX_POINTS:
            raise PolicySchedError(f"{count:,} points of a curve are more than {MAX_POINTS:,}")
        edges = start + step * np.arange(count + 1, dtype=np.int64)
        edges[-1] = max(end, start + 1)
        times = np.array([start, *self.times], np.int64)
        curve: Curve = {"x": ((edges[:-1] - start) / 3.6e12).tolist()}
        for name, column in zip(self.names, self.values, strict=True):
            values = np.array([0.0, *column], np.float64)
            if how == "Last":
                at = np.searchsorted(times, edges[1:], side="left") - 1
                curve[name] = values[at].tolist()
                continue
            total = np.concatenate(([0.0], np.cumsum(values[:-1] * (np.diff(times) / 1e9))))
            first = np.searchsorted(times, edges, side="right") - 1
            until = total[first] + values[first] * ((edges - times[first]) / 1e9)
            curve[name] = (np.diff(until) / (np.diff(edges) / 1e9)).tolist()
        return curve


def _plain(value: float) -> float:
    return float(round(value, 9))


def of_times(seconds: Sequence[float], how: str) -> float | None:
    """Return Mean, Max or a percentile of lengths of time; None of none.

    A percentile is the shortest time that so many percent do not exceed.
    """
    if not seconds:
        return None
    ordered = sorted(seconds)
    if how == "Mean":
        return float(np.mean(ordered))
    if how == "Max":
        return ordered[-1]
    return ordered[-(-len(ordered) * int(how[1:]) // 100) - 1]
