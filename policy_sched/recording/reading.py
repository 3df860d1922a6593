"""Recordings, read back: the cluster as it was, and what came, changed, went and was decided.

Theory of operation. The reader keeps the state of the cluster: a line changes it and is an event. A
snapshot at the beginning of a later segment says the same as the lines before it, where none is
missing; where some are, what differs from the state is told as changes at that time.

Files are cut by whatever ended the process that wrote them. What is whole is read, and ``notes``
say what is missing. Bytes that are no recording are an error with file and line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from policy_sched import model
from policy_sched.errors import PolicySchedError, one_line
from policy_sched.manifests import (
    NO_STRUCTS,
    Structs,
    custom_of_json,
    decode_json,
    quantities_valid,
)
from policy_sched.recording import lines
from policy_sched.recording.events import (
    Added,
    Decided,
    Deleted,
    Event,
    Modified,
    PolicyChanged,
    RecordedPolicies,
)
from policy_sched.recording.field_changes import applied
from policy_sched.recording.segments import (
    POLICIES,
    SegmentReader,
    numbers_in,
    refusal,
    segment_path,
)
from policy_sched.source import read_bytes

_LINE: Final = msgspec.json.Decoder(lines.AnyLine)
_HEADER: Final = msgspec.json.Decoder(lines.Header)
_POLICIES: Final = msgspec.json.Decoder(RecordedPolicies)
_LATEST: Final = 2**62
"""Nanoseconds since 1970 in 2116, after which nothing is recorded."""


class _Kind(model.ApiStruct):
    """What an object says of its kind."""

    api_version: str = ""
    kind: str = ""


_KIND: Final = msgspec.json.Decoder(_Kind)


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment whose first line was read."""

    path: Path
    header: lines.Header


class Recording:
    """A recording. ``notes``: what is missing in it, in sentences; reading events adds some."""

    def __init__(
        self,
        path: Path,
        segments: Sequence[Segment],
        policies: Mapping[str, RecordedPolicies],
        notes: Sequence[str],
        structs: Structs,
    ) -> None:
        self.path = path
        self.segments = tuple(segments)
        self.policies = policies
        """What was in force at some time, by hash."""
        self.notes = list(notes)
        self.began = segments[0].header.began
        """When it begins, in ns since 1970."""
        self.ended = max(self.began, self._end(segments[-1]))
        """The time of its last line."""
        self._structs = structs

    @classmethod
    def open(cls, path: str | Path, structs: Structs = NO_STRUCTS) -> Recording:
        """Open the recording in a directory.

        ``structs``: how kinds are decoded of which policies read more. Raises PolicyError for
        bytes that are no recording, PolicySchedError where there is none, and OSError.
        """
        folder, notes, segments = Path(path), list[str](), list[Segment]()
        for number in numbers_in(folder):
            file = segment_path(folder, number)
            header = _header(file, number)
            if header is None:
                notes.append(f"{file.name} has no whole line: it is left out")
            else:
                segments.append(Segment(file, header))
        first = next((i for i, segment in enumerate(segments) if segment.header.snapshot), None)
        if first is None:
            hint = f"a recording is a directory that begins with {segment_path(folder, 1).name}"
            raise PolicySchedError(f"{path}: there is no segment with a snapshot; {hint}")
        notes += _left_out([segment.path.name for segment in segments[:first]])
        return cls(folder, segments[first:], _policies_of(folder), notes, structs)

    def events(self, start: int | None = None, end: int | None = None) -> Iterator[Event]:
        """Yield what happened from ``start`` until before ``end``, in ns since 1970.

        First come the policies in force and the objects that were there then, as added.
        Raises PolicyError for bytes that are no recording, and OSError.
        """
        begin = self.began if start is None else max(start, self.began)
        state = _State(self._structs, begin)
        without = list[str]()
        for segment in self._following(begin):
            if not self._continues(state, segment.header):
                without.append(segment.path.name)
                continue
            self._note(*_left_out(without))
            without.clear()
            reader = SegmentReader(segment.path)
            for event in _events_of(reader, state):
                if end is not None and event.time >= end:
                    return
                yield event
            if reader.cut:
                self._note(f"{segment.path.name}: {reader.cut}; {_WHOLE_LINES}")
        self._note(*_left_out(without))
        if not state.complete:
            what = "; ".join(self.notes)
            raise PolicySchedError(f"{self.path}: no segment has a whole snapshot: {what}")
        if state.silent:
            yield from state.everything()

    def _following(self, begin: int) -> Iterator[Segment]:
        """Yield the segments from the last snapshot at or before a time on."""
        first = 0
        for index, segment in enumerate(self.segments):
            if segment.header.began > begin:
                break
            if segment.header.snapshot:
                first = index
        yield from self.segments[first:]

    def _continues(self, state: _State, header: lines.Header) -> bool:
        """Begin a segment; return False if it cannot be read after what came before."""
        name = segment_path(self.path, header.number).name
        whole = state.ended and state.number == header.after
        if header.snapshot:
            if state.number and not whole:
                self._note(
                    f"nothing was recorded between {_text(state.time)} and {_text(header.began)},"
                    f" before {name}: what changed meanwhile changes at its beginning"
                )
            if header.lost:
                self._note(f"{header.lost:,} lines before {name} could not be written")
        elif not whole:
            return False
        state.begin(header)
        return True

    def _note(self, *notes: str) -> None:
        self.notes += (note for note in notes if note not in self.notes)

    def _end(self, segment: Segment) -> int:
        """Return the time of a segment's last line."""
        reader = SegmentReader(segment.path)
        last = b""
        for block in reader.blocks():
            last = block
        if reader.cut:
            self._note(f"{segment.path.name}: {reader.cut}; {_WHOLE_LINES}")
        for line in reversed(last.splitlines()):
            try:
                at = getattr(_LINE.decode(line), "at", None)
            except (ValueError, RecursionError):
                break  # reading says where
            if at is not None:
                return segment.header.began + int(at)
        return segment.header.began


_WHOLE_LINES: Final = "it is read to its last whole line"


def _left_out(names: Sequence[str]) -> Iterator[str]:
    """Yield a note about segments in a row that continue one that is not there."""
    if len(names) == 1:
        yield f"{names[0]}: what it continues is not there, so it is left out"
    elif names:
        yield f"{names[0]} to {names[-1]}: what they continue is not there, so they are left out"


def _text(time: int) -> str:
    return model.datetime_of(time).isoformat(timespec="seconds").replace("+00:00", "Z")


def _header(path: Path, number: int) -> lines.Header | None:
    """Return the first line of a segment, None if it has no whole one. Raises PolicyError."""
    reader = SegmentReader(path)
    block = next(reader.blocks(), None)
    if block is None:
        if reader.damaged:
            raise reader.refusal(1, "it is no segment of a recording: it is not gzip")
        return None
    try:
        header = _HEADER.decode(block[: block.index(b"\n")])
    except (ValueError, RecursionError):
        raise reader.refusal(1, "it is no segment of a recording") from None
    if header.format != lines.FORMAT:
        message = f"its format is {header.format!r}; {lines.FORMAT} can be read"
        raise reader.refusal(1, one_line(message))
    if header.number != number:
        raise reader.refusal(1, f"it is segment {header.number}: a file was renamed")
    if not 0 <= header.began <= _LATEST or header.after < 0 or header.lost < 0:
        raise reader.refusal(1, "its numbers are out of range")
    return header


def _policies_of(folder: Path) -> dict[str, RecordedPolicies]:
    """Return the policies of a recording by hash. Raises PolicyError for what are none."""
    policies = {}
    for path in sorted(folder.glob(POLICIES)):
        try:
            read = _POLICIES.decode(read_bytes(str(path)))
        except (ValueError, RecursionError, EOFError) as error:
            raise refusal(path, 1, f"these are no policies: {one_line(str(error))}") from None
        for name in read.files:
            if not name or name.startswith("/") or ".." in Path(name).parts or "\0" in name:
                raise refusal(path, 1, f"{one_line(name)!r} is no relative path")
        policies[read.hash] = read
    return policies


def _decoded(reader: SegmentReader, block: bytes, before: int) -> list[lines.AnyLine]:
    """Return the lines of a block, which come after so many. Raises PolicyError."""
    try:
        return _LINE.decode_lines(block)
    except (ValueError, RecursionError):
        pass
    for number, line in enumerate(block.splitlines(), before + 1):
        try:
            _LINE.decode(line)
        except (ValueError, RecursionError) as error:
            raise reader.refusal(number, one_line(str(error))) from None
    raise AssertionError("one of the lines is wrong")


def _events_of(reader: SegmentReader, state: _State) -> Iterator[Event]:
    """Yield the events of a segment; from where they are wanted on, after the state then."""
    number = 0
    for block in reader.blocks():
        for line in _decoded(reader, block, number):
            number += 1
            if number == 1:
                continue
            if state.silent and state.wanted(line):
                yield from state.everything()
            try:
                event = state.take[line.__class__](line)
            except (ValueError, RecursionError, KeyError) as error:
                raise reader.refusal(number, _why(error)) from None
            if event is None or state.silent:
                continue
            if isinstance(event, list):
                yield from event
            else:
                yield event


def _why(error: Exception) -> str:
    if isinstance(error, KeyError):
        return "a segment has one first line, and one last one"
    return one_line(str(error))


_Place = tuple[str, str, str, str]
_Result = Event | list[Event] | None


class _State:
    """The cluster as the lines so far say it is.

    ``silent``: the events so far are before ``start``, in ns since 1970. ``complete``: its first
    snapshot was read. ``ended``: the last segment was read to its end.
    """

    def __init__(self, structs: Structs, start: int) -> None:
        self.silent, self.complete, self.ended = True, False, False
        self.number = 0
        """Of the segment that was begun last."""
        self.time = 0
        self._start = start
        self._began = 0
        self._structs = structs
        pod = structs.get(("v1", "Pod"), model.Pod)
        types = {field.name: field.type for field in msgspec.structs.fields(pod)}
        self._pod: Callable[..., Any] = pod
        self._spec = msgspec.json.Decoder(types["spec"])
        self._status = msgspec.json.Decoder(types["status"])
        self._objects: list[Any] = []
        """By id; None for what is gone."""
        self._fresh: list[Any] | None = None
        """Those of the snapshot that is being read."""
        self._specs: dict[int, Any] = {}
        self._metas: dict[int, lines.SharedMeta] = {}
        self._statuses: dict[int, Any] = {}
        self._policies = ""
        self.take: dict[type, Callable[[Any], _Result]] = {}
        """What applies a line of each type and returns what happened; it raises ValueError."""
        self._takes: dict[type, Callable[[Any], _Result]] = {
            lines.SpecLine: self._spec_line,
            lines.MetaLine: self._meta_line,
            lines.StatusLine: self._status_line,
            lines.PodLine: self._pod_line,
            lines.ObjectLine: self._object_line,
            lines.ChangedLine: self._changed,
            lines.GoneLine: self._gone,
            lines.DecidedLine: self._decided,
            lines.PoliciesLine: self._policies_line,
            lines.CompleteLine: self._complete,
            lines.EndLine: self._end,
        }

    def begin(self, header: lines.Header) -> None:
        """Begin a segment."""
        self.number, self._began, self.ended = header.number, header.began, False
        self.take = self._takes
        self._specs, self._metas, self._statuses = {}, {}, {}
        self._fresh = [] if header.snapshot else None
        self._next_policies = header.policies

    def wanted(self, line: lines.AnyLine) -> bool:
        """Return whether a line is not before the start."""
        at: int = getattr(line, "at", 0)
        return self.complete and self._fresh is None and self._began + at >= self._start

    def everything(self) -> Iterator[Event]:
        """Yield the state at the start; from then on events are wanted."""
        self.silent = False
        if self._policies:
            yield PolicyChanged(self._start, self._policies)
        for obj in self._objects:
            if obj is not None:
                yield Added(self._start, obj)

    def _at(self, at: int) -> int:
        """Return the time of a line in ns since 1970; it never goes back."""
        if not 0 <= at <= _LATEST:
            raise ValueError(f"{at} is no time")
        time = self._began + at
        if time > self.time:  # noqa: PLR1730 - max takes longer
            self.time = time
        return self.time

    def _known(self, number: int) -> Any:
        """Return an object that is there."""
        obj = self._objects[number] if 0 <= number < len(self._objects) else None
        if obj is None or self._fresh is not None:
            raise ValueError(f"there is no object {number}")
        return obj

    def _spec_line(self, line: lines.SpecLine) -> None:
        spec = self._spec.decode(line.spec)
        if not quantities_valid(self._pod(spec=spec)):
            raise ValueError("a quantity of the spec is not valid")
        self._specs[line.number] = spec

    def _meta_line(self, line: lines.MetaLine) -> None:
        self._metas[line.number] = line.meta

    def _status_line(self, line: lines.StatusLine) -> None:
        status = self._status.decode(line.status)
        if not quantities_valid(self._pod(status=status)):
            raise ValueError("a quantity of the status is not valid")
        self._statuses[line.number] = status

    def _status_of(self, number: int) -> Any:
        status = self._statuses.get(number)
        if status is None:
            raise ValueError(f"there is no status {number}")
        return status

    def _pod_line(self, line: lines.PodLine) -> _Result:
        spec, meta = self._specs.get(line.spec), self._metas.get(line.meta)
        if spec is None or meta is None:
            raise ValueError(f"there is no spec {line.spec}, or no meta {line.meta}")
        pod = self._pod(
            api_version="v1",
            kind="Pod",
            metadata=model.ObjectMeta(
                name=line.name,
                namespace=meta.namespace,
                uid=line.uid,
                labels=meta.labels,
                annotations=meta.annotations,
                creation_timestamp=line.created,
                deletion_timestamp=line.deleted,
                owner_references=meta.owner_references,
            ),
            # For speed pods of one spec share it until they have a node.
            spec=replace(spec, node_name=line.node) if line.node else spec,
            status=self._status_of(line.status),
        )
        return self._came(line.at, line.id, pod)

    def _object_line(self, line: lines.ObjectLine) -> _Result:
        kind = _KIND.decode(line.object)
        key = kind.api_version, kind.kind
        struct = self._structs.get(key) or model.KINDS.get(key)
        if struct is None or struct is model.CustomObject:
            obj: model.ApiObject | None = custom_of_json(line.object, key)
        else:
            obj = decode_json(line.object, struct)
        if obj is None:
            raise ValueError(f"the object is no {kind.kind} of {kind.api_version}")
        if self._fresh is None and line.id < len(self._objects):
            self._known(line.id)
            self._objects[line.id] = obj
            return Modified(self._at(line.at), obj)
        return self._came(line.at, line.id, obj)

    def _came(self, at: int, number: int, obj: Any) -> _Result:
        objects = self._objects if self._fresh is None else self._fresh
        if number != len(objects):
            raise ValueError(f"the next object is {len(objects)}, not {number}")
        objects.append(obj)
        return Added(self._at(at), obj) if self._fresh is None else None

    def _changed(self, line: lines.ChangedLine) -> _Result:
        obj = self._known(line.id)
        if line.set:
            obj = applied(obj, line.set)
            _check(obj)
        node, status = line.node, line.status
        if node is not None or status >= 0:
            if not isinstance(obj, model.Pod):
                raise ValueError(f"object {line.id} is no pod")
            spec = obj.spec if node is None else replace(obj.spec, node_name=node)
            now = obj.status if status < 0 else self._status_of(status)
            obj = replace(obj, spec=spec, status=now)
        self._objects[line.id] = obj
        return Modified(self._at(line.at), obj)

    def _gone(self, line: lines.GoneLine) -> _Result:
        obj = self._known(line.id)
        self._objects[line.id] = None
        if line.phase and isinstance(obj, model.Pod):
            obj = replace(obj, status=replace(obj.status, phase=line.phase))
        return Deleted(self._at(line.at), obj)

    def _decided(self, line: lines.DecidedLine) -> _Result:
        pod = self._known(line.id)
        if not isinstance(pod, model.Pod):
            raise ValueError(f"object {line.id} is no pod")  # noqa: TRY004 - of the file, as others
        meta = pod.metadata
        own = pod.spec.scheduler_name or model.DEFAULT_SCHEDULER
        return Decided(
            time=self._at(line.at),
            pod=f"{meta.namespace}/{meta.name}",
            uid=meta.uid,
            scheduler=own if line.scheduler is None else line.scheduler,
            policies=self._policies if line.policies is None else line.policies,
            node=line.node,
            nominated_node=line.nominated,
            reason=line.reason,
            message=line.message,
            victims=line.victims,
            evicted=line.evicted,
        )

    def _policies_line(self, line: lines.PoliciesLine) -> _Result:
        self._policies = line.hash
        return PolicyChanged(self._at(line.at), line.hash)

    def _complete(self, line: lines.CompleteLine) -> _Result:
        """Take a snapshot as the state; return what differs from the one before."""
        fresh = self._fresh
        if fresh is None or len(fresh) != line.objects:
            raise ValueError("it is not the end of a snapshot of so many objects")
        time, before = self._at(0), self._objects
        self._objects, self._fresh = fresh, None
        changed: list[Event] = []
        if self._next_policies != self._policies:
            self._policies = self._next_policies
            changed.append(PolicyChanged(time, self._policies))
        if not self.complete:
            self.complete = True
            return None
        known = {_place(obj): obj for obj in before if obj is not None}
        came: list[Event] = []
        for obj in fresh:
            old = known.pop(_place(obj), None)
            if old is not None and old.metadata.uid != obj.metadata.uid:
                changed.append(Deleted(time, old))
                old = None
            if old is None:
                came.append(Added(time, obj))
            elif old != obj:
                came.append(Modified(time, obj))
        changed += [Deleted(time, old) for old in known.values()]
        return changed + came

    def _end(self, line: lines.EndLine) -> None:
        self._at(line.at)
        if self._fresh is not None:
            raise ValueError("the snapshot has no end")
        self.ended, self.take = True, {}


def _check(obj: model.ApiObject) -> None:
    """Raise ValueError for quantities that are not valid."""
    if not quantities_valid(obj):
        raise ValueError("a quantity is not valid")


def _place(obj: model.ApiObject) -> _Place:
    return obj.api_version, obj.kind, obj.metadata.namespace, obj.metadata.name
