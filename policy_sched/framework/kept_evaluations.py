"""Which evaluations are kept for the next pod of the same signature, and for how long.

Theory of operation. Most signatures of a Deployment come again; those of pods that are all
different never do, and keeping their arrays would only push warmer memory out. So an evaluation
first enters a small nursery, and is kept properly when its signature comes a second time: while
it is still in the nursery, or later, if the signature alone is remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Generic, Protocol, TypeVar

from policy_sched.framework.signing import Key

#: Bytes that properly kept evaluations of one profile may take together, and the nursery's.
MAIN_BYTES: Final = 256 * 1024 * 1024
PROBATION_BYTES: Final = 4 * 1024 * 1024
#: Signatures that are remembered without their evaluation.
GHOST_KEYS: Final = 4096


class Sized(Protocol):
    """Something that knows how much memory it takes."""

    @property
    def nbytes(self) -> int:
        """Bytes."""


T = TypeVar("T", bound=Sized)


class EvaluationCache(Generic[T]):
    """Evaluations by signature; the one that was not asked for longest goes first."""

    def __init__(self) -> None:
        self._main: OrderedDict[Key, T] = OrderedDict()
        self._probation: OrderedDict[Key, T] = OrderedDict()
        self._ghost: OrderedDict[Key, None] = OrderedDict()

    def get(self, key: Key) -> T | None:
        """Return the evaluation of a signature; one from the nursery is kept from now on."""
        found = self._main.get(key)
        if found is not None:
            self._main.move_to_end(key)
            return found
        found = self._probation.pop(key, None)
        if found is not None:
            self._keep(key, found)
        return found

    def put(self, key: Key, evaluation: T) -> None:
        """Take a fresh evaluation in, instead of an older one."""
        if key in self._main or key in self._ghost:
            self._keep(key, evaluation)
            return
        self._ghost[key] = None
        if len(self._ghost) > GHOST_KEYS:
            self._ghost.popitem(last=False)
        self._probation[key] = evaluation
        _trim(self._probation, PROBATION_BYTES, evaluation.nbytes)

    def drop(self, key: Key) -> None:
        """Forget the evaluation of a signature."""
        self._main.pop(key, None)
        self._probation.pop(key, None)

    def _keep(self, key: Key, evaluation: T) -> None:
        self._main[key] = evaluation
        self._main.move_to_end(key)
        _trim(self._main, MAIN_BYTES, evaluation.nbytes)


def _trim(entries: OrderedDict[Key, T], limit: int, each: int) -> None:
    """Let the oldest go until entries of ``each`` bytes fit; at least two stay."""
    most = max(2, limit // max(1, each))
    while len(entries) > most:
        entries.popitem(last=False)
