"""The ``placement`` section of a policy over a table: the domains of nodes, and how good one is."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from policy_sched.cluster.tables import NodeTable
from policy_sched.language import BoundUnit, PlacementRules
from policy_sched.language.runtime import Activation, Runtime
from policy_sched.language.values import Failure, PlacementFacts, RuleError
from policy_sched.model import PodInfo

Domains = dict[str, npt.NDArray[np.intp]]


class BoundPlacement:
    """The section of the policy ``name``. Its results are right for the table as it is now."""

    def __init__(self, name: str, rules: PlacementRules, table: NodeTable) -> None:
        runtime = Runtime(table)
        self._name = name
        self._table = table
        self._aborts = rules.aborts
        self._domains = [BoundUnit(unit, runtime) for unit in rules.domain]
        self._score = None if rules.score is None else BoundUnit(rules.score, runtime)

    def levels(self, pod: PodInfo, cycle: Activation) -> list[Domains]:
        """Return the domains of each level, the narrowest first.

        They are rows of live nodes, ascending, by the domain's name in order. A node where the rule
        fails, or is empty, is in none.
        """
        return [self._parted(rule, pod, cycle) for rule in self._domains]

    def _parted(self, rule: BoundUnit, pod: PodInfo, cycle: Activation) -> Domains:
        table = self._table
        n = table.n
        out = rule.vector(pod, cycle, None, n)
        root = rule.unit.roots[0]
        codes = np.broadcast_to(np.asarray(out[root.value]), (n,))
        there = table.live.values[:n].copy()
        if root.error is not None:
            there &= np.broadcast_to(np.asarray(out[root.error]), (n,)) == 0
        rows = np.flatnonzero(there)
        text = table.strings.text
        names = np.unique(codes[rows]).tolist()
        domains = {text(code): rows[codes[rows] == code] for code in names}
        return {name: domains[name] for name in sorted(domains) if name}

    def score(self, pod: PodInfo, cycle: Activation, placement: PlacementFacts) -> int:
        """Return how good a domain is, 0 to 100. RuleError where the rule fails and may not."""
        assert self._score is not None, "the policy has a score"
        seen = msgspec.structs.replace(cycle, placement=placement)
        value = self._score.evaluate(0, pod, seen, 0)
        if not isinstance(value, Failure):
            return int(value)
        if self._aborts:
            raise RuleError(
                f"rule {self._name}.placement.score: {value.message} (domain {placement.domain})"
            )
        return 0
