"""UIDs of objects."""

from __future__ import annotations

import uuid

from hypothesis import given, strategies as st

from policy_sched.embedded.store.store import _UUIDS, uid_of


@given(st.text(st.characters(codec="utf-8")))
def test_they_are_uuids_of_version_five(seed: str) -> None:
    """As the standard library makes them of the same seed."""
    assert uid_of(seed) == str(uuid.uuid5(uuid.UUID(bytes=_UUIDS), seed))
