"""FilterDryRun: runs the filters of an attempt again on hypothetical pods.

Preemption needs to know whether the pod fits without its victims, and nominations whether it fits
with the nominated pods added. Both make an overlay of the node table (see cluster/overlay) and run
the attempt's plugins over it, without those that it skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from policy_sched import thresholds
from policy_sched.cluster.overlay import AddedPods, NodeOverlay
from policy_sched.cluster.tables import Key as ColumnKey, NodeView
from policy_sched.errors import PluginError
from policy_sched.framework import (
    NO_KERNEL,
    Code,
    Codes,
    CycleState,
    FilterResult,
    FirstRejection,
    RowKernel,
    Rows,
    Scope,
    Status,
)
from policy_sched.framework.runtime import Hook, Runner, broken
from policy_sched.model import PodInfo

PodsByRow: TypeAlias = Mapping[int, tuple[PodInfo, ...]]
"""By row of the node table: the nominated pods that come before the pod in question."""


class FilterDryRun:
    """The filter plugins of one attempt; ``state`` is what its PreFilter plugins wrote.

    ``node_by_node``: a plugin reads more than the evaluated row, so the overlay of one node must be
    removed before another is evaluated. ``by_state``: such plugins learn of pods that come and go
    by AddPod and RemovePod alone; where these change nothing that a plugin keeps in the state, its
    result is as before, whatever else is tried out. ``skipped``: the plugins that the attempt left
    out. ``pipeline``: the hash of the policies that the filters belong to.
    """

    def __init__(self, runner: Runner, skipped: frozenset[str]) -> None:
        self.skipped = skipped
        self.pipeline = runner.pipeline.content_hash
        self._runner = runner
        active, scope_of = runner.active("filter", skipped), runner.pipeline.scope
        every = enumerate(runner.hooks["filter"], 1)
        self.plugins = {number: hook for number, hook in every if hook in active}
        """By their numbers; the first filter of the profile has number 1."""
        self._dynamic = {
            number: hook
            for number, hook in self.plugins.items()
            if scope_of(hook.plugin) is not Scope.STATIC
        }
        signatures = runner.pipeline.signatures
        kernels = {
            number: signatures[hook.plugin].kernel if hook.plugin in signatures else NO_KERNEL
            for number, hook in self._dynamic.items()
        }
        self._by_node = {number for number, kernel in kernels.items() if kernel.node_by_node}
        self._add = runner.active("add_pod", skipped)
        self._remove = runner.active("remove_pod", skipped)
        cluster_scoped = {
            hook.plugin for hook in self._dynamic.values() if scope_of(hook.plugin) > Scope.NODE
        }
        overlays = {number: kernel.overlay for number, kernel in kernels.items()}
        self._overlays = {number: own for number, own in overlays.items() if own is not None}
        self._rejection: FirstRejection | None = None if self._dynamic else _passes
        """The filters that read pods as a function; None if one of them is none."""
        self._overlay: NodeView | None = None
        """What they are functions over."""
        if self._overlays.keys() == self._dynamic.keys():
            self._overlay = next((own.nodes for own in self._overlays.values()), None)
            rules = runner.pipeline.rules
            if rules is not None and self._overlay is not None:
                numbered = [(number, self.plugins[number].plugin) for number in self._overlays]
                self._rejection = rules.first_rejection(numbered, self._overlay)
        # A method of its own would be a cycle, left behind by every reload.
        self.reads = cache(partial(_may_read, list(kernels.values())))
        """Returns whether a filter that reads pods may read a column of the node table."""
        self.node_by_node = bool(cluster_scoped)
        self.by_state = cluster_scoped <= {hook.plugin for hook in self._add}

    def fits(
        self,
        nodes: NodeView,
        state: CycleState,
        pod: PodInfo,
        rows: Rows,
        among: NDArray[np.bool_] | None = None,
        *,
        moved: bool = False,
    ) -> NDArray[np.bool_]:
        """Return on which of the rows of a view every filter passes, shape (k,).

        ``rows``: None is all rows of the table. ``among``: which of them count, None: all; others
        may be dead. ``moved``: they were evaluated before, and since then only pods changed:
        filters that do not read pods are left out.
        """
        filters = self._dynamic if moved else self.plugins
        count = nodes.n if rows is None else rows.size
        passed = np.ones(count, np.bool_) if among is None else among.copy()
        if rows is None and moved and self._pass_together(nodes, pod, passed):
            return passed
        for number, hook in filters.items():
            left = number in self._by_node and not passed.all()  # it looks at no other node
            asked = _chosen(rows, passed) if left else rows
            verdict = self._runner.filter(hook, state, pod, asked, nodes)
            codes = verdict.codes
            if codes is None:
                continue
            if verdict.fatal and verdict.names_node:
                self._check(hook, verdict, _chosen(rows, passed), codes if left else codes[passed])
            if left:
                passed[passed] = codes == 0
            else:
                passed &= codes == 0
        return passed

    def _pass_together(self, nodes: NodeView, pod: PodInfo, passed: NDArray[np.bool_]) -> bool:
        """Clear the flags of the rows on which a filter that reads pods rejects the pod.

        Return False, with no flag cleared, where the filters must run one by one.
        """
        if self._runner.sampling or (self._dynamic and nodes is not self._overlay):
            return False
        try:
            flags = [own.flags(pod) for own in self._overlays.values()]
        except Exception:  # noqa: BLE001 - the plugins, one by one, say which of them broke
            return False
        for own in flags:
            passed &= own
        return True

    def static_fits(
        self, nodes: NodeView, state: CycleState, pod: PodInfo
    ) -> NDArray[np.bool_] | None:
        """Return by row whether the filters pass that do not read pods.

        None where one of them can end the attempt: it is to run for the rows in question alone.
        """
        passed = np.ones(nodes.n, np.bool_)
        for number, hook in self.plugins.items():
            if number not in self._dynamic:
                verdict = self._runner.filter(hook, state, pod, None, nodes)
                if verdict.fatal:
                    return None
                if verdict.codes is not None:
                    passed &= verdict.codes == 0
        return passed

    def first_rejection(self, nodes: NodeView) -> FirstRejection | None:
        """Return the filters that read pods as a function of the pod and a row of a view.

        None if one of them is none, counts its steps or can end the attempt, and while plugins are
        measured one by one.
        """
        if self._runner.sampling or (self._dynamic and nodes is not self._overlay):
            return None
        return self._rejection

    def rejections(
        self,
        nodes: NodeView,
        state: CycleState,
        pod: PodInfo,
        rows: NDArray[np.intp],
        *,
        moved: bool = False,
    ) -> dict[int, tuple[int, Status]]:
        """Return, by row, the number of the first filter that rejects it, and its status.

        ``moved``: all filters passed the rows before, and since then only pods changed.
        """
        if moved and rows.size <= thresholds.LOOP_ROWS:
            few = self._few_rejections(nodes, pod, rows.tolist())
            if few is not None:
                return few
        rejections: dict[int, tuple[int, Status]] = {}
        for number, hook in (self._dynamic if moved else self.plugins).items():
            if not rows.size:
                break
            verdict = self._runner.filter(hook, state, pod, rows, nodes)
            if verdict.codes is None or not verdict.codes.any():
                continue
            if verdict.fatal and verdict.names_node:
                self._check(hook, verdict, rows, verdict.codes)
            bad = verdict.codes != 0
            statuses = verdict.describe(rows[bad], verdict.codes[bad])
            for row, status in zip(rows[bad].tolist(), statuses, strict=True):
                if status.code is Code.ERROR:
                    text = broken("filter", hook.plugin, status.message())
                    rejections[row] = number, Status(Code.ERROR, (text,), hook.plugin)
                else:
                    rejections[row] = number, status.by(hook.plugin)
            rows = rows[~bad]
        return rejections

    def rejections_with(
        self,
        nodes: NodeOverlay,
        state: CycleState,
        pod: PodInfo,
        added: PodsByRow,
        *,
        passed: bool = False,
    ) -> dict[int, tuple[int, Status]]:
        """Return the rejections of rows of an overlay with pods added to them.

        ``passed``: without these pods all filters pass the rows.
        """
        rejections: dict[int, tuple[int, Status]] = {}
        together: PodsByRow = added
        if self.node_by_node:
            together = {
                row: others
                for row, others in added.items()
                if self.is_unaffected_by(state, pod, row, (), others)
            }
        if together:
            pods = AddedPods(together)
            with nodes:
                nodes.add_all(pods)
                rejections |= self.rejections(nodes, state, pod, pods.rows, moved=passed)
        for row, others in added.items():
            if row in together:
                continue
            clone = state.clone()
            with nodes:
                for other in others:
                    nodes.add(row, other)
                    self.add_pod(clone, pod, other, row)
                rejections |= self.rejections(nodes, clone, pod, np.array([row], np.intp))
        return rejections

    def _few_rejections(
        self, nodes: NodeView, pod: PodInfo, rows: Sequence[int]
    ) -> dict[int, tuple[int, Status]] | None:
        """Return the rejections of rows by filters that read pods; None if these have to tell."""
        first = self.first_rejection(nodes)
        if first is None:
            return None
        rejections: dict[int, tuple[int, Status]] = {}
        try:
            for row in rows:
                rejection = first(pod, row)
                if rejection is not None:
                    number, code = rejection
                    status = self._overlays[number].explain(pod, row, code)
                    status = status.by(self.plugins[number].plugin)
                    rejections[row] = number, status
        except Exception:  # noqa: BLE001 - the plugins, one by one, say which of them broke
            return None
        return rejections

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, row: int) -> None:
        """Run AddPod: `other` is added to the row. PluginError if a plugin fails."""
        for hook in self._add:
            self._update("add_pod", "AddPod", hook, state, pod, other, row)

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, row: int) -> None:
        """Run RemovePod: `other` is removed from the row. PluginError if a plugin fails."""
        for hook in self._remove:
            self._update("remove_pod", "RemovePod", hook, state, pod, other, row)

    def is_unaffected_by(
        self,
        state: CycleState,
        pod: PodInfo,
        row: int,
        leaving: Iterable[PodInfo],
        coming: Iterable[PodInfo],
    ) -> bool:
        """Return whether pods removed from and added to a row leave the wider filters unaffected.

        Such a row can be evaluated together with others.
        """
        if not self.by_state:
            return False
        clone = state.clone()
        for other in leaving:
            self.remove_pod(clone, pod, other, row)
        for other in coming:
            self.add_pod(clone, pod, other, row)
        return clone.same(state)

    def _check(
        self, hook: Hook, verdict: FilterResult, rows: NDArray[np.intp], codes: Codes
    ) -> None:
        """Raise PluginError if the filter broke on one of the rows, which passed so far."""
        where = np.flatnonzero(np.isin(codes, list(verdict.fatal)))[:1]
        if where.size:
            (status,) = verdict.describe(rows[where], codes[where])
            self._runner.count_failure("filter", hook)
            raise PluginError(broken("filter", hook.plugin, status.message()))

    def _update(self, point: str, name: str, hook: Hook, *args: object) -> None:
        status = cast("Status", self._runner.call(point, hook, *args))
        if not status.ok:
            raise PluginError(
                f'running {name} on PreFilter plugin "{hook.plugin}": {status.message()}'
            )


def _chosen(rows: Rows, flags: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the flagged ones of some rows, or of all rows of a table."""
    return np.flatnonzero(flags) if rows is None else rows[flags]


def _passes(_pod: PodInfo, _row: int) -> None:
    """Reject no row: no filter reads pods."""


def _may_read(kernels: Sequence[RowKernel], key: ColumnKey) -> bool:
    return any(kernel.filter_reads is None or kernel.filter_reads(key) for kernel in kernels)
