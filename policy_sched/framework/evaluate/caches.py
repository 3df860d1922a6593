"""EvaluationCache: evaluations by signature, as long as their signatures repeat.

Theory of operation. Evaluations are kept by the 2Q policy (Johnson and Shasha, VLDB 1994). Pods of
a Deployment repeat their signature; pods that are all different never do, and caching their arrays
would only evict useful entries. So a new evaluation enters a small probation queue. It moves to the
main cache when its signature is seen a second time, either while it is on probation or later, if
the ghost list still has the signature. While no signature is seen again, evaluations are not kept
at all: the ghost list alone tells which one is.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Generic, Protocol, TypeVar

from policy_sched.framework.evaluate.pod_signature import Key

#: Limits in bytes of the main cache and of the probation queue, for one profile.
MAIN_BYTES: Final = 256 * 1024 * 1024
PROBATION_BYTES: Final = 4 * 1024 * 1024
#: After so many pods of which nothing was known, no evaluation is kept: they are all different, and
#: memory that is used again at once is faster.
MISSES: Final = 32
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
