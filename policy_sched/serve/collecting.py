"""The cycle collector in a process that holds a whole cluster: never a long pause.

Theory of operation. Pods and nodes live long and are no cycles, so to walk through all of them, as
a full collection does, takes long and finds nothing: 0.1 s with 30,000 pods. What is collected
instead is young: every so many new objects, a few milliseconds each time; and what has survived
that a few times is frozen, so that it is not looked at again. It still goes when nobody refers to
it any more. Cycles that live longer than that stay; they are few (a reload leaves some 50 KB).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

YOUNG: Final = 10_000
"""New objects after which the youngest are collected: a pod makes some twenty."""
ROUNDS: Final = 20
"""Collections after which what they have left is collected once more, and frozen."""


@contextmanager
def collecting_briefly() -> Iterator[None]:
    """Collect so while the context lasts."""
    thresholds = gc.get_threshold()
    gc.set_threshold(YOUNG, ROUNDS, 1_000_000)
    gc.callbacks.append(_freeze)
    try:
        yield
    finally:
        gc.callbacks.remove(_freeze)
        gc.set_threshold(*thresholds)


def settle() -> None:
    """Freeze all that there is: what was loaded lives on."""
    gc.collect()
    gc.freeze()


def _freeze(phase: str, facts: dict[str, int]) -> None:
    if phase == "stop" and facts["generation"] == 1:
        gc.freeze()
