"""Reads manifests: files and directories of API objects, with all problems at once.

Theory of operation. Every object is JSON first: a record of a JSON text, or the output of
`plain_documents` for YAML. JSON is decoded straight into structs; only an object that msgspec
rejects, or whose quantities are invalid, is read a second time, alone, as YAML with positions (a
superset of JSON). Every problem of every file is a Diagnostic; valid objects are returned
all the same.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path as FilePath
from typing import Final, TextIO

import msgspec
from msgspec.structs import replace

from policy_sched import source
from policy_sched.errors import Diagnostic
from policy_sched.manifests import decode
from policy_sched.manifests.admission import Admission
from policy_sched.manifests.decode import decode_object
from policy_sched.manifests.struct_errors import (
    MOST_PROBLEMS,
    LocatedManifest,
    ManifestPosition,
    Path,
    Report,
)
from policy_sched.model import KINDS, SKIPPED_KINDS, ApiObject, Pod, Workload
from policy_sched.report import Advance, unshown

__all__ = ["ApiObject", "Manifests", "Report", "decode_object", "load"]

DUPLICATE: Final = "PS708"

STEP: Final = 1000
"""Objects that are read from one sign of progress to the next."""
SUFFIXES: Final = (".yaml", ".yml", ".json", ".jsonl")
"""Suffixes of the files that are read in a directory; each also with .gz."""

STDIN: Final = "-"
SPLIT: Final = "split it, for instance into a file for each kind"
"""Hint for a file that is too large."""
LOOKED_AT: Final = 1000
"""Objects whose fields are looked at, which takes 0.1 ms each: more than a person writes."""
SLOW_YAML: Final = 8 << 20
"""Characters of YAML from which on JSON is recommended: 8 MiB, which take some 1.5 s."""


class Manifests(msgspec.Struct, frozen=True):
    """The objects in the order of the files, the problems, and the number of skipped objects.

    ``skipped`` counts objects of Kubernetes' own kinds that scheduling does not read. ``hints``
    recommend a faster form of the files. ``places`` has the position of each object, by its key.
    """

    objects: list[ApiObject]
    diagnostics: list[Diagnostic]
    skipped: int = 0
    hints: tuple[str, ...] = ()
    positions: Mapping[tuple[str, str, str], ManifestPosition] = msgspec.field(default_factory=dict)


def load(
    paths: Sequence[str],
    stdin: TextIO | None = None,
    *,
    defaults: bool = True,
    cluster: Sequence[ApiObject] = (),
    custom: decode.Structs = decode.NO_STRUCTS,
    advance: Advance = unshown,
) -> Manifests:
    """Read API objects from files, directories (recursively, sorted) and "-" for ``stdin``.

    Files end in .yaml, .yml, .json or .jsonl, or one of these and .gz; each may hold many
    objects. With ``defaults``, objects get what the API server sets (`Admission`), with the
    priority and runtime classes of the files and of ``cluster``. ``custom``: kinds that are read
    besides those that scheduling reads, as inputs of policies. ``advance`` is called with the
    number of objects after each `STEP` of them.
    """
    loading = _Loading(advance, custom)
    for path in paths:
        for name in _files(path, loading):
            data = _read(name, stdin, loading)
            if data is not None:
                loading.read(name, data)
    if defaults:
        loading.admit(cluster)
    unknown = islice(loading.unknown_fields(), MOST_PROBLEMS)
    diagnostics = sorted({*loading.diagnostics, *unknown, *loading.not_applied()})
    hints = tuple(loading.hints)
    return Manifests(loading.objects, diagnostics, loading.skipped, hints, loading.positions)


def _files(path: str, loading: _Loading) -> Iterator[str]:
    """Yield the files that a path names, in order."""
    position = FilePath(path)
    if path == STDIN or not position.is_dir():
        yield path
        return
    names = sorted(
        str(p)
        for p in position.rglob("*")
        if p.is_file() and p.name.removesuffix(".gz").endswith(SUFFIXES)
    )
    if not names:
        loading.fail(path, f"the directory holds no manifests ({', '.join(SUFFIXES)}, or .gz)")
    for name in names:
        if source.is_stray_link(FilePath(name), position, manifest=True):
            loading.fail(name, "a symbolic link leads out of the directory, to no manifest")
        else:
            yield name


def _read(name: str, stdin: TextIO | None, loading: _Loading) -> bytes | None:
    """Return a file's bytes, unpacked; None after reporting why it cannot be read."""
    try:
        if name == STDIN:
            text = "" if stdin is None else source.read_stream(stdin, name)
            return text.encode(errors="surrogateescape")
        return source.read_bytes(name, advice=SPLIT)
    except UnicodeDecodeError:
        reason = "what comes in is not UTF-8"
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    loading.fail(name, f"the file cannot be read: {reason}")
    return None


class _Head(msgspec.Struct, gc=False):
    """The fields that choose how a record is decoded."""

    apiVersion: str = ""  # noqa: N815  # the API's own name saves a renaming of every record
    kind: str = ""


class _Meta(msgspec.Struct, frozen=True, gc=False):
    namespace: str = ""


class _Skipped(_Head, gc=False):
    """What is read of an object that is skipped."""

    metadata: _Meta = _Meta()


class _List(_Head, gc=False):
    """A List, or a PodList and the like; its items are decoded one by one."""

    items: tuple[msgspec.Raw, ...] = ()


_head: Final = msgspec.json.Decoder(_Head)
_list: Final = msgspec.json.Decoder(_List)

_NESTED: Final = "a list inside a list is not read"
_NO_HEAD: Final = _Head()
_SKIPPED: Final = ApiObject()
"""Marks an object of a kind that is skipped."""


def _records(data: bytes) -> tuple[_Head | None, tuple[bytes | msgspec.Raw, ...]]:
    """Return the objects of a JSON text; if it is a list, with the kind that it implies.

    Raises msgspec.DecodeError if the text is not JSON, or its list is invalid.
    """
    head = _head.decode(data)
    if not _of_list(head.apiVersion, head.kind):
        return None, (data,)
    return _implied(head), _list.decode(data).items


def _of_list(version: str, kind: str) -> bool:
    return kind.endswith("List") and (version, kind) not in KINDS


def _implied(head: _Head) -> _Head:
    kind = head.kind.removesuffix("List")
    return _Head(head.apiVersion, kind) if kind else _NO_HEAD


def _fast(record: bytes | msgspec.Raw, implied: _Head, custom: decode.Structs) -> ApiObject | None:
    """Decode one JSON record straight into its struct; None if it needs the slow path."""
    try:
        head = _head.decode(record)
        kind = (head.apiVersion or implied.apiVersion, head.kind or implied.kind)
        struct = KINDS.get(kind) and custom.get(kind, KINDS[kind])
        if struct is None:
            skipped = kind in SKIPPED_KINDS and kind not in custom
            return _SKIPPED if skipped else None
        decoded = decode.decode_json(record, struct)
    except (msgspec.DecodeError, RecursionError):
        return None
    if decoded is None or not decoded.metadata.name:
        return None
    if decode.value_problem(decoded):
        return None
    decoded.api_version, decoded.kind = kind  # an item of a PodList does not repeat them
    return decoded


class _Loading:
    """One load in progress."""

    def __init__(self, advance: Advance, custom: decode.Structs) -> None:
        self.advance = advance
        self.custom = custom
        self.objects: list[ApiObject] = []
        self.diagnostics: list[Diagnostic] = []
        self.hints: list[str] = []
        self.skipped = 0
        self.of_admission: list[tuple[str, str, ManifestPosition]] = []
        """Kind, namespace and position of skipped objects that would change new pods."""
        self.positions: dict[tuple[str, str, str], ManifestPosition] = {}

    def fail(self, name: str, message: str) -> None:
        """Report a problem of a whole file."""
        self.diagnostics.append(Diagnostic(name, 1, 1, source.UNREADABLE, message))

    def read(self, name: str, data: bytes) -> None:
        """Read every object of one file."""
        text = source.decode_text(name, data)
        if isinstance(text, Diagnostic):
            self.diagnostics.append(text)
            return
        file, kind = source.SourceFile(name, text), name.removesuffix(".gz")
        if kind.endswith(".jsonl"):
            self._json_lines(file)
        elif kind.endswith(".json") or (name == STDIN and text.lstrip().startswith("{")):
            self._json(file)
        else:
            self._yaml(file)

    def _json_lines(self, file: source.SourceFile) -> None:
        """Read one object per line."""
        start = 0
        for line in file.text.split("\n"):
            if line.strip():
                end = start + len(line.removesuffix("\r"))
                self._one(
                    line.encode(errors="replace"),
                    ManifestPosition(file, source.PlainRecord(start, 0, end), True),
                )
            start += len(line) + 1

    def _json(self, file: source.SourceFile) -> None:
        """Read one object, the objects of a list, or one per line if there are several."""
        data = file.text.encode(errors="replace")
        whole = ManifestPosition(file, source.PlainRecord(0, 0, len(file.text)), True)
        try:
            implied, records = _records(data)
        except (msgspec.DecodeError, RecursionError):
            lines = [line for line in data.split(b"\n") if line.strip()]
            if len(lines) > 1 and _is_json(lines[0]):
                self._json_lines(file)
            else:
                self._document(whole)
            return
        if implied is None:
            self._one(data, whole)
            return
        start = 0
        for record in records:
            text = bytes(record).decode()
            start = file.text.index(text, start)
            position = ManifestPosition(file, source.PlainRecord(start, 0, start + len(text)), True)
            start += len(text)
            self._one(record, position, implied, nested=True)

    def _yaml(self, file: source.SourceFile) -> None:
        if len(file.text) > SLOW_YAML:
            self.hints.append(slow_yaml(file))
        documents, problems = source.plain_documents(file)
        for document in documents:
            if self._plain_document(file, document):
                return
        self.diagnostics.extend(problems)

    def _plain_document(self, file: source.SourceFile, document: source.PlainDocument) -> bool:
        """Add one document; return whether the rest of the file cannot be read."""
        if document.refused is not None:
            self.diagnostics.append(document.refused)
            return False
        head, items = document.head, document.items
        whole = ManifestPosition(file, document.whole)
        if items is None or not isinstance(head, dict) or not _is_list(head):
            return self._one(document.json(), whole)
        wrong = [
            ManifestPosition(file, item).look().problems for item in items if item.json is None
        ]
        if any(wrong):  # a document with an invalid text is left out
            self.diagnostics.extend(problem for problems in wrong for problem in problems)
            return False
        implied = _implied(_Head(head.get("apiVersion") or "", head["kind"]))
        for item in items:
            self._one(item.json, ManifestPosition(file, item), implied, nested=True)
        return False

    def _one(
        self,
        record: bytes | msgspec.Raw | None,
        position: ManifestPosition,
        implied: _Head = _NO_HEAD,
        *,
        nested: bool = False,
    ) -> bool:
        """Add one object, if necessary after the slow path; see `_document`.

        ``nested``: it is the item of a list, and ``implied`` is the kind that the list implies.
        """
        decoded = None if record is None else _fast(record, implied, self.custom)
        if decoded is _SKIPPED:
            self._skip(position, implied.kind)
        elif decoded is not None and decode.object_key(decoded) not in self.positions:
            self._take(decoded, position)
        elif nested:
            self._item(position.look(), position, implied)
        else:
            return self._document(position)
        return False

    def _skip(self, position: ManifestPosition, implied: str = "") -> None:
        """Count an object that is skipped."""
        self.skipped += 1
        try:
            head = msgspec.convert(position.plain(), _Skipped)
        except (msgspec.ValidationError, ValueError):
            return
        kind = head.kind or implied
        if kind in decode.OF_ADMISSION:
            self.of_admission.append((kind, head.metadata.namespace or "default", position))

    def _take(self, decoded: ApiObject, position: ManifestPosition) -> None:
        self.positions[decode.object_key(decoded)] = position
        self.objects.append(decoded)
        if len(self.objects) % STEP == 0:
            self.advance(STEP)

    def _document(self, position: ManifestPosition) -> bool:
        """Add a document by the slow path: an object, or a list of them.

        Returns whether the rest of the file cannot be read.
        """
        document = position.look()
        self.diagnostics.extend(document.problems)
        if document.problems:
            return document.ended
        items = decode.list_items(document.value)
        if items is None:
            self._object(document, position, ())
            return False
        for index, item in items:
            at: Path = ("items", index)
            if decode.list_items(item) is not None:
                self._report(document, at, decode.UNKNOWN_KIND, _NESTED)
            else:
                self._object(replace(document, value=item), position, at)
        return False

    def _item(self, document: LocatedManifest, position: ManifestPosition, implied: _Head) -> None:
        """Add an item of a list by the slow path."""
        self.diagnostics.extend(document.problems)
        if document.problems:
            return
        if decode.list_items(document.value) is not None:
            self._report(document, (), decode.UNKNOWN_KIND, _NESTED)
            return
        if isinstance(document.value, dict) and implied.kind:
            given = {"apiVersion": implied.apiVersion, "kind": implied.kind, **document.value}
            document = replace(document, value=given)
        self._object(document, position, ())

    def _report(
        self, document: LocatedManifest, path: Path, code: str, message: str, hint: str = ""
    ) -> None:
        self.diagnostics.append(document.diagnostic(path, code, message, hint))

    def _object(self, document: LocatedManifest, position: ManifestPosition, prefix: Path) -> None:
        """Add one object; ``prefix`` is its path in the document."""

        def report(path: Path, code: str, message: str, hint: str) -> None:
            self._report(document, (*prefix, *path), code, message, hint)

        kind = decode.kind_of(document.value, report, self.custom)
        if kind is None:
            return
        if kind in SKIPPED_KINDS and kind not in self.custom:
            self._skip(position)
            return
        decoded = decode_object(document.value, report, self.custom)
        if decoded is None:
            return
        if document.marked is not None:
            start, end = document.marked.span(prefix)
            position = ManifestPosition(
                document.file, source.PlainRecord(start, 0, end), position.is_json
            )
        key = decode.object_key(decoded)
        if key in self.positions:
            name = "/".join(part for part in key[1:] if part)
            message = f"duplicate {decode.kind_name(decoded)} {name}"
            report(
                ("metadata", "name"),
                DUPLICATE,
                message,
                f"the first one is at {self.positions[key]}",
            )
            return
        self._take(decoded, position)

    def admit(self, cluster: Sequence[ApiObject]) -> None:
        """Do to the objects what the API server does when they are created."""
        admission = Admission([*cluster, *self.objects])
        for obj in self.objects:

            def report(
                path: Path, code: str, message: str, hint: str, obj: ApiObject = obj
            ) -> None:
                position = self.positions[decode.object_key(obj)]
                self._report(position.look(), path, code, message, hint)

            admission.admit(obj, report)

    def unknown_fields(self) -> Iterator[Diagnostic]:
        """Yield a warning for each field that no object of its kind has, where a person wrote it.

        Objects with a UID come from a cluster, perhaps of another version.
        """
        written = (obj for obj in self.objects if not obj.metadata.uid)
        for obj in islice(written, LOOKED_AT):
            position = self.positions[decode.object_key(obj)]
            unknown = list(decode.unknown_fields(obj.api_version, obj.kind, position.plain()))
            if unknown:
                located = position.look()
                yield from (located.warning(*problem) for problem in unknown)

    def not_applied(self) -> Iterator[Diagnostic]:
        """Yield a warning for each object that changes or refuses new pods, if there are some."""
        new = {
            obj.metadata.namespace or "default"
            for obj in self.objects
            if isinstance(obj, Workload) or (isinstance(obj, Pod) and not obj.metadata.uid)
        }
        scoped = ("LimitRange", "ResourceQuota")
        for kind, namespace, position in self.of_admission:
            if namespace in new or (new and kind not in scoped):
                yield position.look().warning(*decode.not_applied(kind))


def slow_yaml(file: source.SourceFile) -> str:
    """Return the hint for a large file of YAML."""
    words = f"{file.path}: {len(file.text) >> 20} MiB of YAML; JSON is read four times as fast"
    why = (
        ""
        if source.LIBYAML
        else ", and this PyYAML lacks libyaml, which takes YAML ten times as long"
    )
    return f"{words} (kubectl get -o json){why}"


def _is_list(head: Mapping[str, object]) -> bool:
    version, kind = head.get("apiVersion"), head.get("kind")
    known = isinstance(kind, str) and (version is None or isinstance(version, str))
    return known and _of_list(str(version or ""), str(kind))


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
