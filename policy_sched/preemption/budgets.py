"""Disruption budgets: which of a node's victims would break one.

A victim breaks a budget if it selects more victims of the node than may go, this one included,
counted from the most important one. Every node has the whole budget: it is one node or another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster import ApiObjects
from policy_sched.cluster.tables import PodRows, PodTable
from policy_sched.model import PodDisruptionBudget, PodInfo, Requirement, Selector, label_selector

#: Of so many budgets the pods that they select are kept.
KEPT_BUDGETS: Final = 8

Block: TypeAlias = NDArray[np.intp] | slice
"""Rows of the pod table: of any shape, or a range of them, of which nothing is gathered."""


class Budget(msgspec.Struct, frozen=True):
    """One disruption budget: its selector, the disruptions allowed, and the pods already disrupted
    (names)."""

    namespace: str
    selector: Selector
    allowed: int
    disrupted: tuple[str, ...]

    def covers(self, pod: PodInfo) -> bool:
        """Return whether the eviction of a pod counts; one without labels is in no budget."""
        return bool(
            pod.namespace == self.namespace
            and pod.labels
            and self.selector.matches(pod.labels)
            and pod.name not in self.disrupted
        )

    def labels(self) -> Iterator[tuple[str, str]]:
        """Yield labels of which each covered pod has one; empty texts if it may have any."""
        for requirement in self.selector.requirements:
            if requirement.operator == "In":
                for value in dict.fromkeys(requirement.values):
                    yield requirement.key, value
                return
        yield "", ""


class Budgets:
    """The cluster's disruption budgets over the columns of a pod table."""

    def __init__(self, objects: ApiObjects, pods: PodTable) -> None:
        self._objects = objects
        self._pods = pods
        self._version = -1
        self._budgets: tuple[Budget, ...] = ()
        self._changes = 0
        self._by_label: dict[tuple[str, str, str], list[int]] = {}
        """Numbers of budgets by namespace and one of the labels that their pods have."""

    @property
    def version(self) -> int:
        """How often there were other budgets."""
        self._refresh()
        return self._changes

    def __bool__(self) -> bool:
        """Return whether there is any budget."""
        self._refresh()
        return bool(self._budgets)

    def violating(self, victims: PodRows) -> NDArray[np.bool_] | None:
        """Return which victims break a budget; None if none does.

        ``victims``: shape (depth, m), each column from the most important pod on.
        """
        self._refresh()
        there = victims.there
        violating: NDArray[np.bool_] | None = None
        for number, budget in enumerate(self._budgets):
            if budget.allowed >= there.shape[0]:
                continue
            selected = self._selected(number, budget, victims)
            if selected is None:
                continue
            chosen = there & selected
            if budget.allowed > 0:
                chosen &= running_count(chosen) > budget.allowed
            if chosen.any():
                violating = chosen if violating is None else violating | chosen
        return violating

    def violating_on(self, victims: Sequence[PodInfo | None]) -> list[bool]:
        """Do as `violating` for the victims of one node, the most important first."""
        self._refresh()
        violating = [False] * len(victims)
        left: dict[int, int] = {}
        for place, pod in enumerate(victims):
            if pod is not None:
                for number in self._possible(pod):
                    budget = self._budgets[number]
                    if budget.covers(pod):
                        left[number] = left.get(number, budget.allowed) - 1
                        violating[place] = violating[place] or left[number] < 0
        return violating

    def _possible(self, pod: PodInfo) -> Iterator[int]:
        """Yield the numbers of the budgets that may cover a pod, each once."""
        yield from self._by_label.get((pod.namespace, "", ""), ())
        for key, value in pod.labels.items():
            yield from self._by_label.get((pod.namespace, key, value), ())

    def _selected(self, number: int, budget: Budget, pods: PodRows) -> NDArray[np.bool_] | None:
        """Return which pods a budget selects, None: none; for the first budgets it may be kept."""
        select = partial(self._selects, budget)
        if number < KEPT_BUDGETS:
            key = budget.namespace, budget.selector, budget.disrupted
            return pods.derived(key, None, select)
        if pods.rows.size < self._pods.n // 4:
            return select(pods.rows)
        every = select(slice(0, self._pods.n))  # of whole columns nothing is gathered
        return every.take(pods.rows) if every.any() else None

    def _refresh(self) -> None:
        if self._version != self._objects.version:
            self._version = self._objects.version
            every = map(budget_of, self._objects.of(PodDisruptionBudget))
            budgets = tuple(budget for budget in every if budget is not None)
            if budgets != self._budgets:
                self._budgets = budgets
                self._changes += 1
                self._by_label.clear()
                for number, budget in enumerate(budgets):
                    for label in budget.labels():
                        self._by_label.setdefault((budget.namespace, *label), []).append(number)

    def _selects(self, budget: Budget, block: Block) -> NDArray[np.bool_]:
        chosen = self._among(block, ("namespace",), (budget.namespace,))
        for requirement in budget.selector.requirements:
            if not chosen.any():
                break
            chosen &= self._meets(requirement, block)
        if budget.disrupted:
            chosen &= ~self._among(block, ("name",), budget.disrupted)
        if not any(r.operator in ("In", "Exists") for r in budget.selector.requirements):
            self._drop_unlabelled(block, chosen)
        return chosen

    def _drop_unlabelled(self, block: Block, chosen: NDArray[np.bool_]) -> None:
        """Clear the flags of pods without any label: such a pod is in no budget."""
        infos = self._pods.infos
        for place in np.argwhere(chosen).tolist():
            info = infos[place[0] if isinstance(block, slice) else block.item(*place)]
            chosen[tuple(place)] = info is not None and bool(info.labels)

    def _meets(self, requirement: Requirement, block: Block) -> NDArray[np.bool_]:
        key = ("label", requirement.key)
        match requirement.operator:
            case "In":
                return self._among(block, key, requirement.values)
            case "NotIn":
                return ~self._among(block, key, requirement.values)
        has: NDArray[np.bool_] = self._pods.lookup(key).values[block] != 0
        return has if requirement.operator == "Exists" else ~has

    def _among(
        self, block: Block, key: tuple[str, ...], texts: tuple[str, ...]
    ) -> NDArray[np.bool_]:
        values = self._pods.lookup(key).values[block]  # first: it may give new codes
        codes = [self._pods.strings.find(text) for text in texts]
        among: NDArray[np.bool_] = values == codes[0]
        for code in codes[1:]:
            among |= values == code
        return among


def running_count(flags: NDArray[np.bool_]) -> NDArray[np.integer[Any]]:
    """Return how many flags of each column are set down to each line, shape (depth, m)."""
    if flags.shape[0] > flags.shape[1]:
        return np.cumsum(flags, axis=0, dtype=np.int64)
    # Line by line: numpy's own running sum goes down each column in turn, which is slower.
    counts: NDArray[np.integer[Any]] = flags.astype(np.uint8 if len(flags) < 256 else np.int64)
    for line in range(1, flags.shape[0]):
        counts[line] += counts[line - 1]
    return counts


def budget_of(budget: PodDisruptionBudget) -> Budget | None:
    """Return a budget that can select something; an empty or broken selector selects nothing."""
    try:
        selector = label_selector(budget.spec.selector)
    except ValueError:
        return None
    if selector.nothing or not selector.requirements:
        return None
    return Budget(
        budget.metadata.namespace or "default",
        selector,
        budget.status.disruptions_allowed,
        tuple(sorted(budget.status.disrupted_pods)),
    )
