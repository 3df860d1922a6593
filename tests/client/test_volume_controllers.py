"""What a cluster's volume controllers do, done at once."""

from __future__ import annotations

from msgspec.structs import replace

from policy_sched.client.memory import MemoryClient
from policy_sched.cluster.listers import ApiObjects
from policy_sched.model.storage import ClaimReference, PersistentVolume, PersistentVolumeClaim
from policy_sched.plugins.volumes.binding import claim_patch, volume_patch
from tests.plugins.volumes.world import make_claim, make_class, make_volume


def claim_of(objects: ApiObjects) -> PersistentVolumeClaim:
    found = objects.named(PersistentVolumeClaim, "default", "data")
    assert found is not None
    return found


def test_a_volume_and_its_claim_are_bound_to_each_other() -> None:
    """Both say so afterwards; a volume whose claim has gone stays bound to no claim."""
    objects = ApiObjects([make_claim("data"), make_volume("v"), make_volume("w")])
    client = MemoryClient(objects=objects)
    for name, claim in (("v", "data"), ("w", "gone")):
        volume = make_volume(name)
        reference = ClaimReference("default", claim, "uid")
        client.send(volume_patch(replace(volume, spec=replace(volume.spec, claim_ref=reference))))
    objects.put(make_volume("x"))
    client.send(volume_patch(make_volume("x")))
    assert [one.status.phase for one in objects.of(PersistentVolume)] == ["Bound"] * 3
    claim_now = claim_of(objects)
    assert (claim_now.spec.volume_name, claim_now.status.phase) == ("v", "Bound")
    assert "pv.kubernetes.io/bind-completed" in claim_now.metadata.annotations


def test_a_volume_is_made_as_claim_and_class_say() -> None:
    """Size, modes and class of the claim; driver and topologies of the class."""
    claim = make_claim("data", size="3Gi", storage_class="wait")
    objects = ApiObjects([claim, make_class(zones=["a", "b"])])
    MemoryClient(objects=objects).send(claim_patch(claim))
    (volume,) = objects.of(PersistentVolume)
    assert volume.spec.capacity == {"storage": "3Gi"}
    assert volume.spec.storage_class_name == "wait"
    assert volume.spec.csi is not None
    assert volume.spec.csi.driver == "csi.example"
    assert volume.spec.node_affinity is not None
    assert volume.spec.node_affinity.required is not None
    (term,) = volume.spec.node_affinity.required.node_selector_terms
    assert term.match_expressions[0].values == ("a", "b")
    assert claim_of(objects).spec.volume_name == volume.metadata.name


def test_without_objects_nothing_is_bound() -> None:
    """A client that keeps no objects has no controllers, and nothing will happen."""
    client = MemoryClient()
    client.send(volume_patch(make_volume("v")))
    client.send(claim_patch(make_claim("data")))
