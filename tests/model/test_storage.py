"""Volumes of a pod: claims and disks are seen, everything else costs nothing later."""

from __future__ import annotations

from typing import Any

from policy_sched.model.pod_info import PodInfo
from policy_sched.model.storage import ClaimUse, InlineDisk, PodVolumes
from policy_sched.testing import make_pod


def volumes(*volumes: dict[str, Any], name: str = "p", namespace: str = "a") -> PodVolumes | None:
    return PodInfo.of(make_pod(name, namespace=namespace, volumes=list(volumes))).volumes


def test_volumes_without_claim_or_disk_are_none() -> None:
    """Files, secrets and the like may be on any node."""
    assert volumes() is None
    assert volumes({"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {"name": "c"}}) is None


def test_claims_and_disks_keep_their_order() -> None:
    """Claims carry their names, an ephemeral one that of pod and volume; disks their source."""
    found = volumes(
        {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "b", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "c", "gcePersistentDisk": {"pdName": "disk"}},
    )
    assert found is not None
    assert found.claims == (ClaimUse("data"), ClaimUse("p-b", ephemeral=True))
    assert [(source, getattr(disk, "pd_name", "")) for source, disk in found.disks] == [
        ("gce_persistent_disk", "disk")
    ]
    assert isinstance(found.disks[0], InlineDisk)
    assert found.owner == "a/p"


def test_pods_that_share_a_claim_have_equal_volumes() -> None:
    """So their evaluations are shared; those with ephemeral claims have claims of their own."""
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    assert volumes(claim, name="p") == volumes(claim, name="q")
    assert hash(volumes(claim, name="p")) == hash(volumes(claim, name="q"))
    assert volumes(claim) != volumes(claim, namespace="b")
    own = {"name": "v", "ephemeral": {}}
    assert volumes(own, name="p") != volumes(own, name="q")
