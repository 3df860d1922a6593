"""Volumes and claims: written at the version that was seen, or refused.

Controllers write to both as well, so what was seen may be old at any time.
"""

from __future__ import annotations

from policy_sched.client.apimachinery import resources
from policy_sched.model.storage import ClaimReference, PersistentVolume, PersistentVolumeClaim
from policy_sched.plugins.volumes.binding import claim_patch, volume_patch
from tests.client.kube.conformance.ground import Acting, Ground, played, typed, until

SELECTED = "volume.kubernetes.io/selected-node"


async def _storage(ground: Ground) -> str:
    """Make a volume, and a claim that no controller binds before a node is chosen."""
    waiting = {
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    name = f"{ground.namespace}-waits"
    await ground.make(resources.STORAGE_CLASS, name, waiting, alone=True)
    storage = {"storageClassName": name, "accessModes": ["ReadWriteOnce"]}
    volume = f"{ground.namespace}-pv"
    disk = {"hostPath": {"path": "/none"}, "capacity": {"storage": "1Gi"}}
    await ground.make(resources.VOLUME, volume, {"spec": {**storage, **disk}}, alone=True)
    sizes = {"requests": {"storage": "1Gi"}}
    await ground.make(resources.CLAIM, "c", {"spec": {**storage, "resources": sizes}})
    return volume


async def _volume(ground: Ground, name: str) -> PersistentVolume:
    return typed(await ground.seen(name, resources.VOLUME, alone=True), PersistentVolume)


async def _written(acting: Acting) -> bool:
    """Tell whether the last write of a volume or a claim took; it is refused as a conflict."""
    failures = await acting.done()
    for call, error in failures:
        assert call.startswith("patch persistentvolume")
        assert isinstance(error, resources.ApiError)
        assert (error.code, error.reason) == (409, "Conflict")
    return not failures


async def _kept(ground: Ground, acting: Acting, name: str) -> PersistentVolume:
    """Keep a volume for the claim; return the version that was written to."""

    async def keep() -> PersistentVolume | None:
        claim, volume = await ground.seen("c", resources.CLAIM), await _volume(ground, name)
        uid = claim["metadata"]["uid"]
        volume.spec.claim_ref = ClaimReference(namespace=ground.namespace, name="c", uid=uid)
        acting.client.send(volume_patch(volume))
        return volume if await _written(acting) else None

    kept = await until(keep)
    assert kept is not None
    return kept


def test_volumes_are_kept_for_claims(server: str) -> None:
    """claimRef and the selected node are written at the version that was seen, or refused."""

    async def play(ground: Ground) -> None:
        acting = Acting(ground)
        name = await _storage(ground)

        async def choose() -> bool:
            """Write the node into the claim as it is now."""
            claim = typed(await ground.seen("c", resources.CLAIM), PersistentVolumeClaim)
            claim.metadata.annotations = node
            acting.client.send(claim_patch(claim))
            return await _written(acting)

        node = {SELECTED: ground.nodes[0]}
        kept = await _kept(ground, acting, name)
        await until(choose)
        claim = await ground.seen("c", resources.CLAIM)
        volume = await ground.seen(name, resources.VOLUME, alone=True)
        assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
        assert volume["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes"
        assert claim["metadata"]["annotations"].items() >= node.items()
        acting.client.send(volume_patch(kept))
        assert not await _written(acting)

    played(server, play)


def test_other_fields_of_a_volume_are_kept(server: str) -> None:
    """Whatever our client does not read of a volume is there after it wrote."""

    async def play(ground: Ground) -> None:
        name = await _storage(ground)
        before = await ground.seen(name, resources.VOLUME, alone=True)
        await _kept(ground, Acting(ground), name)
        after = await ground.seen(name, resources.VOLUME, alone=True)
        assert {**after["spec"], "claimRef": None} == {**before["spec"], "claimRef": None}
        assert after["metadata"]["labels"] == before["metadata"]["labels"]

    played(server, play)


def test_a_claim_of_old_is_not_written(server: str) -> None:
    """One that has changed since it was seen, in whatever; nothing of it is written."""

    async def play(ground: Ground) -> None:
        acting = Acting(ground)
        await _storage(ground)
        seen = typed(await ground.seen("c", resources.CLAIM), PersistentVolumeClaim)
        await ground.merge(resources.CLAIM, "c", {"metadata": {"labels": {"app": "x"}}})
        seen.metadata.annotations = {SELECTED: ground.nodes[0]}
        acting.client.send(claim_patch(seen))
        assert not await _written(acting)
        claim = await ground.seen("c", resources.CLAIM)
        assert SELECTED not in claim["metadata"].get("annotations", {})

    played(server, play)
