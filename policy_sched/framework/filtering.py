"""Which nodes a pod may run on, and which plugin said no: arrays that can be patched row by row.

Theory of operation. `codes[i]` is filter plugin i's own answer per row (None: passes everywhere);
`first` says which plugin rejected the row first, in profile order. `patch` asks only the plugins
that read what runs on a node again, for the rows on which that changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.node_table import NodeTable
from policy_sched.errors import PluginError
from policy_sched.framework.answers import Answers
from policy_sched.framework.cycle_state import CycleState
from policy_sched.framework.explanations import Explanations
from policy_sched.framework.extender import EXTENDER
from policy_sched.framework.pipeline import Hook
from policy_sched.framework.results import Codes, Describe, PreFilterResult, Rows, Scope, Verdict
from policy_sched.framework.runner import Runner
from policy_sched.framework.status import Code, Status
from policy_sched.framework.trial import Trial
from policy_sched.model.pod_info import PodInfo

FEASIBLE: Final = 0
NO_NODE: Final = -1
OUTSIDE: Final = -2
NOT_ASKED: Final = -3
"""Values of `first`: the row is feasible, is no live node, no PreFilter plugin named it, or it
was left out after the plugins: enough others were found before, or an extender turned it down.

Positive values are one more than the index of the filter plugin that rejected the row.
"""


class Filtering:
    """The filters' answers for one pod over all rows [0, n) of the node table.

    ``first``: int16, shape (n,). ``rejection``: why the whole pod was rejected before any node
    was looked at, or None.
    """

    def __init__(
        self,
        runner: Runner,
        state: CycleState,
        pod: PodInfo,
        answers: Answers,
    ) -> None:
        self._runner = runner
        self._answers = answers
        table = answers.table
        self.n = table.n
        self._codes: list[Codes | None] = []
        self._describes: list[Describe] = []
        self.promised: Mapping[int, tuple[int, Status]] = {}
        self.unpromised: Codes | None = None
        """What ``first`` was without ``promised``, where there is such a difference."""
        self.explanations = Explanations(self.n)
        self.extended = False
        """Whether extenders took feasible rows away."""
        self._fixed = answers.live().astype(np.int16) + np.int16(NO_NODE)
        status, self._skipped, names, self._narrowing = runner.pre_filter(state, pod)
        self.rejection = None if status.ok else status
        self.plugins = runner.active("filter", self._skipped)
        self._scopes = [runner.pipeline.scope(hook.plugin) for hook in self.plugins]
        self._moving = [i for i, scope in enumerate(self._scopes) if scope is not Scope.STATIC]
        if self.rejection is not None:
            self._fixed[self._fixed == FEASIBLE] = OUTSIDE
            self.first: Codes = self._fixed
            return
        rows = None if names is None else self._named_rows(table, names)
        for hook in self.plugins:
            verdict = self._ask(hook, state, pod, rows)
            self._codes.append(self._spread(verdict.codes, rows))
            self._describes.append(verdict.describe)
        self._combine()

    @property
    def narrowed_by(self) -> tuple[str, ...]:
        """The PreFilter plugins that left only some nodes to look at; EXTENDER if extenders did."""
        return (*self._narrowing, EXTENDER) if self.extended else self._narrowing

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        return 2 * self.n * (2 + sum(codes is not None for codes in self._codes))

    def any_feasible(self) -> bool:
        """Tell whether the pod can run anywhere."""
        return not bool(self.first.all())

    def feasible_rows(self) -> NDArray[np.intp]:
        """Return the rows on which the pod can run, ascending, shape (k,)."""
        return np.flatnonzero(self.first == FEASIBLE)

    def statuses(self, rows: Iterable[int] | None = None) -> dict[int, Status]:
        """Return why rows were rejected (default: all rows), by row, ascending.

        Feasible rows and rows without a live node are left out.
        """
        if rows is None:
            answers = self.explanations.of(self._explain)
        else:
            wanted = sorted(set(rows).difference(self.promised))
            answers = self._explain(np.array(wanted, np.intp))
        if not self.promised:
            return answers
        asked = self.promised.keys() if rows is None else self.promised.keys() & set(rows)
        answers |= {row: self.promised[row][1] for row in asked}
        return {row: answers[row] for row in sorted(answers)}

    def _explain(self, wanted: NDArray[np.intp]) -> dict[int, Status]:
        answers: dict[int, Status] = {}
        firsts = (self.first if self.unpromised is None else self.unpromised)[wanted]
        for value in np.unique(firsts).tolist():
            group = wanted[firsts == value]
            if value == OUTSIDE:
                answers |= dict.fromkeys(group.tolist(), self._outside())
            elif value > FEASIBLE:
                codes = cast("Codes", self._codes[value - 1])[group]
                found = self._describes[value - 1](group, codes)
                plugin = self.plugins[value - 1].plugin
                answers |= {
                    row: status.by(plugin)
                    for row, status in zip(group.tolist(), found, strict=True)
                }
        return {row: answers[row] for row in sorted(answers)}

    def trial(self) -> Trial:
        """Return what asks the same plugins again while something is tried out."""
        return Trial(self._runner, self.plugins, self._skipped)

    def narrowed(self, row: int) -> Filtering:
        """Return the answer of somebody who looked at one row first, and took it."""
        twin = copy(self)
        twin.first = np.where(self._fixed == NO_NODE, NO_NODE, NOT_ASKED).astype(np.int16)
        twin.first[row] = FEASIBLE
        twin.explanations = Explanations(self.n)
        return twin

    def beside(self, rejections: Mapping[int, tuple[int, Status]]) -> Filtering:
        """Return the answer with rows rejected as well, as `Trial.rejections` says it.

        Rows that no PreFilter plugin named are rejected for that. The answer cannot be patched.
        """
        twin = copy(self)
        asked = {row: found for row, found in rejections.items() if self._fixed[row] == FEASIBLE}
        twin.unpromised, twin.first = self.first, self.first.copy()
        for row, (number, _) in asked.items():
            twin.first[row] = number
        twin.promised = asked
        return twin

    def without(self, rows: NDArray[np.intp]) -> Filtering:
        """Return the answer of somebody who never looked at these rows; it cannot be patched."""
        twin = copy(self)
        twin.first = self.first.copy()
        twin.first[rows] = NOT_ASKED
        unseen = set(rows.tolist())
        twin.promised = {row: said for row, said in self.promised.items() if row not in unseen}
        if self.unpromised is not None:
            twin.unpromised = self.unpromised.copy()
            twin.unpromised[rows] = NOT_ASKED
        twin.explanations = Explanations(self.n)
        return twin

    def left_to(self, rows: NDArray[np.intp], statuses: Mapping[int, Status]) -> Filtering:
        """Return the answer with only these feasible rows left; it cannot be patched.

        ``statuses``: what is said of other rows from now on, whatever was said before; a row
        that is gone and not named there is gone without a reason.
        """
        twin = copy(self)
        twin.extended = True
        twin.first = np.where(self.first == FEASIBLE, NOT_ASKED, self.first).astype(np.int16)
        twin.first[rows] = FEASIBLE
        twin.unpromised = self.first if self.unpromised is None else self.unpromised
        late = {row: (NOT_ASKED, said) for row, said in statuses.items() if twin.first[row]}
        twin.promised = {**self.promised, **late}
        return twin

    def still_asks_the_same(self, state: CycleState, pod: PodInfo) -> bool:
        """Run PreFilter again where it may look beyond the pod; False if its answer changed.

        Only plugins that read the whole cluster are asked, and what they keep in `state` is
        renewed. A pod that was rejected as a whole is always looked at anew.
        """
        if self.rejection is not None:
            return False
        for hook in self._runner.wide["pre_filter"]:
            result = cast("PreFilterResult", self._runner.call("pre_filter", hook, state, pod))
            skips = result.status.code is Code.SKIP
            if not (skips or result.status.ok) or skips != (hook.plugin in self._skipped):
                return False
            if result.node_names is not None or hook.plugin in self._narrowing:
                return False
        return True

    def patch(self, state: CycleState, pod: PodInfo, touched: NDArray[np.intp]) -> bool:
        """Ask again about rows on which pods came or went.

        Returns whether rows other than `touched` may have changed, too.
        """
        everywhere = False
        for index in self._moving:
            scope = self._scopes[index]
            verdict = self._ask(
                self.plugins[index], state, pod, touched if scope is Scope.NODE else None
            )
            if verdict.codes is not None:
                self._describes[index] = verdict.describe
            if scope is Scope.NODE:
                self._patch_codes(index, touched, verdict.codes)
            else:
                self._codes[index] = self._spread(verdict.codes, None)
                everywhere = True
        if everywhere:
            self._combine()
            self.explanations.forget()
        else:
            self._patch_first(touched)
            self.explanations.forget(touched)
        return everywhere

    def _named_rows(self, table: NodeTable, names: frozenset[str]) -> NDArray[np.intp]:
        row_of = table.row_of
        rows = np.array(sorted(row_of[name] for name in names if name in row_of), np.intp)
        outside = self._fixed == FEASIBLE
        outside[rows] = False
        self._fixed[outside] = OUTSIDE
        return rows

    def _outside(self) -> Status:
        if self.rejection is not None:
            return self.rejection
        text = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(self._narrowing))}]"
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))

    def _ask(self, hook: Hook, state: CycleState, pod: PodInfo, rows: Rows) -> Verdict:
        answer = (
            self._answers.ask("filter", hook, state, pod)
            if rows is None
            else self._runner.call("filter", hook, state, pod, rows)
        )
        verdict = cast("Verdict", answer)
        if verdict.error is not None:
            raise PluginError(f'running "{hook.plugin}" filter plugin: {verdict.error}')
        return verdict

    def _spread(self, codes: Codes | None, rows: Rows) -> Codes | None:
        """Return the codes of `rows` as codes of all rows."""
        if codes is None or rows is None:
            return codes if codes is None else codes.copy()  # patched from now on
        full = np.zeros(self.n, np.int16)
        full[rows] = codes
        return full

    def _combine(self) -> None:
        """Work out `first` from all plugins' codes."""
        first = self._fixed.copy()
        for index, codes in enumerate(self._codes):
            if codes is not None and codes.any():
                first[(codes != 0) & (first == FEASIBLE)] = index + 1
        self.first = first

    def _patch_codes(self, index: int, touched: NDArray[np.intp], fresh: Codes | None) -> None:
        codes = self._codes[index]
        if codes is None:
            if fresh is None or not fresh.any():
                return
            codes = self._codes[index] = np.zeros(self.n, np.int16)
        codes[touched] = 0 if fresh is None else fresh

    def _patch_first(self, touched: NDArray[np.intp]) -> None:
        for row in touched.tolist():
            if self._fixed[row] != FEASIBLE:
                continue
            value = FEASIBLE
            for index, codes in enumerate(self._codes):
                if codes is not None and codes[row]:
                    value = index + 1
                    break
            self.first[row] = value
