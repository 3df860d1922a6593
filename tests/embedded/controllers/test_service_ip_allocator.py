"""Services: each has an address of its own for as long as it is there."""

from __future__ import annotations

from typing import Any

from policy_sched.client.apimachinery.resources import SERVICE
from tests.embedded.world import Plain, World


def service(name: str, **spec: Any) -> Plain:
    """Return a service with a port."""
    meta = {"name": name, "namespace": "default"}
    wanted = {"ports": [{"port": 80}], **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": wanted}


def spec(world: World, name: str) -> Plain:
    """Return the specification of a service."""
    found: Plain = world.store.get(SERVICE, "default", name).data["spec"]
    return found


def test_each_service_has_an_address() -> None:
    """And what is free again is given again; one that names its own keeps it."""
    world = World(nodes=0)
    for name in ("a", "b"):
        world.store.create(service(name))
    world.store.create(service("own", clusterIP="10.96.1.2"))
    world.store.create(service("c"))
    world.run(0)
    found = [spec(world, name)["clusterIP"] for name in ("a", "b", "c", "own")]
    assert found == ["10.96.1.0", "10.96.1.1", "10.96.1.3", "10.96.1.2"]
    assert spec(world, "a")["clusterIPs"] == ["10.96.1.0"]
    world.delete(SERVICE, "a")
    world.store.create(service("d"))
    world.run(0)
    assert spec(world, "d")["clusterIP"] == "10.96.1.0"


def test_a_service_keeps_its_address() -> None:
    """Also when it is written anew without one."""
    world = World(nodes=0)
    world.store.create(service("a"))
    world.run(0)
    before = spec(world, "a")["clusterIP"]
    world.store.create(service("b"))
    world.store.update(service("a", sessionAffinity="ClientIP"))
    world.run(0)
    after = spec(world, "a")
    assert (after["clusterIP"], after["sessionAffinity"]) == (before, "ClientIP")


def test_some_have_none_and_some_have_ports_of_nodes() -> None:
    """As their type says."""
    world = World(nodes=0)
    world.store.create(service("headless", clusterIP="None"))
    world.store.create(service("name", type="ExternalName", externalName="example.org"))
    ports = [{"name": "a", "port": 1, "nodePort": 30000}, {"name": "b", "port": 2}]
    world.store.create(service("node", type="NodePort", ports=ports))
    world.store.create(service("balanced", type="LoadBalancer"))
    world.run(0)
    assert spec(world, "headless")["clusterIP"] == "None"
    assert "clusterIP" not in spec(world, "name")
    assert [one["nodePort"] for one in spec(world, "node")["ports"]] == [30000, 30001]
    assert [one["nodePort"] for one in spec(world, "balanced")["ports"]] == [30002]
    assert world.cluster.next_wakeup() is None
