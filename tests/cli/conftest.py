"""What several tests of the commands need."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest


@pytest.fixture
def port() -> Iterator[int]:
    """A port that is reserved for one test while it runs."""
    with socket.socket() as bound:  # bound and not listening, so that one other may listen
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", 0))
        yield int(bound.getsockname()[1])
