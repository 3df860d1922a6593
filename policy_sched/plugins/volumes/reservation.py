"""From a plan to bound claims: assume, write, wait, or take back.

Theory of operation: what Reserve assumed is written by PreBind, volumes first; then other
controllers of the cluster bind the claims and make the volumes, and what they did comes back
through the watch. Whether everything is bound is polled until the timeout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from policy_sched.errors import ClusterError
from policy_sched.framework import SUCCESS, TOO_LATE, Handle, PendingStatus, Status
from policy_sched.model import ClaimReference, PersistentVolume, PersistentVolumeClaim, PodInfo
from policy_sched.plugins.volumes.listers import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    fully_bound,
    namespace_of,
)
from policy_sched.plugins.volumes.search import Plan
from policy_sched.plugins.volumes.storage_view import StorageView
from policy_sched.plugins.volumes.volume_index import kept_for

#: Nanoseconds in a second.
SECOND: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Reservation:
    """What was assumed for one pod: volumes with their claims, and claims to provide for."""

    pod: str
    node: str
    bindings: tuple[tuple[PersistentVolume, PersistentVolumeClaim], ...]
    claims: tuple[PersistentVolumeClaim, ...]


class Binder:
    """Carries plans out. ``timeout``: how long claims may take to be bound, in seconds."""

    def __init__(self, handle: Handle, storage: StorageView, timeout: int) -> None:
        self._client = handle.client
        self._now = handle.now
        self._table = handle.nodes
        self._storage = storage
        self._timeout = timeout

    def assume(self, pod: PodInfo, node: str, plan: Plan, row: int) -> Reservation:
        """Assume what `plan` has for `row`; all or nothing. ClusterError if an object is gone."""
        bindings = tuple(
            (bound_volume(volume, claim), claim) for volume, claim in plan.bindings(row)
        )
        claims = tuple(selected(claim, node) for claim in plan.to_provision(row))
        reservation = Reservation(pod.uid, node, bindings, claims)
        try:
            for volume, _ in bindings:
                self._storage.assumed_volumes.assume("", volume)
            for claim in claims:
                self._storage.assumed_claims.assume(namespace_of(claim), claim)
        except ClusterError:
            self.restore(reservation)
            raise
        return reservation

    def restore(self, reservation: Reservation) -> None:
        """Take everything back that is still assumed."""
        for volume, _ in reservation.bindings:
            self._storage.assumed_volumes.restore("", volume.metadata.name)
        for claim in reservation.claims:
            self._storage.assumed_claims.restore(namespace_of(claim), claim.metadata.name)

    def bind(self, reservation: Reservation) -> Status | PendingStatus:
        """Write what was assumed; the answer is Success when all claims are bound.

        Raises ClusterError, as its answer does, if the cluster refuses, undoes a binding, or
        takes too long.
        """
        for volume, _ in reservation.bindings:
            self._client.update_volume(volume)
        for claim in reservation.claims:
            self._client.update_claim(claim)
        deadline = self._now() + self._timeout * SECOND

        def look() -> Status | None:
            try:
                bound = self._all_bound(reservation)
            except ClusterError as error:
                raise ClusterError(f"binding volumes: {error}") from error
            if not bound and self._now() >= deadline:
                raise ClusterError(f"binding volumes: {TOO_LATE}")
            return SUCCESS if bound else None

        return look() or PendingStatus(look, deadline)

    def _all_bound(self, reservation: Reservation) -> bool:
        """Return whether all claims are bound; ClusterError if that will not come about."""
        return all(
            self._volume_bound(volume, claim, reservation.node)
            for volume, claim in reservation.bindings
        ) and all(self._provided(claim, reservation.node) for claim in reservation.claims)

    def _volume_bound(
        self, assumed: PersistentVolume, claim: PersistentVolumeClaim, node: str
    ) -> bool:
        name = assumed.metadata.name
        volume = self._storage.api.volume(name)
        now = self._storage.api.claim(namespace_of(claim), claim.metadata.name)
        if volume is None or now is None:
            gone = f'volume "{name}"' if volume is None else f'claim "{claim.metadata.name}"'
            raise ClusterError(f"failed to check binding: could not find {gone}")
        if self._storage.assumed_volumes.waits_for_watch("", name):
            return False
        self._check_reach(volume, node)
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            raise ClusterError(f'ClaimRef got reset for pv "{name}"')
        return fully_bound(now)

    def _provided(self, claim: PersistentVolumeClaim, node: str) -> bool:
        namespace, name = namespace_of(claim), claim.metadata.name
        now = self._storage.api.claim(namespace, name)
        if now is None:
            raise ClusterError(f'failed to check provisioning pvc: could not find claim "{name}"')
        if self._storage.assumed_claims.waits_for_watch(namespace, name):
            return False
        if now.metadata.annotations.get(SELECTED_NODE) != node:
            raise ClusterError(f'provisioning failed for PVC "{name}"')
        if now.spec.volume_name:
            volume = self._storage.api.volume(now.spec.volume_name)
            if volume is None:
                return False  # its turn in the watch may come yet
            self._check_reach(volume, node)
        return fully_bound(now)

    def _check_reach(self, volume: PersistentVolume, node: str) -> None:
        row = self._table.row_of.get(node)
        if row is None:
            raise ClusterError(f'failed to get node "{node}"')
        if not self._storage.reach(volume)[row]:
            raise ClusterError(
                f'pv "{volume.metadata.name}" node affinity doesn\'t match node "{node}": '
                "no matching NodeSelectorTerms"
            )


def bound_volume(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """Return a copy of a volume that is kept for a claim."""
    annotations = volume.metadata.annotations
    if not kept_for(volume, claim):
        annotations = annotations | {BOUND_BY_CONTROLLER: "yes"}
    reference = ClaimReference(namespace_of(claim), claim.metadata.name, claim.metadata.uid)
    return replace(
        volume,
        metadata=replace(volume.metadata, annotations=annotations),
        spec=replace(volume.spec, claim_ref=reference),
    )


def selected(claim: PersistentVolumeClaim, node: str) -> PersistentVolumeClaim:
    """Return a copy of a claim that requests provisioning for a node."""
    annotations = claim.metadata.annotations | {SELECTED_NODE: node}
    return replace(claim, metadata=replace(claim.metadata, annotations=annotations))
