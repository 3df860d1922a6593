"""Admission: what is filled in and what is refused when objects are created."""

from __future__ import annotations

from typing import Any

import pytest

from policy_sched.client.apimachinery import resources
from policy_sched.client.apimachinery.object import Key
from policy_sched.embedded.store.deletion import DeleteOptions
from tests.embedded.store.test_store import new_store
from tests.embedded.world import node, pod


def priority_class(name: str, value: int = 5, **fields: Any) -> dict[str, Any]:
    """Return a priority class."""
    meta = {"name": name}
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**kind, "metadata": meta, "value": value, **fields}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (priority_class("system-mine"), "are reserved for system use only"),
        (priority_class("top", 1_000_000_001), "maximum allowed value of a user defined priority"),
        (priority_class("b", globalDefault=True), "PriorityClass a is already marked as default"),
        (priority_class("A"), "a lowercase RFC 1123 subdomain"),
        (priority_class(""), "name or generateName is required"),
    ],
)
def test_priority_classes_that_may_not_be(given: dict[str, Any], words: str) -> None:
    """Names of the system, too high a value, a second default."""
    store = new_store()
    store.create(priority_class("a", globalDefault=True))
    with pytest.raises(resources.ApiError, match=words):
        store.create(given)


def test_the_systems_own_classes_may_be_created() -> None:
    """As an API server does itself at its start."""
    made = new_store().create(priority_class("system-node-critical", 2_000_001_000)).data
    assert made["preemptionPolicy"] == "PreemptLowerPriority"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"priority": 9, "priorityClassName": "a"}, r"integer value of priority \(9\)"),
        (
            {"preemptionPolicy": "Never", "priorityClassName": "a"},
            r"string value of PreemptionPolicy \(Never\)",
        ),
    ],
)
def test_a_pod_cannot_contradict_its_class(spec: dict[str, Any], words: str) -> None:
    """Neither the number nor whether it preempts."""
    store = new_store()
    store.create(priority_class("a"))
    with pytest.raises(resources.ApiError, match=words):
        store.create(pod("p", **spec))


def test_containers_are_completed() -> None:
    """Requests from limits, ports of the host's network, what images are pulled when."""
    limits = {"cpu": "1"}
    containers = [
        {"name": "a", "image": "app", "resources": {"limits": limits}},
        {"name": "b", "image": "app:1", "ports": [{"containerPort": 80}]},
        {"name": "c", "image": "app@sha256:0"},
    ]
    made = new_store().create(pod("p", containers=containers, hostNetwork=True)).data
    a, b, c = made["spec"]["containers"]
    assert a["resources"] == {"limits": limits, "requests": limits}
    assert b["ports"] == [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]
    assert [toleration["imagePullPolicy"] for toleration in (a, b, c)] == [
        "Always",
        "IfNotPresent",
        "IfNotPresent",
    ]
    assert made["status"] == {"phase": "Pending", "qosClass": "Burstable"}
    assert [toleration["key"] for toleration in made["spec"]["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]


def test_what_does_not_fit_its_kind_is_refused_with_its_path() -> None:
    """Wrong types, bad quantities, kinds that do not exist."""
    store = new_store()
    with pytest.raises(resources.ApiError, match="cannot be handled as a Pod"):
        store.create(pod("p", containers=7))
    with pytest.raises(resources.ApiError, match=r"resources\.requests\.cpu"):
        store.create(pod("p", "lots"))
    with pytest.raises(resources.ApiError, match='no matches for kind "Nod" in version "v1"'):
        store.create({**node("n"), "kind": "Nod"})
    given = node("n")
    given["metadata"]["resourceVersion"] = "5"
    with pytest.raises(resources.ApiError, match="resourceVersion should not be set"):
        store.create(given)


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        (("networking.k8s.io/v1", "NetworkPolicy"), "networkpolicies"),
        (("v1", "Endpoints"), "endpoints"),
        (("networking.k8s.io/v1", "Ingress"), "ingresses"),
        (("v1", "Node"), "nodes"),
    ],
)
def test_kinds_have_plurals(kind: tuple[str, str], plural: str) -> None:
    """As paths and messages use them."""
    assert resources.resource(kind).plural == plural


def test_deletions_may_have_preconditions() -> None:
    """The uid and the version that were meant."""
    store = new_store()
    made = store.create(node("n"))
    key = Key(resources.NODE, "", "n")
    with pytest.raises(resources.ApiError, match="does not match the UID in record"):
        store.delete(key, DeleteOptions(uid="other"))
    with pytest.raises(resources.ApiError, match="does not match the ResourceVersion in record"):
        store.delete(key, DeleteOptions(version="1"))
    store.delete(key, DeleteOptions(uid=made.uid, version=str(made.version)))
    assert store.find(resources.NODE, "", "n") is None


def test_a_negative_grace_period_is_a_second() -> None:
    """As it has been for long."""
    store = new_store()
    store.create(pod("p", nodeName="n", terminationGracePeriodSeconds=-1))
    marked = store.delete(Key(resources.POD, "default", "p"))
    assert marked.data["metadata"]["deletionGracePeriodSeconds"] == 1
