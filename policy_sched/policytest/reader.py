"""Short forms of objects become manifests; what is wrong is noted with its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any, Final

from policy_sched import model
from policy_sched.errors import Diagnostic
from policy_sched.profiles.load import files_below
from policy_sched.profiles.models import Document, NamespaceEntry, NodeEntry, PodEntry, full_name
from policy_sched.source import is_file_of_ours, leads_out, root_of, shortened

FieldPath = tuple[str | int, ...]
"""Where a value stands in a document: keys and list positions, from the top."""

Plain = dict[str, Any]
"""A mapping as YAML and JSON give it."""

Inputs = Mapping[str, model.Kind]
NO_INPUTS: Final[Inputs] = {}
Locate = Callable[[FieldPath, bool], Diagnostic]
"""Return a blank diagnostic at a path: at the key if the flag is set, else at the value."""

WRONG_TYPE: Final = "PS703"
MISSING_KEY: Final = "PS704"
WRONG_VALUE: Final = "PS705"
DUPLICATE: Final = "PS708"
"""Codes of the family PS7xx: the shape of a file."""

MAX_SUGGESTIONS: Final = 100
"""Misspelt keys of a document for which the key that was meant is looked for."""


class Problems:
    """What is wrong in one document, each thing once."""

    def __init__(self, locate: Locate) -> None:
        self.blank = locate
        self.noted: list[Diagnostic] = []
        self._told: set[Diagnostic] = set()
        self._objects: set[FieldPath] = set()

    def add(
        self, path: FieldPath, code: str, message: str, *, hint: str = "", key: bool = False
    ) -> None:
        """Note that the value at ``path`` (or its key) is wrong."""
        diagnostic = replace(self.blank(path, key), code=code, message=message, hint=hint)
        self._objects.add(path[:2])
        if diagnostic not in self._told:
            self._told.add(diagnostic)
            self.noted.append(diagnostic)

    def of_object(self, path: FieldPath) -> bool:
        """Return whether something is wrong with an entry of a list, or within it."""
        return path in self._objects


EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
NODE_DEFAULTS: Final = {"cpu": "4", "memory": "32Gi", "pods": "110"}
"""The node of kube-scheduler's own benchmarks (scheduler_perf, node-default.yaml)."""
POD_IMAGE: Final = "registry.example/app:1"


def expand(
    problems: Problems, entry: object, written: object, path: FieldPath, inputs: Inputs = NO_INPUTS
) -> Plain:
    """Return the manifest of an entry of ``objects`` or ``pending`` that was read.

    ``written``: how it stands at ``path``. ``inputs``: the kinds of inputs, by the name with which
    the short form of an object begins.
    """
    match entry:
        case str():
            return _pod(problems, PodEntry(pod=entry), path)
        case PodEntry():
            return _pod(problems, entry, path)
        case NodeEntry():
            return _node(problems, entry, path)
        case NamespaceEntry():
            metadata = {"name": entry.namespace, **_given(entry, "labels", "annotations")}
            return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    if not isinstance(written, dict):
        return {}
    word = next(iter(written), "")
    return _of_input(problems, written, path, word, inputs[word]) if word in inputs else written


def _of_input(
    problems: Problems, stated: Plain, path: FieldPath, word: str, kind: model.Kind
) -> Plain:
    """Return the manifest of ``{INPUT: NAME, namespace: ..., spec: ...}``."""
    if not isinstance(stated[word], str):
        problems.add((*path, word), WRONG_TYPE, f"{word}: expected a string, the object's name")
    of_meta = ("namespace", "labels", "annotations")
    metadata: Plain = {"name": stated[word], **{k: stated[k] for k in of_meta if k in stated}}
    if "created" in stated:
        metadata["creationTimestamp"] = stated["created"]
    rest = {k: v for k, v in stated.items() if k not in (word, *of_meta, "created")}
    return {"apiVersion": kind[0], "kind": kind[1], "metadata": metadata, **rest}


def _node(problems: Problems, entry: NodeEntry, path: FieldPath) -> Plain:
    own = {k: str(size) for k in NODE_DEFAULTS if (size := getattr(entry, k)) is not None}
    capacity = NODE_DEFAULTS | own | _texts_of(entry.resources)
    spec: Plain = {"unschedulable": entry.unschedulable}
    if entry.taints:
        at = (*path, "taints")
        spec["taints"] = [_taint(problems, taint, (*at, i)) for i, taint in enumerate(entry.taints)]
    status: Plain = {
        "capacity": capacity,
        "allocatable": dict(capacity),
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    if entry.images:
        status["images"] = [{"names": [i], "sizeBytes": size} for i, size in entry.images.items()]
    labels = {"kubernetes.io/hostname": entry.node, **_texts_of(entry.labels)}
    metadata: Plain = {"name": entry.node, "labels": labels, **_given(entry, "annotations")}
    spec |= entry.spec
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status,
    }  # fmt: skip


def _pod(problems: Problems, entry: PodEntry, path: FieldPath) -> Plain:
    uid = full_name(entry.pod)
    namespace, _, name = uid.partition("/")
    metadata: Plain = {
        "name": name, "namespace": namespace, "uid": uid, **_given(entry, "labels", "annotations"),
    }  # fmt: skip
    if entry.created is not None:
        metadata["creationTimestamp"] = entry.created
    if entry.owner is not None:
        metadata["ownerReferences"] = [_owner(entry.owner)]
    spec = _spec(problems, entry, path)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _owner(text: str) -> Plain:
    """``Kind/name``, or the bare name of a ReplicaSet."""
    kind, slash, name = text.rpartition("/")
    kind = kind if slash else "ReplicaSet"
    return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": text, "controller": True}


def _spec(problems: Problems, entry: PodEntry, path: FieldPath) -> Plain:
    spec = _given(entry, "node_selector", "affinity", "priority", "scheduler_name")
    spec["containers"] = [_container(entry)]
    if entry.node is not None:
        spec["nodeName"] = entry.node
    if entry.tolerations:
        at = (*path, "tolerations")
        spec["tolerations"] = [
            _toleration(problems, toleration, (*at, i))
            for i, toleration in enumerate(entry.tolerations)
        ]
    if entry.gates:
        spec["schedulingGates"] = [{"name": gate} for gate in entry.gates]
    return spec | entry.spec


def _container(entry: PodEntry) -> Plain:
    requests = _texts_of(
        {k: size for k, size in (("cpu", entry.cpu), ("memory", entry.memory)) if size is not None}
    )
    requests |= _texts_of(entry.requests)
    container: Plain = {"name": "main", "image": entry.image or POD_IMAGE}
    if requests:
        container["resources"] = {"requests": requests}
    if entry.host_ports:
        container["ports"] = [
            {"containerPort": port, "hostPort": port} if isinstance(port, int) else port
            for port in entry.host_ports
        ]
    return container


def _taint(problems: Problems, value: str | Plain, path: FieldPath) -> Plain:
    """``key=value:Effect`` or ``key:Effect``, as kubectl writes it; a mapping is taken as it is."""
    if not isinstance(value, str):
        return value
    pair, _, effect = value.rpartition(":")
    _check_effect(problems, effect, path, "a taint is written key=value:Effect")
    key, _, text = pair.partition("=")
    return {"key": key, "value": text, "effect": effect}


def _toleration(problems: Problems, value: str | Plain, path: FieldPath) -> Plain:
    """``key=value:Effect``; without ``=value`` any value, without ``:Effect`` any effect."""
    if not isinstance(value, str):
        return value
    pair, colon, effect = value.rpartition(":") if ":" in value else (value, "", "")
    toleration: Plain = {}
    if colon:
        _check_effect(problems, effect, path, "a toleration is written key=value:Effect")
        toleration["effect"] = effect
    key, equals, text = pair.partition("=")
    if equals:
        return {"key": key, "operator": "Equal", "value": text, **toleration}
    return {"key": key, "operator": "Exists", **toleration}


def _check_effect(problems: Problems, effect: str, path: FieldPath, hint: str) -> None:
    if effect not in EFFECTS:
        wanted = f"{', '.join(EFFECTS[:-1])} or {EFFECTS[-1]}"
        problems.add(path, WRONG_VALUE, f'effect "{effect}" must be {wanted}', hint=hint)


def _texts_of(amounts: Mapping[str, object]) -> dict[str, str]:
    """Return values as their texts, as in ``{cpu: 2}``."""
    return {name: str(value) for name, value in amounts.items()}


def _given(entry: Document, *names: str) -> Plain:
    """Return what is stated of some fields, by the keys of a manifest."""
    return entry.model_dump(include=entry.model_fields_set & {*names}, by_alias=True)


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
        """Return message and hint if a reference is not to be read; nothing of it is shown."""
        shown = shortened(reference)
        try:
            path = self._folder / reference
            if leads_out(path, self._roots):
                root = self._roots[0]
                hint = f"policy-sched test --root DIR lets tests name files below DIR, not {root}"
                return f"{shown} leads out of the directory that tests may read", hint
            if not path.exists():
                return f"{shown} is not there", f"paths are relative to {self._folder}"
            return self._fault_of(path, shown)
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
