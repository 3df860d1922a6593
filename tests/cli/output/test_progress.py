"""Progress bars."""

from __future__ import annotations

import io
import threading

import pytest

from policy_sched.cli.output.progress import progress


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


def test_nothing_is_shown_without_a_terminal() -> None:
    """Logs of CI stay free of control characters."""
    stream = io.StringIO()
    with progress("deciding", 10, stream, delay=0) as advance:
        advance(10)
    assert stream.getvalue() == ""


def test_an_error_ends_the_bar() -> None:
    """The terminal is left as it was."""
    terminal = Terminal()
    with pytest.raises(ValueError, match="broken"), progress("deciding", 1, terminal, delay=0):
        raise ValueError("broken")
    assert not [one for one in threading.enumerate() if isinstance(one, threading.Timer)]
