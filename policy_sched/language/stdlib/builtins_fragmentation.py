"""Builtins of fragmentation: what is free of a node's devices and of no use to the usual pods.

Theory of operation. The measure is that of Weng et al., "Beware of Fragmentation" (USENIX ATC
2023). A usual pod wants cpu and so much of each of some devices. If it does not fit on the node,
all that is free is of no use to it, otherwise what is free of the devices that are too small for
it. The fragmentation is the mean over the usual pods, weighted by how usual they are. It is summed
part by part in the order of the paper's simulator, so that it is equal to the last bit.

A node counts in it by which pods its cpu is enough for, and by its devices in any order. There are
few such states, so values are kept by state: a policy that weighs the same nodes again and again,
and every device of each, looks most of them up.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Final, TypeAlias

import msgspec

from policy_sched.language.values import OUT_OF_RANGE, Fault, limits as work

_KEPT_STATES: Final = 200_000
_KEPT_GROUPS: Final = 2_000
_KEPT_TABLES: Final = 16
_KIND: Final = 3
"""Numbers of a kind of pod: cpu, devices, how much of each of them."""
Kinds: TypeAlias = Sequence[Sequence[int]]
_State: TypeAlias = tuple[int, ...]


class _Sorted(msgspec.Struct):
    """The usual pods by how a node's model and cpu suit them, each group in their order.

    ``elsewhere``: weights of those that want another model; ``none`` and ``none_short``: of those
    that want no device, where the cpu is enough and where it is not; ``wanting``: of all others how
    many devices, which of ``amounts`` of each, the weight, and whether the cpu is enough.
    """

    elsewhere: list[float] = msgspec.field(default_factory=list)
    none: list[float] = msgspec.field(default_factory=list)
    none_short: list[float] = msgspec.field(default_factory=list)
    amounts: list[int] = msgspec.field(default_factory=list)
    wanting: list[tuple[int, int, float, bool]] = msgspec.field(default_factory=list)


class UsualPods:
    """The usual pods, and the fragmentation of the states of nodes that were asked for."""

    def __init__(self, kinds: Kinds, models: Sequence[str], weights: Sequence[float]) -> None:
        self.given = kinds, models, weights
        if not len(kinds) == len(models) == len(weights) or any(len(k) != _KIND for k in kinds):
            raise Fault(OUT_OF_RANGE)
        self._rows = [
            (cpu, count, amount, frozenset(model.split("|") if model else ()), weight)
            for (cpu, count, amount), model, weight in zip(kinds, models, weights, strict=True)
        ]
        self._steps = sorted({row[0] for row in self._rows})
        self._sorted: dict[tuple[str, int], _Sorted] = {}
        self._kept: dict[tuple[str, int, _State], float] = {}
        self._after: dict[tuple[str, int, _State, int, int], list[float]] = {}

    def before(self, cpu: int, devices: Sequence[int], model: str) -> float:
        """Return the fragmentation of a node with free cpu and free devices."""
        return self._of(bisect_right(self._steps, cpu), tuple(sorted(devices)), model)

    def after(
        self, cpu: int, devices: Sequence[int], model: str, count: int, amount: int
    ) -> list[float]:
        """Return it after ``amount`` of each of ``count`` devices is taken, for each way to do so.

        The list is the caller's to read alone.
        """
        step = bisect_right(self._steps, cpu)
        key = (model, step, tuple(devices), count, amount)
        losses = self._after.get(key)
        if losses is None:
            if len(self._after) >= _KEPT_STATES:
                self._after.clear()
            ways = _ways(devices, count, amount)
            losses = self._after[key] = [self._of(step, way, model) for way in ways]
        return losses

    def _of(self, step: int, devices: _State, model: str) -> float:
        key = (model, step, devices)
        loss = self._kept.get(key)
        if loss is None:
            if len(self._kept) >= _KEPT_STATES:
                self._kept.clear()
            loss = self._kept[key] = self._worked_out(step, devices, model)
        return loss

    def _sorted_for(self, step: int, model: str) -> _Sorted:
        pods = self._sorted.get((model, step))
        if pods is not None:
            return pods
        if len(self._sorted) >= _KEPT_GROUPS:
            self._sorted.clear()
        pods = self._sorted[model, step] = _Sorted()
        enough = frozenset(self._steps[:step])
        for cpu, count, amount, models, weight in self._rows:
            if models and model not in models:
                pods.elsewhere.append(weight)
            elif count > 0:
                if amount not in pods.amounts:
                    pods.amounts.append(amount)
                kind = pods.amounts.index(amount)
                pods.wanting.append((count, kind, weight, cpu in enough))
            else:
                (pods.none if cpu in enough else pods.none_short).append(weight)
        return pods

    def _worked_out(self, step: int, devices: _State, model: str) -> float:
        work.spend_of_total(len(self._rows) * (1 + len(devices)))
        pods, devices_free = self._sorted_for(step, model), len(devices)
        below = [0, *accumulate(devices)]
        free = below[devices_free]
        small = [bisect_left(devices, amount) for amount in pods.amounts]
        lack_both = lack_devices = lack_cpu = 0.0
        for count, kind, weight, enough in pods.wanting:
            least_place = small[kind]
            if enough:
                lack_devices += weight * (
                    free if devices_free - least_place < count else below[least_place]
                )
            elif devices_free - least_place < count:
                lack_both += weight * free
            else:
                lack_cpu += weight * free
        none, none_short, elsewhere = (
            _total(weights, free) for weights in (pods.none, pods.none_short, pods.elsewhere)
        )
        # In this order: the sum is rounded as the paper's is.
        return lack_both + lack_devices + lack_cpu + none + none_short + elsewhere


def _total(weights: Sequence[float], free: int) -> float:
    """Return the sum of weighted amounts, from the first on."""
    sum_so_far = 0.0
    for weight in weights:
        sum_so_far += weight * free
    return sum_so_far


_TABLES: Final[dict[int, tuple[Kinds, Sequence[str], Sequence[float], UsualPods]]] = {}
"""The lists of rules, by the first of them, and what is kept for them; equal lists share it."""


def _table(kinds: Kinds, models: Sequence[str], weights: Sequence[float]) -> UsualPods:
    """Return what is kept for some usual pods."""
    entry = _TABLES.get(id(kinds))
    if entry is not None and entry[0] is kinds and entry[1] is models and entry[2] is weights:
        return entry[3]
    given = kinds, models, weights
    table = next((kept[3] for kept in _TABLES.values() if kept[3].given == given), None)
    if table is None:
        table = UsualPods(kinds, models, weights)
    if len(_TABLES) >= _KEPT_TABLES:
        _TABLES.clear()
    _TABLES[id(kinds)] = kinds, models, weights, table
    return table


def fragmentation(
    cpu: int,
    devices: Sequence[int],
    model: str,
    kinds: Kinds,
    models: Sequence[str],
    weights: Sequence[float],
) -> float:
    """Return what of the free devices is of no use to the usual pods.

    ``kinds``: the cpu of each, how many devices it wants, and how much of each of them;
    ``models``: the models that it may have, "" for any. Fault: lists of different lengths.
    """
    return _table(kinds, models, weights).before(cpu, devices, model)


def fragmentations(  # noqa: PLR0913, PLR0917 - a function of the rule language
    cpu: int,
    devices: Sequence[int],
    model: str,
    kinds: Kinds,
    models: Sequence[str],
    weights: Sequence[float],
    count: int,
    amount: int,
) -> list[float]:
    """Return the fragmentation after ``amount`` of each of ``count`` devices is taken.

    One value for each way to take it: with one device, each that has as much, in order; with more,
    the first ones that have as much; without any, as it is. Fault: as `fragmentation`.
    """
    return _table(kinds, models, weights).after(cpu, devices, model, count, amount)


def _ways(devices: Sequence[int], count: int, amount: int) -> list[_State]:
    """Return the devices as they may be afterwards, each time in ascending order."""
    if count <= 0:
        return [tuple(sorted(devices))]
    fitting = [free for free in devices if free >= amount]
    work.spend_of_total(len(devices) * len(fitting))
    if count == 1:
        return [_taken(devices, (free,), amount) for free in fitting]
    return [_taken(devices, fitting[:count], amount)] if len(fitting) >= count else []


def _taken(devices: Sequence[int], taken: Sequence[int], amount: int) -> _State:
    left = list(devices)
    for device in taken:
        left.remove(device)
        left.append(device - amount)
    left.sort()
    return tuple(left)


TOTAL: Final[dict[str, Callable[..., Any]]] = {}
PARTIAL: Final[dict[str, Callable[..., Any]]] = {
    "fragmentation_int_list_string_list_list_list": fragmentation,
    "fragmentations_int_list_string_list_list_list_int_int": fragmentations,
}
