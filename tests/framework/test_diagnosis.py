"""Diagnosis: kube-scheduler's sentence, to the letter."""

from __future__ import annotations

from policy_sched.framework.diagnosis import Diagnosis
from policy_sched.framework.status import Code, Status

CPU = Status(Code.UNSCHEDULABLE, ("Insufficient cpu",))
TAINT = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("node(s) had untolerated taint(s)",))
BOTH = Status(Code.UNSCHEDULABLE, ("Too many pods", "Insufficient cpu"))


def test_counts_each_reason_and_sorts_the_counts_as_text() -> None:
    """Ten sorts before two, and a node with two reasons counts twice."""
    statuses = dict(enumerate([TAINT] * 10 + [CPU, BOTH]))
    assert Diagnosis(12, statuses).message() == (
        "0/12 nodes are available: 1 Too many pods, 10 node(s) had untolerated taint(s), "
        "2 Insufficient cpu."
    )


def test_the_reasons_of_post_filter_follow() -> None:
    """The PostFilter message is appended after a blank."""
    said = Status(Code.UNSCHEDULABLE, ("preemption: 0/1 nodes are available: 1 No.",))
    message = Diagnosis(1, {0: CPU}, post_filter=said).message()
    assert message.endswith("1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No.")


def test_a_rejection_of_the_whole_pod_replaces_the_counts() -> None:
    """What PreFilter said stands alone."""
    said = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("claim not found",))
    assert Diagnosis(4, {}, pre_filter=said).message() == (
        "0/4 nodes are available: claim not found."
    )


def test_an_empty_cluster_has_a_message_of_its_own() -> None:
    """Without nodes there is nothing to count."""
    assert Diagnosis(0).message() == "no nodes available to schedule pods"


def test_nodes_that_are_gone_without_a_reason() -> None:
    """Without reasons, the message ends before them."""
    assert Diagnosis(2, {}).message() == "0/2 nodes are available:"
