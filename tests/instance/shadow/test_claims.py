"""Pods with claims in shadow mode: an allocation made with the binding does not decide."""

from __future__ import annotations

from typing import Any

import msgspec

from policy_sched.instance.shadow.log import Agreement
from policy_sched.model import Pod, PodResourceClaim, ResourceClaim, ResourceClaimStatus
from policy_sched.scheduler.event_handlers import object_seen
from policy_sched.testing import make_pod
from tests.instance.shadow.test_comparison import Shadowed, bound
from tests.plugins.dynamicresources import world


def allocated_to(name: str, node: str, device: str, *pods: str) -> ResourceClaim:
    """Return a claim after a scheduler allocated it on a node for these pods."""
    result = {"request": "r", "driver": world.DRIVER, "pool": node, "device": device}
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    status = {
        "allocation": {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        },
        "reservedFor": [{"resource": "pods", "name": pod, "uid": f"default/{pod}"} for pod in pods],
    }
    claim = world.resource_claim(name)
    return msgspec.structs.replace(claim, status=msgspec.convert(status, ResourceClaimStatus))


def _with_a_device_that_is_not_offered() -> Shadowed:
    """Two nodes with a device each, of which the class selects node a's."""
    cluster = Shadowed("a", "b")
    chosen = world.device_class("gpu", "device.attributes['gpu.example.com'].model == 'a'")
    slices = [
        world.resource_slice(node, [{"name": "d", "attributes": {"model": {"string": node}}}])
        for node in ("a", "b")
    ]
    for one in (chosen, *slices, world.resource_claim("g")):
        object_seen(cluster.scheduler, None, one)
    return cluster


def _pod_with_claim(name: str) -> Pod:
    claims: Any = [PodResourceClaim(name="gpu", resource_claim_name="g")]
    return make_pod(name, cpu="1", resource_claims=claims)


def test_a_claim_that_the_binding_allocated_is_decided_as_before_it() -> None:
    """The other scheduler writes the claim before the binding; it is not a reason for its node."""
    cluster = _with_a_device_that_is_not_offered()
    pod = _pod_with_claim("p")
    cluster.see(pod)
    taken = allocated_to("g", "b", "d", pod.metadata.name)
    object_seen(cluster.scheduler, world.resource_claim("g"), taken)
    cluster.see(bound(pod, "b"))
    assert cluster.last.result is Agreement.DIFFER
    assert cluster.last.ours.node == "a"
    assert cluster.last.theirs.rejected_by == "DynamicResources"
    assert cluster.scheduler.handle.objects.named(ResourceClaim, "default", "g") is taken


def test_a_claim_that_others_use_already_stays_allocated() -> None:
    """A second pod of a shared claim goes where the claim is."""
    cluster = _with_a_device_that_is_not_offered()
    taken = allocated_to("g", "b", "d", "first", "p")
    object_seen(cluster.scheduler, world.resource_claim("g"), taken)
    cluster.bind(_pod_with_claim("p"), "b")
    assert cluster.last.result is Agreement.AGREE
