"""Refusals: default spread constraints and existing pods' affinity are not overlooked."""

from __future__ import annotations

import pytest

from policy_sched.client.memory import MemoryClient
from policy_sched.cluster.cache import Cache
from policy_sched.framework.handle import Handle
from policy_sched.framework.waiting_pods import WaitingPods
from policy_sched.model.meta import ObjectMeta
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.workloads import ReplicaSet, Service, ServiceSpec
from policy_sched.plugins.unbuilt import UNBUILT, Refusals
from policy_sched.queue.nominator import Nominator
from policy_sched.testing import make_node, make_pod


@pytest.fixture
def handle() -> Handle:
    cache = Cache()
    cache.add_node(make_node("n0"))
    return Handle(cache, WaitingPods(), Nominator(), MemoryClient(), lambda: 0)


def service(namespace: str = "default", **selector: str) -> Service:
    return Service(
        metadata=ObjectMeta(name="web", namespace=namespace), spec=ServiceSpec(selector=selector)
    )


def test_a_plain_pod_is_decided(handle: Handle) -> None:
    """Nothing is refused that the built plugins decide."""
    assert Refusals(handle, UNBUILT, [service(app="other")]).reason(PodInfo.of(make_pod())) == ""


def test_a_pod_that_a_service_selects_has_default_spread_constraints(handle: Handle) -> None:
    """The Service must be of the pod's namespace and select its labels."""
    refusals = Refusals(handle, UNBUILT, [service(app="web")])
    pod = PodInfo.of(make_pod(labels={"app": "web"}))
    assert refusals.reason(pod).startswith("a Service selects the pod")
    elsewhere = PodInfo.of(make_pod(labels={"app": "web"}, namespace="other"))
    assert refusals.reason(elsewhere) == ""


def test_a_service_without_selector_selects_nothing(handle: Handle) -> None:
    """An empty selector is no selector."""
    assert Refusals(handle, UNBUILT, [service()]).reason(PodInfo.of(make_pod())) == ""


def test_an_existing_pods_affinity_counts_for_every_other_pod(handle: Handle) -> None:
    """Anti-affinity is symmetric, so later pods cannot be decided without it."""
    refusals = Refusals(handle, UNBUILT, ())
    other = PodInfo.of(make_pod("other", affinity={"podAntiAffinity": {}}))
    handle.cache.assume(other, "n0")
    assert "pod default/other on a node" in refusals.reason(PodInfo.of(make_pod()))
    handle.cache.forget(other.uid)
    assert refusals.reason(PodInfo.of(make_pod())) == ""


def test_a_disabled_plugin_refuses_nothing(handle: Handle) -> None:
    """A profile without the plugin does not ask for what it decides."""
    pod = PodInfo.of(make_pod(affinity={"podAffinity": {}}))
    assert Refusals(handle, ["PodTopologySpread"], ()).reason(pod) == ""
    assert Refusals(handle, ["InterPodAffinity"], ()).reason(pod) != ""


def test_the_pods_of_a_known_replica_set_have_default_spread_constraints(handle: Handle) -> None:
    """Upstream looks the owner up: it must exist."""
    pod = make_pod()
    owned = PodInfo.of(pod)
    owned.owner_kind, owned.owner_name = "ReplicaSet", "web"
    known = [ReplicaSet(metadata=ObjectMeta(name="web", namespace="default"))]
    assert "belongs to ReplicaSet web" in Refusals(handle, UNBUILT, known).reason(owned)
    assert Refusals(handle, UNBUILT, ()).reason(owned) == ""
