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
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from policy_sched.model.pod_info import NO_PLUGINS, PodInfo, QueuedPod
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
def test_only_hints_of_plugins_that_rejected_the_pod_run(
    plugins: tuple[str, ...], strategy: Strategy
) -> None:
    """One plugin that sees hope is enough; a hint that fails counts as hope."""
    assert hint_table().judge(rejected(*plugins), NODE_ADD, None, "n") is strategy


def test_the_event_of_a_pending_plugin_needs_no_backoff() -> None:
    """Its event makes the pod ready at once, even beside others that rejected it."""
    table = hint_table()
    assert table.judge(rejected(pending=("Room",)), NODE_ADD, None, "n") is Strategy.IMMEDIATELY
    mixed = rejected("Room", pending=("Picky",))
    assert table.judge(mixed, NODE_ADD, None, "n") is Strategy.AFTER_BACKOFF
    mixed = rejected("Picky", pending=("Room",))
    assert table.judge(mixed, NODE_ADD, None, "n") is Strategy.IMMEDIATELY


def test_any_event_moves_a_pod_without_a_rejecting_plugin() -> None:
    """An unexpected error says nothing about what would help."""
    assert hint_table().judge(rejected(), NOWHERE, None, None) is Strategy.AFTER_BACKOFF


@pytest.mark.parametrize("event", [UNSCHEDULABLE_TIMEOUT, POLICY_RELOAD, FORCE_ACTIVATE])
def test_wildcard_events_run_no_hints(event: ClusterEvent) -> None:
    """No hint can hold back what is not about the cluster."""
    assert hint_table().judge(rejected("Picky"), event, None, None) is Strategy.AFTER_BACKOFF


def test_activating_one_pod_does_not_move_another() -> None:
    """The event names the pod."""
    pod, other = rejected("Picky"), info("other")
    assert hint_table().judge(pod, FORCE_ACTIVATE, None, pod.info) is Strategy.AFTER_BACKOFF
    assert hint_table().judge(pod, FORCE_ACTIVATE, None, other) is Strategy.SKIP


def test_any_event_moves_a_pod_of_an_unknown_profile() -> None:
    """Its rejecting plugins are unknown, so any event may help."""
    assert HintTable({}).judge(rejected("Room"), NODE_ADD, None, "n") is Strategy.AFTER_BACKOFF


def test_an_event_of_pods_covers_assigned_and_unscheduled_pods() -> None:
    """Assigned and unscheduled pods are pods; other resources are not."""
    table = hint_table()
    for resource, known in (
        (EventResource.ASSIGNED_POD, True),
        (EventResource.UNSCHEDULABLE_POD, True),
        (EventResource.NAMESPACE, False),
    ):
        event = ClusterEvent(resource, ActionType.UPDATE_POD_LABEL)
        assert table.concerns_any_plugin(event) is known


def test_events_without_a_registration_concern_no_plugin() -> None:
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
def test_groups_that_an_event_cannot_move_are_not_judged(
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


def test_a_hint_runs_once_for_pods_that_it_cannot_distinguish() -> None:
    """Every pod gets the answer of its key; without a key the hint runs for each pod."""
    asked: list[str] = []

    def important(pod: PodInfo, _old: object, _new: object) -> QueueingHint:
        asked.append(pod.name)
        return QueueingHint.QUEUE if pod.priority else QueueingHint.SKIP

    def moved(table: HintTable, pods: list[QueuedPod]) -> list[str]:
        found = table.judge_group(pods, NODE_ADD, None, "n")
        return [pod.info.name for pod, strategy in found if strategy is Strategy.AFTER_BACKOFF]

    pods = [queued(f"p{i}", priority=i % 2) for i in range(6)]
    for pod in pods:
        pod.rejected_by = frozenset({"Keyed"})
    keyed = ClusterEventWithHint(NODE_ADD, important, alike=lambda pod: pod.priority)
    assert moved(HintTable({SCHEDULER: {"Keyed": [keyed]}}), pods) == ["p1", "p3", "p5"]
    assert asked == ["p0", "p1"]
    asked.clear()
    other = ClusterEventWithHint(NODE_ADD, important)
    assert moved(HintTable({SCHEDULER: {"Keyed": [other]}}), pods) == ["p1", "p3", "p5"]
    assert len(asked) == 6
