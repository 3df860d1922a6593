"""What extenders do to an attempt: they filter after the plugins, and add to the scores.

Order and words are kube-scheduler's: the extenders filter one after the other, each seeing what
the one before it left; they score side by side, and a failure to score is never fatal. Requests
block the decision, which the caller runs in a thread.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from policy_sched.client import begun
from policy_sched.cluster.tables import NodeTable
from policy_sched.errors import PluginError
from policy_sched.framework import EXTENDER, Code, Extender, Scores, Status
from policy_sched.framework.evaluate.results import FilteredNodes
from policy_sched.framework.evaluate.views import FEASIBLE, NOT_ASKED
from policy_sched.model import Node, PodInfo

LOG: Final = logging.getLogger(__name__)
HostPriorities = Sequence[tuple[str, int]]
"""Scores by node name."""
#: An extender's best score is 10 and a plugin's 100, so an extender's are multiplied by this.
SCALE: Final = 10


def interested(extenders: Sequence[Extender], pod: PodInfo) -> tuple[Extender, ...]:
    """Return the extenders that are interested in the pod, in order."""
    return tuple(extender for extender in extenders if extender.interested(pod))


def skip(extender: Extender, error: PluginError) -> None:
    """Take note that scheduling goes on without an extender; another error than before is logged.

    An extender that is away fails for every pod.
    """
    skips = extender.skips
    if skips.error != str(error):
        LOG.warning("scheduling goes on without extender %s: %s", extender.name, error)
    skips.count += 1
    skips.error = str(error)


def skipped(extenders: Sequence[Extender]) -> dict[str, tuple[int, str]]:
    """Return by name how often each extender was skipped so far, and its last error."""
    return {
        extender.name: (extender.skips.count, extender.skips.error)
        for extender in extenders
        if extender.skips.count
    }


def passing(
    extenders: Sequence[Extender], pod: PodInfo, filtering: FilteredNodes, table: NodeTable
) -> FilteredNodes:
    """Return what the extenders leave of the feasible rows.

    Raises PluginError if one fails that is not ignorable.
    """
    before = filtering.feasible_rows()
    left: list[int] = before.tolist()
    statuses: dict[int, Status] = {}
    for extender in extenders:
        if not left:
            break
        if not extender.filters:
            continue
        try:
            result = extender.filter(pod, _nodes(table, left))
        except PluginError as error:
            if not extender.ignorable:
                raise
            skip(extender, error)
            continue
        left = [row for row in left if table.names[row] in result.nodes]
        for code, failed in (
            (Code.UNSCHEDULABLE, result.failed),
            (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, result.unresolvable),
        ):
            rows = ((table.row_of.get(name), why) for name, why in failed.items())
            statuses |= {row: Status(code, (why,)) for row, why in rows if row is not None}
    if len(left) == before.size:
        return filtering
    first = np.where(filtering.first == FEASIBLE, NOT_ASKED, filtering.first).astype(np.int16)
    first[np.array(left, np.intp)] = FEASIBLE
    late = {row: (NOT_ASKED, status) for row, status in statuses.items() if first[row]}
    left_out = filtering.restricted(
        first, filtering.by_plugins, overrides={**filtering.overrides, **late}
    )
    return replace(left_out, narrowed_by=(*filtering.narrowed_by, EXTENDER))


def preferences(
    extenders: Sequence[Extender], pod: PodInfo, rows: NDArray[np.intp], table: NodeTable
) -> dict[str, Scores]:
    """Return what each extender adds to the totals, by its name; int64, shape (n,).

    Nothing of an extender that fails: the others decide then. Rows without a score add 0.
    """
    prioritizers = [extender for extender in extenders if extender.prioritizes]
    nodes = _nodes(table, rows.tolist())
    names = {table.names[row]: row for row in rows.tolist()}

    def prioritize(extender: Extender) -> HostPriorities | None:
        try:
            return extender.prioritize(pod, nodes)
        except PluginError as error:
            skip(extender, error)
            return None

    # Each waits for its own service, so all are called at once; the first needs no thread.
    others = [begun(partial(prioritize, extender)) for extender in prioritizers[1:]]
    first = [prioritize(extender) for extender in prioritizers[:1]]
    by_name: dict[str, Scores] = {}
    priorities = [*first, *(other.result() for other in others)]
    for extender, scores in zip(prioritizers, priorities, strict=True):
        if scores is None:
            continue
        scored = [(names[name], score) for name, score in scores if name in names]
        share = np.zeros(table.n, np.int64)
        np.add.at(share, [row for row, _ in scored], [score for _, score in scored])
        share = share * extender.weight * SCALE
        earlier = by_name.get(extender.name)
        by_name[extender.name] = share if earlier is None else earlier + share
    return by_name


def _nodes(table: NodeTable, rows: Sequence[int]) -> list[Node]:
    nodes = (table.nodes[row] for row in rows)
    return [node for node in nodes if node is not None]
