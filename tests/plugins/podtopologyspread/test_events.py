"""What retries pods that PodTopologySpread rejected: kube-scheduler's hints."""

from __future__ import annotations

from typing import Any

import pytest

from policy_sched.cluster import ApiObjects
from policy_sched.model import PodInfo, QueueingHint
from policy_sched.plugins.podtopologyspread import events
from policy_sched.plugins.podtopologyspread.constraints import ConstraintCache
from policy_sched.testing import make_node, make_pod

POD_EVENT, NODE_EVENT = events.of(ConstraintCache({}, ApiObjects()).of)


def pod(name: str, app: str, *, node: str = "", **fields: Any) -> PodInfo:
    """Return a pod that is spread over zones, among those of the app a."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
        "nodeTaintsPolicy": "Honor",
    }
    spread = [constraint]
    labels = {"app": app}
    return PodInfo.of(
        make_pod(name, labels=labels, node_name=node, topology_spread_constraints=spread, **fields)
    )


WAITS = pod("waits", "a")
A, B = pod("x", "a", node="n1"), pod("x", "b", node="n1")
TOLERATES = pod("waits", "a", tolerations=[{"operator": "Exists"}])


@pytest.mark.parametrize(
    ("old", "new", "retried"),
    [
        pytest.param(None, A, True, id="a pod that counts came"),
        pytest.param(A, None, True, id="a pod that counts went"),
        pytest.param(None, B, False, id="a pod that does not count came"),
        pytest.param(A, B, True, id="a pod counts no more"),
        pytest.param(B, B, False, id="no label of it changed"),
        pytest.param(None, pod("y", "a"), False, id="it has no node"),
        pytest.param(None, pod("y", "a", node="n1", namespace="z"), False, id="it is elsewhere"),
        pytest.param(WAITS, TOLERATES, True, id="the pod tolerates more"),
    ],
)
def test_changes_of_pods_that_retry_a_pod(
    old: PodInfo | None, new: PodInfo | None, retried: bool
) -> None:
    """Every change of a bound pod retried each pod that the plugin had rejected."""
    assert POD_EVENT.hint is not None
    assert (POD_EVENT.hint(WAITS, old, new) is QueueingHint.QUEUE) is retried


ZONE = {"zone": "z1"}


@pytest.mark.parametrize(
    ("old", "new", "retried"),
    [
        pytest.param(None, {"labels": ZONE}, True, id="a node of a zone came"),
        pytest.param({"labels": ZONE}, None, True, id="a node of a zone went"),
        pytest.param(None, {}, False, id="a node of no zone came"),
        pytest.param({}, {"labels": ZONE}, True, id="it joined a zone"),
        pytest.param({"labels": ZONE}, {"labels": {"zone": "z2"}}, True, id="it changed its zone"),
        pytest.param(
            {"labels": ZONE}, {"labels": ZONE, "taints": ["a:NoSchedule"]}, True, id="taint"
        ),
        pytest.param({"labels": ZONE}, {"labels": {**ZONE, "x": "y"}}, False, id="another label"),
        pytest.param({}, {"taints": ["a:NoSchedule"]}, False, id="a taint in no zone"),
    ],
)
def test_changes_of_nodes_that_retry_a_pod(
    old: dict[str, Any] | None, new: dict[str, Any] | None, retried: bool
) -> None:
    """Every change of a node retried each pod that the plugin had rejected."""
    assert NODE_EVENT.hint is not None
    before, after = (None if one is None else make_node(**one) for one in (old, new))
    assert (NODE_EVENT.hint(WAITS, before, after) is QueueingHint.QUEUE) is retried
