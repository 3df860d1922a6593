"""The cycle collector beside a whole cluster: what is old is left alone, what is young is not."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from policy_sched.instance.app.gc_tuning import (
    EVERY,
    MANY,
    Collector,
    collecting_briefly,
    settle,
)


class Thing:
    """Refers to itself."""

    def __init__(self) -> None:
        self.itself = self


class Time:
    """Seconds, moved by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture(autouse=True)
def _thawed() -> Iterator[None]:
    """Other tests find a collector that looks at everything."""
    with collecting_briefly():
        yield
    gc.unfreeze()


def test_young_cycles_are_collected_when_it_is_time() -> None:
    """Not at each look, but after a while."""
    time = Time()
    collector = Collector(time)
    last = weakref.ref(Thing())
    collector.collect_if_due()
    assert last() is not None
    time.seconds += EVERY
    collector.collect_if_due()
    assert last() is None


def test_what_has_survived_is_frozen_and_goes_without_the_collector() -> None:
    """It is not looked at again, and leaves when nobody needs it."""
    time = Time()
    collector = Collector(time)
    before = gc.get_freeze_count()
    kept = [[number] for number in range(5000)]
    time.seconds += EVERY
    collector.collect_if_due()
    frozen = gc.get_freeze_count()
    assert frozen - before > 4000
    del kept
    assert frozen - gc.get_freeze_count() > 4000


def test_python_collects_by_itself_only_when_there_are_very_many() -> None:
    """And as ever when the context is left."""
    assert gc.get_threshold() == (MANY, 1_000_000, 1_000_000)
    with collecting_briefly():
        pass
    assert gc.get_threshold() == (MANY, 1_000_000, 1_000_000)


def test_what_was_loaded_is_frozen() -> None:
    """After the first reading of a cluster the collector begins with nothing."""
    lost = weakref.ref(Thing())
    gc.freeze()
    settle()
    assert lost() is None, "what was frozen too early is not kept"
    assert gc.get_freeze_count() > 0
    assert gc.get_count()[1:] == (0, 0)
