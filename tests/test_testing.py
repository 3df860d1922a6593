"""The builders for tests make what they say."""

from __future__ import annotations

import msgspec
import pytest

from policy_sched.model.meta import HostPort, Taint, Toleration
from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import SECOND, FakeClock, make_node, make_pod


def test_make_pod_says_what_its_keywords_say() -> None:
    """A pod has what its keywords say."""
    pod = make_pod(
        "web",
        namespace="shop",
        cpu="500m",
        memory="1Gi",
        requests={"x.io/a": 2},
        limits={"cpu": 1},
        labels={"app": "web"},
        annotations={"a": "b"},
        tolerations=[Toleration(key="k"), {"key": "j", "operator": "Exists"}],
        host_ports=[80, HostPort("1.2.3.4", "UDP", 53), {"containerPort": 1, "hostPort": 2}],
        images=["web:1", "log"],
        gates=["wait"],
        created="2024-01-01T00:00:00Z",
        started="2024-01-01T00:00:01Z",
        nominated_node_name="n2",
        phase="Running",
        node_name="n1",
        priority=3,
        node_selector={"zone": "a"},
        init_containers=[{"name": "i"}],
    )
    info = PodInfo.of(pod)
    assert (info.key, info.uid) == ("shop/web", "shop/web")
    assert info.requests == {"cpu": 500, "memory": 1 << 30, "x.io/a": 2}
    assert info.limits == {"cpu": 1000}
    assert info.labels == {"app": "web"}
    assert info.annotations == {"a": "b"}
    assert info.tolerations == (Toleration(key="k"), Toleration(key="j", operator="Exists"))
    assert info.host_ports == (
        HostPort("0.0.0.0", "TCP", 80),
        HostPort("1.2.3.4", "UDP", 53),
        HostPort("0.0.0.0", "TCP", 2),
    )
    assert info.images == (":latest", "web:1", "log:latest")
    assert info.scheduling_gates == ("wait",)
    assert info.start_time - info.creation_time == SECOND
    assert (info.node_name, info.nominated_node_name, info.priority) == ("n1", "n2", 3)
    assert info.node_selector == {"zone": "a"}
    assert pod.status.phase == "Running"


def test_make_pod_refuses_unknown_fields_and_wrong_types() -> None:
    """An unknown field and a wrong type are errors."""
    with pytest.raises(TypeError, match="PodSpec has no field nodename"):
        make_pod(nodename="n1")
    with pytest.raises(msgspec.ValidationError, match="Expected `int"):
        make_pod(priority="high")


def test_make_node_says_what_its_keywords_say() -> None:
    """A node has what its keywords say."""
    node = make_node(
        "n1",
        cpu=8,
        resources={"x.io/a": 1},
        labels={"zone": "a"},
        annotations={"a": "b"},
        taints=["k=v:NoSchedule", "j:NoExecute", Taint(key="i", effect="NoSchedule")],
        unschedulable=True,
        ready=False,
        images={"web:1": 5},
    )
    assert node.status.allocatable == {"cpu": 8, "memory": "32Gi", "pods": 110, "x.io/a": 1}
    assert node.status.capacity == node.status.allocatable
    assert node.metadata.labels == {"zone": "a"}
    assert node.spec.taints == (
        Taint(key="k", value="v", effect="NoSchedule"),
        Taint(key="j", effect="NoExecute"),
        Taint(key="i", effect="NoSchedule"),
    )
    assert node.spec.unschedulable
    assert not node.ready
    assert make_node().ready
    assert node.status.images[0].names == ("web:1",)
    assert make_node(capacity={"cpu": 9}).status.capacity == {"cpu": 9}


def test_a_fake_clock_moves_only_when_told_to() -> None:
    """The clock moves only when told to."""
    clock = FakeClock(5)
    assert clock() == clock() == 5
    clock.advance(1.5)
    assert clock() == 1_500_000_005
