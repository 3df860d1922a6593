"""Waiting pods: allowed by all, rejected by one, or late.

Permit is evaluated again for waiting pods: for which pods, and how often.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from policy_sched.errors import PluginError
from policy_sched.framework import status, waiting_pods
from policy_sched.framework.status import SUCCESS, Code
from policy_sched.framework.waiting_pods import PermitCondition, WaitingPod, WaitingPods
from policy_sched.model.pod_group import POD_GROUP_LABEL
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


class Plugin:
    """A Permit plugin that has an opinion of what it counts."""

    def __init__(self, *, alike: bool = False, by_group: bool = False) -> None:
        self.version = 0
        self.answer = status.WAIT
        self.asked = 0
        self.alike = alike
        self.by_group = by_group
        self.pods = WaitingPods()

    def condition(self, ask: Callable[[], status.Status], of: str) -> PermitCondition:
        """Return how a pod of a group is asked again."""
        if self.by_group:
            group = "default", of
            return PermitCondition(ask, "", lambda: self.version, self.alike, group)
        return PermitCondition(ask, of, lambda: self.version, self.alike)

    def hold(self, name: str, of: str = "ring") -> WaitingPod:
        """Let a pod wait."""
        pod = PodInfo.of(make_pod(name, labels={POD_GROUP_LABEL: of}))

        def ask() -> status.Status:
            self.asked += 1
            return self.answer

        again = self.condition(ask, of)
        waiting = WaitingPod(pod, "n1", {"Plugin": 60.0}, 0, {"Plugin": again})
        self.pods.add(waiting)
        return waiting


def test_permit_is_not_evaluated_again_without_a_change() -> None:
    """However often it is polled."""
    plugin = Plugin()
    plugin.hold("a")
    plugin.hold("b")
    for _ in range(5):
        plugin.pods.recheck()
    assert plugin.asked == 2
    plugin.version = 1
    plugin.pods.recheck()
    assert plugin.asked == 4


def test_pods_of_a_group_are_asked_again_when_the_group_changes() -> None:
    """Those of others are not, until something changes that concerns all of them."""
    plugin = Plugin(by_group=True)
    held = [plugin.hold(name) for name in "ab"]
    plugin.hold("c", "star")
    asked = []
    for change in (
        lambda: None,
        lambda: None,
        lambda: plugin.pods.watched.note(("default", "ring")),
        lambda: plugin.pods.watched.note(("default", "other")),
        lambda: plugin.pods.remove(held[0].pod.uid),
        lambda: setattr(plugin, "version", 1),
    ):
        change()
        before = plugin.asked
        plugin.pods.recheck()
        asked.append(plugin.asked - before)
    assert asked == [3, 0, 2, 0, 1, 2]


def test_permit_is_evaluated_once_for_equal_pods() -> None:
    """One that has to wait speaks for all of its topic."""
    plugin = Plugin(alike=True)
    for name in "abc":
        plugin.hold(name)
    plugin.hold("d", "star")
    plugin.pods.recheck()
    assert plugin.asked == 2


@pytest.mark.parametrize("alike", [True, False])
def test_success_allows_all_equal_pods(alike: bool) -> None:
    """A change that helps one helps the others too."""
    plugin = Plugin(alike=alike)
    held = [plugin.hold(name) for name in "abc"]
    plugin.answer = status.SUCCESS
    plugin.pods.recheck()
    assert [waiting.status_at(0) for waiting in held] == [status.SUCCESS] * 3


def test_a_rejection_rejects_the_waiting_pod() -> None:
    """With the plugin's words."""
    plugin = Plugin()
    held = plugin.hold("a")
    plugin.answer = status.Status(status.Code.UNSCHEDULABLE, ("too late",))
    plugin.pods.recheck()
    assert held.status_at(0) == status.Status(status.Code.UNSCHEDULABLE, ("too late",), "Plugin")


def test_a_function_without_a_condition_is_called_every_time() -> None:
    """A plugin that does not say what its answer depends on."""
    plugin = Plugin()
    pod = PodInfo.of(make_pod("a"))
    again = plugin.hold("b").again["Plugin"]
    assert isinstance(again, PermitCondition)
    plugin.pods.add(WaitingPod(pod, "n1", {"Other": 60.0}, 0, {"Other": again.permit}))
    plugin.pods.recheck()
    plugin.pods.recheck()
    assert plugin.asked == 3


def test_a_pod_that_waits_no_longer_is_forgotten() -> None:
    """It has no group, so no plugin is called for it."""
    plugin = Plugin()
    held = plugin.hold("a")
    assert list(plugin.pods.of_group(("default", "ring"))) == ["default/a"]
    plugin.pods.remove(held.pod.uid)
    plugin.pods.remove(held.pod.uid)
    assert not plugin.pods.of_group(("default", "ring"))
    plugin.pods.recheck()
    assert plugin.asked == 0


def test_an_exception_rejects_the_waiting_pod() -> None:
    """The scheduler goes on."""
    plugin = Plugin()
    held = plugin.hold("a")

    def broken() -> status.Status:
        raise PluginError('running Permit plugin "Plugin": no idea')

    held.again["Plugin"] = PermitCondition(broken, "ring", lambda: plugin.version)
    plugin.pods.add(held)
    plugin.pods.recheck()
    answer = held.status_at(0)
    assert answer is not None
    assert answer.reasons == ('running Permit plugin "Plugin": no idea',)
