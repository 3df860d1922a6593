"""Evaluations by signature."""

from __future__ import annotations

from policy_sched.framework.evaluate.caches import EvaluationCache
from policy_sched.thresholds import MISSES


class Sized:
    """An evaluation of one byte."""

    nbytes = 1


def test_evaluations_of_pods_that_are_all_different_are_not_kept() -> None:
    """A signature that comes again is kept, and so are new ones after it."""
    cache: EvaluationCache[Sized] = EvaluationCache()
    kept = [cache.put((number,), Sized()) for number in range(2 * MISSES)]
    assert all(kept[:MISSES])
    assert not any(kept[MISSES:])
    again = (kept.index(False),)
    assert cache.put(again, Sized())
    assert cache.main.get(again) is not None
    assert cache.put(("new",), Sized())
    assert ("new",) in cache.probation.entries
    assert cache.promote(("new",)) is cache.main.get(("new",))
    assert ("new",) not in cache.probation.entries
