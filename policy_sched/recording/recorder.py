"""The recorder: what comes and goes in a cluster, and what is decided, written as lines.

Theory of operation. The recorder knows all objects as they were when it was told of them last, so
it is told of the new state alone: what does not differ is no line, and what does is a line with the
fields that differ. A pod that comes is mostly like others of its owner, so its spec and its labels
are numbers of lines that came before. It does not wait and has no clock: each call has its time,
and `flush` writes what is due.

Where a file cannot be written, its segment ends there. Objects are followed all the same, lines
are counted as lost, and from time to time a new segment is tried, which begins with a snapshot.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import msgspec
from msgspec.structs import replace

from policy_sched import model
from policy_sched.errors import PolicySchedError
from policy_sched.manifests import custom_data
from policy_sched.recording import lines
from policy_sched.recording.events import Decided, RecordedPolicies
from policy_sched.recording.field_changes import find_differences
from policy_sched.recording.reduction import ANNOTATIONS, reduced, with_sources, without_messages
from policy_sched.recording.segments import FolderLock, SegmentFile, Write, numbers_in, segment_path
from policy_sched.source import write_file

LARGEST: Final = 64 << 20
"""Bytes of a segment at which the next one begins."""
HOUR: Final = 3600 * model.SECOND
DAY: Final = 24 * HOUR
PAUSE: Final = 15 * model.SECOND
"""Nanoseconds after which a new segment is tried where none could be written."""
LINES: Final = 512
"""Lines that are written together at most."""
PARTS: Final = 4096
"""Specs, and metadata, that have a number at a time."""

_POD_FORMS: Final = {"spec.volumes": with_sources, "status.conditions": without_messages}
_PENDING: Final = "PodScheduled"
_EVICTED: Final = "DisruptionTarget"
_encode = msgspec.json.Encoder().encode


def _alone(objects: Iterable[model.ApiObject]) -> list[model.ApiObject]:
    """Return objects as they are."""
    return list(objects)


@dataclass(frozen=True, slots=True)
class Kept:
    """What is recorded of a cluster.

    ``annotations``: further ones that are kept. ``inputs``: further kinds, whose objects are kept
    whole. ``renamed``: replaces names in reduced objects.
    """

    annotations: Collection[str] = ()
    inputs: Collection[model.Kind] = ()
    renamed: Callable[[Iterable[model.ApiObject]], list[model.ApiObject]] = _alone


class _Known:
    """An object that is there: its number, and the object as it came, or its reduced form.

    ``told``: the last decision about a pod that the recorder was told of.
    """

    __slots__ = ("number", "object", "told")

    def __init__(self, number: int, thing: Any) -> None:
        self.number, self.object = number, thing
        self.told: Decided | None = None


_Place = tuple[str, ...]


@dataclass(slots=True)
class _Written:
    """The state of the segment that is written."""

    file: SegmentFile
    number: int
    began: int
    specs: dict[bytes, int] = field(default_factory=dict)
    metas: dict[bytes, int] = field(default_factory=dict)


def _ignore(_reason: str) -> None:
    """Ignore the trouble."""


class Recorder:
    """Writes a recording into ``folder``, which is made if it is not there.

    ``trouble`` is called with the reason when writing begins to fail, and with "" when it goes on.
    The constructor raises PolicySchedError where another process records there, and OSError.
    """

    def __init__(
        self,
        folder: str | Path,
        kept: Kept | None = None,
        trouble: Callable[[str], None] = _ignore,
        write: Write = os.write,
        largest: int = LARGEST,
    ) -> None:
        self.folder = Path(folder)
        self.kept = kept or Kept()
        self.bytes = 0
        """Bytes of all files so far, without the segment that is written."""
        self.lost = 0
        """Lines that could not be written."""
        self.written = 0
        """Lines that were written."""
        self._annotations = ANNOTATIONS.union(self.kept.annotations)
        self.trouble, self._write, self._largest = trouble, write, largest
        self._lock = FolderLock(self.folder)
        numbers = numbers_in(self.folder)
        self._number = numbers[-1] if numbers else 0
        """Of the segment that was begun last."""
        self._after = 0
        """The number of the segment that the next one continues."""
        self._told_lost = 0
        self._segment: _Written | None = None
        self._failing = False
        self._again = 0
        self._snapshot_at = 0
        self._last = 0
        self._due = 0
        self._lines: list[bytes] = []
        self._pods: dict[_Place, _Known] = {}
        self._others: dict[_Place, _Known] = {}
        self._next = 0
        self._policies = ""

    # What is told.

    def begin(self, time: int, objects: Iterable[model.ApiObject]) -> None:
        """Begin with a snapshot of these objects. Raises OSError where nothing can be written."""
        self._last = time
        self._know(objects)
        try:
            self._begin(time, snapshot=True)
        except OSError as error:
            self._failed(error)
            raise

    def put(self, time: int, obj: model.ApiObject) -> None:
        """Record an object that came or changed."""
        at = self._at(time)  # may begin a segment with a snapshot: before anything changes
        if isinstance(obj, model.Pod):
            self._put_pod(at, obj)
        else:
            self._put_other(at, obj)

    def remove(self, time: int, obj: model.ApiObject) -> None:
        """Record that an object was deleted."""
        at, is_pod = self._at(time), isinstance(obj, model.Pod)
        known = (self._pods if is_pod else self._others).pop(_place(obj), None)
        if known is not None:
            phase = obj.status.phase if isinstance(obj, model.Pod) else ""
            self._gone(at, known, phase if phase in model.ENDED_PHASES else "")

    def replace(self, time: int, objects: Iterable[model.ApiObject], missed: int) -> None:
        """Record that these objects are there, and no others, after so many changes were missed."""
        self.lost += missed
        present = set()
        for obj in objects:
            present.add(_place(obj))
            self.put(time, obj)
        for table in (self._pods, self._others):
            for place in [place for place in table if place not in present]:
                self._gone(self._at(time), table.pop(place), "")

    def decided(self, decision: Decided) -> None:
        """Record a decision about a pod that is there; what others decide shows in changes."""
        at = self._at(decision.time)
        namespace, _, name = decision.pod.rpartition("/")
        known = self._pods.get((namespace, name))
        if known is None:
            return
        known.told = decision
        own = known.object.spec.scheduler_name or model.DEFAULT_SCHEDULER
        self._line(
            lines.DecidedLine(
                at=at,
                id=known.number,
                node=decision.node,
                nominated=decision.nominated_node,
                reason=decision.reason,
                message=decision.message,
                victims=decision.victims,
                evicted=decision.evicted,
                scheduler=None if decision.scheduler == own else decision.scheduler,
                policies=None if decision.policies == self._policies else decision.policies,
            )
        )

    def policies(self, time: int, policies: RecordedPolicies) -> None:
        """Record that policies are in force from now on."""
        if policies.hash == self._policies:
            return
        at = self._at(time)
        self._policies = policies.hash
        self.keep(policies)
        if self._segment is not None:
            self._line(lines.PoliciesLine(at=at, hash=policies.hash))

    def keep(self, policies: RecordedPolicies) -> None:
        """Keep the texts of policies that decide about some pods, or will."""
        try:
            path = policies_path(self.folder, policies.hash)
            if not path.exists():
                data = _encode(policies)
                write_file(path, data, private=True)
                self.bytes += len(data)
        except OSError as error:
            self.trouble(f"{self.folder}: the policies cannot be written: {error.strerror}")

    def flush(self, time: int) -> None:
        """Write what has come, and begin the next segment if it is time."""
        self._last = max(self._last, time)
        self._due = self._last + model.SECOND
        segment = self._segment
        if segment is None:
            if self._failing and self._last >= self._again:
                self._try_again()
            return
        self._write_lines()
        segment = self._segment
        if segment is not None and (
            segment.file.size >= self._largest or self._last - segment.began >= HOUR
        ):
            self._end_segment()
            if not self._failing:
                self._next_segment()

    def close(self, time: int) -> None:
        """Write what has come, and close the recording."""
        self._last = max(self._last, time)
        if self._segment is not None:
            self._write_lines()
        if self._segment is not None:
            self._end_segment()
        self._lock.close()

    @property
    def size(self) -> int:
        """Bytes of all files so far."""
        return self.bytes + (0 if self._segment is None else self._segment.file.size)

    # Objects.

    def _know(self, objects: Iterable[model.ApiObject]) -> None:
        """Take in objects without lines."""
        kept = self.kept
        plain = reduced(objects, kept.annotations, kept.inputs)
        for obj, form in zip(plain, kept.renamed(plain), strict=True):
            table = self._pods if isinstance(obj, model.Pod) else self._others
            table[_place(obj)] = _Known(0, form)

    def _form(self, obj: model.ApiObject) -> list[model.ApiObject]:
        """Return the reduced form of an object, nothing if it is not recorded."""
        return self.kept.renamed(reduced([obj], self.kept.annotations, self.kept.inputs))

    def _pod_form(self, pod: model.Pod) -> model.Pod:
        """Return what is kept of a pod: itself, and what is written of it is reduced then."""
        if self.kept.renamed is _alone:
            return pod
        return cast("model.Pod", self.kept.renamed(reduced([pod], self.kept.annotations))[0])

    def _put_pod(self, at: int, pod: model.Pod) -> None:
        meta, phase = pod.metadata, pod.status.phase
        place = meta.namespace, meta.name
        known = self._pods.get(place)
        if phase in model.ENDED_PHASES:
            if known is not None:
                del self._pods[place]
                self._gone(at, known, phase)
            return
        conditions = pod.status.conditions
        pod = self._pod_form(pod)
        if known is not None and (
            known.object.metadata.uid != pod.metadata.uid or type(known.object) is not type(pod)
        ):
            self._gone(at, known, "")
            known = None
        if known is None:
            self._pods[place] = known = _Known(self._number_of_next(), pod)
            self._write_pod(at, known)
            return
        old, known.object = known.object, pod
        changes = self._pod_changes(old, pod)
        if changes:
            self._line(lines.ChangedLine(at=at, id=known.number, set=changes))
        self._conclude(at, known, old, conditions)

    def _pod_changes(self, old: model.Pod, new: model.Pod) -> dict[str, Any]:
        """Return what differs between two states of a pod."""
        found: dict[str, Any] = {}
        before, after = old.metadata, new.metadata
        if before.labels != after.labels:
            found["metadata.labels"] = after.labels
        if before.annotations != after.annotations:
            kept = self._kept_annotations(after)
            if kept != self._kept_annotations(before):
                found["metadata.annotations"] = kept
        if before.creation_timestamp != after.creation_timestamp:
            found["metadata.creationTimestamp"] = after.creation_timestamp
        if before.deletion_timestamp != after.deletion_timestamp:
            found["metadata.deletionTimestamp"] = after.deletion_timestamp
        if before.owner_references != after.owner_references:
            found["metadata.ownerReferences"] = after.owner_references
        spec, node = old.spec, new.spec.node_name
        if spec.node_name != node:
            found["spec.nodeName"] = node
        # An API server of 1.33 or later gives each other spec another generation (KEP-5067).
        if not after.generation or after.generation != before.generation:
            if spec.node_name != node:
                spec = replace(spec, node_name=node)
            if spec != new.spec:
                find_differences(spec, new.spec, _POD_FORMS, "spec.", found)
        find_differences(old.status, new.status, _POD_FORMS, "status.", found)
        return found

    def _kept_annotations(self, meta: model.ObjectMeta) -> dict[str, str]:
        kept = self._annotations
        return {k: v for k, v in meta.annotations.items() if k in kept}

    def _conclude(
        self, at: int, known: _Known, old: model.Pod, conditions: tuple[model.Condition, ...]
    ) -> None:
        """Record a decision that a change of a pod shows, and no scheduler told."""
        new, told, number = known.object, known.told, known.number
        none = "" if self._policies else None
        node, nominated = new.spec.node_name, new.status.nominated_node_name
        if node and not old.spec.node_name and (told is None or told.node != node):
            self._line(lines.DecidedLine(at=at, id=number, node=node, policies=none))
        if (
            nominated
            and nominated != old.status.nominated_node_name
            and (told is None or told.nominated_node != nominated)
        ):
            self._line(lines.DecidedLine(at=at, id=number, nominated=nominated, policies=none))
        if old.status.conditions == new.status.conditions:
            return
        before = {condition.type: condition for condition in old.status.conditions}
        for condition in conditions:
            if condition == before.get(condition.type):
                continue
            evicted = condition.type == _EVICTED and condition.status == "True"
            waits = condition.type == _PENDING and condition.status == "False"
            if evicted or (waits and (told is None or told.node)):
                self._line(
                    lines.DecidedLine(
                        at=at,
                        id=number,
                        reason=condition.reason,
                        message=condition.message if self.kept.renamed is _alone else "",
                        evicted=evicted,
                        policies=none,
                    )
                )

    def _put_other(self, at: int, obj: model.ApiObject) -> None:
        place = _place(obj)
        known = self._others.get(place)
        for form in self._form(obj):
            if known is not None and known.object.metadata.uid != form.metadata.uid:
                self._gone(at, known, "")
                known = None
            if known is None:
                self._others[place] = known = _Known(self._number_of_next(), form)
                self._write_object(at, known)
                continue
            old, known.object = known.object, form
            if old == form:
                continue
            if type(old) is not type(form) or isinstance(form, model.CustomObject):
                self._write_object(at, known)
            else:
                changes: dict[str, Any] = {}
                find_differences(old, form, {}, "", changes)
                self._line(lines.ChangedLine(at=at, id=known.number, set=changes))

    def _gone(self, at: int, known: _Known, phase: str) -> None:
        self._line(lines.GoneLine(at=at, id=known.number, phase=phase))

    # Lines.

    def _at(self, time: int) -> int:
        """Return a time as lines have it; time never goes back."""
        self._last = time = max(self._last, time)
        if time >= self._due:
            self.flush(time)
        return 0 if self._segment is None else time - self._segment.began

    def _line(self, line: lines.Line) -> None:
        if self._segment is None:
            self.lost += 1
            return
        self._lines.append(_encode(line))
        if len(self._lines) >= LINES:
            self._write_lines()

    def _number_of_next(self) -> int:
        self._next += 1
        return self._next - 1

    def _write_pod(self, at: int, known: _Known) -> None:
        segment = self._segment
        if segment is None:
            self.lost += 1
            return
        pod = known.object
        meta, spec, status = pod.metadata, pod.spec, pod.status
        node = spec.node_name
        volumes = spec.volumes and with_sources(spec.volumes)
        if node or volumes != spec.volumes:
            spec = replace(spec, node_name="", volumes=volumes)
        if status.conditions:
            status = replace(status, conditions=without_messages(status.conditions))
        annotations = meta.annotations and self._kept_annotations(meta)
        shared = lines.SharedMeta(meta.labels, annotations, meta.owner_references)
        meta_number = self._part(segment.metas, _encode(shared), lines.MetaLine, "meta")
        spec_number = self._part(segment.specs, _encode(spec), lines.SpecLine, "spec")
        self._line(
            lines.PodLine(
                at=at,
                id=known.number,
                namespace=meta.namespace,
                name=meta.name,
                uid=meta.uid,
                created=meta.creation_timestamp,
                deleted=meta.deletion_timestamp,
                meta=meta_number,
                spec=spec_number,
                node=node,
                status=status,
            )
        )

    def _part(self, parts: dict[bytes, int], text: bytes, line: Any, name: str) -> int:
        """Return the number of what pods share; write it if it has none."""
        number = parts.get(text)
        if number is None:
            if len(parts) >= PARTS:
                parts.clear()
            number = parts[text] = len(parts)
            self._line(line(number=number, **{name: msgspec.Raw(text)}))
        return number

    def _write_object(self, at: int, known: _Known) -> None:
        obj = known.object
        plain: Any = custom_data(obj) if isinstance(obj, model.CustomObject) else obj
        self._line(lines.ObjectLine(at=at, id=known.number, object=plain))

    # Files.

    def _begin(self, time: int, *, snapshot: bool) -> None:
        """Begin a segment. Raises OSError."""
        self._number += 1
        path = segment_path(self.folder, self._number)
        self._segment = segment = _Written(SegmentFile(path, self._write), self._number, time)
        header = lines.Header(
            format=lines.FORMAT,
            number=self._number,
            began=time,
            snapshot=snapshot,
            after=self._after,
            lost=self.lost - self._told_lost,
            policies=self._policies,
            anonymized=self.kept.renamed is not _alone,
        )
        self._lines = [_encode(header)]
        try:
            if snapshot:
                self._snapshot_at = time
                self._write_snapshot(segment)
            self._put_lines(segment)
        except OSError:
            self._segment = None
            self._number -= 1
            segment.file.abandon()
            with suppress(OSError):
                path.unlink()
            raise
        self._told_lost = self.lost

    def _write_snapshot(self, segment: _Written) -> None:
        self._next = 0
        count = 0
        for known in self._in_order():
            known.number = self._number_of_next()
            if isinstance(known.object, model.Pod):
                self._write_pod(0, known)
            else:
                self._write_object(0, known)
            count += 1
            if len(self._lines) >= LINES // 2:
                self._put_lines(segment)
        self._line(lines.CompleteLine(objects=count))

    def _in_order(self) -> Iterator[_Known]:
        yield from self._others.values()
        yield from self._pods.values()

    def _write_lines(self) -> None:
        """Write the lines so far; where that fails the segment ends."""
        segment = self._segment
        if segment is None or not self._lines:
            return
        try:
            self._put_lines(segment)
        except OSError as error:
            self._fail(segment, error)

    def _put_lines(self, segment: _Written) -> None:
        some = self._lines
        if some:
            segment.file.write(b"\n".join(some) + b"\n")
            self.written += len(some)
            self._lines = []

    def _fail(self, segment: _Written, error: OSError) -> None:
        self.lost += len(self._lines)
        self._lines = []
        self.bytes += segment.file.size
        with suppress(OSError):
            segment.file.abandon()
        self._segment, self._after = None, segment.number
        self._failed(error)

    def _failed(self, error: OSError) -> None:
        self._again = self._last + PAUSE
        if not self._failing:
            self._failing = True
            self.trouble(f"{self.folder}: {error.strerror}")

    def _try_again(self) -> None:
        """Begin anew with a snapshot, if there is room again."""
        try:
            self._begin(self._last, snapshot=True)
        except OSError as error:
            self._failed(error)
        else:
            self._failing = False
            self.trouble("")

    def _end_segment(self) -> None:
        segment = self._segment
        assert segment is not None, "it is written"
        self._lines.append(_encode(lines.EndLine(at=self._last - segment.began)))
        try:
            self._put_lines(segment)
            segment.file.end()
        except OSError as error:
            self._fail(segment, error)
        else:
            self.bytes += segment.file.size
            self._segment, self._after = None, segment.number

    def _next_segment(self) -> None:
        snapshot = self._last - self._snapshot_at >= DAY
        try:
            self._begin(self._last, snapshot=snapshot)
        except OSError as error:
            self._failed(error)


def policies_path(folder: Path, content_hash: str) -> Path:
    """Return where the policies of a hash are. Raises PolicySchedError for what is no hash."""
    if not (content_hash.isascii() and content_hash.isalnum()):
        raise PolicySchedError(f"{content_hash!r} is no hash of policies")
    return folder / f"policies-{content_hash}.json"


def _place(obj: model.ApiObject) -> _Place:
    """Return what tells an object from others."""
    meta = obj.metadata
    if isinstance(obj, model.Pod):
        return meta.namespace, meta.name
    return obj.api_version, obj.kind, meta.namespace, meta.name
