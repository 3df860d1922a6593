"""Queueing hints: the plugins called for an event, and the resulting decision."""

from __future__ import annotations

import pytest

from policy_sched.model.cluster_event import (
    ASSIGNED_POD_DELETE,
    FORCE_ACTIVATE,
    NODE_ADD,
    POLICY_RELOAD,
    UNSCHEDULABLE_TIMEOUT,
    ActionType,
    ClusterEvent,
    EventResource,
)
from policy_sched.model.pod_info import NO_PLUGINS, QueuedPod
from policy_sched.queue.hints import ERROR, HintTable, Strategy
from policy_sched.queue.unschedulable_pods import Rejection
from tests.queue.pods import NOWHERE, SCHEDULER, hint_table, info, queued


def rejected(*plugins: str, pending: tuple[str, ...] = ()) -> QueuedPod:
    pod = queued()
    pod.rejected_by, pod.pending = frozenset(plugins), frozenset(pending)
    return pod


@pytest.mark.parametrize(
    ("plugins", "strategy"),
    [
        (("Room",), Strategy.AFTER_BACKOFF),
        (("Picky",), Strategy.SKIP),
        (("Picky", "Room"), Strategy.AFTER_BACKOFF),
        (("Broken",), Strategy.AFTER_BACKOFF),
        (("Deaf",), Strategy.SKIP),
        (("Self",), Strategy.SKIP),
        (("Unknown",), Strategy.SKIP),
    ],
)
def test_only_who_rejected_the_pod_is_asked(plugins: tuple[str, ...], strategy: Strategy) -> None:
    """One plugin that sees hope is enough; a hint that fails counts as hope."""
    assert hint_table().judge(rejected(*plugins), NODE_ADD, None, "n") is strategy


def test_what_a_pending_plugin_waited_for_pays_no_backoff() -> None:
    """Its event makes the pod ready at once, even beside others that rejected it."""
    table = hint_table()
    assert table.judge(rejected(pending=("Room",)), NODE_ADD, None, "n") is Strategy.IMMEDIATELY
    mixed = rejected("Room", pending=("Picky",))
    assert table.judge(mixed, NODE_ADD, None, "n") is Strategy.AFTER_BACKOFF
    mixed = rejected("Picky", pending=("Room",))
    assert table.judge(mixed, NODE_ADD, None, "n") is Strategy.IMMEDIATELY


def test_a_pod_that_nobody_rejected_is_helped_by_anything() -> None:
    """An unexpected error says nothing about what would help."""
    assert hint_table().judge(rejected(), NOWHERE, None, None) is Strategy.AFTER_BACKOFF


@pytest.mark.parametrize("event", [UNSCHEDULABLE_TIMEOUT, POLICY_RELOAD, FORCE_ACTIVATE])
def test_events_for_everybody_ask_nobody(event: ClusterEvent) -> None:
    """No hint can hold back what is not about the cluster."""
    assert hint_table().judge(rejected("Picky"), event, None, None) is Strategy.AFTER_BACKOFF


def test_activating_one_pod_is_nothing_to_another() -> None:
    """The event names the pod."""
    pod, other = rejected("Picky"), info("other")
    assert hint_table().judge(pod, FORCE_ACTIVATE, None, pod.info) is Strategy.AFTER_BACKOFF
    assert hint_table().judge(pod, FORCE_ACTIVATE, None, other) is Strategy.SKIP


def test_a_pod_of_an_unknown_profile_is_not_forgotten() -> None:
    """Its rejecting plugins are unknown, so any event may help."""
    assert HintTable({}).judge(rejected("Room"), NODE_ADD, None, "n") is Strategy.AFTER_BACKOFF


def test_whoever_registers_for_pods_hears_of_both_kinds() -> None:
    """Assigned and unscheduled pods are pods; other resources are not."""
    table = hint_table()
    for resource, known in (
        (EventResource.ASSIGNED_POD, True),
        (EventResource.UNSCHEDULABLE_POD, True),
        (EventResource.NAMESPACE, False),
    ):
        event = ClusterEvent(resource, ActionType.UPDATE_POD_LABEL)
        assert table.concerns_any_plugin(event) is known


def test_events_that_nobody_registered_for_interest_nobody() -> None:
    """The queue need not look at any pod then."""
    assert not hint_table().concerns_any_plugin(NOWHERE)
    assert hint_table().concerns_any_plugin(UNSCHEDULABLE_TIMEOUT)


@pytest.mark.parametrize(
    ("rejection", "concerned"),
    [
        (Rejection(SCHEDULER, frozenset({"Room"}), NO_PLUGINS, ""), True),
        (Rejection(SCHEDULER, NO_PLUGINS, frozenset({"Room"}), ""), True),
        (Rejection(SCHEDULER, frozenset({"Deaf"}), NO_PLUGINS, ""), False),
        (Rejection(SCHEDULER, NO_PLUGINS, NO_PLUGINS, ""), True),
        (Rejection(SCHEDULER, frozenset({"Room"}), NO_PLUGINS, "Gates"), False),
        (Rejection(SCHEDULER, frozenset({"Room"}), NO_PLUGINS, "Room"), True),
        (Rejection("other", frozenset({"Deaf"}), NO_PLUGINS, ""), True),
    ],
)
def test_groups_that_would_all_stay_are_not_looked_at(
    rejection: Rejection, concerned: bool
) -> None:
    """A gated pod is moved only by what the plugin that gates it registered for."""
    assert hint_table().concerns(rejection, ASSIGNED_POD_DELETE) is concerned


def test_results_are_counted() -> None:
    """Each hint's answer counts under plugin, event and result; no hint counts as Queue."""
    table = hint_table()
    for plugin in ("Room", "Picky", "Broken"):
        table.judge(rejected(plugin), NODE_ADD, None, "n")
    assert table.results == {
        ("Room", "NodeAdd", "Queue"): 1,
        ("Picky", "NodeAdd", "QueueSkip"): 1,
        ("Broken", "NodeAdd", ERROR): 1,
    }
