"""Reads the objects of a test, short forms and manifests, as an API server keeps them.

Devices of nodes and claims of pods may be written in short forms, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from policy_sched import model
from policy_sched.manifests import (
    NO_STRUCTS,
    Admission,
    ApiObject,
    Report,
    Structs,
    decode_object,
    with_claims,
)
from policy_sched.model import quantity
from policy_sched.policytest.reader import (
    DUPLICATE,
    WRONG_VALUE,
    FieldPath,
    Plain,
    Reader,
    expand,
    full_name,
)
from policy_sched.profiles.models import ClaimEntry, DeviceEntry, keys_of
from policy_sched.source import shortened

ObjectPlace = tuple[str, str, str]
"""Kind, namespace ("" for none) and name of an object."""

_Read = tuple[ApiObject, Report]
"""An object, and what notes its problems."""


@dataclass(slots=True)
class TestObjects:
    """The objects of a test, the pods that wait, and the names of what cannot be read."""

    __test__ = False  # no test of pytest

    objects: tuple[ApiObject, ...] = ()
    pending: tuple[model.Pod, ...] = ()
    unread: set[str] = field(default_factory=set)
    places: dict[ObjectPlace, FieldPath] = field(default_factory=dict)
    """Where the objects stand that are neither pods nor nodes."""

    def hides(self, name: str) -> bool:
        """Return whether an object that cannot be read may have this name (a pod's is full)."""
        return name in self.unread or "" in self.unread


class _AnyKind(Mapping[model.Kind, type[ApiObject]]):
    """Every kind: a recorded cluster has objects that no policy reads."""

    def __init__(self, structs: Structs) -> None:
        self._structs = structs

    def __getitem__(self, kind: model.Kind) -> type[ApiObject]:
        return self._structs.get(kind) or model.KINDS.get(kind, model.CustomObject)

    def __contains__(self, kind: object) -> bool:
        return True

    def __iter__(self) -> Iterator[model.Kind]:
        return iter(self._structs)

    def __len__(self) -> int:
        return len(self._structs)


def read_objects(
    reader: Reader,
    fields: Plain,
    *,
    admitted: bool,
    inputs: Mapping[str, model.Kind] | None = None,
    structs: Structs = NO_STRUCTS,
) -> TestObjects:
    """Return the objects of a document. ``admitted``: they are as an API server had them.

    ``inputs``: the kinds that inputs of its policies read, by the input's name; ``structs``: how
    kinds are decoded that they read.
    """
    short, read = ShortDevices(inputs=inputs or {}), TestObjects()
    short.custom = _AnyKind(structs) if admitted else structs
    stated = list(_objects(reader, fields, "objects", short, read))
    waiting = list(_pods(reader, fields, short, read))
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
    reader: Reader, fields: Plain, key: str, short: ShortDevices, read: TestObjects
) -> Iterator[_Read]:
    """Yield the objects of a list; ``read`` gets their places, and the names of wrong ones."""
    seen: set[tuple[str, str, str]] = set()
    for i, value in enumerate(reader.items(fields.get(key), (key,))):
        at = (key, i)
        before = len(reader.problems)
        manifest = expand(reader, value, at, short.inputs)
        short.complete(reader, value, manifest, at)
        report = _reporter(reader, at, value)
        decoded = None
        if len(reader.problems) == before:
            decoded = decode_object(manifest, report, short.custom)
        if decoded is None:
            if len(reader.problems) > before:
                read.unread.update(_names(manifest))
            continue
        name, namespace = decoded.metadata.name, decoded.metadata.namespace
        if (_kind(decoded), namespace, name) in seen:
            reader.problem(at, DUPLICATE, f"{_kind(decoded)} {name} is there twice")
        seen.add((_kind(decoded), namespace, name))
        if not isinstance(decoded, model.Pod | model.Node):
            read.places[_kind(decoded), namespace, name] = at
        yield decoded, report


def _kind(decoded: ApiObject) -> str:
    custom = isinstance(decoded, model.CustomObject)
    return decoded.kind if custom else model.struct_of(decoded).__name__


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


def _pods(reader: Reader, fields: Plain, short: ShortDevices, read: TestObjects) -> Iterator[_Read]:
    for obj, report in _objects(reader, fields, "pending", short, read):
        if isinstance(obj, model.Pod):
            yield obj, report
        else:
            report((), WRONG_VALUE, "only pods can be pending", "")


def pod_name(pod: model.Pod) -> str:
    """Return a pod's namespace/name; one without a namespace is in ``default``."""
    return f"{pod.metadata.namespace or model.DEFAULT_NAMESPACE}/{pod.metadata.name}"


DRIVER: Final = "gpu.example.com"
"""The driver of devices, and the class of requests, that name none."""
API_VERSION: Final = "resource.k8s.io/v1"
DEVICE_KEYS: Final = keys_of(DeviceEntry)
CLAIM_KEYS: Final = keys_of(ClaimEntry)


@dataclass(slots=True)
class ShortDevices:
    """What short forms say of devices, over all objects of a test, and what they may begin with.

    ``inputs``: the kinds of inputs, by name; ``custom``: how kinds are
    decoded that policies read.
    """

    inputs: Mapping[str, model.Kind] = field(default_factory=dict)
    custom: Structs = field(default_factory=dict)
    devices: dict[tuple[str, str], tuple[str, Plain]] = field(default_factory=dict)
    """By node and name, the driver and the device of a slice."""
    classes: dict[str, FieldPath] = field(default_factory=dict)
    """The classes that requests name, and where."""
    manifests: list[tuple[FieldPath, Plain]] = field(default_factory=list)
    """Slices and claims, each with the short form that it stands for."""

    def complete(self, reader: Reader, value: object, manifest: Plain, path: FieldPath) -> None:
        """Note the devices or claims of a short form; a pod's manifest gets its claims."""
        if not isinstance(value, dict) or "kind" in value:
            return
        if "pod" in value and "claims" in value:
            claims = list(self._of_pod(reader, value, path))
            self.manifests += [(path, claim) for claim in claims]
            spec = manifest.get("spec")
            if isinstance(spec, dict):
                spec["resourceClaims"] = _references(reader, claims, path)
        elif "node" in value and "pod" not in value and "devices" in value:
            self.manifests += [
                (path, resource_slice) for resource_slice in self._of_node(reader, value, path)
            ]

    def _of_node(self, reader: Reader, short: Plain, path: FieldPath) -> Iterator[Plain]:
        """Yield the slices of a node in short form."""
        node = reader.text(short.get("node"), (*path, "node"))
        at = (*path, "devices")
        by_driver: dict[str, list[Plain]] = {}
        for i, value in enumerate(reader.items(short.get("devices"), at)):
            driver, device = _device(reader, value, (*at, i))
            name = str(device["name"])
            if name and (node, name) in self.devices:
                reader.problem((*at, i), DUPLICATE, f"device {name} is there twice")
            self.devices[node, name] = driver, device
            by_driver.setdefault(driver, []).append(device)
        for driver, devices in by_driver.items():
            pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
            spec: Plain = {"driver": driver, "nodeName": node, "pool": pool, "devices": devices}
            yield _object("ResourceSlice", {"name": f"{node}-{driver}"}, spec)

    def _of_pod(self, reader: Reader, short: Plain, path: FieldPath) -> Iterator[Plain]:
        """Yield the claims of a pod in short form."""
        namespace, _, name = full_name(reader.text(short.get("pod"), (*path, "pod"))).partition("/")
        at = (*path, "claims")
        node = str(short.get("node", ""))
        for i, value in enumerate(reader.items(short.get("claims"), at)):
            stated, where = _claim_of(reader, value, (*at, i)), (*at, i)
            metadata: Plain = {"name": f"{name}-{stated['name']}", "namespace": namespace}
            claim = _object(
                "ResourceClaim", metadata, {"devices": self._wanted(reader, stated, where)}
            )
            devices = reader.texts(stated.get("devices"), (*where, "devices"))
            if devices:
                consumer = {"resource": "pods", "name": name, "uid": f"{namespace}/{name}"}
                results = [
                    result
                    for j, device in enumerate(devices)
                    if (result := self._result(reader, stated, node, device, (*where, j)))
                ]
                claim["status"] = {
                    "allocation": {"devices": {"results": results}, "nodeSelector": _only(node)},
                    "reservedFor": [consumer],
                }
            yield claim

    def _wanted(self, reader: Reader, stated: Plain, at: FieldPath) -> Plain:
        of_class = reader.text(stated.get("class", DRIVER), (*at, "class"))
        self.classes.setdefault(of_class, (*at, "class"))
        exactly: Plain = {"deviceClassName": of_class}
        if stated.get("count") == "All":
            exactly["allocationMode"] = "All"
        else:
            count = reader.whole(stated.get("count", 1), (*at, "count"))
            if count < 1 and isinstance(stated.get("count"), int):
                reader.problem((*at, "count"), WRONG_VALUE, "a claim is for one device or more")
            exactly |= {"allocationMode": "ExactCount", "count": count}
        amounts = reader.by_name(stated, "capacity", at, partial(_amount, reader))
        if amounts is not None:
            exactly["capacity"] = {"requests": amounts}
        if "selector" in stated:
            expression = reader.text(stated["selector"], (*at, "selector"))
            exactly["selectors"] = [{"cel": {"expression": expression}}]
        devices: Plain = {"requests": [{"name": stated["name"], "exactly": exactly}]}
        if "matchAttribute" in stated:
            attribute = reader.text(stated["matchAttribute"], (*at, "matchAttribute"))
            devices["constraints"] = [{"matchAttribute": attribute}]
        return devices

    def _result(
        self, reader: Reader, stated: Plain, node: str, name: str, at: FieldPath
    ) -> Plain | None:
        """Return what says that a claim has a device of the pod's node."""
        driver_and_device = self.devices.get((node, name))
        if driver_and_device is None:
            where = f"node {node}" if node else "no node: the pod runs nowhere"
            text = f"there is no device {name} on {where}"
            hint = "state the node with its devices before the pod"
            reader.problem(at[:-1], WRONG_VALUE, text, hint=hint)
            return None
        driver, device = driver_and_device
        result: Plain = {
            "request": stated["name"], "driver": driver, "pool": node, "device": name,
        }  # fmt: skip
        if device.get("allowMultipleAllocations"):
            amounts = {n: c["value"] for n, c in _capacity(device).items()}
            asked = stated.get("capacity")
            result["shareID"] = "-".join(map(str, (stated["name"], *at)))
            result["consumedCapacity"] = {
                n: str(asked.get(n, whole)) if isinstance(asked, dict) else whole
                for n, whole in amounts.items()
            }
        return result

    def device_classes(self, stated_classes: Sequence[str]) -> Iterator[tuple[FieldPath, Plain]]:
        """Yield a class for each name that requests have and ``known`` lacks: of that driver."""
        for name, path in self.classes.items():
            if name not in stated_classes:
                expression = f'device.driver == "{name}"'
                selectors = [{"cel": {"expression": expression}}]
                yield path, _object("DeviceClass", {"name": name}, {"selectors": selectors})


def _references(reader: Reader, claims: Sequence[Plain], path: FieldPath) -> list[Plain]:
    """Return a pod's references to its claims."""
    references: list[Plain] = []
    for i, claim in enumerate(claims):
        name = _request_name(claim)
        if any(reference["name"] == name for reference in references):
            reader.problem((*path, "claims", i), DUPLICATE, f"claim {name} is there twice")
        metadata = claim["metadata"]
        assert isinstance(metadata, dict), "it was made so"
        references.append({"name": name, "resourceClaimName": metadata["name"]})
    return references


def _request_name(claim: Plain) -> object:
    spec: Any = claim["spec"]
    return spec["devices"]["requests"][0]["name"]


def _claim_of(reader: Reader, value: object, at: FieldPath) -> Plain:
    """Return a claim in short form; a name is one device of the usual class."""
    if isinstance(value, str):
        return {"name": value}
    stated = reader.mapping(value, at, CLAIM_KEYS)
    name = reader.text(stated["claim"], (*at, "claim")) if "claim" in stated else "gpu"
    return {**stated, "name": name}


def _device(reader: Reader, value: object, at: FieldPath) -> tuple[str, Plain]:
    """Return driver and device of a short form; a name is a device without anything else."""
    if isinstance(value, str):
        return DRIVER, {"name": value}
    stated = reader.mapping(value, at, DEVICE_KEYS)
    name = ""
    if reader.require(stated, "device", at):
        name = reader.text(stated["device"], (*at, "device"))
    device: Plain = {"name": name}
    for key, read in (("attributes", _attribute), ("capacity", _given)):
        values = reader.by_name(stated, key, at, partial(read, reader))
        if values is not None:
            device[key] = values
    if stated.get("shared") is True:
        device["allowMultipleAllocations"] = True
    if "taints" in stated:
        device["taints"] = list(reader.items(stated["taints"], (*at, "taints")))
    return reader.text(stated.get("driver", DRIVER), (*at, "driver")), device


def _amount(reader: Reader, value: object, at: FieldPath) -> str:
    """Return an amount as text; one that is no quantity is noted."""
    try:
        quantity(str(value))
    except ValueError:
        hint = "for example 40Gi, 500m or 8"
        reader.problem(at, WRONG_VALUE, f"{shortened(str(value))} is no quantity", hint=hint)
        return "0"
    return str(value)


def _given(reader: Reader, value: object, at: FieldPath) -> object:
    return value if isinstance(value, dict) else {"value": _amount(reader, value, at)}


def _attribute(reader: Reader, value: object, at: FieldPath) -> object:
    if isinstance(value, bool):
        return {"bool": value}
    if isinstance(value, int):
        return {"int": value}
    return {"string": value} if isinstance(value, str) else reader.mapping(value, at)


def _capacity(device: Plain) -> Mapping[str, dict[str, object]]:
    amounts = device.get("capacity", {})
    return amounts if isinstance(amounts, dict) else {}


def _only(node: str) -> Plain:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {"nodeSelectorTerms": [{"matchFields": [field]}]}


def _object(kind: str, metadata: Plain, spec: Plain) -> Plain:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
