"""Nominations: each pod to one node at most."""

from __future__ import annotations

from policy_sched.model.pod_info import PodInfo
from policy_sched.queue.nominator import LOG_SIZE, Nominator
from policy_sched.testing import make_pod
from tests.queue.pods import info


def test_a_nomination_replaces_the_one_before() -> None:
    """A pod is nominated to one node at most."""
    nominator = Nominator()
    pod = info("a")
    nominator.nominate(pod, "n1")
    nominator.nominate(pod, "n2")
    assert nominator.pods_on("n1") == ()
    assert nominator.nominated() == (("n2", (pod,)),)
    assert nominator.node_of(pod.uid) == "n2"


def test_clearing_a_nomination_twice_is_no_error() -> None:
    """A pod that is nominated nowhere has an empty node."""
    nominator = Nominator()
    pod = info("a")
    nominator.nominate(pod, "n1")
    assert nominator.clear(pod.uid) is pod
    assert nominator.clear(pod.uid) is None
    assert (nominator.node_of(pod.uid), nominator.nominated(), len(nominator)) == ("", (), 0)


def test_a_node_has_nominated_pods_of_a_priority_or_none() -> None:
    """Less important pods do not count."""
    nominator = Nominator()
    nominator.nominate(PodInfo.of(make_pod("a", priority=5)), "n1")
    assert nominator.any_on(["n0", "n1"], 5)
    assert not nominator.any_on(["n0", "n1"], 6)
    assert not nominator.any_on(["n0"], 5)


def test_the_log_names_nodes_whose_nominations_changed() -> None:
    """The changed nodes, each listed once, cover all changes."""
    nominator = Nominator()
    pod, other = info("a"), info("b")
    nominator.nominate(pod, "n1")
    version = nominator.version
    assert nominator.since(version) == []
    nominator.nominate(pod, "n2")
    nominator.nominate(other, "n2")
    assert nominator.since(version) == ["n1", "n2"]
    nominator.clear(other.uid)
    assert nominator.since(0) == ["n1", "n2"]


def test_the_log_returns_none_for_an_old_version() -> None:
    """The log has an end; then everything may have changed."""
    nominator = Nominator()
    for _ in range(LOG_SIZE):
        nominator.nominate(info("a"), "n1")
    assert nominator.since(0) is None
    assert nominator.since(nominator.version) == []
    assert nominator.since(nominator.version - 1) == ["n1"]


def test_the_lowest_priority_that_is_not_below() -> None:
    """Pods that give way to the same nominated pods get the same answer."""
    nominator = Nominator()
    for name, priority in (("a", 5), ("b", 10), ("c", 10)):
        nominator.nominate(PodInfo.of(make_pod(name, priority=priority)), "n1")
    assert [nominator.lowest(p) for p in (0, 5, 6, 10, 11)] == [5, 5, 10, 10, None]
    nominator.clear(PodInfo.of(make_pod("a")).uid)
    nominator.clear(PodInfo.of(make_pod("b")).uid)
    assert nominator.lowest(0) == 10
