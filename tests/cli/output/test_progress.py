"""Progress bars."""

from __future__ import annotations

import io
import threading

import pytest

from policy_sched.cli.output.progress import EVERY, progress


class Terminal(io.StringIO):
    """A stream that is a terminal, and records when something is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def isatty(self) -> bool:
        """Return that it is one."""
        return True

    def write(self, text: str) -> int:
        """Take note."""
        self.written.set()
        return super().write(text)


@pytest.mark.parametrize("total", [None, 10])
def test_a_long_operation_shows_what_is_done(total: int | None) -> None:
    """The bar names what the program is doing."""
    terminal = Terminal()
    with progress("deciding", total, terminal, delay=0) as advance:
        assert terminal.written.wait(60)
        advance(3)
    assert "deciding" in terminal.getvalue()


def test_what_has_no_known_end_shows_how_far_it_is() -> None:
    """The number of what is done stands behind its name."""
    terminal = Terminal()
    with progress("reading the cluster", None, terminal, delay=0) as advance:
        assert terminal.written.wait(60)
        for _ in range(12):
            advance(1000)
    assert "reading the cluster: 12,000" in terminal.getvalue()


def test_a_short_operation_shows_nothing() -> None:
    """A bar that flashes up for a moment would only disturb."""
    terminal = Terminal()
    with progress("deciding", 10, terminal, delay=3600) as advance:
        advance(10)
    assert "deciding" not in terminal.getvalue()


class Log(Terminal):
    """A stream that is no terminal."""

    def isatty(self) -> bool:
        """Return that it is none."""
        return False


@pytest.mark.parametrize(
    ("total", "line"),
    [(10, "deciding: 3 of 10, 0 min\n"), (None, "deciding: 3, 0 min\n")],
)
def test_a_log_has_a_line_each_minute(total: int | None, line: str) -> None:
    """A sweep of hours wrote nothing, and the system for CI ended it as one that hangs."""
    log = Log()
    assert EVERY == 60
    with progress("deciding", total, log, every=3600) as advance:
        advance(3)
    assert log.getvalue() == ""
    with progress("deciding", total, log, every=1e-3) as advance:
        advance(3)
        for _ in range(3):  # of which one may be of the time before
            log.written.clear()
            assert log.written.wait(60)
    assert line in log.getvalue()
    assert "\x1b" not in log.getvalue()
    assert not [item for item in threading.enumerate() if item.name.endswith("(tell)")]


def test_an_error_ends_the_bar() -> None:
    """The terminal is left as it was."""
    terminal = Terminal()
    with pytest.raises(ValueError, match="broken"), progress("deciding", 1, terminal, delay=0):
        raise ValueError("broken")
    assert not [item for item in threading.enumerate() if isinstance(item, threading.Timer)]
