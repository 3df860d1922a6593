"""The claims of a pod, looked up once per attempt, and the plans of those to be allocated."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from itertools import count
from typing import Final

import msgspec

from policy_sched.cluster import ApiObjects
from policy_sched.framework import SUCCESS, Code, Status
from policy_sched.model import DeviceClass, PodInfo, ResourceClaim
from policy_sched.plugins.dynamicresources import extended_resources, resource_claims
from policy_sched.plugins.dynamicresources.binding import conditional
from policy_sched.plugins.dynamicresources.devices import node_selector_fault
from policy_sched.plugins.dynamicresources.requests import ClaimPlan, claim_name

UNRESOLVABLE: Final = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
MOST_SPECS: Final = 4096
"""Specs of claims that have a number and a plan; beyond, all get new ones."""


class ClaimStore(msgspec.Struct):
    """A pod's claims: the user's, in order, and the claim for its extended resources."""

    pod: PodInfo
    status: Status = SUCCESS
    """PreFilter's result."""
    user: list[ResourceClaim] = msgspec.field(default_factory=list)
    extended_claim: ResourceClaim | None = None
    plans: list[ClaimPlan] = msgspec.field(default_factory=list)
    shape: Hashable = None
    """Equal for pods whose claims are alike and all to be allocated.

    None where the result for this pod says nothing of another one's.
    """
    plans_shape: Hashable = None
    """Equal where the claims that are to be allocated are alike."""
    clocked: bool = False
    """Whether the result depends on the time, too."""

    @property
    def empty(self) -> bool:
        """Whether there are no claims at all."""
        return not self.user and self.extended_claim is None

    @property
    def claims(self) -> list[ResourceClaim]:
        """All claims, the claim at the end."""
        return self.user if self.extended_claim is None else [*self.user, self.extended_claim]

    @property
    def unallocated(self) -> bool:
        """Whether a claim is to be allocated."""
        return bool(self.plans) or (
            self.extended_claim is not None and self.extended_claim.status.allocation is None
        )


class ClaimStores:
    """Looks up the claims of pods; the last result is kept as long as nothing changes."""

    def __init__(
        self,
        objects: ApiObjects,
        claims: resource_claims.ResourceClaims,
        extended: extended_resources.ExtendedResources,
    ) -> None:
        self._objects = objects
        self._claims = claims
        self._served = extended.names()
        self._last: tuple[PodInfo | None, int, int, ClaimStore | None] = (None, 0, 0, None)
        self._specs: dict[bytes, tuple[int, ClaimPlan]] = {}
        """By spec, the number that equal specs have in common, and their plan."""
        self._numbers = count()
        self._classes = -1

    def concerns(self, pod: PodInfo) -> bool:
        """Tell whether a pod has anything to do with devices."""
        if pod.pod.spec.resource_claims:
            return True
        served = self._served
        return bool(served) and extended_resources.wanted(pod, served)

    def of(self, pod: PodInfo) -> ClaimStore:
        """Return the claims of a pod as they are now."""
        last_pod, objects, claims, store = self._last
        if last_pod is pod and objects == self._objects.version and claims == self._claims.version:
            assert store is not None, "it was gathered for the pod"
            return store
        store = self._gather(pod)
        self._last = pod, self._objects.version, self._claims.version, store
        return store

    def missing(self, pod: PodInfo) -> Status:
        """Return what keeps a pod from being tried at all, Success if nothing does."""
        try:
            resource_claims.claims_of(pod, self._claims.get)
        except resource_claims.ClaimError as error:
            return Status(UNRESOLVABLE, (str(error),))
        return SUCCESS

    def device_class(self, name: str) -> DeviceClass | None:
        """Return a device class by name."""
        return self._objects.named(DeviceClass, "", name)

    def _gather(self, pod: PodInfo) -> ClaimStore:
        store = ClaimStore(pod)
        try:
            store.user = resource_claims.claims_of(pod, self._claims.get)
        except resource_claims.ClaimError as error:
            store.status = Status(UNRESOLVABLE, (str(error),))
            return store
        served = self._served
        if served and extended_resources.wanted(pod, served):
            store.extended_claim = extended_resources.left_over(
                pod, self._claims.all()
            ) or extended_resources.in_memory(pod)
        shapes: list[Hashable] = []
        for position, claim in enumerate(store.user):
            if claim.status.allocation is not None:
                fault = node_selector_fault(claim.status.allocation.node_selector)
                if fault:
                    store.status = Status(Code.ERROR, (fault,))
                    return store
                store.clocked = store.clocked or bool(conditional(claim))
                continue
            pending = self._claims.pending(claim, pod) if pod.pod_group else None
            if pending is not None:
                store.user[position] = pending
                continue
            in_flight = self._claims.in_flight
            if in_flight and resource_claims.uid_of(claim) in in_flight:  # mostly there are none
                name = claim_name(claim)
                store.status = _no(f"resource claim {name} is in the process of being allocated")
                return store
            planned = self._plan(claim)
            if isinstance(planned, Status):
                store.status = planned
                return store
            shapes.append(planned[0])
            store.plans.append(planned[1])
        store.plans_shape = tuple(shapes)
        if store.extended_claim is not None:
            store.plans_shape = self._shape(store, store.extended_claim, shapes)
        if len(store.plans) == len(store.user):
            store.shape = store.plans_shape
        return store

    def _plan(self, claim: ResourceClaim) -> tuple[int, ClaimPlan] | Status:
        """Return the number of a claim's spec and its plan, or why it cannot be allocated."""
        if self._classes != self._claims.classes_version or len(self._specs) >= MOST_SPECS:
            self._specs.clear()
            self._classes = self._claims.classes_version
        text = msgspec.json.encode(claim.spec)
        planned = self._specs.get(text)
        if planned is not None:
            return planned[0], planned[1].for_claim(claim)
        unusable = self._unusable(claim)
        if not unusable.ok:
            return unusable
        planned = self._specs[text] = next(self._numbers), ClaimPlan.of(claim, self.device_class)
        return planned

    def _shape(
        self, store: ClaimStore, extended_claim: ResourceClaim, shapes: list[Hashable]
    ) -> Hashable:
        if extended_claim.spec.devices.requests or extended_claim.status.allocation is not None:
            return None
        spec = store.pod.pod.spec
        containers = msgspec.json.encode((spec.init_containers, spec.containers))
        return (*shapes, self._claims.classes_version, containers)

    def _unusable(self, claim: ResourceClaim) -> Status:
        """Return why a claim cannot be allocated, Success if it can."""
        name = claim_name(claim)
        for request in claim.spec.devices.requests:
            if request.exactly is None and not request.first_available:
                text = f"resource claim {name}, request {request.name}: unknown request type"
                return _no(text)
            classes: Mapping[str, str] = (
                {request.name: request.exactly.device_class_name}
                if request.exactly is not None
                else {
                    f"{request.name}/{alternative.name}": alternative.device_class_name
                    for alternative in request.first_available
                }
            )
            for label, device_class in classes.items():
                if not device_class:
                    text = f"request {label}: unsupported request type"
                    return Status(Code.ERROR, (text,))
                if self.device_class(device_class) is None:
                    return _no(f"request {label}: device class {device_class} does not exist")
        return SUCCESS


def _no(text: str) -> Status:
    return Status(UNRESOLVABLE, (text,))
