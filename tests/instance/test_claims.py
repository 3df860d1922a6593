"""Pods with claims, from template to bound and gone, through the API.

What is asserted of a claim's status is what kube-scheduler 1.36 writes.
"""

from __future__ import annotations

import re

import pytest

from tests.instance.app.test_cluster_instance import World, acted, node, until
from tests.instance.claims_world import (
    DRIVER,
    PROTECTION,
    Claims,
    at,
    claim,
    device_class,
    pod_with,
    request,
    resource_slice,
    template,
    two_nodes,
)


def _opaque(text: str) -> dict[str, object]:
    return {"opaque": {"driver": DRIVER, "parameters": {"mode": text}}}


def test_a_claim_of_a_template_is_made_allocated_reserved_and_its_pod_bound() -> None:
    """The whole status of the claim, and its finalizer, are as kube-scheduler writes them."""

    async def play(world: World) -> None:
        claims = Claims(world)
        toleration = {"key": "k", "operator": "Exists"}
        wanted = request(tolerations=[toleration])
        world.apply(node("a"), device_class(config=[_opaque("class")]))
        world.apply(resource_slice("a", "d0"))
        own = [{"requests": ["r"], **_opaque("one")}, _opaque("all")]
        world.apply(template("gpu", wanted, config=own))
        world.apply(pod_with("p", resourceClaimTemplateName="gpu"))
        async with world.served(), world.scheduler():
            await until(lambda: world.bound() == {"p": "a"})
            made = claims.of("p")
        assert made["metadata"]["finalizers"] == [PROTECTION]
        status = made["status"]
        stamp = status["allocation"].pop("allocationTimestamp")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", stamp)
        (result,) = status["allocation"]["devices"]["results"]
        (tolerated,) = result.pop("tolerations")
        assert tolerated == toleration
        assert result == {"request": "r", "driver": DRIVER, "pool": "a", "device": "d0"}
        assert status["allocation"]["devices"]["config"] == [
            {"source": "FromClass", "requests": ["r"], **_opaque("class")},
            {"source": "FromClaim", "requests": ["r"], **_opaque("one")},
            {"source": "FromClaim", **_opaque("all")},
        ]
        field = {"key": "metadata.name", "operator": "In", "values": ["a"]}
        selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        assert status["allocation"]["nodeSelector"] == selector
        assert status["allocation"].keys() == {"devices", "nodeSelector"}
        uid = claims.uid("p")
        assert status["reservedFor"] == [{"resource": "pods", "name": "p", "uid": uid}]
        assert status.keys() == {"allocation", "reservedFor"}

    acted(play)


def test_devices_of_every_node_leave_no_node_selector() -> None:
    """What any node can reach binds the claim to none."""

    async def play(world: World) -> None:
        claims = Claims(world)
        world.apply(node("a"), device_class(), resource_slice("net", "d0", allNodes=True))
        world.apply(claim("c"), pod_with("p", resourceClaimName="c"))
        async with world.served(), world.scheduler():
            await until(lambda: "p" in world.bound())
        assert claims.status("c")["allocation"].keys() == {"devices", "allocationTimestamp"}
        assert claims.status("c")["allocation"]["devices"].keys() == {"results"}

    acted(play)


def test_the_device_of_a_deleted_pod_is_the_next_pods() -> None:
    """Its own claim goes with it, and the pod that waited for a device is bound."""

    async def play(world: World) -> None:
        claims = Claims(world)
        world.apply(node("a"), device_class(), resource_slice("a", "d0"), template("gpu"))
        async with world.served(), world.scheduler():
            world.apply(pod_with("p", resourceClaimTemplateName="gpu"))
            await until(lambda: "p" in world.bound())
            world.apply(pod_with("q", resourceClaimTemplateName="gpu"))
            waits = await until(lambda: world.condition("q", "PodScheduled"))
            text = "0/1 nodes are available: 1 cannot allocate all claims."
            assert waits["message"].startswith(text)
            assert waits["reason"] == "Unschedulable"
            claims.delete("p")
            await until(lambda: "q" in world.bound())
            assert claims.of("p") == {}
            assert claims.taken() == ["a/d0"]
            assert claims.pods("q") == ["q"]

    acted(play)


def test_pods_share_a_claim_until_the_last_has_gone() -> None:
    """They go to the node of its device; then the claim is free and allocated anew."""

    async def play(world: World) -> None:
        claims = Claims(world)
        world.apply(*two_nodes("d0"), claim("c"))
        async with world.served(), world.scheduler():
            world.apply(*(pod_with(name, resourceClaimName="c") for name in ("p", "q")))
            await until(lambda: len(world.bound()) == 2)
            (home,) = set(world.bound().values())
            assert claims.taken() == [f"{home}/d0"]
            assert sorted(claims.pods("c")) == ["p", "q"]
            claims.delete("p")
            await until(lambda: claims.pods("c") == ["q"])
            assert claims.taken() == [f"{home}/d0"]
            claims.delete("q")
            await until(lambda: not claims.status("c").get("allocation"))
            assert claims.pods("c") == []
            world.apply(pod_with("r", resourceClaimName="c"))
            await until(lambda: "r" in world.bound())
            assert len(claims.taken()) == 1
            assert claims.pods("c") == ["r"]

    acted(play)


def test_a_pod_waits_for_the_class_of_its_claim() -> None:
    """Until there is one it is unschedulable, with kube-scheduler's message."""

    async def play(world: World) -> None:
        world.apply(node("a"), resource_slice("a", "d0"), claim("c"))
        world.apply(pod_with("p", resourceClaimName="c"))
        async with world.served(), world.scheduler():
            waits = await until(lambda: world.condition("p", "PodScheduled"))
            assert waits["reason"] == "Unschedulable"
            assert waits["message"] == (
                "0/1 nodes are available: request r: device class gpu does not exist."
                " no new claims to deallocate, preemption: 0/1 nodes are available:"
                " 1 Preemption is not helpful for scheduling."
            )
            world.apply(device_class())
            await until(lambda: "p" in world.bound())

    acted(play)


def test_a_pod_waits_for_its_claim() -> None:
    """It is not tried before; the claim, and then a device, make it schedulable."""

    async def play(world: World) -> None:
        world.apply(node("a"), device_class(), pod_with("p", resourceClaimName="c"))
        async with world.served(), world.scheduler() as instance:
            await until(lambda: instance.ready and len(instance.scheduler.queue) == 1)
            world.apply(claim("c"))
            await until(lambda: world.condition("p", "PodScheduled"))
            world.apply(resource_slice("a", "d0"))
            await until(lambda: "p" in world.bound())

    acted(play)


@pytest.mark.parametrize("end", ["/resourceclaims/c", "/resourceclaims/c/status"])
def test_a_claim_that_another_changes_meanwhile_is_written_anew(end: str) -> None:
    """A conflict is repeated with the claim as it is now; what the other wrote stays."""

    async def play(world: World) -> None:
        claims = Claims(world)

        def disturb(count: int) -> None:
            if count <= 2:
                notes = {"metadata": {"annotations": {"seen": str(count)}}}
                claims.change("c", notes)

        came = at(world, end, disturb)
        world.apply(*two_nodes("d0"), claim("c"), pod_with("p", resourceClaimName="c"))
        async with world.served(), world.scheduler():
            await until(lambda: "p" in world.bound())
        assert len(came) == 3
        assert claims.of("c")["metadata"]["annotations"]["seen"] == "2"
        assert claims.of("c")["metadata"]["finalizers"] == [PROTECTION]
        assert claims.pods("c") == ["p"]
        assert len(claims.taken()) == 1
        assert not [one for one in world.events() if one[1] == "FailedScheduling"]

    acted(play)


def test_after_five_conflicts_the_pod_is_tried_again() -> None:
    """The attempt fails with kube-scheduler's text, its device is free, and the next one binds."""

    async def play(world: World) -> None:
        claims = Claims(world)

        def disturb(count: int) -> None:
            if count <= 5:
                claims.change("c", {"metadata": {"annotations": {"seen": str(count)}}})

        came = at(world, "/resourceclaims/c/status", disturb)
        world.apply(node("a"), device_class(), resource_slice("a", "d0"), claim("c"))
        world.apply(pod_with("p", resourceClaimName="c"))
        async with world.served(), world.scheduler():
            failed = await until(lambda: world.condition("p", "PodScheduled"))
            await until(lambda: "p" in world.bound())
        assert failed["reason"] == "SchedulerError"
        assert failed["message"].startswith(
            'running PreBind plugin "DynamicResources": add allocation and reservation to claim'
            " default/c: Operation cannot be fulfilled on resourceclaims.resource.k8s.io"
        )
        assert claims.taken() == ["a/d0"]
        assert len(came) == 6

    acted(play)


def test_a_claim_that_another_allocates_meanwhile_is_respected() -> None:
    """The pod follows the other's allocation; nothing of ours replaces it."""

    async def play(world: World) -> None:
        claims = Claims(world)

        def allocate(count: int) -> None:
            if count == 1:
                result = {"request": "r", "driver": DRIVER, "pool": "b", "device": "d1"}
                allocation = {"devices": {"results": [result]}, "nodeSelector": _only("b")}
                claims.change("c", {"status": {"allocation": allocation}}, "status")

        at(world, "/resourceclaims/c/status", allocate)
        world.apply(node("a"), device_class(), resource_slice("a", "d0"), claim("c"))
        world.apply(pod_with("p", resourceClaimName="c"))
        async with world.served(), world.scheduler():
            failed = await until(lambda: world.condition("p", "PodScheduled"))
            assert failed["message"].endswith(
                "claim default/c got allocated elsewhere in the meantime"
            )
            world.apply(node("b"), resource_slice("b", "d0", "d1"))
            await until(lambda: world.bound() == {"p": "b"})
        assert claims.taken() == ["b/d1"]
        assert claims.pods("c") == ["p"]

    acted(play)


def _only(name: str) -> dict[str, object]:
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    return {"nodeSelectorTerms": [{"matchFields": [field]}]}


def test_an_unused_claim_elsewhere_is_given_back_though_another_changes_it() -> None:
    """The conflict is repeated, and the pod gets a device where it fits."""

    async def play(world: World) -> None:
        claims = Claims(world)

        def disturb(count: int) -> None:
            if count == 1:
                claims.change("c", {"metadata": {"annotations": {"seen": "1"}}})

        came = at(world, "/resourceclaims/c/status", disturb)
        world.apply(node("a"), device_class(), resource_slice("a", "d0"), claim("c"))
        result = {"request": "r", "driver": DRIVER, "pool": "b", "device": "d0"}
        allocation = {"devices": {"results": [result]}, "nodeSelector": _only("b")}
        claims.change("c", {"status": {"allocation": allocation}}, "status")
        world.apply(pod_with("p", resourceClaimName="c"))
        async with world.served(), world.scheduler():
            await until(lambda: world.bound() == {"p": "a"})
        assert claims.taken() == ["a/d0"]
        assert len(came) == 3, "refused, given back, allocated"

    acted(play)


@pytest.mark.parametrize("source", ["resourceClaimTemplateName", "resourceClaimName"])
@pytest.mark.parametrize("end", ["", "/status"])
def test_a_pod_that_is_deleted_while_its_claim_is_written_keeps_no_device(
    source: str, end: str
) -> None:
    """Its own claim has gone, or the shared one is free; the next pod gets the device."""

    async def play(world: World) -> None:
        claims = Claims(world)
        world.apply(node("a"), device_class(), resource_slice("a", "d0"))
        world.apply(template("gpu") if "Template" in source else claim("gpu"))

        deleted: list[str] = []

        async def before(method: str, path: str) -> None:
            if deleted or method != "PATCH" or "/resourceclaims/" not in path:
                return
            if path.endswith("/status") == bool(end):
                deleted.append(path)
                claims.delete("p")

        world.before = before
        async with world.served(), world.scheduler() as instance:
            world.apply(pod_with("p", **{source: "gpu"}))
            await until(lambda: bool(deleted))
            await until(lambda: not instance.scheduler.in_flight)
            world.apply(pod_with("q", **{source: "gpu"}))
            await until(lambda: world.bound() == {"q": "a"})
            name = "q" if "Template" in source else "gpu"
            await until(lambda: claims.pods(name) == ["q"])
        assert claims.taken() == ["a/d0"]

    acted(play)
