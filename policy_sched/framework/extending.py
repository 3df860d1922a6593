"""What extenders do to an attempt: they filter after the plugins, and add to the scores.

Order and words are kube-scheduler's: the extenders filter one after the other, each seeing what
the one before it left; they score side by side, and a failure to score is never fatal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.node_table import NodeTable
from policy_sched.errors import PluginError
from policy_sched.framework.extender import Extender
from policy_sched.framework.filtering import Filtering
from policy_sched.framework.results import Scores
from policy_sched.framework.status import SUCCESS, Code, Status
from policy_sched.model.node import Node
from policy_sched.model.pod_info import PodInfo

#: An extender's best score is 10 and a plugin's 100, so an extender's are multiplied by this.
SCALE: Final = 10


def interested(extenders: Sequence[Extender], pod: PodInfo) -> tuple[Extender, ...]:
    """Return the extenders that are to be asked about the pod, in order."""
    return tuple(extender for extender in extenders if extender.interested(pod))


def passing(
    extenders: Sequence[Extender], pod: PodInfo, filtering: Filtering, table: NodeTable
) -> Filtering:
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
            answer = extender.filter(pod, _nodes(table, left))
        except PluginError:
            if not extender.ignorable:
                raise
            continue
        left = [row for row in left if table.names[row] in answer.nodes]
        for code, said in (
            (Code.UNSCHEDULABLE, answer.failed),
            (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, answer.unresolvable),
        ):
            rows = ((table.row_of.get(name), why) for name, why in said.items())
            statuses |= {row: Status(code, (why,)) for row, why in rows if row is not None}
    if len(left) == before.size:
        return filtering
    return filtering.left_to(np.array(left, np.intp), statuses)


def preferences(
    extenders: Sequence[Extender], pod: PodInfo, rows: NDArray[np.intp], table: NodeTable
) -> dict[str, Scores]:
    """Return what each extender adds to the totals, by its name; int64, shape (n,).

    Nothing of an extender that fails: others decide then. Rows that were not asked for add 0.
    """
    asked = [extender for extender in extenders if extender.prioritizes]
    nodes = _nodes(table, rows.tolist())
    names = {table.names[row]: row for row in rows.tolist()}

    def ask(extender: Extender) -> Scores | None:
        try:
            scores = extender.prioritize(pod, nodes)
        except PluginError:
            return None
        known = [(names[name], score) for name, score in scores if name in names]
        share = np.zeros(table.n, np.int64)
        np.add.at(share, [row for row, _ in known], [score for _, score in known])
        return share * extender.weight * SCALE

    found: dict[str, Scores] = {}
    for extender, share in zip(asked, _side_by_side(ask, asked), strict=True):
        if share is not None:
            earlier = found.get(extender.name)
            found[extender.name] = share if earlier is None else earlier + share
    return found


def bind(extenders: Sequence[Extender], pod: PodInfo, node: str) -> Status | None:
    """Let the extender bind that binds and is interested; None if there is none.

    Raises PluginError if it fails and is not ignorable.
    """
    for extender in extenders:
        if not extender.binds or not extender.interested(pod):
            continue
        try:
            extender.bind(pod, node)
        except PluginError:
            if not extender.ignorable:
                raise
            continue
        return SUCCESS
    return None


def _side_by_side(
    ask: Callable[[Extender], Scores | None], asked: Sequence[Extender]
) -> list[Scores | None]:
    """Ask all of them at once, as each waits for its own service; one needs no thread."""
    if len(asked) < 2:
        return [ask(extender) for extender in asked]
    with ThreadPoolExecutor(len(asked)) as pool:
        return list(pool.map(ask, asked))


def _nodes(table: NodeTable, rows: Sequence[int]) -> list[Node]:
    nodes = (table.nodes[row] for row in rows)
    return [node for node in nodes if node is not None]
