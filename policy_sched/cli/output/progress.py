"""A progress bar on standard error, for what takes longer than two seconds on a terminal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

DELAY: Final = 2.0
"""Seconds before the bar appears: what is done sooner needs none."""

Advance = Callable[[int], None]


@contextmanager
def progress(
    doing: str, total: int | None = None, stream: TextIO | None = None, delay: float = DELAY
) -> Iterator[Advance]:
    """Show a bar while the block runs, unless it ends before ``delay`` seconds.

    Yields a function that adds to what is done. Without ``total`` there is no bar, only the number
    of what is done, if any. Nothing is shown where ``stream`` (standard error) is no terminal.
    """
    stream = sys.stderr if stream is None else stream
    if not stream.isatty():
        yield lambda _more: None
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

    known = (*Progress.get_default_columns(), MofNCompleteColumn())
    columns = known if total is not None else (SpinnerColumn(), TextColumn("{task.description}"))
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
