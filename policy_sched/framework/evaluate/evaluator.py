"""Evaluation of all nodes for one pod, and the cache that equal pods share.

Theory of operation. An Evaluation belongs to a signature: the pod fields that the profile's
plugins read. For the next pod of that signature it is updated instead of computed again: the
journal lists the rows that changed, and only plugins that read the pods of a node run again, for
those rows. A change of a node's own fields, of the set of nodes or of namespaces starts over.
Nominated pods are part of the result: pods with the same nominated pods share it, and a nomination
that is added or removed changes its row. The results equal those of a fresh evaluation, bit for
bit; the cache can be switched off, and a property test compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.tables import DYNAMIC, NodeTable
from policy_sched.errors import PluginError
from policy_sched.framework import Code, CycleState, Extender, Scope, Status
from policy_sched.framework.evaluate.evaluation_cache import EvaluationCache
from policy_sched.framework.evaluate.extenders import interested, passing, preferences
from policy_sched.framework.evaluate.filter_result import FEASIBLE, OUTSIDE, FilteredNodes
from policy_sched.framework.evaluate.nominated_pods import NominatedPods, Nominations
from policy_sched.framework.evaluate.pod_signature import Key, key_getter
from policy_sched.framework.evaluate.sampling import Sample
from policy_sched.framework.evaluate.score_result import Scoring
from policy_sched.framework.evaluate.static_cache import StaticResultCache
from policy_sched.framework.runtime import Parts, Runner
from policy_sched.model import PodInfo

NO_HINT: Final = "no_hint"
HINT_USED: Final = "hint_used"
HINT_NOT_USED: Final = "hint_not_used"
"""How an evaluation was made (upstream's names of its batching): no cached one of the same
signature; the cached one was updated; it could not be updated.
"""
#: Beyond this many changed rows a fresh vector pass is cheaper than asking row by row.
REPLAY_LIMIT: Final = 256


class Evaluation:
    """The results of a profile's plugins for one pod on every node; valid until the table changes.

    ``scoring`` is None where no node is feasible, or where plugins failed to score several, which
    is ``broken`` then. ``nominated``: the pods that it gives way to.
    """

    def __init__(
        self,
        runner: Runner,
        pod: PodInfo,
        static_results: StaticResultCache,
        nominated: NominatedPods | None = None,
        key: Key | None = None,
    ) -> None:
        self._runner = runner
        self._static_results = static_results
        self.nominated = nominated
        table = static_results.table
        self.state = CycleState()
        self.version = table.journal.version
        self.n = table.n
        self.filtering = FilteredNodes(runner, self.state, pod, static_results, key)
        if nominated is not None and self.rejection is None:
            self._promise(nominated, pod)
        self.scoring: Scoring | None = None
        self.broken: PluginError | None = None
        self.score_anew(pod)

    @property
    def rejection(self) -> Status | None:
        """Why the whole pod was rejected before any node was looked at."""
        return self.filtering.rejection

    @property
    def parts(self) -> Parts:
        """The plugins that took no part in it."""
        filtering, scoring = self.filtering, self.scoring
        rejected = "" if filtering.rejection is None else filtering.rejection.plugin
        return filtering.skipped, rejected, None if scoring is None else scoring.skipped

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        return self.filtering.nbytes + (self.scoring.nbytes if self.scoring else 0)

    def best(self) -> NDArray[np.intp]:
        """Return the rows with the highest total, ascending; empty if no node is feasible."""
        return self.scoring.best_rows() if self.scoring else np.empty(0, np.intp)

    def taken(self, row: int) -> Evaluation:
        """Return a copy in which only `row` was evaluated."""
        clone = copy(self)
        clone.broken = None
        clone.filtering = self.filtering.only_row(row)
        scored = self.scoring is not None and self.filtering.first[row] == FEASIBLE
        if scored and self.scoring is not None:
            clone.scoring = self.scoring.only_row(row)
        else:
            clone.scoring = Scoring.of_one(row, self.n)
        return clone

    def with_row(self, pod: PodInfo, row: int, rejection: tuple[int, Status] | None) -> Evaluation:
        """Return a copy with another rejection of one row; see `FilteredNodes.with_row`."""
        clone = copy(self)
        clone.filtering = self.filtering.with_row(row, rejection)
        if (clone.filtering.first[row] == FEASIBLE) != (self.filtering.first[row] == FEASIBLE):
            clone.state = self.state.clone()
            clone.score_anew(pod)
        return clone

    def limited(self, pod: PodInfo, filtering: FilteredNodes) -> Evaluation:
        """Return a copy with fewer feasible rows; a single remaining row is not scored again."""
        if filtering is self.filtering:
            return self
        clone = copy(self)
        clone.state = self.state.clone()
        clone.filtering = filtering
        left = filtering.feasible_rows()
        if left.size == 1 and self.scoring is not None:
            clone.scoring = self.scoring.only_row(left.item())
        else:
            clone.score_anew(pod)
        return clone

    def snapshot(self) -> Evaluation:
        """Return a snapshot that later patches do not change; it cannot be patched."""
        clone = copy(self)
        clone.state = self.state.clone()
        clone.filtering = self.filtering.snapshot()
        clone.scoring = None if self.scoring is None else self.scoring.snapshot()
        return clone

    def summary(self, row: int) -> Evaluation:
        """Return a small copy of one row's result that later patches do not change.

        It has the feasible rows, but not why others were rejected.
        """
        clone = copy(self)
        clone.state = self.state.clone()
        clone.filtering = self.filtering.summary()
        clone.scoring = None if self.scoring is None else self.scoring.summary(row)
        return clone

    def scoped_to(self, pod: PodInfo, outside: NDArray[np.intp]) -> Evaluation:
        """Return a copy without these live rows.

        It can be patched if there are no nominated pods.
        """
        clone = copy(self)
        clone.state = self.state.clone()
        clone.filtering = self.filtering.scoped_to(outside)
        clone.score_anew(pod)
        return clone

    def extended(self, pod: PodInfo, extenders: Sequence[Extender]) -> Evaluation:
        """Return a copy after the interested extenders have filtered and scored.

        Raises PluginError if one fails that is not ignorable.
        """
        table = self._static_results.table
        found = self.limited(pod, passing(extenders, pod, self.filtering, table))
        rows = found.filtering.feasible_rows()
        if found.scoring is None or rows.size < 2:
            return found
        shares = preferences(extenders, pod, rows, table)
        if not shares:
            return found
        clone = copy(found)
        clone.scoring = found.scoring.with_extender_scores(shares)
        return clone

    def patch(self, pod: PodInfo, rows: list[int]) -> bool:
        """Bring everything up to date after pods came or went on `rows`.

        Returns False if that cannot be done and the pod must be evaluated anew.
        """
        if not self.filtering.pre_filter_unchanged(self.state, pod):
            return False
        touched = np.array(rows, np.intp)
        filtering = self.filtering
        first = filtering.first
        before = first[touched] == FEASIBLE
        everywhere = filtering.patch(self.state, pod, touched)
        if self.nominated is not None:
            self._promise(self.nominated, pod, None if everywhere else rows)
        if everywhere:
            flipped = (first == FEASIBLE) != (filtering.first == FEASIBLE)
            flipped[touched] = True
            touched = np.flatnonzero(flipped)
            before = first[touched] == FEASIBLE
        if self.scoring is None or not self.scoring.scored or not filtering.any_feasible():
            self.score_anew(pod)
            return self.broken is None
        try:
            return self.scoring.patch(self.state, pod, touched, before, filtering.first)
        except PluginError:
            return False

    def _promise(
        self, nominated: NominatedPods, pod: PodInfo, rows: Sequence[int] | None = None
    ) -> None:
        """Reject the rows (None: of all) where the pod does not fit with the nominated pods."""
        there = nominated.on(rows)
        if there or self.filtering.promised:
            found = nominated.rejections(self.filtering.filter_dry_run(), self.state, pod, there)
            self.filtering.promise(found, rows)

    def score_anew(self, pod: PodInfo) -> None:
        """Score the feasible rows, all of them.

        As upstream does not score where there is no choice, a plugin that fails then does no harm.
        """
        self.scoring, self.broken = None, None
        if not self.filtering.any_feasible():
            return
        feasible = self.filtering.feasible_rows()
        try:
            self.scoring = Scoring(self._runner, self.state, pod, feasible, self._static_results)
        except PluginError as error:
            if feasible.size == 1:
                self.scoring = Scoring.of_one(feasible.item(), self.n)
            else:
                self.broken = error


@dataclass(slots=True)
class Domain:
    """The nodes that pods are evaluated on for now, and what was found there, by signature.

    ``outside``: the live rows that are not among them, ascending. It is to be given up when a node
    comes, goes or changes.
    """

    outside: NDArray[np.intp]
    kept: dict[Key, Evaluation] = field(default_factory=dict)


class Evaluator:
    """Evaluates pods against all nodes for one pipeline.

    ``cached=False`` evaluates every pod from scratch. ``nominations``: the promises that pods
    must respect; without them there are none. ``sample`` leaves nodes out, and ``extenders`` have
    their say, after the plugins; neither touches an evaluation that pods share.
    """

    def __init__(
        self,
        runner: Runner,
        table: NodeTable,
        *,
        cached: bool = True,
        nominations: Nominations | None = None,
        sample: Sample | None = None,
        extenders: Sequence[Extender] = (),
    ) -> None:
        self._nominations = nominations
        self._sample = sample
        self._extenders = tuple(extenders)
        self._runner = runner
        self._table = table
        self._static_results = StaticResultCache(runner, table, kept=cached)
        signature = runner.pipeline.signature() if cached else None
        if signature is not None and signature.scope is Scope.VOLATILE:
            signature = None
        self._key = key_getter(signature) if signature is not None else None
        self._kept: EvaluationCache[Evaluation] = EvaluationCache()

    def take_over(self, before: Evaluator) -> None:
        """Keep what plugins answered that have not changed since `before` evaluated pods."""
        self._static_results.take_over(before._static_results)

    @property
    def extended(self) -> bool:
        """Whether there are extenders, which register no cluster events."""
        return bool(self._extenders)

    def evaluate(self, pod: PodInfo, domain: Domain | None = None) -> Evaluation:
        """Filter and score all nodes for `pod`, or those of a domain.

        Raises PluginError if a plugin breaks.
        """
        evaluation = self._evaluate(pod) if domain is None else self._evaluate_in(domain, pod)
        if evaluation.rejection is not None:
            return evaluation
        extenders = interested(self._extenders, pod) if self._extenders else ()
        own = self._nominations.row_of(pod) if self._nominations else None
        if own is not None and (domain is None or own not in domain.outside):
            rejection, fits = self._asked_first(evaluation, pod, own)
            if fits:
                taken = self._nominated(evaluation.taken(own), pod, extenders)
                if taken is not None:
                    return taken
            evaluation = evaluation.with_row(pod, own, rejection)
        if self._sample is not None:
            evaluation = evaluation.limited(pod, self._sample.of(evaluation.filtering))
        if extenders:
            evaluation = evaluation.extended(pod, extenders)
        failure = evaluation.filtering.failure() or evaluation.broken
        if failure is not None:
            raise failure
        return evaluation

    def _evaluate_in(self, domain: Domain, pod: PodInfo) -> Evaluation:
        """Evaluate a pod on a domain's nodes; one like the last is not looked at anew."""
        if self._key is None or (self._nominations and self._nominations.lowest(pod) is not None):
            return self._evaluate(pod).scoped_to(pod, domain.outside)
        key = self._key(pod)
        kept = domain.kept.pop(key, None)
        if kept is None or not self._refresh(kept, pod):
            kept = self._evaluate(pod).scoped_to(pod, domain.outside)
        if kept.broken is None:
            domain.kept[key] = kept
        return kept

    def _asked_first(
        self, evaluation: Evaluation, pod: PodInfo, row: int
    ) -> tuple[tuple[int, Status] | None, bool]:
        """Ask about the pod's own nominated row; return what rejects it there, and if it fits.

        As upstream, the filters run for that node even where PreFilter excluded it.
        A plugin that breaks there is not asked a second time.
        """
        assert self._nominations is not None, "the pod is nominated"
        filtering, state = evaluation.filtering, evaluation.state
        nominated = self._nominations.nominated_pods(pod.priority)
        others = tuple(one for one in nominated.on([row]).get(row, ()) if one.uid != pod.uid)
        outside = filtering.by_plugins[row] == OUTSIDE
        rejection = None
        try:
            if others:
                rejection = nominated.rejections(
                    filtering.filter_dry_run(), state, pod, {row: others}
                ).get(row)
            if outside and rejection is None:
                alone = np.array([row], np.intp)
                rejection = filtering.filter_dry_run().rejections(state, pod, alone).get(row)
        except PluginError:
            if not outside:
                raise
            return None, False
        return rejection, rejection is None and (
            bool(outside) or filtering.by_plugins[row].item() == FEASIBLE
        )

    def _nominated(
        self, taken: Evaluation, pod: PodInfo, extenders: Sequence[Extender]
    ) -> Evaluation | None:
        """Return the pod's own nominated node alone, if extenders agree."""
        try:
            taken = taken.extended(pod, extenders)
        except PluginError:
            return None  # the extender is called again, for all nodes, and may fail again
        return taken if taken.scoring is not None else None

    def _evaluate(self, pod: PodInfo) -> Evaluation:
        lowest = self._nominations.lowest(pod) if self._nominations else None
        if self._key is None:
            fresh = Evaluation(
                self._runner, pod, self._static_results, self._nominated_pods(lowest)
            )
            self._runner.evaluated(NO_HINT, fresh)
            return fresh
        began = self._runner.began()
        key = self._key(pod)
        self._runner.ended("sign_pod", Code.SUCCESS, began)
        entry = key if lowest is None else (*key, lowest)
        kept = self._kept.get(entry)
        if kept is not None:
            try:
                if self._refresh(kept, pod):
                    self._runner.evaluated(HINT_USED, kept)
                    return kept
            except PluginError:
                self._kept.drop(entry)  # it is brought up to date in part
                raise
        fresh = Evaluation(
            self._runner, pod, self._static_results, self._nominated_pods(lowest), key
        )
        self._runner.evaluated(NO_HINT if kept is None else HINT_NOT_USED, fresh)
        if fresh.broken is None:
            self._kept.put(entry, fresh)
        else:
            self._kept.drop(entry)
        return fresh

    def _nominated_pods(self, lowest: int | None) -> NominatedPods | None:
        if lowest is None or self._nominations is None:
            return None
        return self._nominations.nominated_pods(lowest)

    def _refresh(self, kept: Evaluation, pod: PodInfo) -> bool:
        """Bring a kept evaluation up to date; False if it must be made anew."""
        journal, nominated = self._table.journal, kept.nominated
        promised: list[int] | None = [] if nominated is None else nominated.moved()
        if kept.version == journal.version and not promised and promised is not None:
            return True
        changes = journal.since(kept.version)
        if changes is None or promised is None or changes.kind & ~DYNAMIC:
            return False
        rows = changes.rows
        if promised:
            rows = list(dict.fromkeys([*rows, *promised]))
        if len(rows) > REPLAY_LIMIT or not kept.patch(pod, rows):
            return False
        kept.version = journal.version
        if nominated is not None:
            nominated.version = nominated.current
        return True
