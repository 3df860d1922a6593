"""Static binding: the smallest volume that a claim can have, on every node at once.

Theory of operation: what a volume is (class, size, modes, labels) is the same on every node and
is looked at once; where it can be reached is an array. Going through the volumes from the smallest
on, each is given to the rows that reach it and have none yet, nor gave it to another claim of the
pod. The facts are those of component-helpers' FindMatchingVolume.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policy_sched.model.quantity import nanos
from policy_sched.model.selectors import EVERYTHING, NOTHING, Selector, label_selector
from policy_sched.model.storage import PersistentVolume, PersistentVolumeClaim
from policy_sched.plugins.volumes.lookup import STORAGE, class_of, namespace_of
from policy_sched.plugins.volumes.node_labels import Mask, NodeLabels

Choice = NDArray[np.int32]
"""Per row the index of a volume in `Volumes.all`, or NO_VOLUME; shape (n,)."""

NO_VOLUME: Final = -1
AVAILABLE: Final = "Available"
FILESYSTEM: Final = "Filesystem"


class Volumes:
    """The volumes that the claims of one pod can be given, by class; ``all`` numbers them."""

    def __init__(self, find: Callable[[str], Iterable[PersistentVolume]]) -> None:
        self._find = find
        self._classes: dict[str, list[tuple[int, PersistentVolume]]] = {}
        self.all: list[PersistentVolume] = []

    def of_class(self, name: str) -> Sequence[tuple[int, PersistentVolume]]:
        """Return the volumes of a class with their numbers."""
        found = self._classes.get(name)
        if found is None:
            found = list(enumerate(self._find(name), start=len(self.all)))
            self.all += [volume for _, volume in found]
            self._classes[name] = found
        return found


def size_of(one: PersistentVolume | PersistentVolumeClaim) -> int:
    """Return a volume's capacity or a claim's request in nano-bytes; 0 if it does not say."""
    if isinstance(one, PersistentVolume):
        return nanos(one.spec.capacity.get(STORAGE, 0))
    return nanos(one.spec.resources.requests.get(STORAGE, 0))


def choose(
    claim: PersistentVolumeClaim, volumes: Volumes, taken: Sequence[Choice], labels: NodeLabels
) -> Choice | None:
    """Return which volume the claim gets on each row; None if it gets none anywhere.

    ``taken``: the choices for the pod's other claims. A volume that is kept for this very claim
    is the only one, on the nodes that reach it.
    """
    wanted = size_of(claim)
    candidates: list[tuple[int, int, PersistentVolume]] = []
    fits = _fits(claim)
    for number, volume in volumes.of_class(class_of(claim)):
        if _mode(claim) != _mode(volume) or volume.metadata.deletion_timestamp is not None:
            continue
        size = size_of(volume)
        if size < wanted:
            continue
        if kept_for(volume, claim):
            return _first([(number, volume)], (), labels)
        if fits(volume):
            candidates.append((size, number, volume))
    if not candidates:
        return None
    # Of two volumes of one size the first is taken, as kube-scheduler takes it from its list.
    candidates.sort(key=lambda one: one[:2])
    return _first([(number, volume) for _, number, volume in candidates], taken, labels)


def kept_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Tell whether a volume is bound to a claim, or kept for it by name."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and (reference.name, reference.namespace) == (claim.metadata.name, namespace_of(claim))
        and reference.uid in ("", claim.metadata.uid)
    )


def _first(
    candidates: Iterable[tuple[int, PersistentVolume]], taken: Sequence[Choice], labels: NodeLabels
) -> Choice | None:
    choice: Choice | None = None
    for number, volume in candidates:
        affinity = volume.spec.node_affinity
        reached: Mask = labels.affinity(affinity.required if affinity else None)
        for other in taken:
            reached = reached & (other != number)
        if choice is None:
            choice = np.full(reached.size, NO_VOLUME, np.int32)
        choice[reached & (choice == NO_VOLUME)] = number
        if affinity is None and not (choice == NO_VOLUME).any():
            break
    if choice is None or not (choice != NO_VOLUME).any():
        return None
    return choice


def _fits(claim: PersistentVolumeClaim) -> Callable[[PersistentVolume], bool]:
    """Return the test of a volume that is nobody's yet, but for size, mode and place."""
    selector = _selector(claim)
    attributes = claim.spec.volume_attributes_class_name or ""
    modes = set(claim.spec.access_modes)

    def fits(volume: PersistentVolume) -> bool:
        spec = volume.spec
        return (
            volume.status.phase == AVAILABLE
            and spec.claim_ref is None
            and selector.matches(volume.metadata.labels)
            and (spec.volume_attributes_class_name or "") == attributes
            and modes.issubset(spec.access_modes)
        )

    return fits


def _selector(claim: PersistentVolumeClaim) -> Selector:
    if claim.spec.selector is None:
        return EVERYTHING
    try:
        return label_selector(claim.spec.selector)
    except ValueError:
        return NOTHING  # the API server refuses such a claim


def _mode(one: PersistentVolume | PersistentVolumeClaim) -> str:
    return one.spec.volume_mode or FILESYSTEM
