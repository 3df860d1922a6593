"""Waiting pods: allowed by all, rejected by one, or late."""

from __future__ import annotations

import pytest

from policy_sched.framework import waiting_pods
from policy_sched.framework.status import SUCCESS, Code
from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import SECOND, make_pod


def waiting(**waits: float) -> waiting_pods.WaitingPod:
    return waiting_pods.WaitingPod(PodInfo.of(make_pod("p")), "n1", waits, now=100 * SECOND)


def test_goes_on_when_every_plugin_has_allowed_it() -> None:
    """One plugin's word is not enough while another waits."""
    pod = waiting(a=10, b=10)
    pod.allow("a")
    assert pod.status_at(101 * SECOND) is None
    assert pod.pending_plugins == ("b",)
    pod.allow("b")
    assert pod.status_at(101 * SECOND) is SUCCESS


def test_the_first_rejection_counts() -> None:
    """Whatever is said later does not change the answer."""
    pod = waiting(a=10, b=10)
    pod.reject("b", "gang is gone")
    pod.allow("a")
    pod.allow("b")
    answer = pod.status_at(101 * SECOND)
    assert answer is not None
    assert (answer.code, answer.reasons, answer.plugin) == (
        Code.UNSCHEDULABLE,
        ("gang is gone",),
        "b",
    )


def test_the_earliest_deadline_rejects_in_upstreams_words() -> None:
    """A late pod names the plugin that waited for the shortest time."""
    pod = waiting(a=90, b=30)
    assert pod.status_at(130 * SECOND - 1) is None
    answer = pod.status_at(130 * SECOND)
    assert answer is not None
    assert answer.reasons == ("rejected due to timeout after waiting 30s at plugin b",)


def test_no_pod_waits_longer_than_fifteen_minutes() -> None:
    """A longer time-out is cut, as upstream does."""
    pod = waiting(a=10 * waiting_pods.MAX_TIMEOUT)
    assert pod.status_at(100 * SECOND + 899 * SECOND) is None
    assert pod.status_at(100 * SECOND + 900 * SECOND) is not None


def test_pods_are_kept_in_order_until_removed() -> None:
    """Lookup is by UID; removing twice is no error."""
    pods = waiting_pods.WaitingPods()
    first = waiting(a=1)
    pods.add(first)
    assert list(pods) == [first]
    assert pods.get(first.pod.uid) is first
    pods.remove(first.pod.uid)
    pods.remove(first.pod.uid)
    assert len(pods) == 0
    assert pods.get(first.pod.uid) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.5, "500ms"),
        (30, "30s"),
        (2.5, "2.5s"),
        (90, "1m30s"),
        (900, "15m0s"),
        (3600, "1h0m0s"),
    ],
)
def test_durations_read_as_go_prints_them(seconds: float, text: str) -> None:
    """Messages carry Go's form of a duration."""
    assert waiting_pods.seconds_text(seconds) == text
