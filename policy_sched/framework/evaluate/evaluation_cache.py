"""Cache of evaluations by pod signature (2Q: Johnson and Shasha, VLDB 1994).

Theory of operation. Pods of a Deployment repeat their signature; pods that are all different never
do, and caching their arrays would only evict useful entries. So a new evaluation enters a small
probation queue. It moves to the main cache when its signature is seen a second time, either while
it is on probation or later, if the ghost list still has the signature.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Generic, Protocol, TypeVar

from policy_sched.framework.evaluate.pod_signature import Key

#: Limits in bytes of the main cache and of the probation queue, for one profile.
MAIN_BYTES: Final = 256 * 1024 * 1024
PROBATION_BYTES: Final = 4 * 1024 * 1024
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
        self._ghost: OrderedDict[Key, None] = OrderedDict()

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

    def put(self, key: Key, evaluation: T) -> None:
        """Add an evaluation, replacing an older one of the same signature."""
        if key in self._main or key in self._ghost:
            self._keep(key, evaluation)
            return
        self._ghost[key] = None
        if len(self._ghost) > GHOST_KEYS:
            self._ghost.popitem(last=False)
        self._probation[key] = evaluation
        _trim(self._probation, PROBATION_BYTES, evaluation.nbytes)

    def drop(self, key: Key) -> None:
        """Remove the evaluation of a signature."""
        self._main.pop(key, None)
        self._probation.pop(key, None)

    def _keep(self, key: Key, evaluation: T) -> None:
        self._main[key] = evaluation
        self._main.move_to_end(key)
        _trim(self._main, MAIN_BYTES, evaluation.nbytes)


def _trim(entries: OrderedDict[Key, T], limit: int, each: int) -> None:
    """Evict the oldest entries until entries of ``each`` bytes fit; at least two stay."""
    most = max(2, limit // max(1, each))
    while len(entries) > most:
        entries.popitem(last=False)
