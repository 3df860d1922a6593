"""What several tests of proofs need."""

from __future__ import annotations

import pytest

from policy_sched.prove import examples


@pytest.fixture
def few_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try few small clusters where the solver has no answer: all of them take 3 s for a claim."""
    monkeypatch.setattr(examples, "_CLUSTERS", 20)
