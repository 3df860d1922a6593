"""VolumeBinding: binds claims together with the pod; volumes of bound claims must be reachable.

Theory of operation: PreFilter sorts the pod's claims, the first Filter searches all rows at once,
Reserve assumes the result of the search for one node, and PreBind writes it, volumes first. Then
other controllers bind the claims and provision volumes; PreBind polls the watch cache until every
claim is bound, or until the timeout. Changes of claims, volumes and assumptions are in the
journal, so a cached evaluation never outlives its inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np
from msgspec.structs import replace

from policy_sched import framework, model
from policy_sched.client import ObjectRequest
from policy_sched.errors import ClusterError
from policy_sched.plugins.volumes import events, listers
from policy_sched.plugins.volumes.search import FAILED, Claims, Plan, search
from policy_sched.plugins.volumes.storage_view import StorageView, kept_for


class Reservation(msgspec.Struct, frozen=True):
    """The assumptions for one pod: volumes with their claims, and claims to provision."""

    pod: str
    node: str
    bindings: tuple[tuple[model.PersistentVolume, model.PersistentVolumeClaim], ...]
    claims: tuple[model.PersistentVolumeClaim, ...]


class Binder:
    """Executes plans. ``timeout``: how long claims may take to be bound, in seconds."""

    def __init__(self, handle: framework.Handle, storage: StorageView, timeout: int) -> None:
        self._client = handle.client
        self._now = handle.now
        self._table = handle.nodes
        self._storage = storage
        self._timeout = timeout

    def assume(self, pod: model.PodInfo, node: str, plan: Plan, row: int) -> Reservation:
        """Assume `plan`'s result for `row`; all or nothing. ClusterError if an object is gone."""
        bindings = tuple(
            (bound_volume(volume, claim), claim) for volume, claim in plan.bindings(row)
        )
        claims = tuple(selected(claim, node) for claim in plan.to_provision(row))
        reservation = Reservation(pod.uid, node, bindings, claims)
        try:
            for volume, _ in bindings:
                self._storage.assumed_volumes.assume("", volume)
            for claim in claims:
                self._storage.assumed_claims.assume(listers.namespace_of(claim), claim)
        except ClusterError:
            self.restore(reservation)
            raise
        return reservation

    def restore(self, reservation: Reservation) -> None:
        """Undo all remaining assumptions."""
        for volume, _ in reservation.bindings:
            self._storage.assumed_volumes.restore("", volume.metadata.name)
        for claim in reservation.claims:
            self._storage.assumed_claims.restore(listers.namespace_of(claim), claim.metadata.name)

    def bind(self, reservation: Reservation) -> framework.Status | framework.PendingStatus:
        """Write the assumptions; the result is Success when all claims are bound.

        Raises ClusterError, as the result does, if the cluster rejects or undoes a binding, or
        takes too long.
        """
        for volume, _ in reservation.bindings:
            self._client.send(volume_patch(volume))
        for claim in reservation.claims:
            self._client.send(claim_patch(claim))
        deadline = self._now() + self._timeout * model.SECOND

        def look() -> framework.Status | None:
            try:
                bound = self._all_bound(reservation)
            except ClusterError as error:
                raise ClusterError(f"binding volumes: {error}") from error
            if not bound and self._now() >= deadline:
                raise ClusterError(f"binding volumes: {framework.TOO_LATE}")
            return framework.SUCCESS if bound else None

        return look() or framework.PendingStatus(look, deadline)

    def _all_bound(self, reservation: Reservation) -> bool:
        """Return whether all claims are bound; ClusterError if a binding failed."""
        return all(
            self._volume_bound(volume, claim, reservation.node)
            for volume, claim in reservation.bindings
        ) and all(self._provided(claim, reservation.node) for claim in reservation.claims)

    def _volume_bound(
        self, assumed: model.PersistentVolume, claim: model.PersistentVolumeClaim, node: str
    ) -> bool:
        name = assumed.metadata.name
        volume = self._storage.api.volume(name)
        now = self._storage.api.claim(listers.namespace_of(claim), claim.metadata.name)
        if volume is None or now is None:
            gone = f'volume "{name}"' if volume is None else f'claim "{claim.metadata.name}"'
            raise ClusterError(f"failed to check binding: could not find {gone}")
        if self._storage.assumed_volumes.waits_for_watch("", name):
            return False
        self._check_reach(volume, node)
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            raise ClusterError(f'ClaimRef got reset for pv "{name}"')
        return listers.fully_bound(now)

    def _provided(self, claim: model.PersistentVolumeClaim, node: str) -> bool:
        namespace, name = listers.namespace_of(claim), claim.metadata.name
        now = self._storage.api.claim(namespace, name)
        if now is None:
            raise ClusterError(f'failed to check provisioning pvc: could not find claim "{name}"')
        if self._storage.assumed_claims.waits_for_watch(namespace, name):
            return False
        if now.metadata.annotations.get(listers.SELECTED_NODE) != node:
            raise ClusterError(f'provisioning failed for PVC "{name}"')
        if now.spec.volume_name:
            volume = self._storage.api.volume(now.spec.volume_name)
            if volume is None:
                return False  # the watch may still deliver it
            self._check_reach(volume, node)
        return listers.fully_bound(now)

    def _check_reach(self, volume: model.PersistentVolume, node: str) -> None:
        row = self._table.row_of.get(node)
        if row is None:
            raise ClusterError(f'failed to get node "{node}"')
        if not self._storage.reach(volume)[row]:
            raise ClusterError(
                f'pv "{volume.metadata.name}" node affinity doesn\'t match node "{node}": '
                "no matching NodeSelectorTerms"
            )


def bound_volume(
    volume: model.PersistentVolume, claim: model.PersistentVolumeClaim
) -> model.PersistentVolume:
    """Return a copy of a volume that is reserved for a claim."""
    annotations = volume.metadata.annotations
    if not kept_for(volume, claim):
        annotations = annotations | {listers.BOUND_BY_CONTROLLER: "yes"}
    reference = model.ClaimReference(
        listers.namespace_of(claim), claim.metadata.name, claim.metadata.uid
    )
    return replace(
        volume,
        metadata=replace(volume.metadata, annotations=annotations),
        spec=replace(volume.spec, claim_ref=reference),
    )


def selected(claim: model.PersistentVolumeClaim, node: str) -> model.PersistentVolumeClaim:
    """Return a copy of a claim that requests provisioning for a node."""
    annotations = claim.metadata.annotations | {listers.SELECTED_NODE: node}
    return replace(claim, metadata=replace(claim.metadata, annotations=annotations))


def volume_patch(volume: model.PersistentVolume) -> ObjectRequest:
    """Return the request that writes for which claim a volume is kept; the cluster binds both."""
    reference, named, annotations = volume.spec.claim_ref, None, {}
    if reference is not None:
        named = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": reference.namespace,
            "name": reference.name,
            "uid": reference.uid,
        }
        annotations = {listers.BOUND_BY_CONTROLLER: "yes"}
    return _patch(volume, annotations, {"spec": {"claimRef": named}})


def claim_patch(claim: model.PersistentVolumeClaim) -> ObjectRequest:
    """Return the request that writes for which node a claim's volume is to be provisioned."""
    return _patch(
        claim, {listers.SELECTED_NODE: claim.metadata.annotations.get(listers.SELECTED_NODE)}, {}
    )


def _patch(
    thing: model.PersistentVolume | model.PersistentVolumeClaim,
    annotations: dict[str, Any],
    changes: dict[str, Any],
) -> ObjectRequest:
    """Return a merge patch of an object that must be as it was when it was decided on."""
    meta = thing.metadata
    version = {"resourceVersion": meta.resource_version} if meta.resource_version else {}
    noted = {"annotations": annotations} if annotations else {}
    namespace = "" if isinstance(thing, model.PersistentVolume) else listers.namespace_of(thing)
    body = {**changes, "metadata": {**version, **noted}}
    return ObjectRequest("patch", type(thing), namespace, meta.name, body)


NAME: Final = "VolumeBinding"
REASON_IMMEDIATE: Final = "pod has unbound immediate PersistentVolumeClaims"
LOST: Final = "Lost"
#: Seconds, as upstream (ValidateVolumeBindingArgs' default).
BIND_TIMEOUT: Final = 600

_SKIP: Final = framework.PreFilterResult(framework.SKIP)
_ASK: Final = framework.PreFilterResult()


class PodClaims(msgspec.Struct):
    """A pod's claims, and the plan for all rows once a filter has run."""

    claims: Claims
    plan: Plan | None = None


class VolumeBinding:
    """Finds, assumes and binds the volumes of a pod."""

    def __init__(self, args: Mapping[str, object], handle: framework.Handle) -> None:
        self._table = handle.nodes
        self._storage = StorageView(handle)
        timeout = args.get("bindTimeoutSeconds", BIND_TIMEOUT)
        assert isinstance(timeout, int), "arguments are checked when a profile is loaded"
        self._binder = Binder(handle, self._storage, timeout)

    @framework.hookimpl
    def sign_pod(self) -> framework.Signature:
        """Return the signature: claims and static node fields; other changes are in the journal."""
        return framework.Signature(
            frozenset(), framework.Scope.STATIC, proved=True, keys=(listers.VOLUMES,)
        )

    @framework.hookimpl
    def events_to_register(self) -> tuple[model.ClusterEventWithHint, ...]:
        """Register the events that can make a rejected pod schedulable."""
        return events.BINDING

    @framework.hookimpl
    def pre_filter(
        self, state: framework.CycleState, pod: model.PodInfo
    ) -> framework.PreFilterResult:
        """Sort the pod's claims; reject it if one is missing, or should be bound already."""
        volumes = pod.volumes
        if volumes is None or not volumes.claims:
            return _SKIP
        for use in volumes.claims:
            why = self._unusable(use, pod)
            if why:
                return _rejected(why)
        claims = self._sorted(volumes)
        if claims is None:
            return _rejected(REASON_IMMEDIATE)
        state.write(PodClaims(claims))
        return _ASK

    @framework.hookimpl
    def filter(self, state: framework.CycleState, rows: framework.Rows) -> framework.FilterResult:
        """Reject nodes that cannot reach a volume, or without a volume for a claim."""
        pod_claims = state.read(PodClaims)
        assert pod_claims is not None, "PreFilter wrote it, or this filter is skipped"
        plan = self._plan(pod_claims)
        codes = plan.codes if rows is None else plan.codes[rows]
        fatal = frozenset(range(FAILED, FAILED + len(plan.errors)))
        return framework.FilterResult(codes, plan.describe, fatal=fatal, names_node=False)

    @framework.hookimpl
    def pre_score(self) -> framework.Status:
        """Skip: upstream's scores by capacity are behind a feature gate that is off."""
        return framework.SKIP

    @framework.hookimpl
    def score(self, rows: framework.Rows) -> framework.Scores:
        """Return equal scores; see `pre_score`."""
        return np.zeros(self._table.n if rows is None else rows.size, np.int64)

    @framework.hookimpl
    def reserve(
        self, state: framework.CycleState, pod: model.PodInfo, node: str
    ) -> framework.Status:
        """Assume the bindings of the node."""
        pod_claims = state.read(PodClaims)
        row = self._table.row_of.get(node)
        if pod_claims is None or row is None or not pod_claims.claims.waiting:
            return framework.SUCCESS
        state.write(self._binder.assume(pod, node, self._plan(pod_claims), row))
        return framework.SUCCESS

    @framework.hookimpl
    def unreserve(self, state: framework.CycleState, pod: model.PodInfo) -> None:
        """Undo the assumptions for the pod."""
        reservation = state.read(Reservation)
        if reservation is not None and reservation.pod == pod.uid:
            self._binder.restore(reservation)

    @framework.hookimpl
    def pre_bind_pre_flight(
        self,
        state: framework.CycleState,
        pod: model.PodInfo,  # noqa: ARG002 - all of the hook's arguments: every pod comes here
        node: str,  # noqa: ARG002 - as above
    ) -> framework.Status:
        """Return Success if anything was reserved, else Skip."""
        return framework.SKIP if state.read(Reservation) is None else framework.SUCCESS

    @framework.hookimpl
    def pre_bind(
        self, state: framework.CycleState, pod: model.PodInfo
    ) -> framework.Status | framework.PendingStatus:
        """Write the bindings; done when the cluster has completed them."""
        reservation = state.read(Reservation)
        if reservation is None or reservation.pod != pod.uid:
            return framework.SUCCESS
        return self._binder.bind(reservation)

    def _plan(self, pod_claims: PodClaims) -> Plan:
        if pod_claims.plan is None:
            pod_claims.plan = search(pod_claims.claims, self._storage, self._table.n)
        return pod_claims.plan

    def _unusable(self, use: model.ClaimUse, pod: model.PodInfo) -> str:
        """Return why a claim makes the pod unschedulable everywhere, "" if it does not."""
        assert pod.volumes is not None, "a use of a claim is one of the pod's"
        claim = self._storage.api.claim(pod.volumes.namespace, use.name)
        if claim is None:
            if use.ephemeral:
                return (
                    "waiting for ephemeral volume controller to create the persistentvolumeclaim "
                    f'"{use.name}"'
                )
            return listers.not_found("persistentvolumeclaim", use.name)
        if claim.status.phase == LOST:
            volume = claim.spec.volume_name
            return (
                f'persistentvolumeclaim "{use.name}" bound to non-existent '
                f'persistentvolume "{volume}"'
            )
        if claim.metadata.deletion_timestamp is not None:
            return f'persistentvolumeclaim "{use.name}" is being deleted'
        return listers.foreign(claim, use, pod)

    def _sorted(self, volumes: model.PodVolumes) -> Claims | None:
        """Return the claims as assumed; None if an unbound one does not wait for a pod."""
        bound: list[model.PersistentVolumeClaim] = []
        waiting: list[model.PersistentVolumeClaim] = []
        for use in volumes.claims:
            claim = self._storage.claim(volumes.namespace, use.name)
            assert claim is not None, "only existing claims are assumed"
            if listers.fully_bound(claim):
                bound.append(claim)
            elif claim.spec.volume_name or not listers.waits_for_pod(
                self._storage.api.storage_class(listers.class_of(claim))
            ):
                return None
            else:
                waiting.append(claim)
        return Claims(tuple(bound), tuple(waiting))


def _rejected(why: str) -> framework.PreFilterResult:
    return framework.PreFilterResult(
        framework.Status(framework.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (why,))
    )
