"""One browser for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.web.browser import chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Start a browser; the tests are skipped where there is none."""
    with chromium() as running:
        yield running
