"""Queueing hints: only pods that may be schedulable now are requeued."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from policy_sched.model import cluster_event
from policy_sched.plugins.volumes import events
from tests.plugins.volumes import world

R = cluster_event.EventResource
ADD = cluster_event.ActionType.ADD
UPDATE = cluster_event.ActionType.UPDATE_OTHER
DELETE = cluster_event.ActionType.DELETE
POD = world.pod_with(
    world.uses("data"), {"gcePersistentDisk": {"pdName": "d"}}, {"csi": {"driver": "csi.x"}}
)
OWN = world.pod_with({"ephemeral": {}})
GONE = world.pod_with(world.uses("data"), name="gone", node_name="n0")
OTHER = world.pod_with({"gcePersistentDisk": {"pdName": "d"}}, name="other", node_name="n0")
FAR = world.pod_with(world.uses("data"), name="far", namespace="far", node_name="n0")
PLAIN = world.pod_with(name="plain", node_name="n0")
TIER = world.make_volume("v", labels={world.ZONE: "a"})


@pytest.mark.parametrize(
    ("registered", "resource", "old", "new", "wakes"),
    [
        (events.BINDING, R.PERSISTENT_VOLUME_CLAIM, None, world.make_claim("data"), True),
        (events.BINDING, R.PERSISTENT_VOLUME_CLAIM, None, world.make_claim("else"), False),
        (
            events.BINDING,
            R.PERSISTENT_VOLUME_CLAIM,
            None,
            world.make_claim("data", namespace="far"),
            False,
        ),
        (events.BINDING, R.STORAGE_CLASS, None, world.make_class(), True),
        (events.BINDING, R.STORAGE_CLASS, world.make_class(), world.make_class(), False),
        (events.BINDING, R.STORAGE_CLASS, world.make_class(), world.make_class(zones=["a"]), True),
        (events.BINDING, R.CSI_NODE, None, world.make_csi_node("n0"), True),
        (events.BINDING, R.CSI_NODE, world.make_csi_node("n0"), world.make_csi_node("n0"), False),
        (
            events.BINDING,
            R.CSI_NODE,
            world.make_csi_node("n0"),
            world.make_csi_node("n0", migrated="kubernetes.io/gce-pd"),
            True,
        ),
        (
            events.BINDING,
            R.CSI_DRIVER,
            world.make_driver("csi.x"),
            world.make_driver("csi.x", storage_capacity=False),
            True,
        ),
        (
            events.BINDING,
            R.CSI_DRIVER,
            world.make_driver("csi.y"),
            world.make_driver("csi.y", storage_capacity=False),
            False,
        ),
        (events.BINDING, R.CSI_STORAGE_CAPACITY, None, world.make_capacity("c", "1Gi", None), True),
        (
            events.BINDING,
            R.CSI_STORAGE_CAPACITY,
            world.make_capacity("c", "1Gi", None),
            world.make_capacity("c", "2Gi", None),
            True,
        ),
        (
            events.BINDING,
            R.CSI_STORAGE_CAPACITY,
            world.make_capacity("c", "2Gi", None),
            world.make_capacity("c", "2Gi", None),
            False,
        ),
        (events.ZONE, R.STORAGE_CLASS, None, world.make_class(), True),
        (events.ZONE, R.STORAGE_CLASS, None, world.make_class(mode="Immediate"), False),
        (events.ZONE, R.PERSISTENT_VOLUME, None, TIER, True),
        (events.ZONE, R.PERSISTENT_VOLUME, TIER, TIER, False),
        (events.ZONE, R.PERSISTENT_VOLUME, TIER, world.make_volume("v"), True),
        (events.ZONE, R.PERSISTENT_VOLUME_CLAIM, None, world.make_claim("data"), True),
        (events.RESTRICTIONS, R.ASSIGNED_POD, GONE, None, True),
        (events.RESTRICTIONS, R.ASSIGNED_POD, OTHER, None, True),
        (events.RESTRICTIONS, R.ASSIGNED_POD, FAR, None, False),
        (events.RESTRICTIONS, R.ASSIGNED_POD, PLAIN, None, False),
        (events.LIMITS, R.ASSIGNED_POD, OTHER, None, True),
        (events.LIMITS, R.ASSIGNED_POD, PLAIN, None, False),
        (events.LIMITS, R.VOLUME_ATTACHMENT, world.make_attachment("a", "n", "v", "d"), None, True),
        (
            events.LIMITS,
            R.CSI_NODE,
            world.make_csi_node("n", {"d": 1}),
            world.make_csi_node("n", {"d": 2}),
            True,
        ),
        (
            events.LIMITS,
            R.CSI_NODE,
            world.make_csi_node("n", {"d": 2}),
            world.make_csi_node("n", {"d": 1, "e": 1}),
            False,
        ),
    ],
)
def test_an_event_that_cannot_change_the_result_leaves_the_pod_queued(
    registered: Sequence[cluster_event.ClusterEventWithHint],
    resource: cluster_event.EventResource,
    old: object,
    new: object,
    wakes: bool,
) -> None:
    """An event that cannot change the plugin's result leaves the pod in its queue."""
    action = ADD if old is None else DELETE if new is None else UPDATE
    found = [e for e in registered if e.event.resource is resource and e.event.action & action]
    assert len(found) == 1
    hint = found[0].hint
    assert hint is not None
    expected = cluster_event.QueueingHint.QUEUE if wakes else cluster_event.QueueingHint.SKIP
    assert hint(POD, old, new) is expected


def test_an_ephemeral_claim_is_the_pods_own() -> None:
    """Binding and limits wait for it; zones and restrictions ignore it."""
    claim = world.make_claim("p-v0")
    answers = []
    for registered in (events.BINDING, events.LIMITS, events.ZONE, events.RESTRICTIONS):
        (hint,) = (
            e.hint for e in registered if e.event.resource is R.PERSISTENT_VOLUME_CLAIM and e.hint
        )
        answers.append(hint(OWN, None, claim) is cluster_event.QueueingHint.QUEUE)
    assert answers == [True, True, False, False]
