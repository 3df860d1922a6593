"""Sides: what stays together, and that nobody changes sides."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest
from hypothesis import given, strategies as st

from policy_sched.model import Pod, PodInfo
from policy_sched.rollout import By, key_of, share_of


@given(st.text(), st.text())
def test_a_share_is_a_part_of_a_hundred(key: str, rollout: str) -> None:
    """A share is at least 0 and below 100, whatever the key."""
    assert 0.0 <= share_of(key, rollout) < 100.0


def test_shares_are_spread_evenly() -> None:
    """A tenth of the keys lies below 10, and another rollout takes other ones first."""
    keys = [f"uid-{i}" for i in range(10_000)]
    first = {key for key in keys if share_of(key, "careful/a") < 10}
    other = {key for key in keys if share_of(key, "careful/b") < 10}
    assert 900 < len(first) < 1100
    assert 50 < len(first & other) < 150


def test_a_share_is_the_same_in_every_process() -> None:
    """A new leader, with another seed of Python's hashes, has the same sides."""
    code = "from policy_sched.rollout import share_of; print(share_of('uid-1', 'careful/a'))"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert outputs == {f"{share_of('uid-1', 'careful/a')}\n"}


OWNED = {
    "metadata": {
        "name": "web-1",
        "namespace": "shop",
        "uid": "pod-uid",
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Note", "name": "n", "uid": "note-uid"},
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": "web",
                "uid": "set-uid",
                "controller": True,
            },
        ],
    }
}
ALONE = {"metadata": {"name": "one", "namespace": "shop", "uid": "pod-uid"}}
FROM_A_FILE = {"metadata": {"name": "one", "namespace": "shop"}}


@pytest.mark.parametrize(
    ("manifest", "by", "key"),
    [
        (OWNED, "Owner", "set-uid"),
        (OWNED, "Pod", "pod-uid"),
        (OWNED, "Namespace", "shop"),
        (ALONE, "Owner", "pod-uid"),
        (FROM_A_FILE, "Owner", "shop/one"),
        (FROM_A_FILE, "Pod", "shop/one"),
    ],
)
def test_a_key_is_what_stays_together(manifest: dict[str, object], by: By, key: str) -> None:
    """Pods of one controller have one key, which is its uid; a pod without one has its own."""
    assert key_of(PodInfo.of(msgspec.convert(manifest, Pod)), by) == key
