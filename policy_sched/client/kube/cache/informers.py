"""Informers: all collections that a scheduler reads, watched concurrently, delivered in one order.

Theory of operation. Each kind has a reflector; what they tell is kept until `drain` hands it on,
so nothing changes while a pod is being decided. Until every collection has been read once nothing
is handed on, and then pods come last: a handler of a pod has seen its node, its volumes
and its owners. After that changes come in the order in which they arrived.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from policy_sched.client.apimachinery import GROUP, POD, ApiError
from policy_sched.client.kube.cache.reflector import (
    Reflector,
    ReflectorSettings,
    Trouble,
    ignore_trouble,
)
from policy_sched.client.kube.cache.store import Change
from policy_sched.client.kube.rest import NOT_FOUND, Api, Malformed, Selection, version_path
from policy_sched.model import KINDS, ApiObject, CustomObject, Kind, Pod

READ: Final[tuple[Selection, ...]] = (
    Selection(("v1", "Node")),
    Selection(("v1", "Namespace")),
    Selection(("v1", "Service")),
    Selection(("v1", "ReplicationController")),
    Selection(("apps/v1", "ReplicaSet")),
    Selection(("apps/v1", "StatefulSet")),
    Selection(("v1", "PersistentVolume")),
    Selection(("v1", "PersistentVolumeClaim")),
    Selection(("storage.k8s.io/v1", "StorageClass")),
    Selection(("storage.k8s.io/v1", "CSINode")),
    Selection(("storage.k8s.io/v1", "CSIDriver")),
    Selection(("storage.k8s.io/v1", "CSIStorageCapacity")),
    Selection(("storage.k8s.io/v1", "VolumeAttachment")),
    Selection(("resource.k8s.io/v1", "ResourceClaim")),
    Selection(("resource.k8s.io/v1", "ResourceSlice")),
    Selection(("resource.k8s.io/v1", "DeviceClass")),
    Selection(("policy/v1", "PodDisruptionBudget")),
    Selection(POD, field_selector="status.phase!=Succeeded,status.phase!=Failed"),
)
"""What profiles may read; kinds that a server does not serve are empty."""

POD_GROUPS: Final = (Selection(GROUP), Selection(("scheduling.x-k8s.io/v1alpha1", "PodGroup")))
"""What is read, too, where a feature gate or a policy is about pod groups."""


class _Served(msgspec.Struct):
    """What discovery says of one resource, or of one version of a group."""

    kind: str = ""
    name: str = ""
    verbs: tuple[str, ...] = ()
    group_version: str = msgspec.field(default="", name="groupVersion")


class _Group(msgspec.Struct):
    versions: tuple[_Served, ...] = ()


class _Groups(msgspec.Struct):
    groups: tuple[_Group, ...] = ()


class _Resources(msgspec.Struct):
    resources: tuple[_Served, ...] = ()


async def discover(api: Api, kinds: Collection[Kind]) -> dict[Kind, Selection]:
    """Return how kinds are read that the server serves, by the names that discovery gives.

    The groups are asked for first, so that no request is about something that is not there.
    Raises ClusterError.
    """
    served: dict[Kind, Selection] = {}
    versions = {"v1"}
    if any("/" in version for version, _ in kinds):
        groups = await _asked(api, "/apis", _Groups)
        versions |= {version.group_version for group in groups.groups for version in group.versions}
    for version in sorted({version for version, _ in kinds} & versions):
        try:
            listed = await _asked(api, version_path(version), _Resources)
        except ApiError as error:
            if error.code == NOT_FOUND:
                continue  # it went in between
            raise
        for resource in listed.resources:
            kind = version, resource.kind
            # a name with a slash is that of a subresource
            if kind in kinds and "/" not in resource.name and "list" in resource.verbs:
                served[kind] = Selection(kind, plural=resource.name)
    return served


_Answer = TypeVar("_Answer")


async def _asked(api: Api, path: str, form: type[_Answer]) -> _Answer:
    try:
        return msgspec.json.decode(await api.get(path), type=form)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"discovery at {path} that cannot be read: {error}") from None


def selections_of(kinds: Collection[Kind]) -> tuple[Selection, ...]:
    """Return how these kinds are read, nodes first and pods last; `discover` knows all others."""
    return tuple(
        selection for selection in (*READ[:-1], *POD_GROUPS, READ[-1]) if selection.kind in kinds
    )


DECISIVE: Final = frozenset({("v1", "Node"), POD})
"""Kinds without whose changes a node could be filled twice."""
Tell = Callable[[Change[Any]], None]


def nothing() -> None:
    """Do nothing."""


def never() -> bool:
    """Resume."""
    return False


class Informers:
    """Follows selections. ``run`` it as a task.

    ``wake`` is called when there is something new that a decision may wait for, ``wake_later`` when
    it is that a pod got its node, which is so for each binding of our own.
    """

    def __init__(
        self,
        api: Api,
        selections: Iterable[Selection] = READ,
        *,
        settings: ReflectorSettings | None = None,
        trouble: Trouble = ignore_trouble,
        wake: Callable[[], None] = nothing,
        wake_later: Callable[[], None] | None = None,
    ) -> None:
        self._structs: Mapping[Kind, type[ApiObject]] = {}
        self._wake, self._wake_later = wake, wake_later or wake
        self._tasks: asyncio.TaskGroup | None = None
        self._running: dict[Kind, asyncio.Task[None]] = {}
        self._waiting: deque[Change[Any]] = deque()
        self._synced = False
        self._handed = 0
        self._mark = 0
        self._reflector = partial(
            Reflector[Any], api, changed=self._changed, settings=settings, trouble=trouble
        )
        self.reflectors: tuple[Reflector[Any], ...] = tuple(map(self._following, selections))
        self._decisive = tuple(r for r in self.reflectors if r.selection.kind in DECISIVE)
        self._unlisted: list[Reflector[Any]] = []

    def follow(self, selections: Sequence[Selection]) -> None:
        """Read these from now on; pods stay the last one.

        Nothing counts as followed until each new one has been listed and handed on. What was read
        before and is not any more goes on, but nothing waits for it; `stop` ends that.
        """
        self.begin(selections)
        kinds = {selection.kind for selection in selections}
        unlisted = [reflector for reflector in self.reflectors if not reflector.synced.is_set()]
        self._unlisted = [reflector for reflector in unlisted if reflector.selection.kind in kinds]
        self._mark = self.mark()

    def begin(self, selections: Iterable[Selection]) -> list[Reflector[Any]]:
        """Read these, too; nothing waits for them. Return what reads those that are new."""
        followed = {reflector.selection.kind for reflector in self.reflectors}
        new = [
            self._following(selection) for selection in selections if selection.kind not in followed
        ]
        self.reflectors = (*self.reflectors[:-1], *new, *self.reflectors[-1:])
        if new and self._tasks is not None:
            for reflector in new:
                self._run(reflector)
            self._tasks.create_task(self._wake_when_synced(new))
        return new

    def stop(self, kinds: Collection[Kind]) -> None:
        """Read these kinds no more, and hand nothing of them on."""
        self.reflectors = tuple(
            reflector for reflector in self.reflectors if reflector.selection.kind not in kinds
        )
        self._unlisted = [
            reflector for reflector in self._unlisted if reflector.selection.kind not in kinds
        ]
        for kind in kinds:
            if kind in self._running:
                self._running.pop(kind).cancel()
        left = [c for c in self._waiting if (c.object.api_version, c.object.kind) not in kinds]
        self._handed += len(self._waiting) - len(left)
        self._waiting = deque(left)

    def decode(self, structs: Mapping[Kind, type[ApiObject]]) -> None:
        """Decode kinds as these from now on, which are read anew for that; `follow` waits."""
        self._structs = structs
        for reflector in self.reflectors:
            changed = reflector.decode_as(self._struct(reflector.selection.kind))
            if changed and self._tasks is not None:
                self._running.pop(reflector.selection.kind).cancel()
                self._run(reflector)
                self._tasks.create_task(self._wake_when_synced((reflector,)))

    def _struct(self, kind: Kind) -> type[ApiObject]:
        return self._structs.get(kind) or KINDS.get(kind, CustomObject)

    def _run(self, reflector: Reflector[Any]) -> None:
        assert self._tasks is not None, "informers run"
        self._running[reflector.selection.kind] = self._tasks.create_task(reflector.run())

    def _following(self, selection: Selection) -> Reflector[Any]:
        reflector = self._reflector(selection, self._struct(selection.kind))
        reflector.on_following = self._following_again
        if selection.kind == POD and self._wake_later is not self._wake:
            reflector.held_back = self._wake_later
        return reflector

    @property
    def synced(self) -> bool:
        """Whether every collection has been read once."""
        if not self._synced and all(reflector.synced.is_set() for reflector in self.reflectors):
            self._synced = True
            pods_last = sorted(self._waiting, key=lambda c: c.object.kind == POD[1])
            self._waiting = deque(pods_last)
        return self._synced

    @property
    def following(self) -> bool:
        """Whether changes of nodes and of pods reach us: decisions need to know what is taken.

        What came to light when a watch was mended must have been handed on, and what was listed of
        kinds that are read since a reload.
        """
        if self._unlisted:
            self._unlisted = [
                reflector for reflector in self._unlisted if not reflector.synced.is_set()
            ]
            if self._unlisted:
                return False
            self._mark = self.mark()
        if not self.past(self._mark):
            return False
        for reflector in self._decisive:  # noqa: SIM110 - asked for each pod, without a generator
            if not reflector.following:
                return False
        return True

    @property
    def behind(self) -> bool:
        """Whether there is something to hand on."""
        return bool(self._waiting) and self.synced

    async def run(self) -> None:
        """Follow all collections until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for reflector in self.reflectors:
                self._run(reflector)
            tasks.create_task(self._wake_when_synced(self.reflectors))

    def drain(self, tell: Tell, limit: int, over: Callable[[], bool] = never) -> int:
        """Hand on at most so many changes, and no more once it is ``over``; return how many."""
        self._take_held()
        if not self.synced:
            return 0
        waiting = self._waiting
        count = min(limit, len(waiting))
        for done in range(count):
            if over():
                return done
            self._handed += 1
            tell(waiting.popleft())
        return count

    def mark(self) -> int:
        """Return a mark behind what has come by now."""
        self._take_held()
        return self._handed + len(self._waiting)

    def _take_held(self) -> None:
        for reflector in self._decisive:
            reflector.take_held()

    def past(self, mark: int) -> bool:
        """Return whether all before a mark has been handed on."""
        return self._handed >= mark

    def objects(self, kind: Kind) -> Iterator[Any]:
        """Yield the objects of a kind, as the mirrors have them."""
        for reflector in self.reflectors:
            if reflector.selection.kind == kind:
                yield from reflector.mirror

    def unread(self) -> dict[str, list[str]]:
        """Return the names of the objects that cannot be read, by kind."""
        unread: dict[str, list[str]] = {}
        for reflector in self.reflectors:
            names = ["/".join(filter(None, key)) for key in reflector.unread]
            if names:
                unread.setdefault(reflector.selection.kind[1], []).extend(sorted(names))
        return unread

    async def _wake_when_synced(self, reflectors: Iterable[Reflector[Any]]) -> None:
        for reflector in reflectors:
            await reflector.synced.wait()
        self._wake()

    def _following_again(self) -> None:
        self._mark = self.mark()
        self._wake()

    def _changed(self, changes: Sequence[Change[Any]]) -> None:
        self._waiting.extend(changes)
        if self._synced:
            wake = self._wake_later if all(map(_has_its_node, changes)) else self._wake
            wake()


def _has_its_node(change: Change[Any]) -> bool:
    new = change.new
    return change.old is not None and isinstance(new, Pod) and bool(new.spec.node_name)
