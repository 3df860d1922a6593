"""Updates of a pod's status by others: they queue the pod for rules that read the field."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from policy_sched.model.meta import Condition
from policy_sched.model.pod_info import PodInfo, QueueState
from policy_sched.scheduler import event_handlers
from policy_sched.testing import make_pod
from tests.plugins.test_match_conditions import Cluster

NOMINATED = "filter: [{expression: 'pod.nominatedNodeName == node.name', message: elsewhere}]\n"


def test_a_rule_about_the_nominated_node_is_evaluated_when_one_is_set(tmp_path: Path) -> None:
    """The pod waited five minutes for the periodic flush, though its rule had become true."""
    cluster = Cluster(tmp_path, NOMINATED)
    assert not cluster.decide("p").node
    pod = make_pod("p")
    named = replace(pod, status=replace(pod.status, nominated_node_name="n2"))
    event_handlers.pod_seen(cluster.scheduler, PodInfo.of(named))
    assert cluster.place("p") is QueueState.BACKOFF
    cluster.clock.ns += 10**10
    outcome = cluster.scheduler.schedule_one()
    assert outcome is not None
    assert outcome.node == "n2"


@pytest.mark.parametrize(
    "spec",
    [
        NOMINATED,
        "filter: [{expression: 'false', message: never}]\n",
        "filter: [{expression: '\"a\" in pod.labels', message: unlabelled}]\n",
        "preFilter: {nodeNames: '[\"n3\"]', message: nowhere}\n",
        "requeue: {hint: 'true'}\nfilter: [{expression: 'false', message: never}]\n",
    ],
)
def test_a_condition_that_another_controller_writes_queues_no_pod(
    tmp_path: Path, spec: str
) -> None:
    """No rule reads conditions and phase: the pod stays in its queue."""
    cluster = Cluster(tmp_path, spec)
    assert not cluster.decide("p").node
    pod = make_pod("p")
    for number in range(3):
        condition = Condition(type=f"example.com/C{number}", status="True")
        status = replace(pod.status, conditions=(condition,), phase="Pending")
        event_handlers.pod_seen(cluster.scheduler, PodInfo.of(replace(pod, status=status)))
        assert cluster.place("p") is QueueState.UNSCHEDULABLE
