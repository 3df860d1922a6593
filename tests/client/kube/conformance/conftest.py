"""The servers of the suite."""

from __future__ import annotations

import os

import pytest

from tests.client.kube.conformance.servers import VARIABLE


@pytest.fixture(
    params=[
        "embedded",
        pytest.param(
            "named",
            marks=pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} is not set"),
        ),
    ]
)
def server(request: pytest.FixtureRequest) -> str:
    """Which server."""
    return str(request.param)
