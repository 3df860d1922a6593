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
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final, cast

import msgspec
from msgspec.structs import replace

from policy_sched import model
from policy_sched.errors import PolicySchedError
from policy_sched.manifests import custom_data
from policy_sched.model import ENDED_PHASES
from policy_sched.recording import lines
from policy_sched.recording.events import Decided, RecordedPolicies
from policy_sched.recording.field_changes import find_differences
from policy_sched.recording.reduction import (
    ANNOTATIONS,
    reduced,
    reduced_metadata,
    with_sources,
    without_messages,
)
from policy_sched.recording.segments import FolderLock, SegmentFile, Write, numbers_in, segment_path
from policy_sched.source import write_file

LARGEST: Final = 64 << 20
"""Bytes of a segment at which the next one begins."""
HOUR: Final = 3600 * model.SECOND
DAY: Final = 24 * HOUR
PAUSE: Final = 15 * model.SECOND
"""Nanoseconds after which a new segment is tried where none could be written."""
EVERY: Final = 5 * model.SECOND
"""Nanoseconds after which lines are written; each write costs what compresses ten pods."""
LINES: Final = 512
"""Lines that are written together at most."""
PARTS: Final = 4096
"""Specs, and metadata, that have a number at a time."""

_PENDING: Final = "PodScheduled"
_EVICTED: Final = "DisruptionTarget"
_JSON: Final = msgspec.json.Encoder()


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


class _Known(msgspec.Struct, gc=False):
    """An object that is there: its number, and the object as it came, or its reduced form.

    Of a pod ``status`` is what was written of its status, and ``told`` the last decision that the
    recorder was told of.
    """

    number: int
    object: Any
    status: bytes = b""
    told: Decided | None = None


_Place = tuple[str, ...]


@dataclass(slots=True)
class _Written:
    """The state of the segment that is written."""

    file: SegmentFile
    number: int
    began: int


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
        self.due = 0
        """When lines are to be written, in ns since 1970."""
        self._snapshot_at = self._began = self._last = 0
        self._lines: list[lines.Line] = []
        self._pods: dict[_Place, _Known] = {}
        self._others: dict[_Place, _Known] = {}
        # Numbers by text, for the segment that is written.
        self._specs: dict[bytes, int] = {}
        self._metas: dict[bytes, int] = {}
        self._statuses: dict[bytes, int] = {}
        self._plain: set[bytes] = set()
        """Statuses without messages that tell of no decision."""
        self._next = 0
        self._policies = ""

    # What is told.

    def begin(self, time: int, objects: Iterable[model.ApiObject]) -> None:
        """Begin with a snapshot of these objects. Raises OSError where nothing can be written."""
        self._last = time
        objects = reduced(objects, self.kept.annotations, self.kept.inputs)
        for obj, form in zip(objects, self.kept.renamed(objects), strict=True):
            table = self._pods if isinstance(obj, model.Pod) else self._others
            table[_place(obj)] = _Known(0, form)
        try:
            self._begin(time, snapshot=True)
        except OSError as error:
            self._failed(error)
            raise

    def put(self, time: int, obj: model.ApiObject) -> None:
        """Record an object that came or changed."""
        # May begin a segment with a snapshot: before anything changes.
        at = self._at(time)
        if not isinstance(obj, model.Pod):
            self._put_other(at, obj)
            return
        place, phase = (obj.metadata.namespace, obj.metadata.name), obj.status.phase
        known = self._pods.get(place)
        if phase in ENDED_PHASES:
            if known is not None:
                del self._pods[place]
                self._lines.append(lines.GoneLine(at, known.number, phase))
            return
        # A pod is kept as it came, and what is written of it is reduced then.
        pod = obj if self.kept.renamed is _alone else cast("model.Pod", self._form(obj)[0])
        if known is not None:
            old = known.object
            if old.metadata.uid == pod.metadata.uid and type(old) is type(pod):
                known.object = pod
                self._change_pod(at, known, old, pod)
                return
            self._lines.append(lines.GoneLine(at, known.number))
        self._pods[place] = known = _Known(self._number_of_next(), pod)
        self._write_pod(at, known)

    def remove(self, time: int, obj: model.ApiObject) -> None:
        """Record that an object was deleted."""
        at, phase = self._at(time), ""
        if isinstance(obj, model.Pod):
            known = self._pods.pop(_place(obj), None)
            if obj.status.phase in ENDED_PHASES:
                phase = obj.status.phase
        else:
            known = self._others.pop(_place(obj), None)
        if known is not None:
            self._lines.append(lines.GoneLine(at, known.number, phase))

    def replace(self, time: int, objects: Iterable[model.ApiObject], missed: int) -> None:
        """Record that these objects are there, and no others, after so many changes were missed."""
        self.lost += missed
        present = set()
        for obj in objects:
            present.add(_place(obj))
            self.put(time, obj)
        for table in (self._pods, self._others):
            for place in [place for place in table if place not in present]:
                at = self._at(time)
                self._lines.append(lines.GoneLine(at, table.pop(place).number))

    def decided(self, decision: Decided) -> None:
        """Record a decision about a pod that is there; what others decide shows in changes."""
        at = self._at(decision.time)
        namespace, _, name = decision.pod.rpartition("/")
        known = self._pods.get((namespace, name))
        if known is None:
            return
        known.told = decision
        line = lines.DecidedLine(at, known.number, decision.node)
        if not decision.node:
            line.nominated, line.reason = decision.nominated_node, decision.reason
            line.message, line.victims = decision.message, decision.victims
            line.evicted = decision.evicted
        if decision.scheduler != (known.object.spec.scheduler_name or model.DEFAULT_SCHEDULER):
            line.scheduler = decision.scheduler
        if decision.policies != self._policies:
            line.policies = decision.policies
        self._lines.append(line)

    def policies(self, time: int, policies: RecordedPolicies) -> None:
        """Record that policies are in force from now on."""
        if policies.hash == self._policies:
            return
        at = self._at(time)
        self._policies = policies.hash
        self.keep(policies)
        if self._segment is not None:
            self._lines.append(lines.PoliciesLine(at, policies.hash))

    def keep(self, policies: RecordedPolicies) -> None:
        """Keep the texts of policies that decide about some pods, or will."""
        try:
            path = policies_path(self.folder, policies.hash)
            if not path.exists():
                data = _JSON.encode(policies)
                write_file(path, data, private=True)
                self.bytes += len(data)
        except OSError as error:
            self.trouble(f"{self.folder}: the policies cannot be written: {error.strerror}")

    def flush(self, time: int) -> None:
        """Write what has come, and begin the next segment if it is time."""
        self._last = max(self._last, time)
        self.due = self._last + EVERY
        segment = self._write_lines()
        if segment is None:
            if self._failing and self._last >= self._again:
                self._next_segment(snapshot=True)
        elif segment.file.size >= self._largest or self._last - segment.began >= HOUR:
            self._end_segment(segment)
            if not self._failing:
                self._next_segment(snapshot=self._last - self._snapshot_at >= DAY)

    def close(self, time: int) -> None:
        """Write what has come, and close the recording."""
        self._last = max(self._last, time)
        segment = self._write_lines()
        if segment is not None:
            self._end_segment(segment)
        self._lock.close()

    @property
    def size(self) -> int:
        """Bytes of all files so far."""
        return self.bytes + (0 if self._segment is None else self._segment.file.size)

    # Objects.

    def _form(self, obj: model.ApiObject) -> list[model.ApiObject]:
        """Return the reduced form of an object, nothing if it is not recorded."""
        return self.kept.renamed(reduced([obj], self.kept.annotations, self.kept.inputs))

    def _change_pod(self, at: int, known: _Known, old: model.Pod, pod: model.Pod) -> None:
        """Record what differs between two states of a pod, and the decisions that this shows."""
        changes: dict[str, Any] = {}
        was, now = old.metadata, pod.metadata
        if (
            was.labels != now.labels
            or was.annotations != now.annotations
            or was.deletion_timestamp != now.deletion_timestamp
            or was.owner_references != now.owner_references
        ):
            kept = self._annotations
            find_differences(
                reduced_metadata(was, kept), reduced_metadata(now, kept), "metadata.", changes
            )
        spec, node, moved = old.spec, pod.spec.node_name, None
        # An API server of 1.33 or later gives each other spec another generation (KEP-5067).
        if now.generation and now.generation == was.generation:
            if spec.node_name != node:
                moved = node
        elif spec != pod.spec:
            find_differences(_with_sources(spec), _with_sources(pod.spec), "spec.", changes)
            moved = changes.pop("spec.nodeName", None)
        before, after, number, plain = old.status, pod.status, -1, True
        if before != after:
            number, plain = self._status(known, after)
        if number >= 0 or moved is not None or changes:
            self._lines.append(lines.ChangedLine(at, known.number, moved, number, changes))
        told = known.told
        if node and not spec.node_name and (told is None or told.node != node):
            self._lines.append(lines.DecidedLine(at, known.number, node, policies=self._none))
        if not plain:
            self._conclude(at, known, before, after)

    def _conclude(
        self, at: int, known: _Known, before: model.PodStatus, after: model.PodStatus
    ) -> None:
        """Record decisions that a status shows, and no scheduler told."""
        told, nominated = known.told, after.nominated_node_name
        if (
            nominated
            and nominated != before.nominated_node_name
            and (told is None or told.nominated_node != nominated)
        ):
            line = lines.DecidedLine(at, known.number, nominated=nominated, policies=self._none)
            self._lines.append(line)
        for condition in after.conditions:
            if condition.type == _EVICTED:
                shows = condition.status == "True"
            elif condition.type == _PENDING:
                shows = condition.status == "False" and (told is None or bool(told.node))
            else:
                continue
            if shows and condition not in before.conditions:
                line = lines.DecidedLine(at, known.number, policies=self._none)
                line.reason, line.message = condition.reason, condition.message
                line.evicted = condition.type == _EVICTED
                self._lines.append(line)

    @property
    def _none(self) -> str | None:
        """What lines say of the policies of a decision that no scheduler told."""
        return "" if self._policies else None

    def _put_other(self, at: int, obj: model.ApiObject) -> None:
        place = _place(obj)
        known = self._others.get(place)
        for form in self._form(obj):
            if known is not None and known.object.metadata.uid != form.metadata.uid:
                self._lines.append(lines.GoneLine(at, known.number))
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
                find_differences(old, form, "", changes)
                self._lines.append(lines.ChangedLine(at, known.number, set=changes))

    # Lines.

    def _at(self, time: int) -> int:
        """Return a time as lines have it, and write what is due; time never goes back."""
        if time < self._last:  # noqa: PLR1730 - max takes longer
            time = self._last
        self._last = time
        if time >= self.due:
            self.flush(time)
        return time - self._began

    def _number_of_next(self) -> int:
        self._next += 1
        return self._next - 1

    def _write_pod(self, at: int, known: _Known) -> None:
        if self._segment is None:
            self.lost += 1
            return
        pod = known.object
        meta, node = pod.metadata, pod.spec.node_name
        annotations = meta.annotations and {
            k: v for k, v in meta.annotations.items() if k in self._annotations
        }
        shared = lines.SharedMeta(meta.namespace, meta.labels, annotations, meta.owner_references)
        spec = _with_sources(pod.spec)
        if node:
            spec = replace(spec, node_name="")
        known.status = b""
        line = lines.PodLine(
            at,
            known.number,
            meta.name,
            self._part(self._metas, _JSON.encode(shared), lines.MetaLine),
            self._part(self._specs, _JSON.encode(spec), lines.SpecLine),
            self._status(known, pod.status)[0],
            meta.uid,
            meta.creation_timestamp,
            meta.deletion_timestamp,
            node,
        )
        self._lines.append(line)

    def _status(self, known: _Known, status: model.PodStatus) -> tuple[int, bool]:
        """Return the number of a pod's status, -1 if it is what was written of it.

        The second value is whether it tells of no decision.
        """
        text = _JSON.encode(status)
        plain = text in self._plain  # for speed: most statuses are those of many pods
        if not plain:
            plain = _is_plain(status)
            if plain:
                if len(self._plain) >= PARTS:
                    self._plain.clear()
                self._plain.add(text)
            else:
                text = _JSON.encode(replace(status, conditions=without_messages(status.conditions)))
        if text == known.status:
            return -1, plain
        known.status = text
        return self._part(self._statuses, text, lines.StatusLine), plain

    def _part(
        self, parts: dict[bytes, int], text: bytes, line: Callable[[int, Any], lines.Line]
    ) -> int:
        """Return the number of what pods share; write it if it has none."""
        number = parts.get(text)
        if number is None:
            if len(parts) >= PARTS:
                parts.clear()
            number = parts[text] = len(parts)
            self._lines.append(line(number, msgspec.Raw(text)))
        return number

    def _write_object(self, at: int, known: _Known) -> None:
        obj = known.object
        plain: Any = custom_data(obj) if isinstance(obj, model.CustomObject) else obj
        self._lines.append(lines.ObjectLine(at, known.number, plain))

    # Files.

    def _begin(self, time: int, *, snapshot: bool) -> None:
        """Begin a segment. Raises OSError."""
        path = segment_path(self.folder, self._number + 1)
        self._segment = segment = _Written(SegmentFile(path, self._write), self._number + 1, time)
        header = lines.Header(
            format=lines.FORMAT,
            number=segment.number,
            began=time,
            snapshot=snapshot,
            after=self._after,
            lost=self.lost - self._told_lost,
            policies=self._policies,
            anonymized=self.kept.renamed is not _alone,
        )
        self._lines, self._began = [header], time
        self._specs, self._metas, self._statuses = {}, {}, {}
        try:
            if snapshot:
                self._snapshot_at = time
                self._write_snapshot(segment)
            self._put_lines(segment)
        except OSError:
            self._segment, self._lines = None, []
            segment.file.abandon()
            with suppress(OSError):
                path.unlink()
            raise
        self._number, self._told_lost = segment.number, self.lost

    def _write_snapshot(self, segment: _Written) -> None:
        self._next = 0
        for known in chain(self._others.values(), self._pods.values()):
            known.number = self._number_of_next()
            if isinstance(known.object, model.Pod):
                self._write_pod(0, known)
            else:
                self._write_object(0, known)
            if len(self._lines) >= LINES:
                self._put_lines(segment)
        self._lines.append(lines.CompleteLine(self._next))

    def _write_lines(self) -> _Written | None:
        """Write the lines so far, and return the segment; where that fails it ends."""
        segment = self._segment
        if segment is None:
            self.lost += len(self._lines)
            self._lines = []
            return None
        try:
            self._put_lines(segment)
        except OSError as error:
            self._fail(segment, error)
        return self._segment

    def _put_lines(self, segment: _Written) -> None:
        some = self._lines
        if some:
            segment.file.write(_JSON.encode_lines(some))
            self.written += len(some)
            self._lines = []

    def _fail(self, segment: _Written, error: OSError) -> None:
        self.lost += len(self._lines)
        self._lines = []
        with suppress(OSError):
            segment.file.abandon()
        self._leave(segment)
        self._failed(error)

    def _failed(self, error: OSError) -> None:
        self._again = self._last + PAUSE
        if not self._failing:
            self._failing = True
            self.trouble(f"{self.folder}: {error.strerror}")

    def _end_segment(self, segment: _Written) -> None:
        self._lines.append(lines.EndLine(self._last - segment.began))
        try:
            self._put_lines(segment)
            segment.file.end()
        except OSError as error:
            self._fail(segment, error)
        else:
            self._leave(segment)

    def _leave(self, segment: _Written) -> None:
        self.bytes += segment.file.size
        self._segment, self._after = None, segment.number

    def _next_segment(self, *, snapshot: bool) -> None:
        """Begin a segment, if there is room."""
        try:
            self._begin(self._last, snapshot=snapshot)
        except OSError as error:
            self._failed(error)
            return
        if self._failing:
            self._failing = False
            self.trouble("")


def _with_sources(spec: model.PodSpec) -> model.PodSpec:
    """Return a spec without volumes that nothing reads."""
    volumes = spec.volumes and with_sources(spec.volumes)
    return spec if len(volumes) == len(spec.volumes) else replace(spec, volumes=volumes)


def _is_plain(status: model.PodStatus) -> bool:
    """Return whether a status has no messages, and tells of no decision but that of its node."""
    return not status.nominated_node_name and not any(
        condition.message
        or condition.type == _EVICTED
        or (condition.type == _PENDING and condition.status == "False")
        for condition in status.conditions
    )


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
