"""Completion indexes of jobs, in a status as "0-2,5": always kept as ranges."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator


def open_indexes(done: Iterable[range], taken: Container[int], completions: int) -> Iterator[int]:
    """Yield the indexes that are neither done nor taken by a pod, in order."""
    start = 0
    for run in (*done, range(completions, completions)):
        yield from (index for index in range(start, run.start) if index not in taken)
        start = run.stop


def runs_of(text: str, completions: int) -> list[range]:
    """Return the ranges of "0-2,5" below a limit, in order; invalid parts are left out."""
    runs = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if all(end.isascii() and end.isdecimal() and len(end) < 10 for end in (first, last)):
            runs.append(range(int(first), min(int(last) + 1, completions)))
    return _joined(runs)


def with_indexes(runs: Iterable[range], indexes: Iterable[int]) -> list[range]:
    """Return ranges with additional numbers."""
    return _joined([*runs, *(range(index, index + 1) for index in indexes)])


def _joined(runs: list[range]) -> list[range]:
    """Return ranges in order; adjacent ones are joined."""
    joined: list[range] = []
    for run in sorted((span for span in runs if span), key=lambda span: span.start):
        if joined and run.start <= joined[-1].stop:
            joined[-1] = range(joined[-1].start, max(joined[-1].stop, run.stop))
        else:
            joined.append(run)
    return joined


def text_of(runs: Iterable[range]) -> str:
    """Format numbers as "0-2,5"."""
    parts = []
    for run in runs:
        first, last = run.start, run.stop - 1
        between = "," if last == first + 1 else "-"
        parts.append(str(first) if first == last else f"{first}{between}{last}")
    return ",".join(parts)
