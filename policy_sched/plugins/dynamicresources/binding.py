"""PreBind: what was reserved is written, and then devices may have conditions to wait for.

A binding condition is what a driver must say of an allocated device before its pod is bound.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from policy_sched import model
from policy_sched.errors import ClusterError, PolicySchedError
from policy_sched.framework import SUCCESS, Code, Handle, PendingStatus, Status
from policy_sched.plugins.dynamicresources import claim_writes, resource_claims
from policy_sched.plugins.dynamicresources.extended_resources import IN_MEMORY, Variant


class BindingError(PolicySchedError):
    """A device cannot be used after all."""


class Readiness(Enum):
    """Whether the devices of a claim can be used."""

    READY = "ready"
    WAITING = "waiting"
    FAILED = "failed"
    TIMED_OUT = "timed out"


def conditional(claim: model.ResourceClaim) -> list[model.DeviceRequestAllocationResult]:
    """Return the devices of a claim that have binding conditions."""
    allocation = claim.status.allocation
    results = () if allocation is None else allocation.devices.results
    return [result for result in results if result.binding_conditions]


def check(claim: model.ResourceClaim) -> bool:
    """Tell whether all binding conditions of a claim hold. Raises BindingError for a failed one."""
    if claim.status.allocation is None:
        return False
    ready = True
    for result in conditional(claim):
        conditions = dict(_conditions(claim, result))
        for name in result.binding_failure_conditions:
            status, reason, message = conditions.get(name, ("", "", ""))
            if status == "True":
                raise BindingError(
                    f"device binding failed: claim={claim.metadata.name}, reason={reason}, "
                    f'message="{message}"'
                )
        ready = ready and all(
            conditions.get(name, ("",))[0] == "True" for name in result.binding_conditions or ()
        )
    return ready


def _conditions(
    claim: model.ResourceClaim, result: model.DeviceRequestAllocationResult
) -> Iterator[tuple[str, tuple[str, str, str]]]:
    for device in claim.status.devices:
        if (device.driver, device.pool, device.device) == (
            result.driver,
            result.pool,
            result.device,
        ):
            for condition in device.conditions:
                yield condition.type, (condition.status, condition.reason, condition.message)


def timed_out(claim: model.ResourceClaim, now: int, timeout: int) -> bool:
    """Tell whether a claim has waited for longer than the time-out, both in nanoseconds."""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None:
        return False
    if all(result.binding_conditions is None for result in allocation.devices.results):
        return False
    return model.nanoseconds(allocation.allocation_timestamp) + timeout < now


def readiness(claim: model.ResourceClaim, now: int, timeout: int) -> Readiness:
    """Return whether an allocated claim can be used now."""
    try:
        if check(claim):
            return Readiness.READY
    except BindingError:
        return Readiness.FAILED
    return Readiness.TIMED_OUT if timed_out(claim, now, timeout) else Readiness.WAITING


POLL: Final = 5 * 10**9
"""How often conditions are looked at, in nanoseconds."""
SUCCEEDED: Final = "success"
FAILURE: Final = "failure"
TIMEOUT: Final = "timeout"
ERROR: Final = "error"
"""Results of waits for binding conditions, and of creations, as metrics label them."""
_LATE: Final = "device binding timeout: context deadline exceeded"


@dataclass(slots=True)
class Reservation:
    """The claims of a pod that was reserved, and what they got."""

    pod: str
    user: list[model.ResourceClaim]
    extended_claim: model.ResourceClaim | None = None
    variant: Variant | None = None
    """The node's claim for extended resources."""
    shared: bool = False
    """Whether other pods of its group may have reserved the same allocations: any writes them."""
    _results: dict[str, tuple[model.ResourceClaim, model.AllocationResult]] = field(
        default_factory=dict
    )

    def add(self, claim: model.ResourceClaim, result: model.AllocationResult) -> None:
        """Note what a claim got."""
        self._results[resource_claims.uid_of(claim)] = claim, result

    @property
    def results(self) -> Collection[tuple[model.ResourceClaim, model.AllocationResult]]:
        """What claims got."""
        return self._results.values()

    def result(self, claim: model.ResourceClaim) -> model.AllocationResult | None:
        """Return what a claim got; None if it was allocated before."""
        claim_result = self._results.get(resource_claims.uid_of(claim))
        return None if claim_result is None else claim_result[1]


class ClaimCounts:
    """What metrics of claims are made of."""

    def __init__(self, _handle: Handle) -> None:
        self.creates: Counter[str] = Counter()
        """How many claims were created, by status."""
        self.allocations: Counter[tuple[str, str, str]] = Counter()
        """Devices with binding conditions, by profile, driver and status."""
        self.waits: defaultdict[tuple[str, str, str], list[float]] = defaultdict(list)
        """Likewise the seconds waited for conditions, once for each device of each claim."""


class Binding:
    """Writes reservations. ``timeout``: how long conditions may take, in nanoseconds."""

    def __init__(
        self, handle: Handle, claims: resource_claims.ResourceClaims, timeout: int
    ) -> None:
        self._handle = handle
        self._claims = claims
        self._timeout = timeout
        self._counts = handle.shared(ClaimCounts)

    def bind(
        self, reservation: Reservation, pod: model.PodInfo, node: str
    ) -> Status | PendingStatus:
        """Write everything; the status comes when all is written and all conditions hold."""
        writing = self._write(reservation, pod)
        first = claim_writes.Run(self._handle.client, writing).start()
        if isinstance(first, Status):
            return first if not first.ok else self._await(reservation, pod, node)
        waiting: list[PendingStatus] = []

        def poll() -> Status | None:
            if not waiting:
                written_status = first.given
                if written_status is None or not written_status.ok:
                    return written_status
                after = self._await(reservation, pod, node)
                if isinstance(after, Status):
                    return after
                waiting.append(after)
            return waiting[0].status_at(self._handle.now())

        return PendingStatus(poll)

    def _write(self, reservation: Reservation, pod: model.PodInfo) -> claim_writes.Writing[Status]:
        try:
            for index, claim in enumerate(reservation.user):
                if claim.status.reserved_for and resource_claims.is_reserved(claim, pod):
                    continue
                # Once it is written, it is in flight for no pod that shares it.
                try:
                    current = self._claims.get(*resource_claims.key_of(claim)) or claim
                    if current.status.reserved_for and resource_claims.is_reserved(current, pod):
                        reservation.user[index] = current  # the pod names it twice
                        continue
                    result = reservation.result(claim)
                    now = self._handle.now()
                    claim_written = yield from claim_writes.written(
                        current, pod, result, now, reservation.shared
                    )
                    self._claims.assume(claim_written)
                    self._claims.release(claim)
                finally:
                    self._claims.release(claim, pod)
                reservation.user[index] = claim_written
            if reservation.extended_claim is not None:
                yield from self._write_extended_claim(reservation, pod)
        except ClusterError as error:
            return Status(Code.ERROR, (str(error),))
        return SUCCESS

    def _write_extended_claim(
        self, reservation: Reservation, pod: model.PodInfo
    ) -> claim_writes.Writing[None]:
        """Make the claim for extended resources, and write it and the pod's status."""
        extended_claim, variant = reservation.extended_claim, reservation.variant
        assert extended_claim is not None, "there are extended resources"
        if variant is None:
            if not reservation.user:
                return
            text = f"nil or empty request mappings, no update of pod {pod.key} "
            raise ClusterError(text + "ExtendedResourceClaimStatus")
        try:
            if extended_claim.metadata.name == IN_MEMORY:
                try:
                    made = yield claim_writes.creation(variant)
                except ClusterError as error:
                    self._counts.creates[FAILURE] += 1
                    text = f"create claim for extended resources {pod.namespace}/: {error}"
                    raise ClusterError(text) from error
                assert isinstance(made, model.ResourceClaim), "it was created"
                self._counts.creates[SUCCEEDED] += 1
            else:
                made = extended_claim
            result = reservation.result(extended_claim)
            claim_written = yield from claim_writes.written(made, pod, result, self._handle.now())
            self._claims.assume(claim_written)
            reservation.extended_claim = claim_written
        finally:
            self._claims.release(extended_claim, pod)
        try:
            yield claim_writes.mapping(pod, claim_written, variant)
        except ClusterError as error:
            text = f"update pod {pod.key} ExtendedResourceClaimStatus: {error}"
            raise ClusterError(text) from error

    def _await(
        self, reservation: Reservation, pod: model.PodInfo, node: str
    ) -> Status | PendingStatus:
        """Wait until the devices' binding conditions hold."""
        claims = list(reservation.user)
        if reservation.extended_claim is not None and reservation.variant is not None:
            claims.append(reservation.extended_claim)
        if not any(map(conditional, claims)):
            return SUCCESS  # an allocation stays as it was written
        claims = [self._claims.get(*resource_claims.key_of(claim)) or claim for claim in claims]
        note = f"waiting for binding conditions for device on node {node}"
        self._handle.client.record_event(
            pod, "Normal", "BindingConditionsPending", "Scheduling", note
        )
        begun = self._handle.now()

        def poll() -> Status | None:
            ending = self._ready(claims, begun)
            if ending is not None:
                self._count(claims, pod.scheduler_name, ending[0], begun)
            return None if ending is None else ending[1]

        return poll() or PendingStatus(poll)

    def _count(
        self, claims: list[model.ResourceClaim], profile: str, result: str, begun: int
    ) -> None:
        """Count how the wait for the conditions of a pod's claims ended."""
        seconds = (self._handle.now() - begun) / 1e9
        for claim in claims:
            for device in conditional(claim):
                self._counts.allocations[profile, device.driver, result] += 1
            allocation = claim.status.allocation
            for device in () if allocation is None else allocation.devices.results:
                self._counts.waits[profile, device.driver, result].append(seconds)

    def _ready(self, claims: list[model.ResourceClaim], begun: int) -> tuple[str, Status] | None:
        """Return the result and the status, None while conditions are waited for.

        Whether a claim was allocated too long ago is looked at every five seconds.
        """
        now = self._handle.now()
        looked = begun + (now - begun) // POLL * POLL
        ready = True
        for claim in claims:
            current = self._claims.get(*resource_claims.key_of(claim))
            if current is None:
                return ERROR, Status(Code.ERROR, (f"claim {claim.metadata.name} is gone",))
            try:
                if check(current):
                    continue
            except BindingError as error:
                return FAILURE, Status(Code.ERROR, (str(error),))
            ready = False
            if now < begun + self._timeout and timed_out(current, looked, self._timeout):
                text = f"device binding timeout: claim={current.metadata.name}"
                return TIMEOUT, Status(Code.ERROR, (text,))
        if ready:
            return SUCCEEDED, SUCCESS
        if now < begun + self._timeout:
            return None
        return TIMEOUT, Status(Code.ERROR, (_LATE,))
