"""Values of a rule for pods on rows, kept by what the rule reads of both.

Theory of operation. Many pods of a trace are alike, and so are many nodes. What a rule returns
follows from fields of the pod and columns of the row; the compiler says which. So it is evaluated
once for each combination of their values, whatever pod and row have them.
"""

from __future__ import annotations

from typing import Any, Final

from policy_sched.cluster.tables import NodeTable, PodTable
from policy_sched.framework import Scope, Signature
from policy_sched.framework.evaluate import key_getter
from policy_sched.language import Expression
from policy_sched.language.runtime import Activation
from policy_sched.model import PodInfo

NO_CYCLE: Final = Activation()
_KEPT: Final = 100_000


class RuleValues:
    """A rule over the tables of one cluster; the values that it returns are shared."""

    def __init__(self, rule: Expression, nodes: NodeTable, pods: PodTable) -> None:
        self._evaluate = rule.bind(nodes, pods).scalar
        self._columns = None if rule.columns is None else [nodes.column(k) for k in rule.columns]
        self._of_pod = key_getter(Signature(rule.reads.pod, Scope.NODE))
        self._kept: dict[tuple[object, ...], tuple[Any, int]] = {}

    def __call__(self, pod: PodInfo, row: int) -> tuple[Any, int]:
        """Return the value and the error (0 for none) for a pod on a row."""
        columns = self._columns
        if columns is None:
            return self._evaluate(pod, NO_CYCLE, row)
        key = (self._of_pod(pod), *[column.view[row] for column in columns])
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            found = self._kept[key] = self._evaluate(pod, NO_CYCLE, row)
        return found
