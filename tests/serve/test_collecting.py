"""The cycle collector beside a whole cluster: what is old is left alone, what is young is not."""

from __future__ import annotations

import gc
import weakref

from policy_sched.serve.collecting import ROUNDS, YOUNG, collecting_briefly, settle


class Thing:
    """Refers to itself."""

    def __init__(self) -> None:
        self.itself = self


def test_what_has_survived_is_frozen_and_goes_without_the_collector() -> None:
    """After so many objects nothing is left for a full collection to walk through."""
    before = gc.get_freeze_count()
    try:
        with collecting_briefly():
            kept = [[number] for number in range(YOUNG * (ROUNDS + 3))]
            assert gc.get_freeze_count() - before > YOUNG * ROUNDS // 2
            assert gc.get_count()[2] == 0
            assert len(kept) > 0
        frozen = gc.get_freeze_count()
        del kept
        assert gc.get_freeze_count() < frozen - YOUNG * ROUNDS // 2
    finally:
        gc.unfreeze()


def test_cycles_that_die_young_are_collected() -> None:
    """Freezing keeps nobody alive who went before."""
    try:
        with collecting_briefly():
            last = weakref.ref(Thing())
            made = [[number] for number in range(2 * YOUNG)]
            assert last() is None
            assert made
    finally:
        gc.unfreeze()


def test_everything_is_as_it_was_afterwards() -> None:
    """The thresholds and callbacks of the process are its own again."""
    thresholds, callbacks = gc.get_threshold(), list(gc.callbacks)
    with collecting_briefly():
        assert gc.get_threshold() == (YOUNG, ROUNDS, 1_000_000)
    assert gc.get_threshold() == thresholds
    assert gc.callbacks == callbacks


def test_what_was_loaded_is_frozen() -> None:
    """After the first reading of a cluster the collector begins with nothing."""
    try:
        settle()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
