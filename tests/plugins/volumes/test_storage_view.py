"""AssumeCache: an assumption holds until the API server delivers a newer object.

VolumeIndex: free and reserved volumes equal a loop over all volumes.

VolumePods: counts from the journal equal a recount.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from policy_sched.cluster.listers import ApiObjects
from policy_sched.cluster.tables.journal import Journal
from policy_sched.errors import ClusterError
from policy_sched.model.storage import PersistentVolume
from policy_sched.plugins.volumes.binding import bound_volume
from policy_sched.plugins.volumes.listers import class_of
from policy_sched.plugins.volumes.storage_view import (
    AssumeCache,
    VolumeIndex,
    VolumePods,
    kept_for,
    size_of,
    with_volumes,
)
from policy_sched.testing import make_node
from tests.examples import scaled
from tests.plugins.volumes.world import World, make_claim, make_volume, uses


@pytest.fixture
def cluster() -> tuple[ApiObjects, AssumeCache[PersistentVolume], Journal]:
    """A journal, and one volume of 1Gi."""
    journal = Journal()
    objects = ApiObjects([make_volume("v")], journal)
    return objects, AssumeCache(PersistentVolume, objects, journal), journal


Cluster = tuple[ApiObjects, AssumeCache[PersistentVolume], Journal]


def test_an_assumed_object_covers_the_real_one(cluster: Cluster) -> None:
    """Until it is undone; both are in the journal, nothing else is."""
    objects, assumed, journal = cluster
    changed = make_volume("v", size="2Gi")
    before = journal.version
    assumed.assume("", changed)
    assert journal.version == before + 1
    assert assumed.get("", "v") is changed
    assert assumed.waits_for_watch("", "v")
    assert objects.named(PersistentVolume, "", "v") is not changed
    assumed.restore("", "v")
    assert journal.version == before + 2
    assert assumed.get("", "v") is objects.named(PersistentVolume, "", "v")
    assumed.restore("", "v")
    assert journal.version == before + 2


def test_a_newer_object_of_the_api_server_counts(cluster: Cluster) -> None:
    """The assumption was about the older one; an object that is gone is gone."""
    objects, assumed, _ = cluster
    assumed.assume("", make_volume("v", size="2Gi"))
    newer = make_volume("v", size="3Gi")
    objects.put(newer)
    assert not assumed.waits_for_watch("", "v")
    assert assumed.get("", "v") is newer
    assumed.assume("", make_volume("v", size="4Gi"))
    objects.remove(newer)
    assert assumed.get("", "v") is None


def test_what_is_not_there_cannot_be_assumed(cluster: Cluster) -> None:
    """The cache asks no API server."""
    _, assumed, _ = cluster
    with pytest.raises(ClusterError, match='could not find PersistentVolume "w"'):
        assumed.assume("", make_volume("w"))
    assert assumed.get("", "w") is None


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


POD_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["run", "stop", "drop", "bring", "ask"]),
        st.integers(0, 2),
        st.lists(st.sampled_from(["a", "b"]), max_size=2),
    ),
    max_size=20,
)


@settings(max_examples=scaled(150), deadline=None)
@given(steps=POD_STEPS)
def test_kept_counts_equal_a_recount(steps: list[tuple[str, int, list[str]]]) -> None:
    """After pods and nodes came and went in any order, with queries in between or not."""
    world = World()
    table = world.cache.nodes
    kept = VolumePods(table)
    running = []
    for i, (step, number, claims) in enumerate(steps):
        node = f"n{number}"
        match step:
            case "run":
                running.append(world.run(node, f"p{i}", *map(uses, claims)))
            case "stop" if running:
                world.cache.remove_pod(running.pop(number % len(running)))
            case "drop" if node in table.row_of:
                world.cache.remove_node(make_node(node))
            case "bring":
                world.cache.add_node(make_node(node))
            case "ask":
                kept.uses("default", "a")
    counted = Counter(
        use.name
        for row in range(table.n)
        for pod in table.pods_on(row).values()
        if pod.volumes is not None
        for use in pod.volumes.claims
    )
    assert kept.uses("default", "a") == counted["a"]
    assert kept.uses("default", "b") == counted["b"]
    assert kept.uses("other", "a") == 0
    assert {row: list(pods) for row, pods in kept.rows()} == {
        row: found for row in range(table.n) if (found := with_volumes(table, row))
    }
    sizes = [
        sum(len(p.volumes.claims) for p in with_volumes(table, r) if p.volumes)
        for r in range(table.n)
    ]
    assert kept.sizes().tolist() == sizes
