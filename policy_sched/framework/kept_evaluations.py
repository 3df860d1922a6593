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
KEPT_BYTES: Final = 256 * 1024 * 1024
NURSERY_BYTES: Final = 4 * 1024 * 1024
#: Signatures that are remembered without their evaluation.
REMEMBERED: Final = 4096


class Sized(Protocol):
    """Something that knows how much memory it takes."""

    @property
    def nbytes(self) -> int:
        """Bytes."""


T = TypeVar("T", bound=Sized)


class KeptEvaluations(Generic[T]):
    """Evaluations by signature; the one that was not asked for longest goes first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, T] = OrderedDict()
        self._nursery: OrderedDict[Key, T] = OrderedDict()
        self._remembered: OrderedDict[Key, None] = OrderedDict()

    def get(self, key: Key) -> T | None:
        """Return the evaluation of a signature; one from the nursery is kept from now on."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            return found
        found = self._nursery.pop(key, None)
        if found is not None:
            self._keep(key, found)
        return found

    def put(self, key: Key, evaluation: T) -> None:
        """Take a fresh evaluation in, instead of an older one."""
        if key in self._kept or key in self._remembered:
            self._keep(key, evaluation)
            return
        self._remembered[key] = None
        if len(self._remembered) > REMEMBERED:
            self._remembered.popitem(last=False)
        self._nursery[key] = evaluation
        _trim(self._nursery, NURSERY_BYTES, evaluation.nbytes)

    def drop(self, key: Key) -> None:
        """Forget the evaluation of a signature."""
        self._kept.pop(key, None)
        self._nursery.pop(key, None)

    def _keep(self, key: Key, evaluation: T) -> None:
        self._kept[key] = evaluation
        self._kept.move_to_end(key)
        _trim(self._kept, KEPT_BYTES, evaluation.nbytes)


def _trim(entries: OrderedDict[Key, T], limit: int, each: int) -> None:
    """Let the oldest go until entries of ``each`` bytes fit; at least two stay."""
    most = max(2, limit // max(1, each))
    while len(entries) > most:
        entries.popitem(last=False)
