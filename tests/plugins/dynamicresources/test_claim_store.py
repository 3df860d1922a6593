"""What is looked up of a pod's claims: shapes that are equal for equal claims, and bounded."""

from __future__ import annotations

import pytest

from policy_sched.plugins.dynamicresources import claim_store
from policy_sched.plugins.dynamicresources.extended_resources import ExtendedResources
from policy_sched.plugins.dynamicresources.resource_claims import ResourceClaims

from .world import device_class, exactly, pod_with, resource_claim, scheduler_with


def test_claims_of_many_kinds_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods whose claims differ for ever take bounded memory, and no two specs share a shape."""
    monkeypatch.setattr(claim_store, "MOST_SPECS", 3)
    claims = [resource_claim(f"c{i}", exactly("r", count=i + 1)) for i in range(8)]
    again = resource_claim("again", exactly("r", count=8))
    handle = scheduler_with(["n0"], [device_class(), *claims, again]).handle
    known = handle.shared(ResourceClaims), handle.shared(ExtendedResources)
    stores = claim_store.ClaimStores(handle.objects, *known)
    shapes = [stores.of(pod_with(f"p{i}", f"c{i}")).shape for i in range(8)]
    assert len(set(shapes)) == 8
    assert stores.of(pod_with("p", "again")).shape == shapes[-1]
    assert stores.of(pod_with("q", "c0")).shape not in shapes[1:]
    assert len(stores._specs) <= 3


def test_a_claim_that_another_pod_has_reserved_is_seen_at_once() -> None:
    """Two pods with one claim were decided one after the other, and both got devices for it."""
    claim, pod = resource_claim("c"), pod_with("p", "c")
    handle = scheduler_with(["n0"], [device_class(), claim]).handle
    claims = handle.shared(ResourceClaims)
    stores = claim_store.ClaimStores(handle.objects, claims, handle.shared(ExtendedResources))
    assert stores.of(pod).status.ok
    claims.reserve(claim, pod_with("other", "c"))
    reason = "resource claim default/c is in the process of being allocated"
    assert stores.of(pod).status.reasons == (reason,)
    claims.release(claim)
    assert stores.of(pod).status.ok
