"""Every node filtered and scored for one pod, and the cache that makes equal pods share the work.

Theory of operation. An Evaluation belongs to a signature: the pod fields that the profile's
plugins read. For the next pod of that signature it is brought up to date instead of made anew:
the journal tells which rows changed, and only plugins that read what runs on a node are asked
again, for those rows. A change of a node's own fields, of the set of nodes or of namespaces starts
over. The answers are those of a fresh evaluation, bit for bit; the cache can be switched off, and
a property test compares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.journal import DYNAMIC
from policy_sched.cluster.node_table import NodeTable
from policy_sched.errors import PluginError
from policy_sched.framework.answers import Answers
from policy_sched.framework.cycle_state import CycleState
from policy_sched.framework.extender import Extender
from policy_sched.framework.extending import interested, passing, preferences
from policy_sched.framework.filtering import FEASIBLE, Filtering
from policy_sched.framework.kept_evaluations import KeptEvaluations
from policy_sched.framework.nominations import Nominations
from policy_sched.framework.results import Scope
from policy_sched.framework.runner import Runner
from policy_sched.framework.sampling import Sample
from policy_sched.framework.scoring import Scoring
from policy_sched.framework.signing import key_getter
from policy_sched.framework.status import Status
from policy_sched.model.pod_info import PodInfo

#: Beyond this many changed rows a fresh vector pass is cheaper than asking row by row.
REPLAY_LIMIT: Final = 256


class Evaluation:
    """What a profile's plugins say of one pod on every node; valid until the table changes.

    ``scoring`` is None where no node is feasible.
    """

    def __init__(self, runner: Runner, pod: PodInfo, answers: Answers) -> None:
        self._runner = runner
        self._answers = answers
        table = answers.table
        self.state = CycleState()
        self.version = table.journal.version
        self.n = table.n
        self.filtering = Filtering(runner, self.state, pod, answers)
        self.scoring: Scoring | None = None
        self.score_anew(pod)

    @property
    def rejection(self) -> Status | None:
        """Why the whole pod was rejected before any node was looked at."""
        return self.filtering.rejection

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        return self.filtering.nbytes + (self.scoring.nbytes if self.scoring else 0)

    def best(self) -> NDArray[np.intp]:
        """Return the rows with the highest total, ascending; empty if no node is feasible."""
        return self.scoring.ties() if self.scoring else np.empty(0, np.intp)

    def narrowed(self, row: int) -> Evaluation:
        """Return the answer of somebody who looked at one feasible row first, and took it."""
        assert self.scoring is not None, "a feasible row was scored"
        twin = copy(self)
        twin.filtering = self.filtering.narrowed(row)
        twin.scoring = self.scoring.narrowed(row)
        return twin

    def beside(self, pod: PodInfo, rejections: Mapping[int, tuple[int, Status]]) -> Evaluation:
        """Return the answer with more rows rejected; see `Filtering.beside`."""
        twin = copy(self)
        twin.state = self.state.clone()
        twin.filtering = self.filtering.beside(rejections)
        if (self.filtering.first[list(rejections)] == FEASIBLE).any():
            twin.score_anew(pod)
        return twin

    def limited(self, pod: PodInfo, filtering: Filtering) -> Evaluation:
        """Return the answer with fewer feasible rows; where one is left it is not scored anew."""
        if filtering is self.filtering:
            return self
        twin = copy(self)
        twin.state = self.state.clone()
        twin.filtering = filtering
        left = filtering.feasible_rows()
        if left.size == 1 and self.scoring is not None:
            twin.scoring = self.scoring.narrowed(left.item())
        else:
            twin.score_anew(pod)
        return twin

    def extended(self, pod: PodInfo, extenders: Sequence[Extender]) -> Evaluation:
        """Return the answer after interested extenders have filtered and scored.

        Raises PluginError if one fails that is not ignorable.
        """
        table = self._answers.table
        found = self.limited(pod, passing(extenders, pod, self.filtering, table))
        rows = found.filtering.feasible_rows()
        if found.scoring is None or rows.size < 2:
            return found
        shares = preferences(extenders, pod, rows, table)
        if not shares:
            return found
        twin = copy(found)
        twin.scoring = found.scoring.raised(shares)
        return twin

    def patch(self, pod: PodInfo, rows: list[int]) -> bool:
        """Bring everything up to date after pods came or went on `rows`.

        Returns False if that cannot be done and the pod must be evaluated anew.
        """
        if not self.filtering.still_asks_the_same(self.state, pod):
            return False
        touched = np.array(rows, np.intp)
        filtering = self.filtering
        first = filtering.first
        before = first[touched] == FEASIBLE
        if filtering.patch(self.state, pod, touched):
            flipped = (first == FEASIBLE) != (filtering.first == FEASIBLE)
            flipped[touched] = True
            touched = np.flatnonzero(flipped)
            before = first[touched] == FEASIBLE
        if self.scoring is None or not filtering.any_feasible():
            self.score_anew(pod)
            return True
        return self.scoring.patch(self.state, pod, touched, before, filtering.first)

    def score_anew(self, pod: PodInfo) -> None:
        """Score the feasible rows, all of them."""
        self.scoring = None
        if self.filtering.any_feasible():
            feasible = self.filtering.feasible_rows()
            self.scoring = Scoring(self._runner, self.state, pod, feasible, self._answers)


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
        self._answers = Answers(runner, table, kept=cached)
        signature = runner.pipeline.signature() if cached else None
        if signature is not None and signature.scope is Scope.VOLATILE:
            signature = None
        self._key = key_getter(signature) if signature is not None else None
        self._kept: KeptEvaluations[Evaluation] = KeptEvaluations()

    @property
    def extended(self) -> bool:
        """Whether there are extenders, of whom no plugin tells what they wait for."""
        return bool(self._extenders)

    def evaluate(self, pod: PodInfo) -> Evaluation:
        """Filter and score all nodes for `pod`. Raises PluginError if a plugin breaks."""
        evaluation = self._evaluate(pod)
        if evaluation.rejection is not None:
            return evaluation
        extenders = interested(self._extenders, pod) if self._extenders else ()
        if self._nominations:
            rejections = self._promises(self._nominations, evaluation, pod)
            taken = self._nominated(self._nominations, evaluation, pod, rejections, extenders)
            if taken is not None:
                return taken
            if rejections:
                evaluation = evaluation.beside(pod, rejections)
        if self._sample is not None:
            evaluation = evaluation.limited(pod, self._sample.of(evaluation.filtering))
        return evaluation.extended(pod, extenders) if extenders else evaluation

    def _promises(
        self, nominations: Nominations, evaluation: Evaluation, pod: PodInfo
    ) -> Mapping[int, tuple[int, Status]]:
        """Return the rows on which there is no room beside the pods that it is promised to."""
        rivals = nominations.rivals(pod)
        if not rivals:
            return {}
        return nominations.rejections(evaluation.filtering.trial(), evaluation.state, pod, rivals)

    def _nominated(
        self,
        nominations: Nominations,
        evaluation: Evaluation,
        pod: PodInfo,
        rejections: Mapping[int, tuple[int, Status]],
        extenders: Sequence[Extender],
    ) -> Evaluation | None:
        """Return the pod's own nominated node alone, if it fits there and extenders agree."""
        own = nominations.row_of(pod)
        if own is None or evaluation.filtering.first[own] != FEASIBLE or own in rejections:
            return None
        taken = evaluation.narrowed(own)
        try:
            taken = taken.extended(pod, extenders)
        except PluginError:
            return None  # the extender is asked again, about all nodes, and may fail again
        return taken if taken.scoring is not None else None

    def _evaluate(self, pod: PodInfo) -> Evaluation:
        if self._key is None:
            return Evaluation(self._runner, pod, self._answers)
        key = self._key(pod)
        kept = self._kept.get(key)
        if kept is not None and self._refresh(kept, pod):
            return kept
        fresh = Evaluation(self._runner, pod, self._answers)
        self._kept.put(key, fresh)
        return fresh

    def _refresh(self, kept: Evaluation, pod: PodInfo) -> bool:
        """Bring a kept evaluation up to date; False if it must be made anew."""
        journal = self._table.journal
        if kept.version == journal.version:
            return True
        changes = journal.since(kept.version)
        if changes is None or len(changes.rows) > REPLAY_LIMIT or changes.kind & ~DYNAMIC:
            return False
        if not kept.patch(pod, changes.rows):
            return False
        kept.version = journal.version
        return True
