"""Queueing hints: only pods that may be schedulable now are requeued."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from policy_sched.model.cluster_event import (
    ActionType,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from policy_sched.plugins.volumes import events
from tests.plugins.volumes.world import (
    ZONE,
    make_attachment,
    make_capacity,
    make_claim,
    make_class,
    make_csi_node,
    make_driver,
    make_volume,
    pod_with,
    uses,
)

R = EventResource
ADD = ActionType.ADD
UPDATE = ActionType.UPDATE_OTHER
DELETE = ActionType.DELETE
POD = pod_with(uses("data"), {"gcePersistentDisk": {"pdName": "d"}}, {"csi": {"driver": "csi.x"}})
OWN = pod_with({"ephemeral": {}})
GONE = pod_with(uses("data"), name="gone", node_name="n0")
OTHER = pod_with({"gcePersistentDisk": {"pdName": "d"}}, name="other", node_name="n0")
FAR = pod_with(uses("data"), name="far", namespace="far", node_name="n0")
PLAIN = pod_with(name="plain", node_name="n0")
TIER = make_volume("v", labels={ZONE: "a"})


@pytest.mark.parametrize(
    ("registered", "resource", "old", "new", "wakes"),
    [
        (events.BINDING, R.PERSISTENT_VOLUME_CLAIM, None, make_claim("data"), True),
        (events.BINDING, R.PERSISTENT_VOLUME_CLAIM, None, make_claim("else"), False),
        (
            events.BINDING,
            R.PERSISTENT_VOLUME_CLAIM,
            None,
            make_claim("data", namespace="far"),
            False,
        ),
        (events.BINDING, R.STORAGE_CLASS, None, make_class(), True),
        (events.BINDING, R.STORAGE_CLASS, make_class(), make_class(), False),
        (events.BINDING, R.STORAGE_CLASS, make_class(), make_class(zones=["a"]), True),
        (events.BINDING, R.CSI_NODE, None, make_csi_node("n0"), True),
        (events.BINDING, R.CSI_NODE, make_csi_node("n0"), make_csi_node("n0"), False),
        (
            events.BINDING,
            R.CSI_NODE,
            make_csi_node("n0"),
            make_csi_node("n0", migrated="kubernetes.io/gce-pd"),
            True,
        ),
        (
            events.BINDING,
            R.CSI_DRIVER,
            make_driver("csi.x"),
            make_driver("csi.x", storage_capacity=False),
            True,
        ),
        (
            events.BINDING,
            R.CSI_DRIVER,
            make_driver("csi.y"),
            make_driver("csi.y", storage_capacity=False),
            False,
        ),
        (events.BINDING, R.CSI_STORAGE_CAPACITY, None, make_capacity("c", "1Gi", None), True),
        (
            events.BINDING,
            R.CSI_STORAGE_CAPACITY,
            make_capacity("c", "1Gi", None),
            make_capacity("c", "2Gi", None),
            True,
        ),
        (
            events.BINDING,
            R.CSI_STORAGE_CAPACITY,
            make_capacity("c", "2Gi", None),
            make_capacity("c", "2Gi", None),
            False,
        ),
        (events.ZONE, R.STORAGE_CLASS, None, make_class(), True),
        (events.ZONE, R.STORAGE_CLASS, None, make_class(mode="Immediate"), False),
        (events.ZONE, R.PERSISTENT_VOLUME, None, TIER, True),
        (events.ZONE, R.PERSISTENT_VOLUME, TIER, TIER, False),
        (events.ZONE, R.PERSISTENT_VOLUME, TIER, make_volume("v"), True),
        (events.ZONE, R.PERSISTENT_VOLUME_CLAIM, None, make_claim("data"), True),
        (events.RESTRICTIONS, R.ASSIGNED_POD, GONE, None, True),
        (events.RESTRICTIONS, R.ASSIGNED_POD, OTHER, None, True),
        (events.RESTRICTIONS, R.ASSIGNED_POD, FAR, None, False),
        (events.RESTRICTIONS, R.ASSIGNED_POD, PLAIN, None, False),
        (events.LIMITS, R.ASSIGNED_POD, OTHER, None, True),
        (events.LIMITS, R.ASSIGNED_POD, PLAIN, None, False),
        (events.LIMITS, R.VOLUME_ATTACHMENT, make_attachment("a", "n", "v", "d"), None, True),
        (
            events.LIMITS,
            R.CSI_NODE,
            make_csi_node("n", {"d": 1}),
            make_csi_node("n", {"d": 2}),
            True,
        ),
        (
            events.LIMITS,
            R.CSI_NODE,
            make_csi_node("n", {"d": 2}),
            make_csi_node("n", {"d": 1, "e": 1}),
            False,
        ),
    ],
)
def test_hints(
    registered: Sequence[ClusterEventWithHint],
    resource: EventResource,
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
    expected = QueueingHint.QUEUE if wakes else QueueingHint.SKIP
    assert hint(POD, old, new) is expected


def test_an_ephemeral_claim_is_the_pods_own() -> None:
    """Binding and limits wait for it; zones and restrictions ignore it."""
    claim = make_claim("p-v0")
    answers = []
    for registered in (events.BINDING, events.LIMITS, events.ZONE, events.RESTRICTIONS):
        (hint,) = (
            e.hint for e in registered if e.event.resource is R.PERSISTENT_VOLUME_CLAIM and e.hint
        )
        answers.append(hint(OWN, None, claim) is QueueingHint.QUEUE)
    assert answers == [True, True, False, False]
