"""Applies manifests to a cluster: new and changed objects are applied, removed ones deleted.

Theory of operation. As with ``kubectl apply --prune``, an object is applied when its manifest
changes, and deleted when no file contains it any more; other objects of the cluster are not
touched. An annotation names the file of each object, so that this works across restarts. Files
with errors change nothing: all problems are reported, and the cluster keeps the objects of the
last valid files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from policy_sched.client.apimachinery import Key, resource
from policy_sched.errors import ClusterError, Diagnostic, Severity
from policy_sched.manifests import SPLIT, SUFFIXES, ManifestPosition, list_items, load
from policy_sched.model import KINDS, SKIPPED_KINDS, ApiObject, CustomObject, Kind
from policy_sched.profiles.load import fingerprint
from policy_sched.source import UNREADABLE, SourceFile, is_stray_link, plain_documents, read_bytes

if TYPE_CHECKING:
    from policy_sched.embedded import EmbeddedCluster

FROM_FILE: Final = "policysched.dev/from-file"
"""Annotation: the file that an object came from; the object is deleted with the file."""
REFUSED: Final = "PS713"
"""Code of an object that the cluster rejects."""
TRIES: Final = 3
"""How often files that change while they are read are read again."""
_RESTLESS: Final = "the files change while they are read"
_DEFINITION: Final = "CustomResourceDefinition"
_FIRST: Final = (_DEFINITION, "Namespace", "PriorityClass", "StorageClass", "CSIDriver", "Node")
"""Kinds that others refer to; they are applied first, in this order."""


class Given(msgspec.Struct, frozen=True):
    """An object of a file, and its position."""

    key: Key
    data: dict[str, Any]
    file: str
    line: int


class ManifestContents(msgspec.Struct, frozen=True):
    """The objects of files in the order in which they are applied, or problems."""

    objects: dict[Key, Given]
    problems: tuple[Diagnostic, ...] = ()


class AppliedManifests(msgspec.Struct, frozen=True):
    """The result of applying files; objects are named ``Kind namespace/name``."""

    applied: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    problems: tuple[Diagnostic, ...] = ()


def manifests_below(path: Path) -> list[Path]:
    """Return the manifests below a directory, sorted; for a file the file itself.

    Names that begin with a dot are skipped: a mounted ConfigMap has every file twice.
    """
    if not path.is_dir():
        return [path]
    return sorted(
        file
        for file in path.rglob("*")
        if file.name.removesuffix(".gz").endswith(SUFFIXES)
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
        and file.is_file()
        and not is_stray_link(file, path, manifest=True)
    )


class ManifestFiles:
    """Files and directories of objects; without any, no object is applied or deleted."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = tuple(paths)
        self.seen = fingerprint(self.paths, manifests_below)
        """The state of the files before they were first read."""
        self._applied: dict[Key, dict[str, Any]] = {}

    def read(self) -> ManifestContents:
        """Return the contents of the files; uses no cluster, so it may run in a thread."""
        before = fingerprint(self.paths, manifests_below)
        for _ in range(TRIES):
            contents = self._read()
            after = fingerprint(self.paths, manifests_below)
            if contents is not None and after == before:
                return contents
            before = after
        problems = (Diagnostic(path, 1, 1, UNREADABLE, _RESTLESS) for path in self.paths[:1])
        return ManifestContents({}, tuple(problems))

    def _read(self) -> ManifestContents | None:
        """Read all files once; None if one changed in the meantime."""
        files = [str(file) for path in self.paths for file in manifests_below(Path(path))]
        problems = tuple(load(files, defaults=False, custom=_OF_A_DEFINITION).diagnostics)
        if any(d.severity is Severity.ERROR for d in problems):
            return ManifestContents({}, problems)
        try:
            givens = [given for file in files for given in _objects(file)]
        except (OSError, LookupError, ValueError, ClusterError):
            return None  # the file was valid a moment ago, so it has changed
        givens.sort(key=lambda given: _rank(given.key.kind[1]))
        return ManifestContents({given.key: given for given in givens}, problems)

    def apply(self, contents: ManifestContents, cluster: EmbeddedCluster) -> AppliedManifests:
        """Apply the contents; each rejected object is a problem."""
        problems = contents.problems
        if not self.paths or any(d.severity is Severity.ERROR for d in problems):
            return AppliedManifests(problems=problems)
        applied, refused = [], []
        defining = False
        for given in contents.objects.values():
            if self._applied.get(given.key) == given.data:
                continue
            if defining and given.key.kind[1] != _DEFINITION:
                cluster.step()  # what was defined is served
            defining = given.key.kind[1] == _DEFINITION
            try:
                cluster.apply(_marked(given))
            except ClusterError as error:
                refused.append(Diagnostic(given.file, given.line, 1, REFUSED, str(error)))
                continue
            self._applied[given.key] = given.data
            applied.append(_name(given.key))
        deleted = list(self._prune(contents, cluster))
        return AppliedManifests(tuple(applied), tuple(deleted), (*problems, *refused))

    def _prune(self, contents: ManifestContents, cluster: EmbeddedCluster) -> Iterator[str]:
        """Delete the objects whose file no longer contains them; yield the names."""
        store = cluster.store
        present = {_settled(given.key, given.data, cluster) for given in contents.objects.values()}
        gone = [
            entry.key
            for entry in store.everything()
            if FROM_FILE in entry.typed.metadata.annotations and entry.key not in present
        ]
        for key in reversed(gone):
            self._applied.pop(key, None)
            stored = store.find(key.kind, key.namespace, key.name)
            if stored is not None and not stored.deleting:
                cluster.delete(key)
                yield _name(key)
        for key in self._applied.keys() - contents.objects.keys():
            del self._applied[key]  # already deleted by another client


_GROUPS: Final = {version.rpartition("/")[0] for version, _ in (*KINDS, *SKIPPED_KINDS)} - {
    "scheduling.x-k8s.io"  # whose kinds are custom ones
}


class _OfADefinition(Mapping[Kind, type[ApiObject]]):
    """Every kind of a group that only a CustomResourceDefinition can add; the cluster knows it."""

    def __getitem__(self, kind: Kind) -> type[ApiObject]:
        if kind in self:
            return CustomObject
        raise KeyError(kind)

    def __contains__(self, kind: object) -> bool:
        if not isinstance(kind, tuple) or kind in KINDS:
            return False
        group = str(kind[0]).rpartition("/")[0]
        return "." in group and group not in _GROUPS

    def __iter__(self) -> Iterator[Kind]:
        return iter(())

    def __len__(self) -> int:
        return 0


_OF_A_DEFINITION: Final = _OfADefinition()


def _marked(given: Given) -> dict[str, Any]:
    meta = given.data.get("metadata") or {}
    annotations = {**(meta.get("annotations") or {}), FROM_FILE: given.file}
    return {**given.data, "metadata": {**meta, "annotations": annotations}}


def _name(key: Key) -> str:
    where = f"{key.namespace}/" if key.namespace else ""
    return f"{key.kind[1]} {where}{key.name}"


def _rank(kind: str) -> int:
    return _FIRST.index(kind) if kind in _FIRST else len(_FIRST)


def _objects(file: str) -> Iterator[Given]:
    """Yield the objects of a valid file."""
    text = read_bytes(file, advice=SPLIT).decode("utf-8-sig")
    name = file.removesuffix(".gz")
    for line, value in _documents(file, name, text):
        items = list_items(value)
        for element in [value] if items is None else [item for _, item in items]:
            if isinstance(element, dict):
                yield Given(_key(element), element, file, line)


def _documents(file: str, name: str, text: str) -> Iterator[tuple[int, object]]:
    """Yield the documents of a text, each with its first line."""
    if name.endswith((".yaml", ".yml")):
        source = SourceFile(file, text)
        for document in plain_documents(source)[0]:
            data = document.json()
            begin = source.position(document.whole.start)[0]
            whole = ManifestPosition(source, document.whole)
            yield begin, whole.look().value if data is None else msgspec.json.decode(data)
        return
    if name.endswith(".json"):
        try:
            yield 1, json.loads(text)
        except json.JSONDecodeError:
            pass  # JSON lines: one object on each line
        else:
            return
    for line_number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield line_number, json.loads(line)


def _settled(key: Key, data: dict[str, Any], cluster: EmbeddedCluster) -> Key:
    """Return the key that the cluster has for an object: of custom kinds it knows the scope."""
    custom = cluster.store.custom.find((data["apiVersion"], data["kind"]))
    if custom is None or not custom.kind.resource.namespaced:
        return key
    return Key(key.kind, key.namespace or "default", key.name)


def _key(value: dict[str, Any]) -> Key:
    meta, stated = value["metadata"], (value["apiVersion"], value["kind"])
    if stated in _OF_A_DEFINITION:
        group = stated[0].rpartition("/")[0]
        return Key((group, stated[1]), meta.get("namespace") or "", meta["name"])
    kind = resource(stated)
    namespace = (meta.get("namespace") or "default") if kind.namespaced else ""
    return Key(kind.key, namespace, meta["name"])
