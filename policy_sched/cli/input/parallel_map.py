"""Does one thing to many items on all cores, in processes that are copies of this one.

Theory of operation. What the items hold is there already, so a copy of this process starts at once
and needs no word to begin; only results are sent, through a pipe. Each copy takes every n-th item,
this process among them. What a copy cannot do, whatever became of it, is done here again. There are
copies only where a process can be copied and has no threads of its own that would be missing there.
"""

from __future__ import annotations

import gc
import os
import pickle
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final, TypeVar

from policy_sched.report import Advance, unshown

ENOUGH: Final = 20
"""Items that are worth a copy: it takes some 10 ms, and a policy 5."""

T = TypeVar("T")
R = TypeVar("R")


def parallel_map(
    work: Callable[[T], R],
    items: Sequence[T],
    *,
    enough: int = ENOUGH,
    workers: int | None = None,
    shown: Callable[[int], AbstractContextManager[Advance]] = lambda _total: nullcontext(unshown),
) -> list[R]:
    """Return what ``work`` gives for each item, in their order; results must be picklable.

    ``enough``: items that are worth a copy. ``workers``: processes at most, one for each core
    unless given. ``shown`` shows how many of all items are done; it may start a thread, and is
    entered when the copies are there.
    """
    count = min(cores() if workers is None else workers, len(items) // enough)
    if count < 2 or not hasattr(os, "fork") or threading.active_count() > 1:
        with shown(len(items)) as advance:
            return _done(work, items, advance)
    shares = [items[i::count] for i in range(count)]
    pipes = [_copy(work, share) for share in shares[1:]]
    with shown(len(items)) as advance:
        done = [_done(work, shares[0], advance)]
        for share, (process, pipe) in zip(shares[1:], pipes, strict=True):
            results: list[R] | None = _received(pipe)
            os.waitpid(process, 0)
            if results is None:
                results = _done(work, share, advance)
            else:
                advance(len(share))
            done.append(results)
    return [done[i % count][i // count] for i in range(len(items))]


def _done(work: Callable[[T], R], items: Sequence[T], advance: Advance) -> list[R]:
    results = []
    for item in items:
        results.append(work(item))
        advance(1)
    return results


def _copy(work: Callable[[T], R], share: Sequence[T]) -> tuple[int, int]:
    """Start a copy that does a share; return its process, and the pipe of its results."""
    ours, theirs = os.pipe()
    process = os.fork()
    if process:
        os.close(theirs)
        return process, ours
    try:
        gc.freeze()  # the collector would touch, and so copy, all memory that both share
        os.close(ours)
        with os.fdopen(theirs, "wb") as stream:
            pickle.dump([work(item) for item in share], stream, pickle.HIGHEST_PROTOCOL)
        os._exit(0)
    finally:
        os._exit(1)  # nothing that this process would do at its end is done twice


def _received(pipe: int) -> list[R] | None:
    """Return the results of a copy, None if it failed."""
    with os.fdopen(pipe, "rb") as stream:
        try:
            results: list[R] = pickle.load(stream)  # noqa: S301 - from our own copy
        except (EOFError, pickle.UnpicklingError):
            return None
    return results


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
