"""Reads plain data that a person wrote, and notes every problem with the place where it stands."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Final, TypeVar

from policy_sched import model
from policy_sched.errors import Diagnostic
from policy_sched.profiles import models
from policy_sched.profiles.load import files_below
from policy_sched.source import is_file_of_ours, leads_out, root_of, shortened

FieldPath = tuple[str | int, ...]
"""Where a value stands in a document: keys and list positions, from the top."""

Plain = dict[str, object]
"""A mapping as YAML and JSON give it."""

T = TypeVar("T")
Locate = Callable[[FieldPath, bool], Diagnostic]
"""Return a blank diagnostic at a path: at the key if the flag is set, else at the value."""

UNKNOWN_KEY: Final = "PS702"
WRONG_TYPE: Final = "PS703"
MISSING_KEY: Final = "PS704"
WRONG_VALUE: Final = "PS705"
DUPLICATE: Final = "PS708"
"""Codes of the family PS7xx: the shape of a file."""

MAX_SUGGESTIONS: Final = 100
"""Misspelt keys of a document for which the key that was meant is looked for."""


class Reader:
    """Typed access to one document; what is wrong becomes a Diagnostic in ``problems``."""

    def __init__(self, locate: Locate) -> None:
        self._locate = locate
        self.problems: list[Diagnostic] = []
        self._noted: set[Diagnostic] = set()
        self._suggestions = MAX_SUGGESTIONS

    def blank(self, path: FieldPath, key: bool) -> Diagnostic:
        """Return a diagnostic without words at ``path``, or at the nearest thing around it."""
        return self._locate(path, key)

    def problem(
        self, path: FieldPath, code: str, message: str, *, hint: str = "", key: bool = False
    ) -> None:
        """Note, once, that the value at ``path`` (or its key) is wrong."""
        blank = self._locate(path, key)
        diagnostic = replace(blank, code=code, message=message, hint=hint)
        if diagnostic not in self._noted:
            self._noted.add(diagnostic)
            self.problems.append(diagnostic)

    def mapping(self, value: object, path: FieldPath, known: Iterable[str] | None = None) -> Plain:
        """Return the mapping at ``path``; unknown keys are noted, with the nearest known one."""
        if not isinstance(value, dict):
            self._wrong(value, path, "a mapping")
            return {}
        fine: Plain = {}
        names = None if known is None else list(known)
        for key, item in value.items():
            if not isinstance(key, str):
                self.problem(path, WRONG_TYPE, f"key {key!r} must be text", hint="quote it")
            elif names is not None and key not in names:
                self._suggestions -= 1
                wanted = names if self._suggestions >= 0 else []
                close = difflib.get_close_matches(key, wanted, n=1)
                hint = f'did you mean "{close[0]}"?' if close else f"known: {', '.join(names)}"
                self.problem((*path, key), UNKNOWN_KEY, f'unknown key "{key}"', hint=hint, key=True)
            else:
                fine[key] = item
        return fine

    def items(self, value: object, path: FieldPath) -> Sequence[object]:
        """Return the list at ``path``; an absent one is empty."""
        if value is None:
            return ()
        if not isinstance(value, list):
            self._wrong(value, path, "a list")
            return ()
        return value

    def text(self, value: object, path: FieldPath) -> str:
        """Return the text at ``path``, or "" where something else stands there."""
        if not isinstance(value, str):
            self._wrong(value, path, "text")
            return ""
        return value

    def texts(self, value: object, path: FieldPath) -> tuple[str, ...]:
        """Return the list of texts at ``path``; one text stands for a list of one."""
        if isinstance(value, str):
            return (value,)
        return tuple(self.text(v, (*path, i)) for i, v in enumerate(self.items(value, path)))

    def whole(self, value: object, path: FieldPath) -> int:
        """Return the whole number at ``path``, or 0 where something else stands there."""
        if isinstance(value, bool) or not isinstance(value, int):
            self._wrong(value, path, "a whole number")
            return 0
        return value

    def by_name(
        self, value: Plain, key: str, path: FieldPath, read: Callable[[object, FieldPath], T]
    ) -> dict[str, T] | None:
        """Return what ``read`` makes of each entry of the mapping under ``key``, by name.

        None where the key is not there.
        """
        if key not in value:
            return None
        at = (*path, key)
        return {name: read(v, (*at, name)) for name, v in self.mapping(value[key], at).items()}

    def require(self, value: Plain, key: str, path: FieldPath) -> bool:
        """Return whether ``key`` is there; its absence is noted."""
        if key not in value:
            self.problem(path, MISSING_KEY, f'"{key}" is missing')
            return False
        return True

    def _wrong(self, value: object, path: FieldPath, wanted: str) -> None:
        what = f'"{path[-1]}"' if path and isinstance(path[-1], str) else "this"
        self.problem(path, WRONG_TYPE, f"{what} must be {wanted}, not {_kind(value)}")


def _kind(value: object) -> str:
    if value is None:
        return "empty"
    names: dict[type, str] = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "text",
        list: "a list",
        dict: "a mapping",
    }
    return names.get(type(value), type(value).__name__)


NODE_KEYS: Final = models.keys_of(models.NodeEntry)
POD_KEYS: Final = models.keys_of(models.PodEntry)
NAMESPACE_KEYS: Final = models.keys_of(models.NamespaceEntry)

EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
NODE_DEFAULTS: Final = {"cpu": "4", "memory": "32Gi", "pods": "110"}
"""The node of kube-scheduler's own benchmarks (scheduler_perf, node-default.yaml)."""
POD_IMAGE: Final = "registry.example/app:1"


def expand(
    reader: Reader, value: object, path: FieldPath, inputs: Mapping[str, model.Kind] | None = None
) -> Plain:
    """Return the manifest of a short or full form at ``path``.

    ``inputs``: the kinds of inputs, by the name with which the short form of an object begins.
    """
    if isinstance(value, str):
        return _pod(reader, {"pod": value}, path)
    if not isinstance(value, dict) or "kind" in value:
        return reader.mapping(value, path)
    if "pod" in value:
        return _pod(reader, reader.mapping(value, path, POD_KEYS), path)
    if "node" in value:
        return _node(reader, reader.mapping(value, path, NODE_KEYS), path)
    first = next(iter(value))
    if inputs and first in inputs:
        return _of_input(reader, value, path, first, inputs[first])
    if "namespace" in value:
        return _namespace(reader, reader.mapping(value, path, NAMESPACE_KEYS), path)
    reader.problem(
        path,
        WRONG_VALUE,
        "this is no object",
        hint="a manifest has apiVersion and kind; a short form begins with node, pod or namespace",
    )
    return {}


def _of_input(reader: Reader, short: Plain, path: FieldPath, word: str, kind: model.Kind) -> Plain:
    """Return the manifest of ``{INPUT: NAME, namespace: ..., spec: ...}``."""
    stated = reader.mapping(short, path)
    metadata: Plain = {"name": reader.text(stated.get(word), (*path, word))}
    metadata |= _only(stated, "namespace", "labels", "annotations")
    if "created" in stated:
        metadata["creationTimestamp"] = stated["created"]
    of_meta = (word, "namespace", "labels", "annotations", "created")
    rest = {key: value for key, value in stated.items() if key not in of_meta}
    return {"apiVersion": kind[0], "kind": kind[1], "metadata": metadata, **rest}


def full_name(name: str) -> str:
    """Return ``namespace/name``; a bare name is in the namespace ``default``."""
    return name if "/" in name else f"default/{name}"


def _namespace(reader: Reader, short: Plain, path: FieldPath) -> Plain:
    name = reader.text(short.get("namespace"), (*path, "namespace"))
    metadata: Plain = {"name": name, **_only(short, "labels", "annotations")}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _node(reader: Reader, short: Plain, path: FieldPath) -> Plain:
    name = reader.text(short.get("node"), (*path, "node"))
    labels = {"kubernetes.io/hostname": name}
    labels.update(_texts_of(reader, short, "labels", path))
    capacity: dict[str, str] = dict(NODE_DEFAULTS)
    capacity.update({k: str(short[k]) for k in NODE_DEFAULTS if k in short})
    capacity.update(_texts_of(reader, short, "resources", path))
    spec: Plain = _only(short, "unschedulable")
    if "taints" in short:
        at = (*path, "taints")
        written = reader.items(short["taints"], at)
        spec["taints"] = [_taint(reader, taint, (*at, i)) for i, taint in enumerate(written)]
    spec.update(reader.mapping(short.get("spec", {}), (*path, "spec")))
    status: Plain = {
        "capacity": capacity,
        "allocatable": dict(capacity),
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    if "images" in short:
        sizes = reader.mapping(short["images"], (*path, "images"))
        status["images"] = [{"names": [i], "sizeBytes": size} for i, size in sizes.items()]
    metadata: Plain = {"name": name, "labels": labels, **_only(short, "annotations")}
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status,
    }  # fmt: skip


def _pod(reader: Reader, short: Plain, path: FieldPath) -> Plain:
    namespace, _, name = full_name(
        reader.text(short.get("pod"), (*path, "pod") if len(short) > 1 else path)
    ).partition("/")
    metadata: Plain = {
        "name": name,
        "namespace": namespace,
        "uid": f"{namespace}/{name}",
        **_only(short, "labels", "annotations"),
    }
    if "created" in short:
        metadata["creationTimestamp"] = short["created"]
    if "owner" in short:
        metadata["ownerReferences"] = [_owner(reader.text(short["owner"], (*path, "owner")))]
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _spec(reader, short, path),
    }  # fmt: skip


def _owner(text: str) -> Plain:
    """``Kind/name``, or the bare name of a ReplicaSet."""
    kind, slash, name = text.rpartition("/")
    kind = kind if slash else "ReplicaSet"
    return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": text, "controller": True}


def _spec(reader: Reader, short: Plain, path: FieldPath) -> Plain:
    spec: Plain = _only(short, "nodeSelector", "affinity", "priority", "schedulerName")
    spec["containers"] = [_container(reader, short, path)]
    if "node" in short:
        spec["nodeName"] = short["node"]
    if "tolerations" in short:
        at = (*path, "tolerations")
        written = reader.items(short["tolerations"], at)
        spec["tolerations"] = [
            _toleration(reader, toleration, (*at, i)) for i, toleration in enumerate(written)
        ]
    if "gates" in short:
        gates = reader.texts(short["gates"], (*path, "gates"))
        spec["schedulingGates"] = [{"name": gate} for gate in gates]
    spec.update(reader.mapping(short.get("spec", {}), (*path, "spec")))
    return spec


def _container(reader: Reader, short: Plain, path: FieldPath) -> Plain:
    requests: dict[str, str] = {k: str(short[k]) for k in ("cpu", "memory") if k in short}
    requests.update(_texts_of(reader, short, "requests", path))
    container: Plain = {"name": "main", "image": short.get("image", POD_IMAGE)}
    if requests:
        container["resources"] = {"requests": requests}
    if "hostPorts" in short:
        at = (*path, "hostPorts")
        ports = reader.items(short["hostPorts"], at)
        container["ports"] = [_port(reader, port, (*at, i)) for i, port in enumerate(ports)]
    return container


def _port(reader: Reader, value: object, path: FieldPath) -> object:
    """A port number is a TCP host port; a mapping is taken as it is."""
    if isinstance(value, dict):
        return value
    port = reader.whole(value, path)
    return {"containerPort": port, "hostPort": port}


def _taint(reader: Reader, value: object, path: FieldPath) -> object:
    """``key=value:Effect`` or ``key:Effect``, as kubectl writes it; a mapping is taken as it is."""
    if not isinstance(value, str):
        return reader.mapping(value, path)
    pair, _, effect = value.rpartition(":")
    _check_effect(reader, effect, path, "a taint is written key=value:Effect")
    key, _, text = pair.partition("=")
    return {"key": key, "value": text, "effect": effect}


def _toleration(reader: Reader, value: object, path: FieldPath) -> object:
    """``key=value:Effect``; without ``=value`` any value, without ``:Effect`` any effect."""
    if not isinstance(value, str):
        return reader.mapping(value, path)
    pair, colon, effect = value.rpartition(":") if ":" in value else (value, "", "")
    toleration: Plain = {}
    if colon:
        _check_effect(reader, effect, path, "a toleration is written key=value:Effect")
        toleration["effect"] = effect
    key, equals, text = pair.partition("=")
    if equals:
        return {"key": key, "operator": "Equal", "value": text, **toleration}
    return {"key": key, "operator": "Exists", **toleration}


def _check_effect(reader: Reader, effect: str, path: FieldPath, hint: str) -> None:
    if effect not in EFFECTS:
        wanted = _either(EFFECTS)
        reader.problem(path, WRONG_VALUE, f'effect "{effect}" must be {wanted}', hint=hint)


def _either(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _texts_of(reader: Reader, short: Plain, key: str, path: FieldPath) -> dict[str, str]:
    """Return a mapping of texts; numbers are taken as their text, as in ``{cpu: 2}``."""
    return reader.by_name(short, key, path, lambda value, _: str(value)) or {}


def _only(short: Plain, *keys: str) -> Plain:
    return {key: short[key] for key in keys if key in short}


class References:
    """Finds the files that one file of tests names, or what is wrong with that.

    ``roots`` are the directories that the command was given; without any, `root_of` says what
    is allowed.
    """

    def __init__(self, file: str, roots: Sequence[str] = ()) -> None:
        self.file = file
        self._folder = FilePath(file).parent
        self._roots = (root_of(file), *map(FilePath, roots))

    def path(self, reference: str) -> str:
        """Return the path of a reference, as it is shown."""
        return str(self._folder / reference)

    def fault(self, reference: str) -> tuple[str, str] | None:
        """Return message and hint if a reference is not to be read; nothing of it is shown.

        A missing file is left to those that read it.
        """
        shown = shortened(reference)
        try:
            path = self._folder / reference
            if leads_out(path, self._roots):
                root = self._roots[0]
                hint = f"policy-sched test --root DIR lets tests name files below DIR, not {root}"
                return f"{shown} leads out of the directory that tests may read", hint
            return self._fault_of(path, shown) if path.exists() else None
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it holds the character NUL"
            return f"{shown} cannot be read: {why}", ""

    def _fault_of(self, path: FilePath, shown: str) -> tuple[str, str] | None:
        if path.is_dir():
            for file in files_below(path):
                if leads_out(file, self._roots):
                    return f"{shown} holds a link that leads out: {file.name!r}", ""
        elif not is_file_of_ours(path):
            message = f"{shown} is neither a policy nor a configuration"
            return message, "run policy-sched check FILE to see the problems of a file"
        return None
