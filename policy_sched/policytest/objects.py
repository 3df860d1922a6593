"""Reads the objects of a test, short forms and manifests, as an API server keeps them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from policy_sched import model
from policy_sched.manifests import Admission, ApiObject, Report, decode_object, with_claims
from policy_sched.policytest.devices import ShortDevices
from policy_sched.policytest.reader import (
    DUPLICATE,
    WRONG_VALUE,
    FieldPath,
    Plain,
    Reader,
    expand,
    full_name,
)

_Read = tuple[ApiObject, Report]
"""An object, and what notes its problems."""


@dataclass(slots=True)
class TestObjects:
    """The objects of a test, the pods that wait, and the names of what cannot be read."""

    __test__ = False  # no test of pytest

    objects: tuple[ApiObject, ...] = ()
    pending: tuple[model.Pod, ...] = ()
    unread: set[str] = field(default_factory=set)

    def hides(self, name: str) -> bool:
        """Return whether an object that cannot be read may have this name (a pod's is full)."""
        return name in self.unread or "" in self.unread


def read_objects(reader: Reader, fields: Plain, *, admitted: bool) -> TestObjects:
    """Return the objects of a document. ``admitted``: they are as an API server had them."""
    short, read = ShortDevices(), TestObjects()
    stated = list(_objects(reader, fields, "objects", short, read.unread))
    waiting = list(_pods(reader, fields, short, read.unread))
    stated += _of_devices(reader, [obj for obj, _ in stated], short)
    admission = Admission(obj for obj, _ in stated)
    for obj, report in (*stated, *waiting):
        if not admitted or isinstance(obj, model.ResourceClaim | model.ResourceClaimTemplate):
            admission.admit(obj, report)
    objects: list[ApiObject] = [obj for obj, _ in stated]
    pending: list[ApiObject] = [obj for obj, _ in waiting]
    if not admitted:
        objects = with_claims(objects)
        templates = [obj for obj in objects if isinstance(obj, model.ResourceClaimTemplate)]
        pending = with_claims([*templates, *pending])
        objects += (obj for obj in pending if isinstance(obj, model.ResourceClaim))
    read.objects = tuple(objects)
    read.pending = tuple(obj for obj in pending if isinstance(obj, model.Pod))
    return read


def _of_devices(
    reader: Reader, stated: Sequence[ApiObject], short: ShortDevices
) -> Iterator[_Read]:
    """Yield the slices, claims and classes that short forms of nodes and pods stand for."""
    names = [obj.metadata.name for obj in stated if isinstance(obj, model.DeviceClass)]
    classes = short.device_classes(names)
    for at, manifest in (*short.manifests, *classes):
        report = _reporter(reader, at, {})
        decoded = decode_object(manifest, report)
        if decoded is not None:
            yield decoded, report


def _objects(
    reader: Reader, fields: Plain, key: str, short: ShortDevices, unread: set[str]
) -> Iterator[_Read]:
    """Yield the objects of a list; the names of those that cannot be read go into ``unread``."""
    seen: set[tuple[type, str, str]] = set()
    for i, value in enumerate(reader.items(fields.get(key), (key,))):
        at = (key, i)
        before = len(reader.problems)
        manifest = expand(reader, value, at)
        short.complete(reader, value, manifest, at)
        report = _reporter(reader, at, value)
        decoded = decode_object(manifest, report) if len(reader.problems) == before else None
        if decoded is None:
            if len(reader.problems) > before:
                unread.update(_names(manifest))
            continue
        name, namespace = decoded.metadata.name, decoded.metadata.namespace
        if (type(decoded), namespace, name) in seen:
            reader.problem(at, DUPLICATE, f"{type(decoded).__name__} {name} is there twice")
        seen.add((type(decoded), namespace, name))
        yield decoded, report


def _names(manifest: Plain) -> Iterator[str]:
    """Yield what a manifest that cannot be read may be called; "" where nothing says so."""
    metadata = manifest.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        yield ""
        return
    yield name
    yield f"{namespace}/{name}" if isinstance(namespace, str) else full_name(name)


def _reporter(reader: Reader, at: FieldPath, written: object) -> Report:
    """Return the function that notes a problem of a manifest where it, or its short form, stands.

    A short form has no ``spec.containers[0].resources.requests.cpu``, but it may have ``cpu``.
    """
    short = written if isinstance(written, dict) and "kind" not in written else None

    def report(path: FieldPath, code: str, message: str, hint: str) -> None:
        inside = path
        if short is not None and path:
            inside = path[-1:] if path[-1] in short else path if path[0] in short else ()
        reader.problem((*at, *inside), code, message, hint=hint)

    return report


def _pods(reader: Reader, fields: Plain, short: ShortDevices, unread: set[str]) -> Iterator[_Read]:
    for obj, report in _objects(reader, fields, "pending", short, unread):
        if isinstance(obj, model.Pod):
            yield obj, report
        else:
            report((), WRONG_VALUE, "only pods can be pending", "")


def pod_name(pod: model.Pod) -> str:
    """Return a pod's namespace/name; one without a namespace is in ``default``."""
    return f"{pod.metadata.namespace or model.DEFAULT_NAMESPACE}/{pod.metadata.name}"
