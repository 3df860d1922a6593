"""Topology spread constraints of a pod, compiled.

Theory of operation: equal lists of constraints are compiled once and share one
SpreadConstraints, which is equal to nothing but itself and therefore cheap as a key. The facts
are those of ``topologySpreadConstraint`` in kube-scheduler's podtopologyspread/common.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from policy_sched.model.affinity import TopologySpreadConstraint
from policy_sched.model.selectors import Selector, equality_selector, label_selector

DO_NOT_SCHEDULE: Final = "DoNotSchedule"
HONOR: Final = "Honor"


class SpreadConstraint(msgspec.Struct, frozen=True):
    """How far the pods of ``selector`` may be from even over the values of a node label.

    ``hard``: a node that breaks it is refused, else only disliked. The ``honor`` fields say
    whether nodes that the pod's node affinity or untolerated taints exclude are left out.
    """

    max_skew: int
    topology_key: str
    hard: bool
    selector: Selector
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False
    match_label_keys: tuple[str, ...] = ()

    def for_labels(self, labels: Mapping[str, str]) -> SpreadConstraint:
        """Return the constraint with the pod's values of matchLabelKeys joined to the selector."""
        found = {key: labels[key] for key in self.match_label_keys if key in labels}
        if not found or self.selector.nothing:
            return self
        merged = equality_selector(found).requirements + self.selector.requirements
        return msgspec.structs.replace(self, selector=Selector(merged))


class SpreadConstraints(msgspec.Struct, frozen=True, eq=False):
    """A pod's constraints by what breaking them means; ``error`` says what is not valid."""

    hard: tuple[SpreadConstraint, ...] = ()
    soft: tuple[SpreadConstraint, ...] = ()
    error: str = ""

    def __bool__(self) -> bool:
        """Tell whether the pod has constraints of its own, so that default ones do not hold."""
        return bool(self.hard or self.soft or self.error)


NO_CONSTRAINTS: Final = SpreadConstraints()

_ENCODER: Final = msgspec.json.Encoder(order="sorted")
_DECODER: Final = msgspec.json.Decoder(tuple[TopologySpreadConstraint, ...])


def spread_constraints(constraints: tuple[TopologySpreadConstraint, ...]) -> SpreadConstraints:
    """Return the compiled constraints of a pod, or of a profile's defaults."""
    return _compiled(_ENCODER.encode(constraints)) if constraints else NO_CONSTRAINTS


@lru_cache(maxsize=8192)
def _compiled(encoded: bytes) -> SpreadConstraints:
    try:
        found = [_constraint(c) for c in _DECODER.decode(encoded)]
    except ValueError as error:
        return SpreadConstraints(error=str(error))
    return SpreadConstraints(
        hard=tuple(c for c in found if c.hard), soft=tuple(c for c in found if not c.hard)
    )


def _constraint(c: TopologySpreadConstraint) -> SpreadConstraint:
    return SpreadConstraint(
        max_skew=c.max_skew,
        topology_key=c.topology_key,
        hard=c.when_unsatisfiable == DO_NOT_SCHEDULE,
        selector=label_selector(c.label_selector),
        min_domains=1 if c.min_domains is None else c.min_domains,
        honor_affinity=c.node_affinity_policy in (None, HONOR),
        honor_taints=c.node_taints_policy == HONOR,
        match_label_keys=c.match_label_keys,
    )
