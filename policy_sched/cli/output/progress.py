"""Progress on standard error: a bar on a terminal after two seconds, else a line each minute."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, TextIO

from policy_sched.report import Advance

DELAY: Final = 2.0
"""Seconds before the bar appears: what is done sooner needs none."""
EVERY: Final = 60.0
"""Seconds between two lines where there is no terminal: systems for CI end what is silent."""


@contextmanager
def progress(
    doing: str,
    total: int | None = None,
    stream: TextIO | None = None,
    delay: float = DELAY,
    every: float = EVERY,
) -> Iterator[Advance]:
    """Show a bar while the block runs, unless it ends before ``delay`` seconds.

    Yields a function that adds to what is done. Without ``total`` there is no bar, only the number
    of what is done, if any. Where ``stream`` (standard error) is no terminal, there is a line after
    each ``every`` seconds.
    """
    stream = sys.stderr if stream is None else stream
    if not stream.isatty():
        with _lines(doing, total, stream, every) as count:
            yield count
        return
    # imported here: nothing needs it where there is no terminal
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn  # noqa: PLC0415

    done = 0

    def advance(more: int) -> None:
        nonlocal done
        done += more
        shown = doing if total is not None else f"{doing}: {done:,}"
        bar.update(task, advance=more, description=shown)

    default_columns = (*Progress.get_default_columns(), MofNCompleteColumn())
    columns = (
        default_columns
        if total is not None
        else (SpinnerColumn(), TextColumn("{task.description}"))
    )
    bar = Progress(*columns, console=Console(file=stream), transient=True)
    task = bar.add_task(doing, total=total)
    timer = threading.Timer(delay, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield advance
    finally:
        timer.cancel()
        timer.join()
        bar.stop()


@contextmanager
def _lines(doing: str, total: int | None, stream: TextIO, every: float) -> Iterator[Advance]:
    """Write what is done to a stream that is no terminal, now and then."""
    done, ended = 0, threading.Event()

    def advance(more: int) -> None:
        nonlocal done
        done += more

    def tell() -> None:
        times = 0
        while not ended.wait(every):
            times += 1
            of = "" if total is None else f" of {total:,}"
            how_far = f": {done:,}{of}" if done or of else ""
            with suppress(OSError, ValueError):  # the stream may be closed
                print(f"{doing}{how_far}, {times * every / 60:.0f} min", file=stream, flush=True)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield advance
    finally:
        ended.set()
        teller.join()
