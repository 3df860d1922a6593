"""Promises of the index of pods by group, in the cache and by itself."""

from __future__ import annotations

from policy_sched.cluster.cache import Cache
from policy_sched.cluster.group_index import GroupIndex, group_differences
from policy_sched.model.pod_group import POD_GROUP_LABEL
from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import make_node, make_pod

RING = ("default", "ring")


def member(name: str, of: str = "ring", **spec: str) -> PodInfo:
    """Return a pod of a group."""
    return PodInfo.of(make_pod(name, labels={POD_GROUP_LABEL: of}, **spec))


def test_pods_are_found_by_namespace_and_group() -> None:
    """Groups of one name in two namespaces are two groups; pods without one are in none."""
    index = GroupIndex()
    index.add(member("a"))
    index.add(member("b", namespace="other"))
    index.add(PodInfo.of(make_pod("c")))
    assert list(index.pods(RING)) == ["default/a"]
    assert list(index.pods(("other", "ring"))) == ["other/b"]
    assert len(index) == 2


def test_the_version_rises_with_every_change() -> None:
    """And only then: a pod that is not known, or has no group, changes nothing."""
    index = GroupIndex()
    pod = member("a")
    index.add(pod)
    version = index.version
    index.remove(member("b"))
    index.remove(PodInfo.of(make_pod("c")))
    assert index.version == version
    index.remove(pod)
    assert index.version > version
    assert len(index) == 0


def test_a_pod_of_two_indexes_is_one_member() -> None:
    """Whichever of them it comes to first, goes from first, or changes in."""
    placed = GroupIndex()
    pending = GroupIndex(placed)
    pending.add(member("a"))
    pending.add(member("b"))
    placed.add(member("a"))
    placed.add(member("c"))
    pending.add(member("c"))
    assert (placed.members(RING), pending.members(RING)) == (3, 3)
    placed.add(member("c", node_name="n1"))
    assert pending.members(RING) == 3
    pending.remove(member("a"))
    placed.remove(member("c"))
    assert pending.members(RING) == 3
    placed.remove(member("a"))
    pending.remove(member("c"))
    assert (placed.members(RING), pending.members(RING)) == (1, 1)


def test_a_group_has_another_version_after_each_change() -> None:
    """Also after it was empty; an empty one has version 0."""
    index = GroupIndex()
    versions = [index.of(RING).version]
    for change in (index.add, index.add, index.remove, index.add):
        change(member("a"))
        versions.append(index.of(RING).version)
    assert versions[0] == versions[3] == 0
    assert len({*versions}) == 4


def test_changes_of_watched_groups_are_told_once() -> None:
    """Of either index, and of no other group: nothing is kept of those that nobody waits for."""
    placed = GroupIndex()
    pending = GroupIndex(placed)
    watched = placed.watched
    placed.add(member("a"))
    assert not watched.take()
    watched.watch(RING, 1)
    assert list(watched.take()) == [RING]
    for change in (placed.remove, pending.add):
        change(member("a"))
        pending.add(member("b", "star"))
        assert list(watched.take()) == [RING]
        assert not watched.take()
    watched.watch(RING, 1)
    watched.watch(RING, -1)
    assert list(watched.take()) == [RING]
    watched.watch(RING, -1)
    pending.remove(member("a"))
    assert not watched.take()
    assert not watched.watchers


def test_the_cache_keeps_its_pods_by_group() -> None:
    """Assumed pods count, a changed label moves a pod, a pod that is gone is out."""
    cache = Cache()
    cache.add_node(make_node("n1"))
    pod = member("a")
    cache.assume(pod, "n1")
    assert list(cache.groups.pods(RING)) == ["default/a"]
    cache.forget(pod.uid)
    assert not cache.groups.pods(RING)
    cache.add_pod(member("a", node_name="n1"))
    cache.update_pod(member("a", "star", node_name="n1"))
    assert list(cache.groups.pods(("default", "star"))) == ["default/a"]
    assert not cache.groups.pods(RING)
    assert cache.check() == []
    cache.remove_pod(member("a", "star", node_name="n1"))
    assert len(cache.groups) == 0


def test_a_recount_names_what_differs() -> None:
    """The check of the cache would say so."""
    index = GroupIndex()
    index.add(member("a"))
    assert group_differences(index, [member("b")]) == [
        "pod group default/ring: ['default/a'], but has ['default/b']"
    ]
