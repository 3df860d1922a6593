"""The filters of one pod, rule by rule, each over all nodes as if it were alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.tables import NodeTable
from policy_sched.framework import (
    Code,
    Codes,
    CycleState,
    Describe,
    FilterResult,
    PreFilterResult,
    Status,
)
from policy_sched.framework.runtime import Hook, Runner
from policy_sched.model import PodInfo


@dataclass(frozen=True, slots=True)
class Part:
    """One filter plugin, or one rule of a policy: its codes over all rows, None if all pass."""

    plugin: str
    name: str
    codes: Codes | None
    describe: Describe | None = None

    def rejected(self, n: int) -> NDArray[np.bool_]:
        """Return which of the rows [0, n) it rejects."""
        if self.codes is None:
            return np.zeros(n, np.bool_)
        found: NDArray[np.bool_] = self.codes != 0
        return found


def filter_parts(runner: Runner, table: NodeTable, pod: PodInfo) -> list[Part]:
    """Ask every filter about every row. PreFilter plugins that name nodes are parts of their own.

    Raises PluginError if a plugin breaks.
    """
    state = CycleState()
    _, skipped, _, narrowing = runner.pre_filter(state, pod)
    parts = [
        _narrowing(runner, hook, table, pod)
        for hook in runner.pipeline.at("pre_filter")
        if hook.plugin in narrowing
    ]
    for hook in runner.active("filter", skipped):
        verdict = cast("FilterResult", runner.call("filter", hook, state, pod, None))
        pieces: Sequence[tuple[str, Codes | None]] = ((hook.plugin, verdict.codes),)
        if verdict.parts is not None:
            pieces = verdict.parts()
        parts += [Part(hook.plugin, name, codes, verdict.describe) for name, codes in pieces]
    return parts


def _narrowing(runner: Runner, hook: Hook, table: NodeTable, pod: PodInfo) -> Part:
    """Return the part of a PreFilter plugin that left only some nodes to look at."""
    answer = cast("PreFilterResult", runner.call("pre_filter", hook, CycleState(), pod))
    codes = np.ones(table.n, np.int16)
    for name in answer.node_names or ():
        if name in table.row_of:
            codes[table.row_of[name]] = 0
    status = Status(
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        (f"node(s) didn't satisfy plugin(s) [{hook.plugin}]",),
        hook.plugin,
    )
    return Part(
        hook.plugin, f"{hook.plugin} (preFilter)", codes, FilterResult.of(codes, status).describe
    )
