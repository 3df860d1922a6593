"""Results of an evaluation: the plugin that rejected each row, and the scores of the others.

Theory of operation. Results are immutable to everything but the Evaluator, which owns the arrays
and updates them in place; other code reads them through views that cannot be written to. So a
result that pods share is valid until the node table changes. There are three kinds of copies:

- ``restricted`` has other feasible rows or totals (a sample, an extender's response, one row);
- ``snapshot`` is not affected by later changes of the table;
- ``summary`` is a snapshot of the feasible rows and of one row's scores, a fraction of its size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Final, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from policy_sched import framework
from policy_sched.errors import PluginError
from policy_sched.framework.evaluate.filter_dry_run import FilterDryRun
from policy_sched.framework.evaluate.pod_signature import Key
from policy_sched.framework.evaluate.ranking import Ranking
from policy_sched.framework.runtime import Hook, Hooks, Parts, Runner, broken

FEASIBLE: Final = 0
NO_NODE: Final = -1
OUTSIDE: Final = -2
NOT_ASKED: Final = -3
"""Values of `first`: the row is feasible, is no live node, no PreFilter plugin named it, or it
was left out after the plugins: enough others were found before, or an extender rejected it.

Positive values are one more than the index of the filter plugin that rejected the row.
"""
_NO_SCORES: Final = np.empty(0, np.int64)
MAX_NODE_SCORE: Final = 100
#: Total of a row on which the pod cannot run, where extenders may make a total negative.
NOWHERE: Final = -(2**63)

Explained: TypeAlias = Iterable[
    tuple[NDArray[np.intp], Sequence[framework.Status]] | tuple[NDArray[np.bool_], framework.Status]
]
"""See `Groups`."""
Override: TypeAlias = tuple[int, framework.Status]
"""Another rejection of a row than the plugins': the number of a plugin, or NOT_ASKED, and why."""


class Explanations(msgspec.Struct, eq=False):
    """Statuses of rejected rows [0, n), kept between attempts: words cost more than codes.

    ``known``: what was explained so far, None if nothing was.
    """

    _n: int
    _table: framework.StatusTable | None = None
    known: framework.Rejections | None = None
    _stale: set[int] = msgspec.field(default_factory=set)

    def clone(self, changed: Iterable[int]) -> Explanations:
        """Return a copy in which the ``changed`` rows are explained anew."""
        clone = Explanations(self._n, self._table)
        clone.known = self.known
        if self.known is not None:
            clone._stale = self._stale.union(changed)
        return clone

    def forget(self, rows: Sequence[int] | None = None) -> None:
        """Explain these rows anew, or all."""
        if rows is None:
            self.known = None
            self._stale.clear()
        elif self.known is not None:
            self._stale.update(rows)

    def of(
        self, explain: Callable[[NDArray[np.intp]], Explained], overrides: Mapping[int, Override]
    ) -> framework.Rejections:
        """Return the statuses; ``explain`` finds those of ascending rows, also the overridden."""
        if self._table is None:
            self._table = framework.StatusTable()
        if self.known is None:
            groups = list(explain(np.arange(self._n)))
            self.known = framework.Rejections.grouped(self._n, groups, self._table)
        elif self._stale:
            others = {row: overrides[row][1] for row in self._stale if row in overrides}
            rows = sorted(self._stale.difference(others))
            groups = list(explain(np.array(rows, np.intp))) if rows else []
            self.known = self.known.with_rows(rows, groups, others)
        self._stale.clear()
        return self.known


class FilteredNodes(msgspec.Struct, frozen=True, eq=False):
    """The results of the filter plugins for one pod over all rows [0, n) of the node table.

    ``first``: int16, shape (n,), the plugin that rejected the row, with nominated pods and
    extenders; ``by_plugins`` is the same without them, and ``overrides`` the difference.
    ``codes[i]`` is plugin i's own result (None: every row passes), ``describes[i]`` explains it,
    and ``fatal[i]`` are its codes of rows on which it broke, and whether
    the error names the node. ``rejection``: why the whole pod was
    rejected before any node was looked at, or None. ``skipped``: the plugins that PreFilter left
    out; ``narrowing``: those that named nodes. ``hooks``: the plugins of every point that have
    anything to do with the pod. ``extended``: whether extenders rejected rows. ``key``: the
    signature of the pods that get this result, None where only this one does.
    """

    first: framework.Codes
    by_plugins: framework.Codes
    plugins: tuple[Hook, ...]
    codes: Sequence[framework.Codes | None]
    describes: Sequence[framework.Describe]
    fatal: Mapping[int, tuple[frozenset[int], bool]]
    overrides: Mapping[int, Override]
    filters: FilterDryRun
    names: Sequence[str]
    explanations: Explanations
    rejection: framework.Status | None = None
    skipped: frozenset[str] = frozenset()
    narrowing: tuple[str, ...] = ()
    hooks: Hooks = msgspec.field(default_factory=dict)
    extended: bool = False
    key: Key | None = None

    @property
    def filter_dry_run(self) -> FilterDryRun:
        """The filters that took part, to run them again on hypothetical pods."""
        return self.filters.for_signature(self.key)

    @property
    def narrowed_by(self) -> tuple[str, ...]:
        """The PreFilter plugins that left only some nodes to look at; EXTENDER if extenders did."""
        return (*self.narrowing, framework.EXTENDER) if self.extended else self.narrowing

    def any_feasible(self) -> bool:
        """Return whether the pod can run anywhere."""
        return not bool(self.first.all())

    def feasible_rows(self) -> NDArray[np.intp]:
        """Return the rows on which the pod can run, ascending, shape (k,)."""
        return np.flatnonzero(self.first == FEASIBLE)

    def failure(self, runner: Runner) -> PluginError | None:
        """Return what ends the attempt: a plugin that broke on a row that no other had rejected."""
        for index, (fatal, names_node) in self.fatal.items():
            codes = self.codes[index]
            if codes is None:
                continue
            where = (self.by_plugins == index + 1) & np.isin(codes, list(fatal))
            for place, (number, _) in self.overrides.items():
                # With the nominated pods, which upstream tries first, an earlier plugin rejects it.
                where[place] &= not FEASIBLE < number <= index
            if where.any():
                row = np.flatnonzero(where)[:1]
                (status,) = self.describes[index](row, codes[row])
                hook = self.plugins[index]
                runner.count_failure("filter", hook)
                text = status.message()
                if names_node:
                    text = f"{text} (node {self.names[row.item()]})"
                return PluginError(broken("filter", hook.plugin, text))
        return None

    def statuses(self) -> framework.Rejections:
        """Return why rows were rejected; feasible and dead rows are left out."""
        return self.explanations.of(self._explain, self.overrides)

    def _explain(self, wanted: NDArray[np.intp]) -> Explained:
        overrides = self.overrides
        if overrides:
            late = np.array([row in overrides for row in wanted.tolist()], np.bool_)
            if late.any():
                yield wanted[late], [overrides[row][1] for row in wanted[late].tolist()]
                wanted = wanted[~late]
                if not wanted.size:
                    return
        everywhere = wanted.size == self.by_plugins.size
        firsts = self.by_plugins if everywhere else self.by_plugins[wanted]
        rejecting = [i + 1 for i, codes in enumerate(self.codes) if codes is not None]
        for value in (OUTSIDE, *rejecting):
            mask = firsts == value
            if everywhere and value != OUTSIDE:
                masked = self._explain_masked(value - 1, mask)
                if masked is not None:
                    yield from masked
                    continue
            group = mask.nonzero()[0]
            if not group.size:
                continue
            if not everywhere:
                group = wanted[group]
            if value == OUTSIDE:
                yield group, [self._outside()] * group.size
            else:
                codes = self.codes[value - 1]
                assert codes is not None, "the plugin rejected these rows"
                found = self.describes[value - 1](group, codes[group])
                yield group, _attributed(found, self.plugins[value - 1].plugin)

    def _explain_masked(self, index: int, mask: NDArray[np.bool_]) -> framework.Masked | None:
        """Return why a plugin rejected rows, flags over all rows; None if it is too much."""
        describe, codes = self.describes[index], self.codes[index]
        if not isinstance(describe, framework.DescribeMasked) or codes is None:
            return None
        if not np.count_nonzero(mask):
            return ()
        masked, plugin = describe.masked(mask, codes), self.plugins[index].plugin
        return None if masked is None else [(own, status.by(plugin)) for own, status in masked]

    def _outside(self) -> framework.Status:
        if self.rejection is not None:
            return self.rejection
        text = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted({*self.narrowing}))}]"
        return framework.Status(framework.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))

    def restricted(
        self,
        first: framework.Codes,
        by_plugins: framework.Codes | None = None,
        *,
        overrides: Mapping[int, Override],
        explanations: Explanations | None = None,
        extended: bool = False,
    ) -> FilteredNodes:
        """Return a copy with other feasible rows.

        ``explanations``: what is known of them, if anything.
        """
        return replace(
            self,
            first=first,
            by_plugins=first if by_plugins is None else by_plugins,
            overrides=overrides,
            explanations=Explanations(len(first)) if explanations is None else explanations,
            extended=self.extended or extended,
        )

    def snapshot(self) -> FilteredNodes:
        """Return a copy that shares no arrays."""
        return replace(
            self,
            first=self.first.copy(),
            by_plugins=self.by_plugins.copy(),
            codes=[None if codes is None else codes.copy() for codes in self.codes],
            describes=list(self.describes),
            fatal=dict(self.fatal),
            overrides=dict(self.overrides),
            explanations=Explanations(len(self.first)),
        )

    def summary(self) -> FilteredNodes:
        """Return a copy of the feasible rows, without the reasons of the others."""
        first = self.first.copy()
        return self.restricted(first, overrides=dict(self.overrides))


class ScorePlugin(msgspec.Struct, frozen=True, eq=False):
    """What is known of a score plugin.

    ``proved``: scores are within 0..100. ``by_row``: normalisation reads more than the scores;
    ``by_extremes``: no more of all scores than the least and the greatest. ``metered``: the rule
    runs loops row by row, so only feasible rows are worth it.
    """

    hook: Hook
    normalizer: Hook | None
    scope: framework.Scope
    proved: bool = False
    by_row: bool = False
    by_extremes: bool = False
    metered: bool = False

    @staticmethod
    def of(hook: Hook, normalizer: Hook | None, runner: Runner) -> ScorePlugin:
        """Return what a pipeline knows of a plugin."""
        signature = runner.pipeline.signatures.get(hook.plugin)
        if signature is None:
            return ScorePlugin(hook, normalizer, framework.Scope.VOLATILE)
        kernel = signature.kernel
        return ScorePlugin(
            hook,
            normalizer,
            signature.scope,
            signature.proved,
            kernel.normalizes_by_row,
            kernel.normalizes_by_extremes,
            kernel.score is not None and kernel.score.limited is not None,
        )


class PluginScores:
    """One score plugin's scores, shape (n,): int64, or raw float64 that is normalised.

    ``part`` is the plugin's part of the total, None where it is ``raw`` times the weight. ``raw``
    may be ``shared``: then it is copied before it is changed. Only feasible rows are meaningful,
    or all live ones where it is ``whole``. ``normalized``: what normalisation returned for the
    feasible rows. ``extremes``: their lowest and their highest raw score, and ``extreme_rows`` a
    row that has each; None: not known yet. ``known_flat``: see `flat`; None: not looked at yet.
    ``grouped``: what ``raw`` and ``part`` are made of when they are first read after `group`;
    ``made``: whether one of them was.
    """

    __slots__ = (
        "extreme_rows",
        "extremes",
        "facts",
        "grouped",
        "hook",
        "known_flat",
        "made",
        "normalized",
        "part",
        "raw",
        "shared",
        "whole",
    )

    def __init__(self, facts: ScorePlugin) -> None:
        self.facts = facts
        self.hook = facts.hook
        self.grouped: framework.GroupedScores | None = None
        self.made = True
        self.extremes: tuple[float, float] | None = None
        self.extreme_rows: tuple[int, int] | None = None
        self.known_flat: bool | None = None
        self.normalized: framework.Scores | None = None
        self.raw: framework.RawScores = _NO_SCORES
        self.part: framework.Scores | None = None
        self.shared = False
        self.whole = False

    def group(self, grouped: framework.GroupedScores) -> None:
        """Note that the scores are those of groups, until arrays are written again."""
        if self.made or self.grouped is not grouped:
            for name in ("raw", "part"):
                if hasattr(self, name):
                    delattr(self, name)
            self.normalized = self.extremes = self.extreme_rows = None
            self.shared = self.made = False
            self.grouped = grouped

    def ungroup(self, first: framework.Codes) -> None:
        """Write the arrays, which change on their own from now on; see `group`."""
        if self.grouped is not None:
            part = self.part
            assert part is not None, "groups have normalised scores"
            part[first != FEASIBLE] = 0  # groups without feasible rows have anything
            _ = self.raw
            self.grouped = None

    def __getattr__(self, name: str) -> framework.Scores:
        """Return the raw scores, or the part, made of those of groups."""
        if name not in ("raw", "part") or self.grouped is None:
            raise AttributeError(name=name, obj=self)
        groups, self.made = self.grouped.groups, True
        if name == "raw":
            self.raw = np.array(self.grouped.raw, np.int64)[groups]
            return self.raw
        self.part = part = np.array(self.grouped.normalized, np.int64)[groups] * self.hook.weight
        return part

    def weighted(self) -> framework.Scores:
        """Return the plugin's part of the total, row by row."""
        if self.part is not None:
            return self.part
        return self.raw if self.hook.weight == 1 else self.raw * self.hook.weight

    def weighted_at(self, rows: NDArray[np.intp]) -> framework.Scores:
        """Return the plugin's part of the total in some rows."""
        if not self.made and self.grouped is not None:
            normalized = np.array(self.grouped.normalized, np.int64) * self.hook.weight
            return normalized[self.grouped.groups[rows]]
        if self.part is not None:
            return self.part[rows]
        return self.raw[rows] * self.hook.weight

    @property
    def flat(self) -> bool:
        """Whether all rows have one raw score, for good, which alone decides the normalised one."""
        if self.known_flat is None:
            raw, facts = self.raw, self.facts
            fixed = facts.scope is framework.Scope.STATIC and facts.by_extremes and self.whole
            self.known_flat = fixed and bool(raw.size and (raw == raw[0]).all())
        return self.known_flat

    def is_between(self, rows: NDArray[np.intp], first: framework.Codes) -> bool:
        """Return whether the other nodes' parts stay the same if these feasible rows are shut.

        They may be shut already.
        """
        if not self.facts.by_extremes:
            return False
        if self.flat:
            return True
        raw = self.raw
        if self.extremes is None:
            feasible = raw[first == FEASIBLE]
            self.extremes = feasible.min().item(), feasible.max().item()
        low, high = self.extremes
        scores = raw[rows]
        if low == high:
            return bool((scores == low).all())
        return bool(((low < scores) & (scores < high)).all())

    def snapshot(self) -> PluginScores:
        """Return a copy-on-write copy."""
        _ = self.raw, self.part  # written before ``made`` is copied
        self.shared = True
        return copy(self)


class Scoring(msgspec.Struct, frozen=True, eq=False):
    """The scores of one pod over all rows [0, n).

    ``total``: int64, shape (n,), the sum of weighted scores, below all others where not feasible.
    ``skipped``: the plugins that PreScore left out; None if no plugin ran, as there was no choice.
    ``shares``: scores of extenders, by name. ``note``: in a summary, one row's part of the total
    by plugin. ``ranking``: the rows by ``total``, where that is the array that the Evaluator
    updates; no copy has it. ``only``: the single feasible row, where none was scored.
    """

    total: framework.Scores
    plugins: tuple[PluginScores, ...] = ()
    skipped: frozenset[str] | None = None
    shares: Mapping[str, framework.Scores] = msgspec.field(default_factory=dict)
    note: Mapping[str, int] | None = None
    ranking: Ranking | None = None
    only: int | None = None

    @staticmethod
    def of_one(row: int, n: int) -> Scoring:
        """Return the result for a single feasible row, which is not scored."""
        total = np.full(n, -1, np.int64)
        total[row] = 0
        return Scoring(total, only=row)

    def weighted(self, rows: NDArray[np.intp]) -> dict[str, list[int]]:
        """Return each plugin's normalised and weighted score of `rows`, by plugin."""
        if self.note is not None:
            plugins = {plugin: [part] * rows.size for plugin, part in self.note.items()}
        else:
            plugins = {one.hook.plugin: one.weighted_at(rows).tolist() for one in self.plugins}
        return plugins | {name: share[rows].tolist() for name, share in self.shares.items()}

    def shares_of(self, row: int) -> dict[str, int]:
        """Return each plugin's normalised and weighted score of one row, as `weighted` does."""
        if self.note is not None:
            found = dict(self.note)
        else:
            found = {}
            for one in self.plugins:
                part = one.part
                found[one.hook.plugin] = (
                    one.raw.item(row) * one.hook.weight if part is None else part.item(row)
                )
        for name, share in self.shares.items():
            found[name] = share.item(row)
        return found

    def raw(self, rows: NDArray[np.intp]) -> dict[str, list[float]]:
        """Return each plugin's raw scores of some rows."""
        return {one.hook.plugin: one.raw[rows].tolist() for one in self.plugins}

    def restricted(self, row: int) -> Scoring:
        """Return a copy in which only one row was scored."""
        total = np.full(len(self.total), -1, np.int64)
        total[row] = self.total[row]
        return replace(self, total=total, ranking=None)

    def snapshot(self) -> Scoring:
        """Return a copy that later changes do not affect."""
        plugins = tuple([one.snapshot() for one in self.plugins])
        return replace(self, total=self.total.copy(), plugins=plugins, ranking=None)

    def summary(self, row: int) -> Scoring:
        """Return a copy of one row's scores by plugin."""
        rows = np.array([row], np.intp)
        note = {one.hook.plugin: one.weighted_at(rows).item(0) for one in self.plugins}
        return replace(self.restricted(row), plugins=(), note=note)


class Evaluation(msgspec.Struct, frozen=True, eq=False):
    """The results of a profile's plugins for one pod on every node.

    ``state``: what plugins wrote into the cycle state. ``scoring`` is None where no node is
    feasible, or where plugins failed to score several, which is ``broken`` then.
    """

    state: framework.CycleState
    filtering: FilteredNodes
    scoring: Scoring | None = None
    broken: PluginError | None = None

    @property
    def rejection(self) -> framework.Status | None:
        """Why the whole pod was rejected before any node was looked at."""
        return self.filtering.rejection

    @property
    def parts(self) -> Parts:
        """The plugins that took no part in it."""
        filtering, scoring = self.filtering, self.scoring
        rejected = "" if filtering.rejection is None else filtering.rejection.plugin
        return filtering.skipped, rejected, None if scoring is None else scoring.skipped

    def best(self) -> NDArray[np.intp]:
        """Return the rows with the highest total, ascending; empty if no node is feasible."""
        if self.scoring is None:
            return np.empty(0, np.intp)
        total = self.scoring.total
        rows: NDArray[np.intp] = (total == np.maximum.reduce(total)).nonzero()[0]
        return rows

    def snapshot(self) -> Evaluation:
        """Return a copy that later changes of the table do not affect."""
        scoring = None if self.scoring is None else self.scoring.snapshot()
        return Evaluation(self.state.clone(), self.filtering.snapshot(), scoring, self.broken)

    def summary(self, row: int) -> Evaluation:
        """Return a small copy of one row's result that later changes do not affect."""
        scoring = None if self.scoring is None else self.scoring.summary(row)
        return Evaluation(self.state.clone(), self.filtering.summary(), scoring, self.broken)


def check_range(plugin: str, scores: framework.Scores) -> None:
    """Refuse scores outside 0..100, as upstream does after normalisation."""
    if not scores.size:
        return
    low, high = int(scores.min()), int(scores.max())
    if low < 0 or high > MAX_NODE_SCORE:
        wrong = low if low < 0 else high
        raise PluginError(
            f'applying score defaultWeights on Score plugins: plugin "{plugin}" returns an invalid '
            f"score {wrong}, it should in the range of [0, {MAX_NODE_SCORE}] after normalizing"
        )


def _attributed(statuses: Sequence[framework.Status], plugin: str) -> Sequence[framework.Status]:
    """Return the statuses with the plugin's name; where two were one object, they still are."""
    if isinstance(statuses, framework.ByRow):
        return statuses.map(lambda status: status.by(plugin))
    distinct = {id(status): status for status in statuses}
    named = {key: status.by(plugin) for key, status in distinct.items()}
    return [named[id(status)] for status in statuses]
