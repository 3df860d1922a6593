"""AssumeCache: an assumption holds until the API server delivers a newer object."""

from __future__ import annotations

import pytest

from policy_sched.cluster.listers import ApiObjects
from policy_sched.cluster.tables.journal import Journal
from policy_sched.errors import ClusterError
from policy_sched.model.storage import PersistentVolume
from policy_sched.plugins.volumes.storage_view import AssumeCache
from tests.plugins.volumes.world import make_volume


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
