"""The cycle collector beside a whole cluster: collected seldom, measured, loaded objects frozen."""

from __future__ import annotations

import gc
import weakref

from prometheus_client import CollectorRegistry, generate_latest

from policy_sched.instance.app import gc_tuning
from policy_sched.queue import SECOND

NAME = "policy_sched_gc_pause_seconds"


class Thing:
    """Refers to itself."""

    def __init__(self) -> None:
        self.itself = self


def test_thresholds_hold_within_the_context() -> None:
    """Afterwards they are as before."""
    before = gc.get_threshold()
    with gc_tuning.tuned_gc():
        assert gc.get_threshold() == gc_tuning.THRESHOLDS
    assert gc.get_threshold() == before


def test_what_was_loaded_is_frozen_and_what_comes_later_is_collected() -> None:
    """Garbage of the first listing is gone, and so are later cycles."""
    early, before = weakref.ref(Thing()), gc.get_freeze_count()
    loaded = [Thing() for _ in range(100)]
    gc_tuning.freeze_loaded()
    assert early() is None
    frozen = gc.get_freeze_count()
    assert frozen >= before + len(loaded)
    late = weakref.ref(Thing())
    gc.collect()
    assert late() is None
    assert gc.get_freeze_count() <= frozen


def test_each_pause_is_measured_by_generation() -> None:
    """As a histogram, only while the context lasts."""
    seconds = iter((1.0, 1.004, 2.0, 2.3))
    pauses, registry = gc_tuning.GcPauses(lambda: next(seconds)), CollectorRegistry()
    registry.register(pauses)
    gc.disable()
    try:
        with gc_tuning.tuned_gc(pauses):
            gc.collect(0)
            gc.collect(2)
        gc.collect(2)
    finally:
        gc.enable()
    text = generate_latest(registry).decode()
    assert f'{NAME}_count{{generation="0"}} 1.0' in text
    assert f'{NAME}_bucket{{generation="0",le="0.0025"}} 0.0' in text
    assert f'{NAME}_bucket{{generation="0",le="0.005"}} 1.0' in text
    assert f'{NAME}_count{{generation="2"}} 1.0' in text
    assert f'{NAME}_bucket{{generation="2",le="0.25"}} 0.0' in text


def test_memory_is_released_once_when_a_burst_is_over() -> None:
    """After 3,000 pods that came and went the process held 20 to 40 MiB more, for good."""
    released: list[str] = []
    memory = gc_tuning.MemoryAfterBursts(lambda: released.append("now"))
    start, burst, quiet = 100 * gc_tuning.QUIET, gc_tuning.BURST, gc_tuning.QUIET
    assert memory.look(0, start) is None
    assert memory.look(burst - 1, start + SECOND) is None
    assert memory.look(burst, start + 2 * SECOND) == start + 2 * SECOND + quiet
    assert memory.look(burst + 10, start + 3 * SECOND) == start + 2 * SECOND + quiet
    assert memory.look(2 * burst, start + 4 * SECOND) == start + 4 * SECOND + quiet
    assert released == []
    assert memory.look(2 * burst + 10, start + 4 * SECOND + quiet) is None
    assert released == ["now"]
    for number in range(1, 5):  # a trickle is no burst
        assert memory.look((2 + number) * burst, start + (2 + 2 * number) * quiet) is None
    assert released == ["now"]


def test_what_a_burst_left_behind_is_collected() -> None:
    """Closed TLS connections are cycles, each with a buffer, and no full collection was due."""
    gone = weakref.ref(Thing())
    gc_tuning.release_memory()
    assert gone() is None
