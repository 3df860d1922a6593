"""EvaluationCache: evaluations by signature, as long as their signatures repeat.

Theory of operation. Evaluations are kept by the 2Q policy (Johnson and Shasha, VLDB 1994). Pods of
a Deployment repeat their signature; pods that are all different never do, and caching their arrays
would only evict useful entries. So a new evaluation enters a small probation queue. It moves to the
main cache when its signature is seen a second time, either while it is on probation or later, if
the ghost list still has the signature. While no signature is seen again, evaluations are not kept
at all: the ghost list alone tells which one is.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Final, Generic, TypeVar

from policy_sched import thresholds
from policy_sched.framework.evaluate.pod_signature import Key
from policy_sched.lru import Lru

#: Limits in bytes of the main cache and of the probation queue, for one profile.
MAIN_BYTES: Final = 256 * 1024 * 1024
PROBATION_BYTES: Final = 4 * 1024 * 1024
#: Signatures in the ghost list, which has no evaluations.
GHOST_KEYS: Final = 4096


T = TypeVar("T")


class EvaluationCache(Generic[T]):
    """Evaluations by signature; the least recently used is evicted first."""

    def __init__(self) -> None:
        self.main: Lru[Key, T] = Lru(MAIN_BYTES, attrgetter("nbytes"))
        """Where nearly every pod's evaluation is."""
        self.probation: Lru[Key, T] = Lru(PROBATION_BYTES, attrgetter("nbytes"))
        self._ghost: Lru[int, bool] = Lru(GHOST_KEYS)
        """Hashes of signatures: where two share one, an evaluation is kept that need not be."""
        self._misses = 0

    def promote(self, key: Key) -> T:
        """Move the evaluation of a signature that repeats to the main cache, and return it."""
        evaluation = self.probation.entries[key]
        self.probation.pop(key)
        self._keep(key, evaluation)
        return evaluation

    def put(self, key: Key, evaluation: T) -> bool:
        """Add an evaluation, replacing an older one of the signature; return whether it is kept."""
        mark = hash(key)
        if mark in self._ghost.entries or key in self.main.entries:
            self._keep(key, evaluation)
            return True
        self._misses += 1
        self._ghost.put(mark, True)
        if self._misses > thresholds.MISSES:
            return False
        self.probation.put(key, evaluation)
        return True

    def drop(self, key: Key) -> None:
        """Remove the evaluation of a signature."""
        self.main.pop(key)
        self.probation.pop(key)

    def _keep(self, key: Key, evaluation: T) -> None:
        self._misses = 0
        self.main.put(key, evaluation)
