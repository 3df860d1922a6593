"""Nominations: each pod to one node at most."""

from __future__ import annotations

from policy_sched.queue.nominator import Nominator
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


def test_taking_back_twice_is_no_error() -> None:
    """A pod that is nominated nowhere has an empty node."""
    nominator = Nominator()
    pod = info("a")
    nominator.nominate(pod, "n1")
    nominator.clear(pod.uid)
    nominator.clear(pod.uid)
    assert (nominator.node_of(pod.uid), nominator.nominated(), len(nominator)) == ("", (), 0)
