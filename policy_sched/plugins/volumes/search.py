"""The search of VolumeBinding: the volume of each claim of one pod on every node at once.

Theory of operation: claims are processed one by one, each for all rows that are still feasible,
in the order of kube-scheduler's binder. The results are arrays; Reserve reads one row of them.

Class, size, modes and labels of a volume are checked once for all nodes. Of the volumes that fit,
each is written to the rows that reach it, in descending size, so that the smallest one remains.
Volumes with the same node affinity are interchangeable: only as many of them are considered as the
pod's other claims could use, and one more. (component-helpers' FindMatchingVolume.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched import model
from policy_sched.framework import Code, Status
from policy_sched.plugins.volumes.listers import NO_PROVISIONER, SELECTED_NODE, class_of
from policy_sched.plugins.volumes.node_labels import Mask, NodeLabels
from policy_sched.plugins.volumes.storage_view import StorageView, VolumeIndex, selector_of, size_of

Choice = NDArray[np.int32]
"""Per row the number of a volume in `Numbers`, or NO_VOLUME; shape (n,)."""

NO_VOLUME: Final = -1
FILESYSTEM: Final = "Filesystem"


class Numbers:
    """Numbers the volumes that the claims of one pod may get; ``volumes`` is by number."""

    def __init__(self) -> None:
        self.volumes: list[model.PersistentVolume] = []
        self._numbers: dict[str, int] = {}

    def of(self, volume: model.PersistentVolume) -> int:
        """Return the number of a volume, a new one if it has none."""
        index = self._numbers.setdefault(volume.metadata.name, len(self.volumes))
        if index == len(self.volumes):
            self.volumes.append(volume)
        return index


def choose(
    claim: model.PersistentVolumeClaim,
    offers: VolumeIndex,
    taken: Sequence[Choice],
    numbers: Numbers,
    labels: NodeLabels,
) -> Choice | None:
    """Return the volume of the claim on each row; None if it has none on any row.

    ``taken``: the choices for the pod's other claims. A volume that is reserved for the claim
    is the only choice, on the nodes that reach it.
    """
    wanted = size_of(claim)
    for volume in offers.kept(claim):
        dying = volume.metadata.deletion_timestamp is not None
        if not dying and _mode(volume) == _mode(claim) and size_of(volume) >= wanted:
            rows = labels.rows(selector_of(volume))
            return _spread([rows], [numbers.of(volume)], labels.n)
    fits = _fits(claim)
    reached: list[NDArray[np.intp]] = []
    given: list[int] = []
    seen: dict[int, int] = {}
    for offer in offers.free(class_of(claim), wanted):
        looked_at = seen.get(offer.group, 0)
        if looked_at > len(taken) or not fits(offer.volume):
            continue
        seen[offer.group] = looked_at + 1
        index = numbers.of(offer.volume)
        rows = labels.rows(selector_of(offer.volume))
        for other in taken:
            rows = rows[other[rows] != index]
        reached.append(rows)
        given.append(index)
    return _spread(reached, given, labels.n)


def _spread(rows: Sequence[NDArray[np.intp]], numbers: Sequence[int], n: int) -> Choice | None:
    """Return for each row the first number whose rows contain it."""
    where = np.concatenate(rows) if rows else np.empty(0, np.intp)
    if not where.size:
        return None
    values = np.repeat(np.array(numbers, np.int32), [part.size for part in rows])
    choice = np.full(n, NO_VOLUME, np.int32)
    choice[where[::-1]] = values[::-1]  # of several values for one row the last one remains
    return choice


def _fits(claim: model.PersistentVolumeClaim) -> Callable[[model.PersistentVolume], bool]:
    """Return the test of a free volume of the claim's class that is large enough."""
    selector = _selector(claim)
    attributes = claim.spec.volume_attributes_class_name or ""
    modes = set(claim.spec.access_modes)
    mode = _mode(claim)

    def fits(volume: model.PersistentVolume) -> bool:
        spec = volume.spec
        return (
            _mode(volume) == mode
            and (spec.volume_attributes_class_name or "") == attributes
            and modes.issubset(spec.access_modes)
            and selector.matches(volume.metadata.labels)
        )

    return fits


def _selector(claim: model.PersistentVolumeClaim) -> model.Selector:
    if claim.spec.selector is None:
        return model.EVERYTHING
    try:
        return model.label_selector(claim.spec.selector)
    except ValueError:
        return model.NOTHING  # the API server rejects such a claim


def _mode(volume: model.PersistentVolume | model.PersistentVolumeClaim) -> str:
    return volume.spec.volume_mode or FILESYSTEM


NODE_CONFLICT: Final = 1
BIND_CONFLICT: Final = 2
NOT_ENOUGH_SPACE: Final = 4
NO_SUCH_VOLUME: Final = 8

REASONS: Final = {
    NODE_CONFLICT: "node(s) didn't match PersistentVolume's node affinity",
    BIND_CONFLICT: "node(s) didn't find available persistent volumes to bind",
    NOT_ENOUGH_SPACE: "node(s) did not have enough free storage",
    NO_SUCH_VOLUME: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}
"""By bit of a code, in the order of the message."""

FAILED: Final = 16
"""The code of rows where the search failed for the first reason; one more for each other reason."""


class Claims(NamedTuple):
    """The claims of a pod: bound ones, and those that are bound with the pod."""

    bound: tuple[model.PersistentVolumeClaim, ...]
    waiting: tuple[model.PersistentVolumeClaim, ...]


class Plan(msgspec.Struct):
    """The result for all rows.

    ``codes``: int16, shape (n,), bits of REASONS, or from FAILED on the place of an error in
    ``errors``. ``choices``: claims and the numbers of their volumes in ``volumes``.
    ``provisions``: claims and the rows where a volume is provisioned.
    """

    codes: NDArray[np.int16]
    choices: list[tuple[model.PersistentVolumeClaim, Choice]] = msgspec.field(default_factory=list)
    provisions: list[tuple[model.PersistentVolumeClaim, Mask]] = msgspec.field(default_factory=list)
    volumes: Sequence[model.PersistentVolume] = ()
    errors: list[str] = msgspec.field(default_factory=list)

    def bindings(
        self, row: int
    ) -> list[tuple[model.PersistentVolume, model.PersistentVolumeClaim]]:
        """Return each claim with its volume on a row."""
        return [
            (self.volumes[choice[row]], claim)
            for claim, choice in self.choices
            if choice[row] != NO_VOLUME
        ]

    def describe(self, _rows: NDArray[np.intp], codes: NDArray[np.int16]) -> list[Status]:
        """Return the status of each code that is not 0."""
        return [
            Status(
                Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
                tuple(reason for bit, reason in REASONS.items() if code & bit),
            )
            if code < FAILED
            else Status(Code.ERROR, (self.errors[code - FAILED],))
            for code in codes.tolist()
        ]

    def to_provision(self, row: int) -> list[model.PersistentVolumeClaim]:
        """Return the claims for which a volume is provisioned on a row."""
        return [claim for claim, mask in self.provisions if mask[row]]


def search(claims: Claims, storage: StorageView, n: int) -> Plan:
    """Search volumes on all rows [0, n) for the claims of one pod."""
    plan = Plan(np.zeros(n, np.int16))
    failed = _check_bound(claims.bound, storage, plan)
    if claims.waiting:
        _bind_waiting(claims.waiting, storage, plan)
    for code, rows in enumerate(failed, start=FAILED):
        plan.codes[rows] = code
    return plan


def _check_bound(
    claims: Iterable[model.PersistentVolumeClaim], storage: StorageView, plan: Plan
) -> list[Mask]:
    """Reject rows that cannot reach a bound volume; the first such claim gives the reason.

    Returns the rows on which each of the errors ended the search.
    """
    good: Mask = np.ones(plan.codes.size, np.bool_)
    failed: list[Mask] = []
    for claim in claims:
        volume = storage.volume(claim.spec.volume_name)
        if volume is None:
            plan.codes[good] |= NO_SUCH_VOLUME
            break
        wrong = storage.untranslatable(volume)
        if wrong is not None:
            plan.errors.append(wrong[0])
            failed.append(good & wrong[1])
            good = good & ~wrong[1]
        reached = storage.reach(volume)
        plan.codes[good & ~reached] |= NODE_CONFLICT
        good = good & reached
    return failed


def _bind_waiting(
    claims: Sequence[model.PersistentVolumeClaim], storage: StorageView, plan: Plan
) -> None:
    """Choose a fitting volume for each claim; elsewhere one must be provisioned."""
    n = plan.codes.size
    good: Mask = np.ones(n, np.bool_)
    demands: list[tuple[model.PersistentVolumeClaim, Mask]] = []
    to_match: list[model.PersistentVolumeClaim] = []
    for claim in claims:
        node = claim.metadata.annotations.get(SELECTED_NODE)
        if node is None:
            to_match.append(claim)
        else:
            # A volume is being provisioned for that node, and for no other.
            good = good & storage.row_mask(node)
            demands.append((claim, np.ones(n, np.bool_)))
    plan.codes[~good] |= BIND_CONFLICT
    numbers = Numbers()
    for claim in sorted(to_match, key=size_of):
        taken = [other for _, other in plan.choices]
        choice = choose(claim, storage.offers, taken, numbers, storage.labels)
        if choice is None:
            demands.append((claim, np.ones(n, np.bool_)))
        else:
            plan.choices.append((claim, choice))
            demands.append((claim, choice == NO_VOLUME))
    plan.volumes = numbers.volumes
    for claim, where in demands:
        missing = where & good
        if missing.any():
            good = good & ~_cannot_provide(claim, missing, storage, plan)
            plan.provisions.append((claim, where))


def _cannot_provide(
    claim: model.PersistentVolumeClaim, missing: Mask, storage: StorageView, plan: Plan
) -> Mask:
    """Reject the rows on which no volume can be provisioned, and return them."""
    storage_class = storage.api.storage_class(class_of(claim))
    if storage_class is None or storage_class.provisioner in ("", NO_PROVISIONER):
        plan.codes[missing] |= BIND_CONFLICT
        return missing
    forbidden = missing & ~storage.labels.topologies(storage_class.allowed_topologies)
    plan.codes[forbidden] |= BIND_CONFLICT
    enough = storage.with_capacity(storage_class, claim)
    if enough is None:
        return forbidden
    full = missing & ~forbidden & ~enough
    plan.codes[full] |= NOT_ENOUGH_SPACE
    return forbidden | full
