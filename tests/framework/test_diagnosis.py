"""Diagnosis: kube-scheduler's sentence, to the letter."""

from __future__ import annotations

import numpy as np

from policy_sched.framework.diagnosis import ByRow, Diagnosis, StatusTable
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


def test_values_by_row_are_a_sequence() -> None:
    """A few different values stand for many rows, and are changed once each."""
    changed: list[str] = []

    def upper(text: str) -> str:
        changed.append(text)
        return text.upper()

    values = ByRow(["a", "b"], np.array([1, 0, 1], np.intp))
    assert (list(values), len(values), values[2], list(values[:2])) == (
        list("bab"),
        3,
        "b",
        list("ba"),
    )
    assert list(values.map(upper)) == list("BAB")
    assert changed == ["a", "b"]


def test_statuses_by_row_get_the_numbers_of_a_list() -> None:
    """Equal statuses have one number, whichever form they come in."""
    statuses = [Status(Code.UNSCHEDULABLE, (text,)) for text in ("x", "y", "x")]
    table = StatusTable()
    numbers = table.numbers(statuses)
    assert list(table.numbers(ByRow(statuses, np.array([2, 1, 0], np.intp)))) == numbers[::-1]
