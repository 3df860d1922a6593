"""Static binding: the smallest volume that a claim can have, on every node at once.

Theory of operation: what a volume is (class, size, modes, labels) is the same on every node and
is looked at once. Of the volumes that fit, from the smallest on, each is written to the rows that
reach it, the later ones first, so that the smallest stands in the end. Volumes that are reached
from the same nodes stand in for each other: only as many of them are looked at as the pod's other
claims could have taken, and one more. The facts are those of component-helpers'
FindMatchingVolume.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from policy_sched.model import (
    EVERYTHING,
    NOTHING,
    PersistentVolume,
    PersistentVolumeClaim,
    Selector,
    label_selector,
)
from policy_sched.plugins.volumes.listers import class_of
from policy_sched.plugins.volumes.node_labels import NodeLabels
from policy_sched.plugins.volumes.volume_index import Offer, selector_of, size_of

Choice = NDArray[np.int32]
"""Per row the number of a volume in `Numbers`, or NO_VOLUME; shape (n,)."""

NO_VOLUME: Final = -1
FILESYSTEM: Final = "Filesystem"


class Offers(Protocol):
    """The volumes that there are."""

    def kept(self, claim: PersistentVolumeClaim) -> Sequence[PersistentVolume]:
        """Return the volumes that are kept for a claim."""

    def free(self, class_name: str, size: int) -> Iterable[Offer]:
        """Return the free volumes of a class that are large enough, the smallest first."""


class Numbers:
    """Numbers the volumes that the claims of one pod may get; ``volumes`` is by number."""

    def __init__(self) -> None:
        self.volumes: list[PersistentVolume] = []
        self._numbers: dict[str, int] = {}

    def of(self, volume: PersistentVolume) -> int:
        """Return the number of a volume, a new one if it has none."""
        number = self._numbers.setdefault(volume.metadata.name, len(self.volumes))
        if number == len(self.volumes):
            self.volumes.append(volume)
        return number


def choose(
    claim: PersistentVolumeClaim,
    offers: Offers,
    taken: Sequence[Choice],
    numbers: Numbers,
    labels: NodeLabels,
) -> Choice | None:
    """Return which volume the claim gets on each row; None if it gets none anywhere.

    ``taken``: the choices for the pod's other claims. A volume that is kept for this very claim
    is the only one, on the nodes that reach it.
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
        number = numbers.of(offer.volume)
        rows = labels.rows(selector_of(offer.volume))
        for other in taken:
            rows = rows[other[rows] != number]
        reached.append(rows)
        given.append(number)
    return _spread(reached, given, labels.n)


def _spread(rows: Sequence[NDArray[np.intp]], numbers: Sequence[int], n: int) -> Choice | None:
    """Return for each row the first number whose rows it is among."""
    where = np.concatenate(rows) if rows else np.empty(0, np.intp)
    if not where.size:
        return None
    values = np.repeat(np.array(numbers, np.int32), [one.size for one in rows])
    choice = np.full(n, NO_VOLUME, np.int32)
    choice[where[::-1]] = values[::-1]  # of several values for one row the last one stays
    return choice


def _fits(claim: PersistentVolumeClaim) -> Callable[[PersistentVolume], bool]:
    """Return the test of a free volume of the claim's class that is large enough."""
    selector = _selector(claim)
    attributes = claim.spec.volume_attributes_class_name or ""
    modes = set(claim.spec.access_modes)
    mode = _mode(claim)

    def fits(volume: PersistentVolume) -> bool:
        spec = volume.spec
        return (
            _mode(volume) == mode
            and (spec.volume_attributes_class_name or "") == attributes
            and modes.issubset(spec.access_modes)
            and selector.matches(volume.metadata.labels)
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
