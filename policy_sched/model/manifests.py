"""Manifests: files and directories of API objects, and everything that is wrong with them.

Theory of operation: JSON records go straight into structs; only a record that msgspec refuses,
or whose quantities are not valid, is read again as YAML (of which JSON is a part), which knows
where everything stands. YAML documents are always read that way. Every problem of every file is
a Diagnostic; the objects that are in order are returned all the same.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Final, TextIO

import msgspec

from policy_sched.errors import Diagnostic
from policy_sched.model.defaulting import Priorities, fill_in
from policy_sched.model.kinds import KINDS, SKIPPED_KINDS, decoder
from policy_sched.model.meta import ApiObject
from policy_sched.model.objects import (
    UNKNOWN_KIND,
    decode_as,
    decode_object,
    duration_problem,
    kind_name,
    kind_of,
    list_items,
    object_key,
    quantities_valid,
)
from policy_sched.model.pod import Pod
from policy_sched.model.priority import PriorityClass
from policy_sched.model.shapes import Path, Report
from policy_sched.model.workloads import Workload
from policy_sched.source import Marked, SourceFile, diagnostic, parse_documents

__all__ = ["ApiObject", "Manifests", "Report", "decode_object", "load"]

UNREADABLE: Final = "PS701"
DUPLICATE: Final = "PS708"

SUFFIXES: Final = (".yaml", ".yml", ".json", ".jsonl")
"""Endings of the files that a directory is searched for; each also with .gz."""

STDIN: Final = "-"


@dataclass(frozen=True, slots=True)
class Manifests:
    """What was read: objects in the order of the files, problems, and how many were passed over.

    ``skipped`` counts objects of Kubernetes' own kinds that scheduling does not read.
    """

    objects: list[ApiObject]
    diagnostics: list[Diagnostic]
    skipped: int = 0


def load(paths: Sequence[str], stdin: TextIO | None = None, *, defaults: bool = True) -> Manifests:
    """Read API objects from files, directories (recursively, sorted) and "-" for ``stdin``.

    Files end in .yaml, .yml, .json or .jsonl, or one of these and .gz; each may hold many
    objects. With ``defaults``, pods are completed as the API server would have (`defaulting`).
    """
    loading = _Loading()
    for path in paths:
        for name in _files(path, loading):
            data = _read(name, stdin, loading)
            if data is not None:
                loading.read(name, data)
    if defaults:
        loading.complete_pods()
    return Manifests(loading.objects, sorted(loading.diagnostics), loading.skipped)


def _files(path: str, loading: _Loading) -> Iterator[str]:
    """Yield the files that a path means, in order."""
    place = FilePath(path)
    if path == STDIN or not place.is_dir():
        yield path
        return
    found = sorted(
        str(p)
        for p in place.rglob("*")
        if p.is_file() and p.name.removesuffix(".gz").endswith(SUFFIXES)
    )
    if not found:
        loading.fail(path, f"the directory holds no manifests ({', '.join(SUFFIXES)}, or .gz)")
    yield from found


def _read(name: str, stdin: TextIO | None, loading: _Loading) -> bytes | None:
    """Return a file's bytes, unpacked; None after reporting why it cannot be read."""
    try:
        if name == STDIN:
            return (stdin.read() if stdin is not None else "").encode()
        data = FilePath(name).read_bytes()
        return gzip.decompress(data) if name.endswith(".gz") else data
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        loading.fail(name, f"the file cannot be read: {reason}")
        return None


class _Head(msgspec.Struct, gc=False):
    """What says how a record is decoded."""

    apiVersion: str = ""  # noqa: N815  # the API's own name saves a renaming of every record
    kind: str = ""


class _List(_Head, gc=False):
    """A List, or a PodList and the like; its items are decoded one by one."""

    items: tuple[msgspec.Raw, ...] = ()


_head: Final = msgspec.json.Decoder(_Head)
_list: Final = msgspec.json.Decoder(_List)

_NO_HEAD: Final = _Head()
_SKIPPED: Final = ApiObject()
"""Stands for an object of a kind that is passed over."""
_CLASS_NAME: Final[Path] = ("spec", "priorityClassName")


def _records(data: bytes) -> list[tuple[_Head, bytes | msgspec.Raw]]:
    """Return the objects of a JSON text, each with the kind that a list implies for it.

    Raises msgspec.DecodeError if the text is not JSON, or its list is none.
    """
    head = _head.decode(data)
    if not head.kind.endswith("List") or (head.apiVersion, head.kind) in KINDS:
        return [(_NO_HEAD, data)]
    kind = head.kind.removesuffix("List")
    implied = _Head(head.apiVersion, kind) if kind else _NO_HEAD
    return [(implied, item) for item in _list.decode(data).items]


def _fast(record: bytes | msgspec.Raw, implied: _Head = _NO_HEAD) -> ApiObject | None:
    """Decode one JSON record straight into its struct; None if that needs a closer look."""
    try:
        head = _head.decode(record)
        kind = (head.apiVersion or implied.apiVersion, head.kind or implied.kind)
        struct = KINDS.get(kind)
        if struct is None:
            return _SKIPPED if kind in SKIPPED_KINDS else None
        decoded: ApiObject = decoder(struct).decode(record)
    except msgspec.DecodeError:
        return None
    if not decoded.metadata.name or not quantities_valid(decoded) or duration_problem(decoded):
        return None
    decoded.api_version, decoded.kind = kind  # an item of a PodList does not repeat them
    # A priority class may be missing, which is reported with its place.
    return None if _priority_class(decoded)[1] else decoded


def _priority_class(decoded: ApiObject) -> tuple[Path, str]:
    """Return the priority class that a pod, or a workload's pods, get their priority from.

    It comes with its path; it is empty where there is none, or the priority is given.
    """
    path, spec = _CLASS_NAME, None
    if isinstance(decoded, Pod):
        spec = decoded.spec
    elif isinstance(decoded, Workload) and decoded.spec.template is not None:
        path, spec = ("spec", "template", *_CLASS_NAME), decoded.spec.template.spec
    return path, "" if spec is None or spec.priority is not None else spec.priority_class_name


class _Loading:
    """One load in progress."""

    def __init__(self) -> None:
        self.objects: list[ApiObject] = []
        self.diagnostics: list[Diagnostic] = []
        self.skipped = 0
        self._seen: dict[tuple[str, str, str], str] = {}
        self._unclassed: list[tuple[str, Diagnostic]] = []

    def fail(self, name: str, message: str) -> None:
        """Report a file as a whole."""
        self.diagnostics.append(Diagnostic(name, 1, 1, UNREADABLE, message))

    def read(self, name: str, data: bytes) -> None:
        """Read every object of one file."""
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            column = error.start - data.rfind(b"\n", 0, error.start)
            message = f"the byte 0x{data[error.start]:02x} is not UTF-8"
            self.diagnostics.append(Diagnostic(name, line, column, UNREADABLE, message))
            return
        kind = name.removesuffix(".gz")
        if kind.endswith(".jsonl"):
            self._json_lines(name, data)
        elif kind.endswith(".json") or (name == STDIN and text.lstrip().startswith("{")):
            self._json(name, data, text)
        else:
            self._yaml(SourceFile(name, text))

    def _json_lines(self, name: str, data: bytes) -> None:
        """Read one object a line."""
        for number, line in enumerate(data.split(b"\n"), 1):
            if line.strip():
                decoded = _fast(line)
                if decoded is None or not self._take((decoded,), f"{name}:{number}"):
                    self._slow(SourceFile(name, line.decode().rstrip("\r"), number))

    def _json(self, name: str, data: bytes, text: str) -> None:
        """Read one object, or one a line if there are several."""
        try:
            records = _records(data)
        except msgspec.DecodeError:
            lines = [line for line in data.split(b"\n") if line.strip()]
            if len(lines) > 1 and _is_json(lines[0]):
                self._json_lines(name, data)
                return
            records = None
        found = [_fast(record, head) for head, record in records or ()]
        known = [decoded for decoded in found if decoded is not None]
        if records is None or len(known) < len(found) or not self._take(known, f"{name}:1"):
            self._slow(SourceFile(name, text))

    def _take(self, decoded: Sequence[ApiObject], place: str) -> bool:
        """Keep objects if none of them was there before; else keep none and return False."""
        objects = [o for o in decoded if o is not _SKIPPED]
        keys = {object_key(o): place for o in objects}
        if len(keys) < len(objects) or not self._seen.keys().isdisjoint(keys):
            return False
        self._seen |= keys
        self.objects.extend(objects)
        self.skipped += len(decoded) - len(objects)
        return True

    def _slow(self, file: SourceFile) -> None:
        """Read JSON with positions."""
        try:
            value = json.loads(file.text)
        except json.JSONDecodeError as error:
            message = f"the text is not JSON: {error.msg}"
            self.diagnostics.append(diagnostic(file, error.pos, UNREADABLE, message))
            return
        documents, problems = parse_documents(_without_surrogates(file), None)
        if len(documents) == 1 and not problems:
            self._document(value, file, documents[0])
        elif any("duplicate key" in problem.message for problem in problems):
            self.diagnostics.extend(problems)
        else:
            self._document(value, file, None)  # JSON that YAML does not know: no exact places

    def _yaml(self, file: SourceFile) -> None:
        documents, problems = parse_documents(file, None)
        self.diagnostics.extend(problems)
        bad = {problem.line for problem in problems}
        for document in documents:
            first, last = (file.position(offset)[0] for offset in document.span(()))
            if not any(first <= line <= last for line in bad):
                self._document(document.value, file, document)

    def _document(self, value: object, file: SourceFile, marked: Marked | None) -> None:
        """Take one document: an object, or a list of them."""
        items = list_items(value)
        if items is None:
            self._object(value, _Place(self, file, marked, ()))
            return
        for index, item in items:
            place = _Place(self, file, marked, ("items", index))
            if list_items(item) is not None:
                place.report((), UNKNOWN_KIND, "a list inside a list is not read", "")
            else:
                self._object(item, place)

    def _object(self, value: object, place: _Place) -> None:
        kind = kind_of(value, place.report)
        if kind is None:
            return
        if kind in SKIPPED_KINDS:
            self.skipped += 1
            return
        decoded = decode_as(value, KINDS[kind], place.report)
        if decoded is None:
            return
        key = object_key(decoded)
        if key in self._seen:
            name = "/".join(part for part in key[1:] if part)
            message = f"{kind_name(decoded)} {name} is there twice"
            hint = f"the first one is at {self._seen[key]}"
            place.report(("metadata", "name"), DUPLICATE, message, hint)
            return
        self._seen[key] = place.line()
        self.objects.append(decoded)
        path, name = _priority_class(decoded)
        if name:
            message = f"there is no PriorityClass {name!r}"
            self._unclassed.append((name, place.diagnostic(path, "PS705", message, "")))

    def complete_pods(self) -> None:
        """Do to the pods what the API server does when they are created."""
        priorities = Priorities(o for o in self.objects if isinstance(o, PriorityClass))
        known = priorities.names
        self.diagnostics += [problem for name, problem in self._unclassed if name not in known]
        for pod in self.objects:
            if isinstance(pod, Pod):
                fill_in(pod)
                priorities.admit(pod)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an object stands: turns paths inside it into diagnostics."""

    loading: _Loading
    file: SourceFile
    marked: Marked | None
    prefix: Path

    def diagnostic(self, path: Path, code: str, message: str, hint: str) -> Diagnostic:
        """Return the diagnostic for a path inside the object."""
        span = (0, 1) if self.marked is None else self.marked.span((*self.prefix, *path))
        where = ".".join(str(step) for step in path)
        context = f"at {where}" if self.marked is None and where else ""
        return diagnostic(self.file, span, code, message, hint=hint, context=context)

    def report(self, path: Path, code: str, message: str, hint: str) -> None:
        """Report one problem."""
        self.loading.diagnostics.append(self.diagnostic(path, code, message, hint))

    def line(self) -> str:
        """Return file and line of the object."""
        start = 0 if self.marked is None else self.marked.span(self.prefix)[0]
        return f"{self.file.path}:{self.file.position(start)[0]}"


_ESCAPE: Final = re.compile(r"\\(?:u[dD][89a-fA-F][0-9a-fA-F]{2}|.)")


def _without_surrogates(file: SourceFile) -> SourceFile:
    """Return a file as long, without the halves of characters which JSON may escape, YAML not."""
    text = _ESCAPE.sub(lambda found: "x" * 6 if len(found[0]) == 6 else found[0], file.text)
    return SourceFile(file.path, text, file.first_line)


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data)
    except msgspec.DecodeError:
        return False
    return True
