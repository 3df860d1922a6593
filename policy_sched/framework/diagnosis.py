"""Why nothing fits: the statuses of nodes, and the sentence that kube-scheduler makes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from policy_sched.framework.node_to_status import tally
from policy_sched.framework.status import Code, Status

NO_NODES: Final = "no nodes available to schedule pods"


@dataclass(slots=True)
class Diagnosis:
    """What the failed attempt found.

    ``statuses``: row of the node table to the status that rejected it (live rows only).
    ``pre_filter``: the rejection of the whole pod, if a PreFilter plugin rejected it.
    ``node_count``: live nodes. ``post_filter``: what PostFilter plugins said, if they ran.
    ``narrowed_by``: PreFilter plugins that left only some nodes to look at.
    """

    node_count: int
    statuses: Mapping[int, Status] = field(default_factory=dict)
    pre_filter: Status | None = None
    post_filter: Status | None = None
    narrowed_by: tuple[str, ...] = ()

    def rejectors(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the plugins that rejected the pod, and those of them that answered Pending.

        PreFilter plugins that restricted the nodes are included. Without nodes there are none.
        """
        if self.node_count == 0:
            return frozenset(), frozenset()
        said = tally(self.statuses) if self.pre_filter is None else (self.pre_filter,)
        pending = {status.plugin for status in said if status.code is Code.PENDING}
        others = {status.plugin for status in said if status.code is not Code.PENDING}
        others.update(self.narrowed_by)
        others.discard("")
        return frozenset(others), frozenset(pending)

    def message(self) -> str:
        """Return the text of the FailedScheduling event and the PodScheduled condition."""
        if self.node_count == 0:
            return NO_NODES
        head = f"0/{self.node_count} nodes are available:"
        if self.pre_filter is not None:
            text = f"{head} {self.pre_filter.message()}." if self.pre_filter.reasons else head
        else:
            reasons = histogram(tally(self.statuses))
            text = f"{head} {reasons}." if reasons else head
        if self.post_filter is not None and self.post_filter.reasons:
            text = f"{text} {self.post_filter.message()}"
        return text


def histogram(counts: Mapping[Status, int]) -> str:
    """Add up each reason's nodes and join the sums, sorted as strings ("10 x" before "2 y").

    ``counts``: how many nodes have each status.
    """
    sums: Counter[str] = Counter()
    for status, count in counts.items():
        for reason in status.reasons:
            sums[reason] += count
    return ", ".join(sorted(f"{count} {reason}" for reason, count in sums.items()))
