"""Caches of evaluations by signature, and of the results of plugins that read static fields.

Theory of operation. Evaluations are kept by the 2Q policy (Johnson and Shasha, VLDB 1994). Pods of
a Deployment repeat their signature; pods that are all different never do, and caching their arrays
would only evict useful entries. So a new evaluation enters a small probation queue. It moves to the
main cache when its signature is seen a second time, either while it is on probation or later, if
the ghost list still has the signature. While no signature is seen again, evaluations are not kept
at all: the ghost list alone tells which one is.

Two pods with different requests may have equal values in all fields that ImageLocality reads. The
result of such a plugin over all rows is kept by the values of its fields, until a node, the set of
nodes or a namespace changes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.tables import NodeTable
from policy_sched.framework import CycleState, Scope
from policy_sched.framework.evaluate.pod_signature import Key, key_getter
from policy_sched.framework.evaluate.results import NO_NODE
from policy_sched.framework.runtime import Hook, Runner
from policy_sched.model import PodInfo

#: Limits in bytes of the main cache and of the probation queue, for one profile.
MAIN_BYTES: Final = 256 * 1024 * 1024
PROBATION_BYTES: Final = 4 * 1024 * 1024
#: After so many pods of which nothing was known, no evaluation is kept: they are all different, and
#: memory that is used again at once is faster. Of results of plugins one in `PROBE` is looked up.
MISSES: Final = 32
PROBE: Final = 8
#: Signatures in the ghost list, which has no evaluations.
GHOST_KEYS: Final = 4096


class Sized(Protocol):
    """An object with a size in bytes."""

    @property
    def nbytes(self) -> int:
        """Bytes."""


T = TypeVar("T", bound=Sized)


class EvaluationCache(Generic[T]):
    """Evaluations by signature; the least recently used is evicted first."""

    def __init__(self) -> None:
        self._main: OrderedDict[Key, T] = OrderedDict()
        self._probation: OrderedDict[Key, T] = OrderedDict()
        self._ghost: OrderedDict[int, None] = OrderedDict()
        """Hashes of signatures: where two share one, an evaluation is kept that need not be."""
        self._misses = 0

    def get(self, key: Key) -> T | None:
        """Return the evaluation of a signature; one on probation moves to the main cache."""
        found = self._main.get(key)
        if found is not None:
            self._main.move_to_end(key)
            return found
        found = self._probation.pop(key, None)
        if found is not None:
            self._keep(key, found)
        return found

    def put(self, key: Key, evaluation: T) -> bool:
        """Add an evaluation, replacing an older one of the signature; return whether it is kept."""
        mark = hash(key)
        if mark in self._ghost or key in self._main:
            self._keep(key, evaluation)
            return True
        self._misses += 1
        self._ghost[mark] = None
        if len(self._ghost) > GHOST_KEYS:
            self._ghost.popitem(last=False)
        if self._misses > MISSES:
            return False
        self._probation[key] = evaluation
        _trim(self._probation, PROBATION_BYTES, evaluation.nbytes)
        return True

    def drop(self, key: Key) -> None:
        """Remove the evaluation of a signature."""
        self._main.pop(key, None)
        self._probation.pop(key, None)

    def _keep(self, key: Key, evaluation: T) -> None:
        self._misses = 0
        self._main[key] = evaluation
        self._main.move_to_end(key)
        _trim(self._main, MAIN_BYTES, evaluation.nbytes)


def _trim(entries: OrderedDict[Key, T], limit: int, each: int) -> None:
    """Evict the oldest entries until entries of ``each`` bytes fit; at least two stay."""
    most = max(2, limit // max(1, each))
    while len(entries) > most:
        entries.popitem(last=False)


#: Results cached per plugin and extension point: arrays of one element per node.
LIMIT: Final = 64


class _Results:
    """The results of one plugin at one point by its pod's fields, and the misses since a hit."""

    __slots__ = ("by_key", "misses")

    def __init__(self) -> None:
        self.by_key: OrderedDict[Key, object] = OrderedDict()
        self.misses = 0

    def copy(self) -> _Results:
        """Return results that change independently."""
        clone = _Results()
        clone.by_key, clone.misses = self.by_key.copy(), self.misses
        return clone


class StaticResultCache:
    """Runs filter and score plugins over all rows of ``table`` and caches static results."""

    def __init__(self, runner: Runner, table: NodeTable, *, kept: bool) -> None:
        self._runner = runner
        self.table = table
        self._version = -1
        self._rows: NDArray[np.int16] | None = None
        self._keys: dict[str, Callable[[PodInfo], Key]] = {}
        if kept:
            self._keys = {
                plugin: key_getter(signature)
                for plugin, signature in runner.pipeline.signatures.items()
                if signature.scope is Scope.STATIC
            }
        self._kept: dict[tuple[str, str], _Results] = {}

    def take_over(self, other: StaticResultCache) -> None:
        """Copy the results of unchanged plugins from another pipeline over the same table."""
        if other.table is not self.table or not self._keys or self._kept:
            return
        self._version, self._rows = other._version, other._rows
        for (point, plugin), kept in other._kept.items():
            if plugin in self._keys and _same(point, plugin, self._runner, other._runner):
                self._kept[point, plugin] = kept.copy()

    def rows(self) -> NDArray[np.int16]:
        """Return which rows of [0, n) have a live node, FEASIBLE or NO_NODE; it is shared."""
        self._renew()
        if self._rows is None:
            live = self.table.live.values[: self.table.n]
            self._rows = live.astype(np.int16) + np.int16(NO_NODE)
        return self._rows

    def _renew(self) -> None:
        version = self.table.journal.static_version
        if self._version != version:
            self._kept.clear()
            self._rows = None
            self._version = version

    def call(self, point: str, hook: Hook, state: CycleState, pod: PodInfo, *more: object) -> Any:
        """Return the result for all rows; it may be shared, so do not change its arrays.

        ``more``: further arguments of the hook.
        """
        key_of = self._keys.get(hook.plugin)
        if key_of is None:
            return self._runner.call(point, hook, state, pod, None, *more)
        self._renew()
        kept = self._kept.get((point, hook.plugin))
        if kept is None:
            kept = self._kept[point, hook.plugin] = _Results()
        kept.misses += 1
        if kept.misses > MISSES and kept.misses % PROBE:
            return self._runner.call(point, hook, state, pod, None, *more)
        key, by_key = key_of(pod), kept.by_key
        returned = by_key.get(key, kept)
        if returned is not kept:
            by_key.move_to_end(key)
            kept.misses = 0
            return returned
        returned = by_key[key] = self._runner.call(point, hook, state, pod, None, *more)
        if len(by_key) > LIMIT:
            by_key.popitem(last=False)
        return returned


def _same(point: str, plugin: str, one: Runner, other: Runner) -> bool:
    """Return whether a plugin is the same in two pipelines: a reload leaves what did not change."""
    functions = [
        [hook.function for hook in runner.pipeline.at(point) if hook.plugin == plugin]
        for runner in (one, other)
    ]
    return functions[0] == functions[1] != []
