"""The cluster's storage for the binding search, assumptions included, and pods with volumes.

Theory of operation: in a large cluster nearly every volume is bound, and nearly every pod adds
a volume. So the index has only free and reserved volumes, and is updated by
comparing the list of all volumes with the previous one, item by item; objects are never
changed in place. Assumptions take precedence: an assumed volume is reserved for its claim.

VolumePods keeps the rows of pods with volumes, updated from the journal; most pods have none. It
covers the whole cluster without hypothetical pods; `with_volumes` reads one row of a view.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import count
from operator import is_
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from policy_sched import model
from policy_sched.cluster import ApiObjects, tables
from policy_sched.errors import ClusterError
from policy_sched.framework import Handle
from policy_sched.plugins.volumes import migration
from policy_sched.plugins.volumes.listers import STORAGE, StorageLookup, class_of, namespace_of
from policy_sched.plugins.volumes.node_labels import Mask, NodeLabels

T = TypeVar("T", bound=model.ApiObject)


class AssumeCache(Generic[T]):
    """Objects of one kind, by namespace ("" if cluster-scoped) and name, with assumptions."""

    def __init__(self, kind: type[T], objects: ApiObjects, journal: tables.Journal) -> None:
        self._kind = kind
        self._objects = objects
        self._journal = journal
        self._assumed: dict[tuple[str, str], tuple[T, T]] = {}

    def get(self, namespace: str, name: str) -> T | None:
        """Return the assumed object, else the API server's, else None."""
        stored = self._objects.named(self._kind, namespace, name)
        kept = self._assumed.get((namespace, name))
        if kept is None:
            return stored
        base, assumed = kept
        if base is stored:
            return assumed
        del self._assumed[namespace, name]
        return stored

    def names(self) -> Collection[tuple[str, str]]:
        """Return namespace and name of the assumed objects."""
        for namespace, name in tuple(self._assumed):
            self.get(namespace, name)  # drops an assumption that the watch has superseded
        return self._assumed.keys()

    def all(self) -> list[T]:
        """Return the assumed objects, in the order of the assumptions."""
        return [self._assumed[key][1] for key in self.names()]

    def waits_for_watch(self, namespace: str, name: str) -> bool:
        """Return whether the watch has not delivered the object since it was assumed."""
        return (namespace, name) in self._assumed and self.get(
            namespace, name
        ) is not self._objects.named(self._kind, namespace, name)

    def assume(self, namespace: str, assumed: T) -> None:
        """Assume a changed copy of an object; ClusterError if it is gone."""
        name = assumed.metadata.name
        base = self._objects.named(self._kind, namespace, name)
        if base is None:
            raise ClusterError(f'could not find {self._kind.__name__} "{name}"')
        self._assumed[namespace, name] = (base, assumed)
        self._journal.changed_everything()

    def restore(self, namespace: str, name: str) -> None:
        """Undo an assumption, if there is one."""
        if self._assumed.pop((namespace, name), None) is not None:
            self._journal.changed_everything()


AVAILABLE = "Available"


class Offer(NamedTuple):
    """A free volume; ``size`` in nano-bytes, ``place`` in the list of all volumes.

    ``group`` is the same for volumes that can be reached from the same nodes.
    """

    size: int
    place: int
    volume: model.PersistentVolume
    group: int


class VolumeIndex:
    """Free and reserved volumes, including assumptions."""

    def __init__(self, objects: ApiObjects, assumed: AssumeCache[model.PersistentVolume]) -> None:
        self._objects = objects
        self._assumed = assumed
        self._listed: Sequence[model.PersistentVolume] = ()
        self._clear()

    def _clear(self) -> None:
        self._free: dict[str, dict[int, Offer]] = {}
        self._sorted: dict[str, list[Offer]] = {}
        self._kept: dict[tuple[str, str, str], set[int]] = {}
        self._groups: dict[model.NodeSelector | None, int] = {}

    def kept(self, claim: model.PersistentVolumeClaim) -> list[model.PersistentVolume]:
        """Return the volumes of the claim's class that are reserved for it, in order of the list.

        A volume with another UID is reserved for a former claim of that name.
        """
        self._refresh()
        key = (class_of(claim), namespace_of(claim), claim.metadata.name)
        kept = [self._listed[i] for i in sorted(self._kept.get(key, ()))]
        volumes = [self._assumed.get("", volume.metadata.name) or volume for volume in kept]
        names = {volume.metadata.name for volume in volumes}
        volumes += [
            volume
            for volume in self._assumed.all()
            if class_of(volume) == key[0] and volume.metadata.name not in names
        ]
        return [volume for volume in volumes if kept_for(volume, claim)]

    def free(self, class_name: str, size: int) -> list[Offer]:
        """Return the free volumes of a class that are large enough, the smallest first."""
        self._refresh()
        offers = self._sorted.get(class_name)
        if offers is None:
            # Of two volumes of candidate size kube-scheduler takes the first.
            offers = sorted(self._free.get(class_name, {}).values(), key=lambda o: o[:2])
            self._sorted[class_name] = offers
        fitting = offers[bisect_left(offers, size, key=lambda offer: offer.size) :]
        taken = self._assumed.names()
        if not taken:
            return fitting
        return [
            candidate for candidate in fitting if ("", candidate.volume.metadata.name) not in taken
        ]

    def _refresh(self) -> None:
        listed, before = self._objects.of(model.PersistentVolume), self._listed
        if listed is before:  # every change makes a new list
            return
        self._listed = listed
        changed = [i for i, same in zip(count(), map(is_, before, listed)) if not same]
        moved = any(before[i].metadata.name != listed[i].metadata.name for i in changed)
        if moved or len(listed) < len(before):
            self._clear()
            changed, before = [], ()
        for index in changed:
            self._drop(index, before[index])
            self._add(index, listed[index])
        for index in range(len(before), len(listed)):
            self._add(index, listed[index])

    def _drop(self, index: int, volume: model.PersistentVolume) -> None:
        name = class_of(volume)
        if self._free.get(name, {}).pop(index, None) is not None:
            self._sorted.pop(name, None)
        reference = volume.spec.claim_ref
        if reference is not None:
            self._kept.get((name, reference.namespace, reference.name), set()).discard(index)

    def _add(self, index: int, volume: model.PersistentVolume) -> None:
        if volume.metadata.deletion_timestamp is not None:
            return
        name, reference = class_of(volume), volume.spec.claim_ref
        if reference is not None:
            key = (name, reference.namespace, reference.name)
            self._kept.setdefault(key, set()).add(index)
        elif volume.status.phase == AVAILABLE:
            group = self._groups.setdefault(selector_of(volume), len(self._groups))
            offer = Offer(size_of(volume), index, volume, group)
            self._free.setdefault(name, {})[index] = offer
            self._sorted.pop(name, None)


def selector_of(volume: model.PersistentVolume) -> model.NodeSelector | None:
    """Return the node affinity of a volume, None without one."""
    affinity = volume.spec.node_affinity
    return affinity.required if affinity is not None else None


def size_of(volume: model.PersistentVolume | model.PersistentVolumeClaim) -> int:
    """Return a volume's capacity or a claim's request in nano-bytes; 0 without one."""
    if isinstance(volume, model.PersistentVolume):
        return model.nanos(volume.spec.capacity.get(STORAGE, 0))
    return model.nanos(volume.spec.resources.requests.get(STORAGE, 0))


def kept_for(volume: model.PersistentVolume, claim: model.PersistentVolumeClaim) -> bool:
    """Return whether a volume is bound to a claim, or reserved for it by name."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and (reference.name, reference.namespace) == (claim.metadata.name, namespace_of(claim))
        and reference.uid in ("", claim.metadata.uid)
    )


class VolumePods:
    """The pods on live rows whose ``volumes`` are not None."""

    def __init__(self, table: tables.NodeTable) -> None:
        self._table = table
        self._version = -1
        self._rows: dict[int, tuple[model.PodInfo, ...]] = {}
        self._claims: Counter[tuple[str, str]] = Counter()
        self._owners: dict[tuple[str, str], dict[str, tuple[int, model.PodInfo]]] = {}
        self._moved: set[tuple[str, str]] = set()
        self._sizes: NDArray[np.int64] = np.zeros(0, np.int64)

    def rows(self) -> Iterable[tuple[int, Sequence[model.PodInfo]]]:
        """Return the rows with such pods, and the pods."""
        self._refresh()
        return self._rows.items()

    def sizes(self) -> NDArray[np.int64]:
        """Return the number of claims and disks of the pods on each row, shape (n,)."""
        self._refresh()
        return self._sizes[: self._table.n]

    def uses(self, namespace: str, claim: str) -> int:
        """Return how many volumes of pods use a claim."""
        self._refresh()
        return self._claims[namespace, claim]

    def owners(self, claim: tuple[str, str]) -> Collection[tuple[int, model.PodInfo]]:
        """Return the pods, with their rows, that use a claim (namespace, name) as ephemeral.

        They are those of the last look at the rows; see `moved_claims`.
        """
        return self._owners.get(claim, {}).values()

    def moved_claims(self) -> set[tuple[str, str]]:
        """Return the ephemeral claims of pods that came or left since the last call."""
        self._refresh()
        moved, self._moved = self._moved, set()
        return moved

    def _refresh(self) -> None:
        journal = self._table.journal
        if self._version == journal.version:
            return
        n = self._table.n
        changes = journal.since(self._version) if self._version >= 0 else None
        if self._sizes.size < n:
            self._sizes = np.concatenate([self._sizes, np.zeros(n, np.int64)])
        for row in range(n) if changes is None else changes.rows:
            if row < n:  # a change of all rows may come before the first row
                self._read(row)
        self._version = journal.version

    def _read(self, row: int) -> None:
        before = self._rows.pop(row, ())
        now = tuple(with_volumes(self._table, row))
        if not before and not now:
            return
        for pod in before:
            for claim in _names(pod, ephemeral=True):
                self._owners.get(claim, {}).pop(pod.uid, None)
                if not self._owners.get(claim):
                    self._owners.pop(claim, None)
                self._moved.add(claim)
        for pod in now:
            for claim in _names(pod, ephemeral=True):
                self._owners.setdefault(claim, {})[pod.uid] = row, pod
                self._moved.add(claim)
        for pod in now:
            self._claims.update(_names(pod))
        for claim in (claim for pod in before for claim in _names(pod)):
            self._claims[claim] -= 1
            if not self._claims[claim]:
                del self._claims[claim]
        self._sizes[row] = sum(map(_size, now))
        if now:
            self._rows[row] = now


def with_volumes(nodes: tables.NodeView, row: int) -> list[model.PodInfo]:
    """Return the pods with volumes on a row."""
    return [pod for pod in nodes.pods_on(row).values() if pod.volumes is not None]


def _names(pod: model.PodInfo, *, ephemeral: bool = False) -> list[tuple[str, str]]:
    volumes = pod.volumes
    assert volumes is not None, "the index has only pods with volumes"
    if ephemeral and not volumes.owner:  # most pods
        return []
    return [(volumes.namespace, use.name) for use in volumes.claims if use.ephemeral == ephemeral]


def _size(pod: model.PodInfo) -> int:
    assert pod.volumes is not None, "the index has only pods with volumes"
    return len(pod.volumes.claims) + len(pod.volumes.disks)


class StorageView:
    """Claims and volumes as assumed, and the nodes that can reach or provision volumes.

    ``api`` has no assumptions. ``offers`` are the free and reserved volumes.
    """

    def __init__(self, handle: Handle) -> None:
        self._table = handle.nodes
        self._objects = handle.objects
        self.api = StorageLookup(handle.objects)
        self.labels = NodeLabels(handle.nodes)
        journal = handle.nodes.journal
        self.assumed_claims = AssumeCache(model.PersistentVolumeClaim, handle.objects, journal)
        self.assumed_volumes = AssumeCache(model.PersistentVolume, handle.objects, journal)
        self.offers = VolumeIndex(handle.objects, self.assumed_volumes)

    def claim(self, namespace: str, name: str) -> model.PersistentVolumeClaim | None:
        """Return a claim as assumed."""
        return self.assumed_claims.get(namespace, name)

    def volume(self, name: str) -> model.PersistentVolume | None:
        """Return a volume as assumed."""
        return self.assumed_volumes.get("", name)

    def row_mask(self, node: str) -> Mask:
        """Return the mask of one node, empty if there is no such node."""
        mask = np.zeros(self._table.n, np.bool_)
        row = self._table.row_of.get(node)
        if row is not None:
            mask[row] = True
        return mask

    def reach(self, volume: model.PersistentVolume) -> Mask:
        """Return the rows that reach a volume.

        An in-tree volume has the affinity of its CSI driver on nodes whose kubelet migrated the
        plugin.
        """
        plain = self.labels.affinity(selector_of(volume))
        migrated_from = migration.in_tree(volume)
        if migrated_from is None:
            return plain
        migrated = self._migrated(migrated_from[0])
        if not migrated.any():
            return plain
        moved = self.labels.affinity(migration.translated_affinity(volume, migrated_from[0]))
        mask: Mask = np.where(migrated, moved, plain)
        return mask

    def untranslatable(self, volume: model.PersistentVolume) -> tuple[str, Mask] | None:
        """Return why an in-tree volume is none of its CSI driver's, and the rows that ask for that.

        None if it can be translated. The rows are those whose kubelet migrated the plugin.
        """
        migrated_from = migration.in_tree(volume)
        if migrated_from is None:
            return None
        plugin, disk = migrated_from
        try:
            plugin.handle(disk, volume.metadata.labels)
        except ValueError as error:
            return f"could not translate pv: {error}", self._migrated(plugin)
        return None

    def with_capacity(
        self, storage_class: model.StorageClass, claim: model.PersistentVolumeClaim
    ) -> Mask | None:
        """Return the topologies with capacity for a claim; None if the driver publishes none."""
        requested = claim.spec.resources.requests.get(STORAGE)
        driver = self._objects.named(model.CsiDriver, "", storage_class.provisioner)
        if requested is None or driver is None or not driver.spec.storage_capacity:
            return None
        size = model.quantity(requested).value()
        mask = np.zeros(self._table.n, np.bool_)
        for capacity in self._objects.of(model.CsiStorageCapacity):
            if capacity.storage_class_name == storage_class.metadata.name:
                limit = largest_volume(capacity)
                if limit is not None and model.quantity(limit).value() >= size:
                    mask |= self.labels.selected(capacity.node_topology)
        return mask

    def _migrated(self, plugin: migration.InTree) -> Mask:
        mask = np.zeros(self._table.n, np.bool_)
        for node in self._objects.of(model.CsiNode):
            row = self._table.row_of.get(node.metadata.name)
            if row is not None and migration.knows_migration(node, plugin.plugin):
                mask[row] = True
        return mask


def largest_volume(capacity: model.CsiStorageCapacity) -> model.Amount | None:
    """Return the size of the largest possible volume; the volume limit takes precedence."""
    limit = capacity.maximum_volume_size
    return capacity.capacity if limit is None else limit


TOPOLOGY_LABELS: Final[Mapping[str, str]] = {
    migration.BETA_ZONE: model.ZONE,
    migration.BETA_REGION: migration.REGION,
    model.ZONE: model.ZONE,
    migration.REGION: migration.REGION,
}
"""Zone and region labels of volumes and nodes, and the current name of each."""


class Topology(NamedTuple):
    """A node label and its allowed values."""

    key: str
    values: frozenset[str]


def topologies_of(volume: model.PersistentVolume) -> list[Topology]:
    """Return the topology that a volume's labels require; an empty zone is ignored."""
    required = []
    for key in TOPOLOGY_LABELS:
        value = volume.metadata.labels.get(key)
        if value is None:
            continue
        values = frozenset(part.strip() for part in value.split(migration.ZONE_SEPARATOR))
        if "" not in values:
            required.append(Topology(key, values))
    return required


#: Sources whose disks are checked; other inline disks never conflict.
EXCLUSIVE: Final = frozenset({"gce_persistent_disk", "aws_elastic_block_store", "iscsi", "rbd"})


def has_exclusive_disk(volumes: model.PodVolumes) -> bool:
    """Return whether a pod has a disk that could conflict with another pod's."""
    return any(disk.source in EXCLUSIVE for disk in volumes.disks)


def pods_conflict(wanted: model.PodVolumes, held: model.PodVolumes) -> bool:
    """Return whether a disk of one pod excludes another pod from its node."""
    return any(_same_disk(disk, other) for disk in wanted.disks for other in held.disks)


def _same_disk(disk: model.InlineDisk, other: model.InlineDisk) -> bool:
    """Return whether two volumes are one disk that is not read-only in both.

    EBS volumes conflict even then.
    """
    if disk.source != other.source or disk.source not in EXCLUSIVE:
        return False
    if disk.source == "aws_elastic_block_store":
        return _volume_id(disk) == _volume_id(other)
    if disk.disk.read_only and other.disk.read_only:
        return False
    match disk.disk, other.disk:
        case model.DiskVolume() as a, model.DiskVolume() as b:
            return a.pd_name == b.pd_name
        case model.IscsiVolume() as a, model.IscsiVolume() as b:
            return a.iqn == b.iqn
        case model.RbdVolume() as a, model.RbdVolume() as b:
            same_image = (a.pool, a.image) == (b.pool, b.image)
            return same_image and not set(a.monitors).isdisjoint(b.monitors)
    return False


def _volume_id(disk: model.InlineDisk) -> str:
    assert isinstance(disk.disk, model.DiskVolume), "an EBS volume has an id"
    return disk.disk.volume_id
