"""What retries pods that InterPodAffinity rejected: kube-scheduler's hints, gaps included."""

from __future__ import annotations

from typing import Any

import pytest

from policy_sched.model import PodInfo, QueueingHint
from policy_sched.plugins.interpodaffinity.events import EVENTS
from policy_sched.testing import make_node, make_pod

POD_HINT, NODE_HINT = EVENTS[0].hint, EVENTS[1].hint


def term(app: str, **others: Any) -> dict[str, Any]:
    """Return a required term for the pods of an app, by host."""
    return {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": app}},
        **others,
    }


def pod(name: str, app: str, *, node: str = "", near: Any = (), away: Any = ()) -> PodInfo:
    """Return a pod with required terms of affinity and of anti-affinity."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = {"podAffinity": {required: list(near)}, "podAntiAffinity": {required: list(away)}}
    labels = {"app": app}
    return PodInfo.of(make_pod(name, labels=labels, node_name=node, affinity=affinity))


NEAR_B = pod("waits", "a", near=[term("b")])
NEAR_PROD = pod("waits", "a", near=[term("b", namespaceSelector={"matchLabels": {"env": "prod"}})])
AWAY_B_C = pod("waits", "a", away=[term("b"), term("c")])
ALONE = pod("waits", "a")
B, C = pod("b", "b", node="n1"), pod("c", "c", node="n1")
UNBOUND = pod("b", "b")
REPELS_A = pod("r", "r", node="n1", away=[term("a")])


@pytest.mark.parametrize(
    ("waits", "old", "new", "retried"),
    [
        pytest.param(NEAR_B, None, B, True, id="a pod that is needed came"),
        pytest.param(NEAR_B, None, C, False, id="another pod came"),
        pytest.param(NEAR_B, None, UNBOUND, False, id="it has no node"),
        pytest.param(NEAR_B, C, pod("c", "b", node="n1"), True, id="a pod is needed now"),
        pytest.param(NEAR_PROD, None, B, False, id="labels of namespaces are not looked up"),
        pytest.param(AWAY_B_C, C, None, True, id="one of the repelled pods went"),
        pytest.param(AWAY_B_C, None, C, False, id="a repelled pod came"),
        pytest.param(AWAY_B_C, C, pod("c", "d", node="n1"), True, id="a pod is repelled no more"),
        pytest.param(ALONE, REPELS_A, None, True, id="the pod that repelled this one went"),
        pytest.param(ALONE, B, None, False, id="a pod that does not care went"),
        pytest.param(ALONE, ALONE, pod("waits", "z"), True, id="its own labels changed"),
        pytest.param(NEAR_B, NEAR_B, NEAR_B, False, id="its own labels did not"),
    ],
)
def test_changes_of_pods_that_retry_a_pod(
    waits: PodInfo, old: PodInfo | None, new: PodInfo | None, retried: bool
) -> None:
    """Every change of a bound pod retried each pod that the plugin had rejected."""
    assert POD_HINT is not None
    assert (POD_HINT(waits, old, new) is QueueingHint.QUEUE) is retried


HERE = {"kubernetes.io/hostname": "n1"}
THERE = {"kubernetes.io/hostname": "n2"}


@pytest.mark.parametrize(
    ("waits", "old", "new", "retried"),
    [
        pytest.param(NEAR_B, None, HERE, True, id="a node of a domain came"),
        pytest.param(NEAR_B, None, {}, False, id="a node of none"),
        pytest.param(NEAR_B, {}, HERE, True, id="it joined a domain"),
        pytest.param(NEAR_B, HERE, {}, False, id="it left its domain"),
        pytest.param(NEAR_B, HERE, {**HERE, "x": "y"}, False, id="another label"),
        pytest.param(AWAY_B_C, None, {}, True, id="pods away from others can go to any new node"),
        pytest.param(AWAY_B_C, HERE, {}, True, id="the domain is one node smaller"),
        pytest.param(AWAY_B_C, HERE, THERE, True, id="it changed its domain"),
        pytest.param(AWAY_B_C, {}, HERE, False, id="a domain got a node"),
    ],
)
def test_changes_of_nodes_that_retry_a_pod(
    waits: PodInfo, old: dict[str, str] | None, new: dict[str, str], retried: bool
) -> None:
    """Every new label of a node retried each pod that the plugin had rejected."""
    assert NODE_HINT is not None
    before = None if old is None else make_node(labels=old)
    found = NODE_HINT(waits, before, make_node(labels=new))
    assert (found is QueueingHint.QUEUE) is retried
