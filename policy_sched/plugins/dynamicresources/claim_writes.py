"""What PreBind, Unreserve and PostFilter write into claims, and how a refused write is repeated.

Theory of operation. Writing is a generator: it yields requests, and is sent the object that each
leaves, or has the refusal thrown into it. The caller may wait for responses or have them at once.
Patches carry the version that they were made of: a change made in between is a conflict, and the
object is read again. Parameters of drivers are bytes, which a patch changes for a server that keeps
them as such: so what must stay as it is (a specification, an allocation) is not patched if it has
any (`exact`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from policy_sched.client import Client, ObjectRequest
from policy_sched.errors import ClusterError
from policy_sched.framework import Code, PendingStatus, Status
from policy_sched.model import AllocationResult, ApiObject, Pod, PodInfo, ResourceClaim
from policy_sched.plugins.dynamicresources.extended_resources import Variant
from policy_sched.plugins.dynamicresources.requests import claim_name
from policy_sched.plugins.dynamicresources.resource_claims import is_reserved, key_of

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
DEALLOCATED: Final = "deallocation of ResourceClaim completed"
TRIES: Final = 5
_CONFLICT: Final = 409

T = TypeVar("T")
Writing: TypeAlias = Generator[ObjectRequest, ApiObject | None, T]


class WriteError(ClusterError):
    """A claim cannot be written as it should be."""


class Run(msgspec.Struct):
    """A writing that is under way; ``status`` is its result, once there is one."""

    client: Client
    writing: Writing[Status]
    pending: PendingStatus | None = None
    status: Status | None = None

    def start(self) -> Status | PendingStatus:
        """Send the first request; return the result if everything had a response at once."""
        self._step(None, None)
        if self.status is not None:
            return self.status
        self.pending = PendingStatus()
        return self.pending

    def _step(self, response: ApiObject | None, error: ClusterError | None) -> None:
        try:
            request = self.writing.send(response) if error is None else self.writing.throw(error)
        except StopIteration as stopped:
            self.status = stopped.value
            if self.pending is not None:
                self.pending.finish(stopped.value)
            return
        self.client.send(request, self._step)


def drop(client: Client, request: ObjectRequest, done: Callable[[ApiObject | None], None]) -> None:
    """Send one request and pass over a refusal."""
    client.send(request, lambda response, error: done(response) if error is None else None)


def _request(
    claim: ResourceClaim, body: dict[str, Any], subresource: str = "", *, exact: bool = False
) -> ObjectRequest:
    namespace, name = key_of(claim)
    return ObjectRequest("patch", ResourceClaim, namespace, name, body, subresource, exact=exact)


def _configured(claim: ResourceClaim) -> bool:
    """Tell whether a claim's allocation has configurations."""
    allocation = claim.status.allocation
    return allocation is not None and bool(allocation.devices.config)


def _version(claim: ResourceClaim) -> dict[str, str]:
    version = claim.metadata.resource_version
    return {"resourceVersion": version} if version else {}


def with_finalizers(claim: ResourceClaim, finalizers: tuple[str, ...]) -> ObjectRequest:
    """Return the request that changes a claim's finalizers."""
    body = {"metadata": {**_version(claim), "finalizers": list(finalizers) or None}}
    return _request(claim, body, exact=bool(claim.spec.devices.config))


def deallocation(claim: ResourceClaim) -> ObjectRequest:
    """Return the request that takes a claim's devices back."""
    status = {"allocation": None, "reservedFor": None, "devices": None}
    return _request(claim, {"metadata": _version(claim), "status": status}, "status")


def unreservation(claim: ResourceClaim, pod: PodInfo) -> ObjectRequest:
    """Return the request that takes a pod off a claim's consumers."""
    namespace, name = key_of(claim)
    gone = [{"$patch": "delete", "uid": pod.uid}]
    meta = {"uid": claim.metadata.uid} if claim.metadata.uid else {}
    body = {"metadata": meta, "status": {"reservedFor": gone}}
    request = ObjectRequest("patch", ResourceClaim, namespace, name, body, "status", strategic=True)
    return msgspec.structs.replace(request, exact=_configured(claim))


def deletion(claim: ResourceClaim) -> ObjectRequest:
    """Return the request that deletes a claim."""
    namespace, name = key_of(claim)
    return ObjectRequest("delete", ResourceClaim, namespace, name)


def creation(variant: Variant) -> ObjectRequest:
    """Return the request that makes the claim for extended resources."""
    meta = variant.claim.metadata
    owners = [
        {
            "apiVersion": owner.api_version,
            "kind": owner.kind,
            "name": owner.name,
            "uid": owner.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
        for owner in meta.owner_references
    ]
    body = {
        "metadata": {
            "generateName": meta.generate_name,
            "namespace": meta.namespace,
            "annotations": dict(meta.annotations),
            "ownerReferences": owners,
            "finalizers": [FINALIZER],
        },
        "spec": plain(variant.claim.spec),
    }
    return ObjectRequest("create", ResourceClaim, meta.namespace, "", body)


def mapping(pod: PodInfo, claim: ResourceClaim, variant: Variant) -> ObjectRequest:
    """Return the request that names the claim of a pod's extended resources in its status."""
    status = {
        "resourceClaimName": claim.metadata.name,
        "requestMappings": plain(variant.mappings),
    }
    body = {
        "metadata": {"uid": pod.pod.metadata.uid},
        "status": {"extendedResourceClaimStatus": status},
    }
    return ObjectRequest("patch", Pod, pod.namespace, pod.name, body, "status", strategic=True)


def plain(value: object) -> Any:
    """Return a struct as JSON has it."""
    return msgspec.json.decode(msgspec.json.encode(value))


def written(
    claim: ResourceClaim,
    pod: PodInfo,
    result: AllocationResult | None,
    now: int,
    shared: bool = False,
) -> Writing[ResourceClaim]:
    """Write an allocation and the pod into a claim; return the claim. Raises ClusterError.

    Without ``result`` the claim was allocated before. ``now``: nanoseconds since 1970. ``shared``:
    another pod may have written the same result.
    """
    current = claim
    for attempt in range(1, TRIES + 1):
        if attempt > 1:
            namespace, short = key_of(claim)
            try:
                response = yield ObjectRequest("get", ResourceClaim, namespace, short)
            except ClusterError as error:
                text = f"get updated claim {claim_name(claim)} after conflict: {error}"
                raise WriteError(text) from error
            assert isinstance(response, ResourceClaim), "the request was for a claim"
            current = response
        if current.metadata.deletion_timestamp is not None:
            raise WriteError(f"claim {claim_name(claim)} got deleted in the meantime")
        allocation = current.status.allocation
        if shared and result is not None and allocation is not None:
            result = None if allocation.devices.results == result.devices.results else result
        if result is not None and allocation is not None:
            raise WriteError(f"claim {claim_name(claim)} got allocated elsewhere in the meantime")
        what = ""
        try:
            if result is not None and FINALIZER not in current.metadata.finalizers:
                what = "add finalizer"
                finalizers = (*current.metadata.finalizers, FINALIZER)
                response = yield with_finalizers(current, finalizers)
                assert isinstance(response, ResourceClaim), "it was patched"
                current = response
            if result is None and current.status.allocation is None:
                raise WriteError(
                    f"claim {claim_name(claim)} got deallocated elsewhere in the meantime"
                )
            if current.status.reserved_for and is_reserved(current, pod):
                return current
            what = "add reservation" if result is None else "add allocation and reservation"
            response = yield _reservation(current, pod, result, now)
        except ClusterError as error:
            if not what or isinstance(error, WriteError):
                raise
            if attempt == TRIES or not _is_conflict(error):
                raise WriteError(f"{what} to claim {claim_name(claim)}: {error}") from error
        else:
            assert isinstance(response, ResourceClaim), "it was patched"
            return response
    raise AssertionError("the last try returns or raises")


def given_back(claim: ResourceClaim, pod: PodInfo) -> Writing[Status]:
    """Take a claim's devices back, unless another pod uses it by now; return how it went.

    PostFilter does not wait for responses over a network, so a conflict is repeated here.
    """
    try:
        for attempt in range(1, TRIES + 1):
            try:
                yield deallocation(claim)
                break
            except ClusterError as error:
                if attempt == TRIES or not _is_conflict(error):
                    raise
            response = yield ObjectRequest("get", ResourceClaim, *key_of(claim))
            assert isinstance(response, ResourceClaim), "it was requested"
            claim = response
            if any(user.uid != pod.uid for user in claim.status.reserved_for):
                break
    except ClusterError as error:
        return Status(Code.ERROR, (str(error),))
    return Status(Code.UNSCHEDULABLE, (DEALLOCATED,))


def _reservation(
    claim: ResourceClaim, pod: PodInfo, result: AllocationResult | None, now: int
) -> ObjectRequest:
    """Return the request that adds a pod, and what was allocated for it, to a claim's status."""
    allocation = result or claim.status.allocation
    assert allocation is not None, "the claim is allocated"
    body: dict[str, Any] = {}
    if result is not None:
        body["allocation"] = plain(result)
    if allocation.allocation_timestamp is None:
        stamp = {"allocationTimestamp": _timestamp(now // 10**9)}
        body["allocation"] = {**body.get("allocation", {}), **stamp}
    consumer = {"resource": "pods", "name": pod.name, "uid": pod.uid}
    reserved = claim.status.reserved_for
    body["reservedFor"] = [*plain(reserved), consumer] if reserved else [consumer]
    exact = result is None and _configured(claim)
    return _request(claim, {"metadata": _version(claim), "status": body}, "status", exact=exact)


def _is_conflict(error: BaseException | None) -> bool:
    while error is not None:
        if getattr(error, "code", None) == _CONFLICT:
            return True
        error = error.__cause__
    return False


@lru_cache(maxsize=8)
def _timestamp(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
