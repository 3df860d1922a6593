"""Changes: the events that an update raises for waiting pods."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from policy_sched.model.cluster_event import ActionType
from policy_sched.model.cluster_objects import Node
from policy_sched.model.meta import Condition
from policy_sched.model.pod_info import PodInfo
from policy_sched.queue.changes import node_changes, pod_changes
from policy_sched.testing import make_node, make_pod
from tests.queue.pods import info

LABEL = {"labels": {"a": "b"}}
GATE, TWO = {"gates": ["x"]}, {"gates": ["x", "y"]}
ANY = {"operator": "Exists"}


@pytest.mark.parametrize(
    ("old", "new", "labels"),
    [
        ({}, LABEL, ["UnschedulablePodUpdatePodLabel"]),
        ({"cpu": "2"}, {"cpu": "1"}, ["UnschedulablePodUpdatePodScaleDown"]),
        ({"cpu": "1"}, {"cpu": "2"}, ["UnschedulablePodUpdate"]),
        ({"cpu": "1"}, {}, ["UnschedulablePodUpdatePodScaleDown"]),
        (GATE, {}, ["UnschedulablePodUpdatePodSchedulingGatesEliminated"]),
        (TWO, GATE, ["UnschedulablePodUpdate"]),
        ({}, {"tolerations": [ANY]}, ["UnschedulablePodUpdatePodToleration"]),
        ({}, {"annotations": {"a": "b"}}, ["UnschedulablePodUpdate"]),
        ({}, {"node_selector": {"a": "b"}}, ["UnschedulablePodUpdate"]),
        ({}, {}, []),
        (
            GATE,
            LABEL | {"annotations": {"a": "b"}},
            [
                "UnschedulablePodUpdatePodLabel",
                "UnschedulablePodUpdatePodSchedulingGatesEliminated",
                "UnschedulablePodUpdate",
            ],
        ),
        (LABEL | {"node_name": "n"}, {"node_name": "n"}, ["AssignedPodUpdatePodLabel"]),
    ],
)
def test_the_event_of_a_pod_update_names_what_changed(
    old: dict[str, Any], new: dict[str, Any], labels: list[str]
) -> None:
    """The names are kube-scheduler's; where nothing changed that is read there is no event."""
    found = [event.label for event in pod_changes(info(**old), info(**new))]
    assert found == labels


@pytest.mark.parametrize(
    ("new", "action"),
    [
        ({"cpu": "8"}, ActionType.UPDATE_NODE_ALLOCATABLE),
        ({"labels": {"a": "b"}}, ActionType.UPDATE_NODE_LABEL),
        ({"taints": ["a=b:NoSchedule"]}, ActionType.UPDATE_NODE_TAINT),
        ({"unschedulable": True}, ActionType.UPDATE_OTHER),
        ({"ready": False}, ActionType.UPDATE_NODE_CONDITION),
        ({"annotations": {"a": "b"}}, ActionType.UPDATE_NODE_ANNOTATION),
        ({"images": {"nginx": 1}}, ActionType.UPDATE_OTHER),
    ],
)
def test_the_event_of_a_node_update_names_what_changed(
    new: dict[str, Any], action: ActionType
) -> None:
    """What no event is about is an update; so is a cordon, which helps nobody, as upstream."""
    capacity: dict[str, str | int | float] = {"cpu": "4", "memory": "32Gi", "pods": 110}
    events = node_changes(make_node(capacity=capacity), make_node(capacity=capacity, **new))
    assert [event.action for event in events] == [action]


def test_a_node_that_is_uncordoned_has_lost_a_taint() -> None:
    """Pods were tried again when a node was cordoned; kube-scheduler looks at the end of it."""
    cordoned = make_node(unschedulable=True)
    events = node_changes(cordoned, make_node())
    assert [event.action for event in events] == [ActionType.UPDATE_NODE_TAINT]


def test_a_heartbeat_is_no_event() -> None:
    """An update of fields that no plugin reads raises no event."""
    node: Node = make_node()
    later = replace(node, metadata=replace(node.metadata, resource_version="2"))
    assert node_changes(node, later) == ()


@pytest.mark.parametrize("node_name", ["", "n"])
def test_an_update_of_the_status_alone_is_no_event(node_name: str) -> None:
    """Each pod that rules rejected was tried twice: the patch of its condition queued it again."""
    pod = make_pod(node_name=node_name)
    condition = Condition(type="PodScheduled", status="False", reason="Unschedulable")
    status = replace(pod.status, conditions=(condition,), phase="Pending")
    metadata = replace(pod.metadata, resource_version="2", generation=2)
    later = replace(pod, status=status, metadata=metadata)
    assert pod_changes(PodInfo.of(pod), PodInfo.of(later)) == ()


def test_another_nominated_node_is_an_update() -> None:
    """Rules read the nominated node of a pod that waits; what a bound pod had is of no use."""
    pod = make_pod()
    later = replace(pod, status=replace(pod.status, nominated_node_name="n"))
    (event,) = pod_changes(PodInfo.of(pod), PodInfo.of(later))
    assert event.label == "UnschedulablePodUpdate"
    bound = replace(later, spec=replace(pod.spec, node_name="n"))
    cleared = replace(bound, status=pod.status)
    assert pod_changes(PodInfo.of(bound), PodInfo.of(cleared)) == ()
