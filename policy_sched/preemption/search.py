"""The search for victims: which nodes are looked at, in which order, and which is the best.

Theory of operation: nodes are looked at from a random one on, in blocks as large as the number of
candidates that is wanted, until there are enough of them and one breaks no disruption budget.
kube-scheduler looks at nodes in parallel and may find some more; the first ones are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from random import Random
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster import ApiObjects, Cache, PodOrder
from policy_sched.errors import PluginError
from policy_sched.framework import Code, Extender, Handle, NodeVictims, Status
from policy_sched.language import RuleError
from policy_sched.model import PodInfo
from policy_sched.preemption import dry_runs
from policy_sched.preemption.attempt import PreemptionAttempt
from policy_sched.preemption.budgets import Budgets
from policy_sched.preemption.extenders import candidates_of, consulted
from policy_sched.preemption.rules import Candidates, PreemptionRules

NO_CANDIDATE: Final = Status(Code.UNSCHEDULABLE, ("no candidate node for preemption",))


#: Where all candidates of so many rows break a budget, so many times as many are looked at.
AHEAD: Final = 4


class CandidateLimit(msgspec.Struct, frozen=True):
    """How many candidates are enough: a share of the nodes in percent, and at least so many."""

    percentage: int
    absolute: int

    def size(self, nodes: int) -> int:
        """Return how many of so many nodes that could be helped are enough."""
        return min(max(nodes * self.percentage // 100, self.absolute), nodes)


class Found(msgspec.Struct, frozen=True):
    """The candidates among some rows, in the rows' order, and why others are none."""

    candidates: Candidates
    rejections: Mapping[int, Status]


class Eviction(msgspec.Struct, frozen=True):
    """The best way to make room: a row of the node table, and the pods that leave it.

    The most important victim comes first.
    """

    row: int
    victims: tuple[PodInfo, ...]


class PreemptionSearch:
    """Finds victims for pods of one profile; nothing is changed by it."""

    def __init__(
        self,
        cache: Cache,
        objects: ApiObjects,
        rules: PreemptionRules,
        candidate_limit: CandidateLimit,
        extenders: Sequence[Extender] = (),
        handle: Handle | None = None,
    ) -> None:
        self._cache = cache
        self._extenders = extenders
        self._rules = rules
        self._candidate_limit = candidate_limit
        budgets = Budgets(objects, cache.pods)
        self._on_rows = dry_runs.Search(cache, rules, budgets, _orders(cache, rules), handle)
        self._runs = dry_runs.DryRuns(self._on_rows)

    def search(
        self, attempt: PreemptionAttempt, rows: NDArray[np.intp], rng: Random
    ) -> Eviction | Status | Mapping[int, Status]:
        """Return the best eviction, or by row why none of the rows can be helped.

        A status alone: there were candidates, and an extender failed or none of them was left.
        ``rows``: the rows that removing pods may help, ascending, shape (m,). A row's status of
        code Error means that a filter contradicted itself.
        """
        if not rows.size:
            return {}
        if not self._on_rows.evictable.among(attempt, rows):
            rng.randrange(rows.size)  # as the search does, so that what follows is the same
            return dry_runs.nothing_to_evict(rows, self._cache.nodes.n)
        pod, run = attempt.pod, self._runs.of(attempt)
        candidate_rows = self._candidates(run, attempt, rows, rng)
        if not candidate_rows.size:
            return run.rejections(attempt, rows)
        if self._extenders:
            candidates = run.candidates(pod, candidate_rows)
            try:
                named = self._consult(pod, candidates)
            except PluginError as error:
                return Status(Code.ERROR, (str(error),))
            if not named.rows.size:
                return NO_CANDIDATE
            if named is not candidates:
                return self._best_of(pod, named)
        best = self._best(candidate_rows, partial(run.key, pod))
        return Eviction(best, run.victims_of(pod, best))

    def elsewhere(
        self, attempt: PreemptionAttempt, best: int, row: int
    ) -> tuple[tuple[PodInfo, ...], bool] | None:
        """Return the victims on another row than the best, and whether it is as good.

        None if the pod would not fit there. Nothing may have changed since the search.
        """
        pod, run = attempt.pod, self._runs.of(attempt)
        other, both = np.array([row], np.intp), np.array([best, row], np.intp)
        run.look(attempt, both)
        if not run.candidates(pod, other).rows.size:
            return None
        keys = (run.key(pod, number, both) for number in range(len(self._rules.node_order)))
        as_good = all(values[0] == values[1] for values in keys)
        return run.victims_of(pod, row), as_good

    def _best_of(self, pod: PodInfo, candidates: Candidates) -> Eviction:
        """Return the best of the candidates that extenders named."""
        key = self._on_rows.node_key
        places = np.arange(candidates.rows.size)
        best = self._best(places, lambda number, left: key(number, pod, candidates.at(left)))
        victims = self._on_rows.ordered_victims(pod, candidates, best)
        return Eviction(candidates.rows.item(best), victims)

    def nothing_anywhere(
        self, attempt: PreemptionAttempt, count: int, rng: Random
    ) -> Mapping[Status, int] | None:
        """Return what `search` finds on so many rows, counted; None unless no pod may be evicted.

        That is known of the whole cluster, so it need not be said which rows they are.
        """
        if count and self._on_rows.evictable.anywhere(attempt):
            return None
        if count:
            rng.randrange(count)  # as the search does, so that what follows is the same
        return {dry_runs.NO_VICTIMS: count} if count else {}

    def _consult(self, pod: PodInfo, candidates: Candidates) -> Candidates:
        """Return what extenders leave of the candidates, those left in the order they had."""
        names = self._cache.nodes.names
        before = {
            names[row]: NodeVictims(
                self._on_rows.ordered_victims(pod, candidates, place), violations
            )
            for place, (row, violations) in enumerate(
                zip(candidates.rows.tolist(), candidates.violations.tolist(), strict=True)
            )
        }
        after = consulted(self._extenders, pod, before, self._cache)
        if after is before:
            return candidates
        places = {name: place for place, name in enumerate(before)}
        ordered = sorted(after, key=lambda name: (places.get(name, len(places)), name))
        return candidates_of({name: after[name] for name in ordered}, self._cache)

    def _candidates(
        self, run: dry_runs.DryRun, attempt: PreemptionAttempt, rows: NDArray[np.intp], rng: Random
    ) -> NDArray[np.intp]:
        """Return the rows of enough candidates, those that break no budget first."""
        wanted = max(self._candidate_limit.size(rows.size), 1)
        offset = rng.randrange(rows.size)
        turned = np.concatenate((rows[offset:], rows[:offset]))
        while True:
            candidates, start, end = run.first(turned, wanted)
            if start == rows.size:
                return candidates
            if not candidates.size and (start or run.hopeless()):
                _look_ahead(run, attempt, rows)
            elif candidates.size >= wanted and not attempt.filter_dry_run.node_by_node:
                _look_ahead(run, attempt, turned[start : AHEAD * start])  # all break a budget
            run.look(attempt, turned[start:end])

    def dry_run(self, attempt: PreemptionAttempt, rows: NDArray[np.intp]) -> Found:
        """Return the candidates among the rows, ascending, and why the others are none."""
        run = self._runs.of(attempt)
        run.look(attempt, rows)
        candidates = run.candidates(attempt.pod, rows)
        return Found(candidates, run.rejections(attempt, np.setdiff1d(rows, candidates.rows)))

    def _best(
        self, left: NDArray[np.intp], key: Callable[[int, NDArray[np.intp]], NDArray[Any]]
    ) -> int:
        """Return the best of some candidates, the first one if several are.

        ``key`` returns a key of the order for some of the candidates.
        """
        for number in range(len(self._rules.node_order)):
            if left.size == 1:
                break
            values = key(number, left)
            left = left[values == values[values.argmin()]]
        return left.item(0)


def _look_ahead(run: dry_runs.DryRun, attempt: PreemptionAttempt, rows: NDArray[np.intp]) -> None:
    """Look at rows at once, as there is no sign that fewer of them will do."""
    try:
        run.look(attempt, rows)
    except (PluginError, RuleError):
        return  # it is met again if the search really comes to that row


def _orders(cache: Cache, rules: PreemptionRules) -> Callable[[PodInfo], PodOrder]:
    """Return what gives the order of victims for a pod: the same for all if it reads no pod."""
    order = PodOrder(cache, rules.victim_order(None))
    if not rules.order_reads_pod:
        return lambda _pod: order
    return lru_cache(maxsize=1)(lambda pod: PodOrder(cache, rules.victim_order(pod)))
