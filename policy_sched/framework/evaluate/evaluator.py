"""Evaluator: filters and scores all nodes for a pod, and keeps the results for equal pods.

Theory of operation. A kept result belongs to a signature: the pod fields that the profile's
plugins read. For the next pod of that signature it is brought up to date instead of computed
again. The results equal those of a fresh evaluation, bit for bit; the cache can be switched off,
and a property test compares. What happens to a kept result depends on what changed since:

| change | what happens |
|---|---|
| nothing | the result is returned as it is |
| pods came to or left a few rows | filters and scores run again as far as they may differ: |
| - plugins of scope STATIC | not at all |
| - plugins of scope NODE | for these rows |
| - plugins of scope CLUSTER | for all rows; the same read-only array again changes nothing |
| - those that give an `Incremental` | it says which results change with these rows |
| nominations came or went on a few rows | these rows are filtered again, with nominated pods |
| a row becomes feasible or infeasible | its total; others' as far as normalized scores change |
| PreFilter or PreScore of a CLUSTER plugin returns another result | fresh evaluation |
| - of one whose keys were None for the pod (`Signature.keys`) | not run: it skips again |
| a node's own fields, the set of nodes, namespaces | fresh evaluation, static results too |
| an `Incremental` cannot tell, or a score plugin breaks | fresh evaluation |
| a filter breaks | the result is dropped |
| the pipeline is replaced | fresh evaluation |

A pod that passes on the node that it is nominated to goes there, as upstream: where only pods
changed, that row is filtered alone.

Results are kept by the 2Q policy (caches.py), and brought up to date by updates.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from policy_sched.cluster.tables import NodeTable
from policy_sched.errors import PluginError, PolicySchedError
from policy_sched.framework import Code, Extender, Scope
from policy_sched.framework.evaluate import results
from policy_sched.framework.evaluate.caches import EvaluationCache
from policy_sched.framework.evaluate.entry import Entry
from policy_sched.framework.evaluate.extenders import interested, passing, preferences
from policy_sched.framework.evaluate.nominated_pods import Nominations
from policy_sched.framework.evaluate.passes import Passes
from policy_sched.framework.evaluate.pod_signature import Key, key_getter
from policy_sched.framework.evaluate.results import Evaluation
from policy_sched.framework.evaluate.sampling import Sample
from policy_sched.framework.evaluate.updates import Updates
from policy_sched.framework.evaluate.views import FEASIBLE, NO_NODE, NOT_ASKED, OUTSIDE
from policy_sched.framework.runtime import Runner, broken
from policy_sched.model import PodInfo

NO_HINT: Final = "no_hint"
HINT_USED: Final = "hint_used"
HINT_NOT_USED: Final = "hint_not_used"
"""How an evaluation was made (upstream's names of its batching): no kept one of the same
signature; the kept one was updated; it could not be updated.
"""


class Domain(msgspec.Struct):
    """The nodes that pods are evaluated on for now, and what was found there, by signature.

    ``outside``: the live rows that are not among them, ascending. It must be given up when a node
    is added, removed or changed.
    """

    outside: NDArray[np.intp]
    kept: dict[Key, Entry] = msgspec.field(default_factory=dict)


class Evaluator:
    """Evaluates pods against all nodes for one pipeline.

    ``cached=False`` evaluates every pod from scratch. ``nominations``: the nominated pods that
    others give way to. ``sample`` leaves nodes out, and ``extenders`` filter and score after the
    plugins; neither changes a result that pods share.
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
        self._passes = Passes(runner, table, cached=cached)
        self._updates = Updates(runner, self._passes)
        signature = runner.pipeline.signature() if cached else None
        if signature is not None and signature.scope is Scope.VOLATILE:
            signature = None
        self._key = key_getter(signature) if signature is not None else None
        self._kept: EvaluationCache[Entry] = EvaluationCache()

    @property
    def extended(self) -> bool:
        """Whether there are extenders, which register no cluster events."""
        return bool(self._extenders)

    @property
    def any_will_do(self) -> bool:
        """Whether the first feasible node is enough, as no plugin scores."""
        return self._sample is not None and self._sample.any_will_do

    def signature_of(self, pod: PodInfo) -> Key | None:
        """Return what pods that are evaluated alike have in common; None if no two are."""
        return None if self._key is None else self._key(pod)

    def evaluate(self, pod: PodInfo, domain: Domain | None = None) -> Evaluation:
        """Filter and score all nodes for `pod`, or those of a domain.

        Raises PluginError if a plugin breaks.
        """
        nominations = self._nominations
        if nominations is not None and pod.uid in nominations.nodes and domain is None:
            alone = self._nominated_alone(pod, nominations)
            if alone is not None:
                return alone
        entry = self._current(pod) if domain is None else self._current_in(domain, pod)
        evaluation = entry.result
        rejection = evaluation.filtering.rejection
        if rejection is not None:
            if rejection.code is Code.ERROR:
                raise PluginError(broken("pre_filter", rejection.plugin, rejection.message()))
            return evaluation
        extenders = interested(self._extenders, pod) if self._extenders else ()
        if nominations is not None and nominations.nodes:
            own = nominations.row_of(pod)
            if own is not None and (domain is None or own not in domain.outside):
                override, fits = self._on_nominated_node(evaluation, pod, own)
                if fits:
                    alone = _only_row(evaluation, own)
                    if not extenders:
                        return alone
                    extended = self._extended(alone, pod, extenders, strict=False)
                    if extended is not None:
                        return extended
                evaluation = self._with_row(evaluation, pod, own, override)
        if self._sample is not None:
            evaluation = self._restricted(evaluation, pod, self._sample.of(evaluation.filtering))
        if extenders:
            extended = self._extended(evaluation, pod, extenders, strict=True)
            assert extended is not None, "a failure is raised"
            evaluation = extended
        failure = evaluation.filtering.failure(self._runner) if evaluation.filtering.fatal else None
        if failure is not None or evaluation.broken is not None:
            raise failure or cast("PluginError", evaluation.broken)
        return evaluation

    # The cache.

    def _current(self, pod: PodInfo) -> Entry:
        """Return the evaluation of a pod, as the table is now."""
        runner, nominations = self._runner, self._nominations
        key = kept = lowest = nominated = None
        if nominations is not None and nominations.nodes:
            lowest = nominations.lowest(pod)
        if self._key is not None:
            if runner.recorder is None:
                key = self._key(pod)
            else:
                began = runner.began()
                key = self._key(pod)
                runner.ended("sign_pod", Code.SUCCESS, began)
            entry_key = key if lowest is None else (*key, lowest)
            kept = self._kept.main.get(entry_key)
            if kept is None and entry_key in self._kept.probation.entries:
                kept = self._kept.promote(entry_key)
        if kept is not None:
            try:
                if self._refresh(kept, pod):
                    if runner.recorder is not None:
                        runner.evaluations.append((HINT_USED, kept.result.parts))
                    return kept
            except PolicySchedError:
                self._kept.drop(entry_key)  # it is brought up to date in part
                raise
        if nominations is not None and lowest is not None:
            nominated = nominations.nominated_pods(lowest)
        fresh = self._passes.fresh(pod, key, nominated)
        if runner.recorder is not None:
            hint = NO_HINT if kept is None else HINT_NOT_USED
            runner.evaluations.append((hint, fresh.result.parts))
        if key is not None:
            if fresh.result.broken is not None:
                self._kept.drop(entry_key)
            elif self._kept.put(entry_key, fresh):
                fresh.stamps = self._table.journal.stamps[:]
        return fresh

    def _current_in(self, domain: Domain, pod: PodInfo) -> Entry:
        """Return the evaluation of a pod on a domain's nodes, kept for pods that are equal."""
        nominations = self._nominations
        nominated = nominations is not None and nominations.lowest(pod) is not None
        key = None if self._key is None or nominated else self._key(pod)
        kept = None if key is None else domain.kept.pop(key, None)
        if kept is None or not self._refresh(kept, pod):
            kept = self._current(pod).without(domain.outside, self._table.journal.stamps)
            if kept.result.filtering.rejection is None:
                self._passes.score_all(kept, pod)
        if key is not None and kept.result.broken is None:
            domain.kept[key] = kept
        return kept

    def _refresh(self, entry: Entry, pod: PodInfo) -> bool:
        """Bring a kept evaluation up to date; False if it must be made anew."""
        journal, nominated = self._table.journal, entry.nominated
        renominated = [] if nominated is None else nominated.moved()
        if renominated is None:
            return False
        if entry.version == journal.version and not renominated:
            return True
        stamps, seen = journal.stamps, entry.stamps
        rows = journal.moved(entry.version, seen)
        if rows is None:
            return False
        if renominated:
            rows = list(dict.fromkeys([*rows, *renominated]))
        if entry.result.filtering.rejection is not None:
            return False
        updates = self._updates
        if entry.incremental:
            for incremental in entry.incremental.values():
                if not incremental.holds():
                    return False
        skipped = entry.result.filtering.skipped
        if entry.pre_filter and not updates.unchanged(
            entry, pod, "pre_filter", entry.pre_filter, skipped
        ):
            return False
        if not updates.update(entry, pod, rows):
            return False
        if entry.incremental is None and (entry.pre_filter or entry.pre_score):
            updates.find_incremental(entry, pod)
        entry.version = journal.version
        for row in rows:
            seen[row] = stamps[row]
        return True

    # Results that are not shared.

    def _restricted(
        self, evaluation: Evaluation, pod: PodInfo, filtering: results.FilteredNodes
    ) -> Evaluation:
        """Return a copy with other feasible rows; a single one is not scored again."""
        if filtering is evaluation.filtering:
            return evaluation
        state = evaluation.state.clone()
        left = filtering.feasible_rows()
        if left.size == 1 and evaluation.scoring is not None:
            return Evaluation(
                state, filtering, evaluation.scoring.restricted(left.item()), evaluation.broken
            )
        return self._passes.scored_again(Evaluation(state, filtering), pod)

    def _with_row(
        self, evaluation: Evaluation, pod: PodInfo, row: int, rejection: results.Override | None
    ) -> Evaluation:
        """Return a copy with another rejection of one row, whatever PreFilter returned."""
        filtering = evaluation.filtering
        overrides = {r: override for r, override in filtering.overrides.items() if r != row}
        first = filtering.first.copy()
        first[row] = filtering.by_plugins[row]
        if rejection is not None:
            overrides[row] = rejection
            first[row] = rejection[0]
        copy = filtering.restricted(first, filtering.by_plugins, overrides=overrides)
        if filtering.narrowed_by and first[row] > FEASIBLE:
            # As upstream, what rejects the nominated node is named among the plugins that leave
            # out the others.
            plugin = filtering.views[first[row] - 1].hook.plugin
            copy = replace(copy, narrowed_by=(*filtering.narrowed_by, plugin))
        if (first[row] == FEASIBLE) == (filtering.first[row] == FEASIBLE):
            return replace(evaluation, filtering=copy)
        return self._passes.scored_again(Evaluation(evaluation.state.clone(), copy), pod)

    def _nominated_alone(self, pod: PodInfo, nominations: Nominations) -> Evaluation | None:
        """Return the evaluation of the pod's own nominated row alone, if it passes there.

        It is for speed: the kept result is brought up to date another time. None where more than
        the row has to be known.
        """
        own, lowest = nominations.row_of(pod), nominations.lowest(pod)
        if own is None or lowest is None or self._key is None or self._extenders:
            return None
        entry = self._kept.main.get((*self._key(pod), lowest))
        if entry is None or entry.version < self._table.journal.static_version:
            return None
        if nominations.nominated_pods_on(pod, (own,)):
            return None
        start = self._runner.began()
        if not entry.passes_now(pod, own, nominations.overlay):
            return None
        if self._runner.recorder is not None:
            self._runner.ended("filter", Code.SUCCESS, start)
            self._runner.evaluations.append((HINT_USED, entry.result.parts))
        return _only_row(entry.result, own)

    def _on_nominated_node(
        self, evaluation: Evaluation, pod: PodInfo, row: int
    ) -> tuple[results.Override | None, bool]:
        """Evaluate the pod's own nominated row first; return what rejects it there, and if it fits.

        As upstream, the filters run for that node even where PreFilter excluded it. A plugin that
        breaks there is not called a second time.
        """
        assert self._nominations is not None, "the pod is nominated"
        filtering, state = evaluation.filtering, evaluation.state
        others = self._nominations.nominated_pods_on(pod, (row,))
        outside = filtering.by_plugins[row] == OUTSIDE
        rejection = None
        try:
            dry_run = filtering.filter_dry_run
            if others:
                overlay = self._nominations.overlay
                rejection = dry_run.rejections_with(overlay, state, pod, others).get(row)
            if outside and rejection is None:
                alone = np.array([row], np.intp)
                rejection = dry_run.rejections(self._table, state, pod, alone).get(row)
        except PluginError:
            if not outside:
                raise
            return None, False
        feasible = bool(outside) or filtering.by_plugins[row].item() == FEASIBLE
        return rejection, rejection is None and feasible

    def _extended(
        self, evaluation: Evaluation, pod: PodInfo, extenders: Sequence[Extender], *, strict: bool
    ) -> Evaluation | None:
        """Return a copy after the interested extenders have filtered and scored.

        Raises PluginError if one fails that is not ignorable. Not ``strict``: returns None then,
        or if no row is left; the extender is called again, for all nodes.
        """
        try:
            filtering = passing(extenders, pod, evaluation.filtering, self._table)
            evaluation = self._restricted(evaluation, pod, filtering)
            rows = evaluation.filtering.feasible_rows()
            if evaluation.scoring is not None and rows.size >= 2:
                shares = preferences(extenders, pod, rows, self._table)
                if shares:
                    total = sum(shares.values(), evaluation.scoring.total)
                    total = np.where(evaluation.scoring.total < 0, results.NOWHERE, total)
                    scoring = replace(evaluation.scoring, total=total, shares=shares, totals=None)
                    evaluation = replace(evaluation, scoring=scoring)
        except PluginError:
            if strict:
                raise
            return None
        return evaluation if strict or evaluation.scoring is not None else None


def _only_row(evaluation: Evaluation, row: int) -> Evaluation:
    """Return a copy in which only `row` was evaluated; it is not scored, as there is no choice."""
    filtering = evaluation.filtering
    first = np.full(filtering.by_plugins.size, NOT_ASKED, np.int16)
    first[filtering.by_plugins == NO_NODE] = NO_NODE
    first[row] = FEASIBLE
    scoring = results.Scoring.of_one(row, first.size)
    return Evaluation(evaluation.state, filtering.restricted(first, overrides={}), scoring)
