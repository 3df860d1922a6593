"""The rules of a profile's policies that read no more than a row, as one program.

`fuse_policies` makes the program where plans are compiled; `BoundFusedRules` is the program over
the tables of a cluster. The results are those that each policy's own functions give. Where one of
the rules fails on a row, or numbers are too great, the policies run one by one, which also tells
which one failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final, Literal, TypeAlias, TypeVar

import msgspec
import numpy as np

from policy_sched.cluster.tables import NodeView
from policy_sched.framework import (
    NO_KERNEL,
    PASSES,
    Codes,
    FilterResult,
    FirstRejection,
    Handle,
    NumberedFilters,
    RawScores,
    Rejection,
    RowFunctions,
    RowRule,
    Scope,
    Signature,
    Update,
)
from policy_sched.language import CompiledPolicy
from policy_sched.language.codegen import FusedProgram, FusedRule, RuleRoots, fuse
from policy_sched.language.runtime import Activation, Runtime
from policy_sched.model import PodInfo
from policy_sched.plugins.rules.bound_filter import BoundFilter
from policy_sched.plugins.rules.bound_score import BoundScore

MOST_OPERATIONS: Final = 5_000
"""Operations of a program; the rules beyond are called one by one."""
_INT64: Final = np.dtype(np.int64)

_Result = TypeVar("_Result")

Verdict: TypeAlias = Callable[[PodInfo, Codes], FilterResult]
"""From codes of all rows to the result that a policy's filter returns."""


def fuse_policies(
    policies: Mapping[str, CompiledPolicy],
    filters: Sequence[str],
    scores: Sequence[str],
    *,
    allocates: bool,
    most: int = MOST_OPERATIONS,
) -> FusedProgram:
    """Return the program of a profile.

    ``filters``, ``scores``: the plugins at these points, in the order of the profile.
    ``allocates``: rules that read what is allocated follow from more than a row. ``most``: of
    operations; plugins whose rules are beyond it, or in Python, are called between the others.
    """
    fused: list[FusedRule] = []
    scoring: list[FusedRule] = []
    places: dict[str, int] = {}
    left = most
    for names, rules, rule_of in ((filters, fused, _filter_rule), (scores, scoring, _score_rule)):
        for name in names:
            policy = policies.get(name)
            if policy is not None and not _by_row(policy, allocates=allocates):
                continue
            rule = None if policy is None else rule_of(policy)
            if rule is not None and len(rule.recording.rows) <= left:
                left -= len(rule.recording.rows)
                rules.append(rule)
            elif rules is fused:
                places[name] = len(rules)
    return fuse(fused, scoring, places)


def _by_row(policy: CompiledPolicy, *, allocates: bool) -> bool:
    """Return whether a policy's filter and score are functions of the pod and a row."""
    return policy.reads.scope is Scope.NODE and not (allocates and policy.reads_allocation)


def _filter_rule(policy: CompiledPolicy) -> FusedRule | None:
    unit = policy.sections.filter
    if unit is None or unit.recording is None or policy.keeps_rows:
        return None
    tests = [
        RuleRoots(root.value, root.error, rule.on_error == "Allow")
        for root, rule in zip(unit.roots, policy.sections.rules, strict=True)
    ]
    return FusedRule(policy.name, unit.recording, tuple(tests))


def _score_rule(policy: CompiledPolicy) -> FusedRule | None:
    score = policy.sections.score
    if score is None or score.double or score.unit.recording is None or policy.keeps_rows:
        return None
    (root,) = score.unit.roots
    return FusedRule(policy.name, score.unit.recording, (RuleRoots(root.value, root.error),))


class PolicyRules(msgspec.Struct, frozen=True):
    """The filter and the score of a policy, which make results of what the program computes."""

    filter: BoundFilter
    score: BoundScore | None
    verdict: Verdict


class BoundProgram:
    """A program over the tables of a cluster, and over their overlay."""

    def __init__(self, program: FusedProgram, handle: Handle) -> None:
        self.program = program
        self.functions = program.bind(Runtime(handle.nodes, handle.pods))
        self.overlay = handle.cache.overlay
        self.rejection = program.bind_row(Runtime(self.overlay, handle.pods))


class BoundFusedRules:
    """A bound program, with the plugins of a profile."""

    def __init__(
        self, bound: BoundProgram, signatures: Mapping[str, Signature], profile: str
    ) -> None:
        self.program = bound.program
        self._kernels = {name: signature.kernel for name, signature in signatures.items()}
        self._cycle = Activation(profile=profile)
        self._functions = bound.functions
        self._overlay = bound.overlay
        self._rejection = bound.rejection

    def filters(
        self, plugins: Sequence[str]
    ) -> Callable[[PodInfo], Mapping[str, FilterResult]] | None:
        """Return what filters all rows, by plugin; None if no filter is in the program."""
        active = self._active(self.program.filters_of_all_rows, plugins)
        compute = self._over_all_rows(self._functions.filters, active)
        filters = [
            (name, place, rules.filter, rules.verdict, rules.filter.only_value)
            for place, (name, rules) in enumerate(active)
            if rules is not None
        ]

        def run(pod: PodInfo) -> Mapping[str, FilterResult]:
            out, n = compute(pod)
            if out is None:
                return {}
            results = {}
            for name, place, rules, verdict, only in filters:
                values = out[place]
                holds = None if only is None else values[only]
                # The least of them takes a quarter of the time of all().
                if isinstance(holds, np.ndarray) and holds.ndim and holds.item(holds.argmin()):
                    results[name] = PASSES
                    continue
                codes = rules.codes_of(values, n)
                results[name] = PASSES if codes is None else verdict(pod, codes)
            return results

        return run if filters else None

    def scores(self, plugins: Sequence[str]) -> Callable[[PodInfo], Mapping[str, RawScores]] | None:
        """Return what scores all rows, by plugin; None if no score is in the program."""
        active = self._active(self.program.scores_of_all_rows, plugins)
        compute = self._over_all_rows(self._functions.scores, active)
        scores = [
            (name, place, rules.score, rules.score.only_value)
            for place, (name, rules) in enumerate(active)
            if rules is not None and rules.score is not None
        ]

        def run(pod: PodInfo) -> Mapping[str, RawScores]:
            out, n = compute(pod)
            if out is None:
                return {}
            results = {}
            for name, place, rule, only in scores:
                values = out[place]
                raw = None if only is None else values[only]
                if (
                    isinstance(raw, np.ndarray)
                    and raw.ndim
                    and raw.dtype is _INT64
                    and raw.base is None  # else it is a column, which changes with the nodes
                    and raw.flags.writeable
                ):
                    results[name] = raw
                else:
                    results[name] = rule.scores_of(values, n)
            return results

        return run if scores else None

    def _active(
        self, names: Sequence[str], plugins: Sequence[str]
    ) -> list[tuple[str, PolicyRules | None]]:
        """Return policies of the program with their rules; None for one that takes no part."""
        kernels = self._kernels
        return [
            (name, kernels[name].rules if name in plugins and name in kernels else None)
            for name in names
        ]

    def _over_all_rows(
        self, function: Callable[..., Any], active: Sequence[tuple[str, PolicyRules | None]]
    ) -> Callable[[PodInfo], tuple[Sequence[Any] | None, int]]:
        """Return the function of active policies, as one that returns the number of rows, too."""
        flags = [rules is not None for _, rules in active]
        values, kept, cycle = partial(function, *flags), self._functions.kept, self._cycle

        def compute(pod: PodInfo) -> tuple[Sequence[Any] | None, int]:
            arrays, n = kept.arrays(), kept.n
            if arrays is None:
                return None, n
            return values(pod, cycle, slice(0, n), n, *arrays), n

        return compute

    def rows(self, filters: NumberedFilters, scores: Sequence[str] | None) -> RowFunctions | None:
        """Return the functions of a few rows; None if a filter has none."""
        program = self.program
        called = self._called("filter", [name for _, name in filters], program.filters)
        if called is None:
            return None
        update = self._functions.update
        arguments = self._arguments(filters, {name: rule.function for name, rule in called.items()})
        off = [False] * len(program.scores)
        unscored = partial(update, *arguments, *off, (), False)
        more = None if scores is None else self._called("score", scores, program.scores)
        if scores is None or more is None:
            return _limited(unscored, None, [*called.values()])
        flags = [name in scores for name in program.scores]
        names = [*(name for name in program.scores if name in scores), *more]
        order = None
        if names != [*scores]:  # the program has its own scores first
            order = itemgetter(*(names.index(name) for name in scores))
        scoring = *flags, tuple([rule.function for rule in more.values()]), order
        rules = [*called.values(), *more.values()]
        limited = any(rule.limited is not None for rule in rules)  # scores have steps of their own
        both = unscored if limited else partial(update, *arguments, *scoring)
        return _limited(both, partial(update, *self._arguments((), {}), *scoring), rules)

    def _called(
        self, kind: Literal["filter", "score"], plugins: Sequence[str], known: Sequence[str]
    ) -> dict[str, RowRule] | None:
        """Return the functions of the plugins that are not in the program; None if one has none."""
        rules: dict[str, RowRule] = {}
        for name in plugins:
            if name not in known:
                rule = getattr(self._kernels.get(name, NO_KERNEL), kind)
                if rule is None:
                    return None
                rules[name] = rule
        return rules

    def first_rejection(self, filters: NumberedFilters, nodes: NodeView) -> FirstRejection | None:
        """Return the filters over the overlay; None if one of them has no function there."""
        if nodes is not self._overlay:
            return None
        kernels = self._kernels
        overlays = {name: kernels.get(name, NO_KERNEL).overlay for _, name in filters}
        codes = {name: overlay.code for name, overlay in overlays.items() if overlay is not None}
        if len(codes) < len(overlays):
            return None
        return partial(self._rejection, *self._arguments(filters, codes))

    def _arguments(
        self, filters: NumberedFilters, functions: Mapping[str, Callable[[PodInfo, int], int]]
    ) -> list[Any]:
        """Return the arguments of functions of rows that say which filters take part."""
        program = self.program
        numbers = {name: number for number, name in filters}
        called: list[list[tuple[int, Callable[[PodInfo, int], int]]]]
        called = [[] for _ in range(program.gaps)]
        for number, name in filters:
            if name not in program.filters:
                called[program.places[name]].append((number, functions[name]))
        return [
            self._cycle,
            *(numbers.get(name) for name in program.filters),
            *(tuple(pairs) for pairs in called),
        ]


class ChainedRules:
    """The programs of a profile, one after the other; they have no plugin in common.

    All rows pass through both, so that a program costs nothing more where it takes no part.
    """

    def __init__(self, head: BoundFusedRules, tail: BoundFusedRules) -> None:
        self._head = head
        self._tail = tail

    def filters(
        self, plugins: Sequence[str]
    ) -> Callable[[PodInfo], Mapping[str, FilterResult]] | None:
        """Return what filters all rows, by plugin; None if no filter is in the programs."""
        return _merged(self._head.filters(plugins), self._tail.filters(plugins))

    def scores(self, plugins: Sequence[str]) -> Callable[[PodInfo], Mapping[str, RawScores]] | None:
        """Return what scores all rows, by plugin; None if no score is in the programs."""
        return _merged(self._head.scores(plugins), self._tail.scores(plugins))

    def rows(self, filters: NumberedFilters, scores: Sequence[str] | None) -> RowFunctions | None:
        """Return the functions of a few rows; None if a filter has none."""
        before, after = self._parts(filters)
        program = self._tail.program
        last = [name for name in scores or () if name in program.scores]
        first = None if scores is None else [name for name in scores if name not in last]
        head = self._head.rows(before, first)
        if head is None or not (after or last):
            return head
        tail = self._tail.rows(after, None if scores is None else last)
        if tail is None:
            return None
        names = [*(first or ()), *last]
        order = None
        if scores is not None and names != [*scores]:
            order = itemgetter(*(names.index(name) for name in scores))
        score = None
        if head.score is not None and tail.score is not None:
            score = _chained(head.score, tail.score, order)
        return RowFunctions(_chained(head.update, tail.update, order), score)

    def first_rejection(self, filters: NumberedFilters, nodes: NodeView) -> FirstRejection | None:
        """Return the filters over the overlay; None if one of them has no function there."""
        before, after = self._parts(filters)
        head = self._head.first_rejection(before, nodes)
        tail = self._tail.first_rejection(after, nodes)
        if head is None or tail is None or not after:
            return head if tail is not None else None
        return lambda pod, row: head(pod, row) or tail(pod, row)

    def _parts(self, filters: NumberedFilters) -> tuple[NumberedFilters, NumberedFilters]:
        """Return the filters of each program, and those that are called between its own."""
        program = self._tail.program
        theirs = {*program.filters, *program.places}
        return (
            [pair for pair in filters if pair[1] not in theirs],
            [pair for pair in filters if pair[1] in theirs],
        )


def _merged(
    head: Callable[[PodInfo], Mapping[str, _Result]] | None,
    tail: Callable[[PodInfo], Mapping[str, _Result]] | None,
) -> Callable[[PodInfo], Mapping[str, _Result]] | None:
    """Return what gives the results of both, if there are both."""
    if head is None or tail is None:
        return head or tail
    return lambda pod: {**head(pod), **tail(pod)}


def _chained(head: Update, tail: Update, order: Callable[[Any], Any] | None) -> Update:
    """Return what both find about rows; ``order`` brings the scores of a row into another one."""

    def update(
        pod: PodInfo, rows: Sequence[int], first: Codes
    ) -> tuple[Sequence[Rejection] | None, Sequence[Sequence[int]] | None]:
        rejections, scores = head(pod, rows, first)
        others, more = tail(pod, rows, first)
        if rejections is None or others is None:
            return None, None
        if not rejections and not others:
            none: Sequence[Rejection] = ()
            if scores is None or more is None:
                return none, None
            both = [(*own, *other) for own, other in zip(scores, more, strict=True)]
            return none, both if order is None else [order(row) for row in both]
        # Each has scores for the rows that it passes.
        given, added, both = iter(scores or ()), iter(more or ()), []
        either: list[Rejection] = []
        none = [None] * len(rows)
        for own, other in zip(rejections or none, others or none, strict=True):
            either.append(own or other)
            parts = () if own else next(given, ()), () if other else next(added, ())
            if not own and not other:
                both.append((*parts[0], *parts[1]))
        if scores is None or more is None:
            return either, None
        return either, both if order is None else [order(row) for row in both]

    return update


def _limited(update: Update, scored: Update | None, called: Sequence[RowRule]) -> RowFunctions:
    """Return functions in which the steps of all rows count together, if any are counted."""
    context = next((rule.limited for rule in called if rule.limited is not None), None)
    if context is None:
        return RowFunctions(update, scored)

    def within(function: Update) -> Update:
        def run(
            pod: PodInfo, rows: Sequence[int], first: Codes
        ) -> tuple[Sequence[Rejection] | None, Sequence[Sequence[int]] | None]:
            with context():
                return function(pod, rows, first)

        return run

    return RowFunctions(within(update), None if scored is None else within(scored))
