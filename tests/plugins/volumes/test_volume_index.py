"""VolumeIndex: free and reserved volumes equal a loop over all volumes."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings, strategies as st

from policy_sched.cluster.listers import ApiObjects
from policy_sched.cluster.tables.journal import Journal
from policy_sched.model.storage import PersistentVolume
from policy_sched.plugins.volumes.binding import bound_volume
from policy_sched.plugins.volumes.listers import class_of
from policy_sched.plugins.volumes.storage_view import AssumeCache, VolumeIndex, kept_for, size_of
from tests.examples import scaled
from tests.plugins.volumes.world import make_claim, make_volume

NAMES = ("u", "v", "w", "x")
FIELDS = st.fixed_dictionaries(
    {
        "size": st.sampled_from(["1Gi", "2Gi"]),
        "storage_class": st.sampled_from(["a", "b"]),
        "phase": st.sampled_from(["Available", "Bound"]),
        "hosts": st.sampled_from([None, ["n0"]]),
        "deleted": st.sampled_from([None, None, "2026-01-01T00:00:00Z"]),
        "claimRef": st.sampled_from(
            [
                None,
                {"namespace": "default", "name": "data"},
                {"namespace": "default", "name": "data", "uid": "of-an-older-claim"},
            ]
        ),
    }
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "remove", "assume", "restore", "ask"]),
        st.sampled_from(NAMES),
        FIELDS,
    ),
    max_size=15,
)


@settings(max_examples=scaled(300), deadline=None)
@given(steps=STEPS)
def test_the_index_equals_a_recount(steps: list[tuple[str, str, dict[str, Any]]]) -> None:
    """After volumes were added, changed, deleted, assumed and restored."""
    journal = Journal()
    objects = ApiObjects((), journal)
    assumed = AssumeCache(PersistentVolume, objects, journal)
    index = VolumeIndex(objects, assumed)
    for step, name, fields in steps:
        match step:
            case "put":
                objects.put(make_volume(name, **fields))
            case "remove":
                objects.remove(make_volume(name))
            case "assume":
                volume = objects.named(PersistentVolume, "", name)
                if volume is not None:
                    assumed.assume("", bound_volume(volume, make_claim("data")))
            case "restore":
                assumed.restore("", name)
            case "ask":
                index.free("a", 0)
    now = [assumed.get("", one.metadata.name) or one for one in objects.of(PersistentVolume)]
    alive = [one for one in now if one.metadata.deletion_timestamp is None]
    for name in ("a", "b"):
        claim = make_claim("data", storage_class=name)
        kept = [one for one in alive if class_of(one) == name and kept_for(one, claim)]
        found = [one for one in index.kept(claim) if one.metadata.deletion_timestamp is None]
        assert sorted(one.metadata.name for one in found) == sorted(
            one.metadata.name for one in kept
        )
        free = [
            one
            for one in alive
            if class_of(one) == name
            and one.status.phase == "Available"
            and one.spec.claim_ref is None
        ]
        for size in ("1Gi", "2Gi"):
            wanted = size_of(make_volume("_", size=size))
            expected = sorted((one for one in free if size_of(one) >= wanted), key=size_of)
            offers = index.free(name, wanted)
            assert [offer.volume for offer in offers] == expected
            groups = {offer.group: offer.volume.spec.node_affinity for offer in offers}
            assert all(groups[o.group] == o.volume.spec.node_affinity for o in offers)
            assert len(set(map(str, groups.values()))) == len(groups)
