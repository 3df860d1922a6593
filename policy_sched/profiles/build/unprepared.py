"""In-tree plugins without the point that prepares another of theirs: that one fails, as upstream.

kube-scheduler's plugins hand on what PreFilter and PreScore found. Where a configuration disables
those, the points that read it fail every pod that reaches them. Points that find it out by
themselves then, as NodeAffinity's and VolumeZone's do, are not listed here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.tables import NodeView
from policy_sched.framework import Code, Codes, CycleState, FilterResult, Rows, Status
from policy_sched.framework.runtime import Implementations
from policy_sched.model import PodInfo

_NOT_FOUND: Final = "not found"
_AFTER_PRE_FILTER: Final[Mapping[str, str]] = {
    "NodePorts": 'reading "PreFilterNodePorts" from cycleState: not found',
    "NodeResourcesFit": 'error reading "PreFilterNodeResourcesFit" from cycleState: not found',
    "VolumeRestrictions": 'cannot read "PreFilterVolumeRestrictions" from cycleState',
    "VolumeBinding": _NOT_FOUND,
    "PodTopologySpread": 'reading "PreFilterPodTopologySpread" from cycleState: not found',
    "InterPodAffinity": 'error reading "PreFilterInterPodAffinity" from cycleState: not found',
    "DynamicResources": _NOT_FOUND,
    "NodeDeclaredFeatures": (
        'error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found'
    ),
}
_AFTER_PRE_SCORE: Final[Mapping[str, str]] = {
    "TaintToleration": 'failed to read "PreScoreTaintToleration" from cycleState: not found',
    "PodTopologySpread": 'error reading "PreScorePodTopologySpread" from cycleState: not found',
    "InterPodAffinity": 'failed to read "PreScoreInterPodAffinity" from cycleState: not found',
}
_BINDING: Final = frozenset({"reserve", "unreserve", "pre_bind", "pre_bind_pre_flight"})
"""What VolumeBinding does with the volumes that its filter found for the node."""


def as_enabled(name: str, functions: Implementations, enabled: Collection[str]) -> Implementations:
    """Return what an in-tree plugin implements, where only some of its points are enabled.

    ``enabled``: fields of a profile's ``plugins`` (``preFilter``).
    """
    changed: dict[str, Callable[..., object]] = {}
    if "preFilter" not in enabled and name in _AFTER_PRE_FILTER:
        why = _AFTER_PRE_FILTER[name]
        changed["filter"] = _failing_filter(why)
        if why is _NOT_FOUND:  # upstream's other points read the same
            changed |= dict.fromkeys(("score", "reserve"), _failing(why))
    elif name == "VolumeBinding" and "filter" not in enabled:
        return {point: own for point, own in functions.items() if point not in _BINDING}
    if "preScore" not in enabled and name in _AFTER_PRE_SCORE:
        changed["score"] = _failing(_AFTER_PRE_SCORE[name])
    if not changed:
        return functions
    # Without its signature nothing is known of the plugin that would hold for what it does now.
    kept = {point: own for point, own in functions.items() if point != "sign_pod"}
    return kept | {point: one for point, one in changed.items() if point in functions}


def _failing(why: str) -> Callable[..., object]:
    def fail(*_args: object) -> object:
        raise LookupError(why)

    return fail


def _failing_filter(why: str) -> Callable[..., object]:
    """Return a filter that fails on the nodes that the filters before it pass."""
    status = Status(Code.ERROR, (why,))

    def describe(rows: NDArray[np.intp], _codes: Codes) -> list[Status]:
        return [status] * rows.size

    def fail(_state: CycleState, _pod: PodInfo, rows: Rows, nodes: NodeView) -> FilterResult:
        codes = np.ones(nodes.n if rows is None else rows.size, np.int16)
        return FilterResult(codes, describe, fatal=frozenset({1}), names_node=False)

    return fail
