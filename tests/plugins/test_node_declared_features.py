"""NodeDeclaredFeatures: what pods need, what nodes declare, and how lists are read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from policy_sched.model import Node, Pod, PodInfo
from policy_sched.plugins.node_declared_features import REASON, declared, needed
from policy_sched.scheduler.setup import assemble, read

RESTART = "RestartAllContainersOnContainerExits"
USERS = "UserNamespacesHostNetworkSupport"
RULES = [{"action": "RestartAllContainers"}]


def pod(**spec: Any) -> PodInfo:
    """Return a pod."""
    body = {"containers": [{"name": "c"}], **spec}
    meta = {"name": "p", "namespace": "default", "uid": "p"}
    return PodInfo.of(msgspec.convert({"metadata": meta, "spec": body}, Pod))


@pytest.mark.parametrize(
    ("spec", "features"),
    [
        ({}, set()),
        ({"containers": [{"name": "c", "restartPolicyRules": RULES}]}, {RESTART}),
        ({"initContainers": [{"name": "c", "restartPolicyRules": RULES}]}, {RESTART}),
        ({"hostNetwork": True, "hostUsers": False}, {USERS}),
        ({"hostNetwork": True, "hostUsers": True}, set()),
        ({"hostUsers": False}, set()),
    ],
)
def test_what_a_pod_needs(spec: dict[str, Any], features: set[str]) -> None:
    """Restart rules and user namespaces on the host's network; nothing else."""
    assert needed(pod(**spec)) == features


def test_unsorted_lists_lose_entries() -> None:
    """As upstream's merge reads them; unknown names do no harm."""
    assert declared(["A", RESTART, "Z"]) == {RESTART}
    assert declared([RESTART, USERS]) == {RESTART, USERS}
    assert declared([USERS, RESTART]) == {USERS}


def test_a_pod_goes_where_its_features_are() -> None:
    """A node without them is rejected in upstream's words."""
    scheduler = assemble(read(None, ())[0])
    for name, features in (("without", []), ("with", [RESTART])):
        allocatable = {"cpu": "4", "pods": "10"}
        status = {"allocatable": allocatable, "declaredFeatures": features}
        node = {"metadata": {"name": name}, "status": status}
        scheduler.cache.add_node(msgspec.convert(node, Node))
    scheduler.add_pod(pod(containers=[{"name": "c", "restartPolicyRules": RULES}]))
    outcome = scheduler.schedule_one()
    assert outcome is not None
    assert outcome.node == "with"
    assert REASON.endswith("required features")
