"""Reads the objects of a test, short forms and manifests, as an API server keeps them.

Devices of nodes and claims of pods may be written in short forms, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from policy_sched import model
from policy_sched.language.cel import check_selector
from policy_sched.manifests import (
    NO_STRUCTS,
    OF_ADMISSION,
    Admission,
    ApiObject,
    Report,
    Structs,
    decode_object,
    not_applied,
    unknown_fields,
    with_claims,
)
from policy_sched.model import quantity
from policy_sched.policytest.reader import (
    DUPLICATE,
    NO_INPUTS,
    WRONG_VALUE,
    FieldPath,
    Inputs,
    Plain,
    Problems,
    expand,
)
from policy_sched.profiles.load import device_objects, selectors_in
from policy_sched.profiles.models import (
    ClaimEntry,
    DeviceEntry,
    Manifest,
    NodeEntry,
    PodEntry,
    PolicyTest,
    full_name,
)
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
    problems: Problems,
    test: PolicyTest,
    written: Plain,
    *,
    admitted: bool,
    inputs: Inputs = NO_INPUTS,
    structs: Structs = NO_STRUCTS,
) -> TestObjects:
    """Return the objects of a test that is ``written`` so.

    ``admitted``: they are as an API server had them. ``inputs``: the kinds that inputs of its
    policies read, by the input's name; ``structs``: how kinds are decoded that they read.
    """
    custom = _AnyKind(structs) if admitted else structs
    short, read = ShortDevices(problems, inputs, custom, admitted), TestObjects()
    stated = list(_objects("objects", test.objects, written, short, read))
    waiting = list(_pods(test, written, short, read))
    stated += _of_devices([obj for obj, _ in stated], short)
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


def _of_devices(stated: Sequence[ApiObject], short: ShortDevices) -> Iterator[_Read]:
    """Yield the slices, claims and classes that short forms of nodes and pods stand for."""
    names = [obj.metadata.name for obj in stated if isinstance(obj, model.DeviceClass)]
    classes = short.device_classes(names)
    for at, manifest in (*short.manifests, *classes):
        report = _reporter(short.problems, at, {})
        _check_selectors(short.problems, manifest, at)
        decoded = decode_object(manifest, report)
        if decoded is not None:
            yield decoded, report


def _objects(
    key: str, entries: Sequence[object], written: Plain, short: ShortDevices, read: TestObjects
) -> Iterator[_Read]:
    """Yield the objects of a list; ``read`` gets their places, and the names of wrong ones."""
    problems = short.problems
    seen: set[tuple[str, str, str]] = set()
    for i, entry in enumerate(entries):
        value, at = written[key][i], (key, i)
        manifest = expand(problems, entry, value, at, short.inputs)
        short.complete(entry, manifest, at)
        report = _reporter(problems, at, value)
        if isinstance(entry, Manifest) and not short.admitted:
            _check_manifest(problems, manifest, at)
        decoded = None
        if not problems.of_object(at):
            decoded = decode_object(manifest, report, short.custom)
        if decoded is None:
            if problems.of_object(at):
                read.unread.update(_names(manifest))
            continue
        name, namespace = decoded.metadata.name, decoded.metadata.namespace
        if (_kind(decoded), namespace, name) in seen:
            problems.add(at, DUPLICATE, f"{_kind(decoded)} {name} is there twice")
        seen.add((_kind(decoded), namespace, name))
        if not isinstance(decoded, model.Pod | model.Node):
            read.places[_kind(decoded), namespace, name] = at
        yield decoded, report


def _check_manifest(problems: Problems, manifest: Plain, at: FieldPath) -> None:
    """Report what kubectl apply refuses of a whole manifest, and what no test can show."""
    version, kind = str(manifest.get("apiVersion")), str(manifest.get("kind"))
    for path, code, message, hint in unknown_fields(version, kind, manifest):
        problems.add((*at, *path), code, message, hint=hint, key=True)
    if kind in OF_ADMISSION:
        path, code, message, hint = not_applied(kind)
        problems.add((*at, *path), code, message, hint=hint, key=True)
    _check_selectors(problems, manifest, at)


def _check_selectors(problems: Problems, manifest: Plain, at: FieldPath) -> None:
    """Report the mistakes of selectors over devices; those of their form are told by decoding."""
    for _, value in device_objects(manifest):
        for path, text in selectors_in(value):
            for problem in check_selector(text) if isinstance(text, str) else ():
                message, hint = problem.message, problem.hint
                problems.add((*at, *path), problem.code, message, hint=hint)


def _kind(decoded: ApiObject) -> str:
    custom = isinstance(decoded, model.CustomObject)
    return decoded.kind if custom else model.struct_of(decoded).__name__


def _names(manifest: object) -> Iterator[str]:
    """Yield what a manifest that cannot be read may be called; "" where nothing says so."""
    metadata = manifest.get("metadata") if isinstance(manifest, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        yield ""
        return
    yield name
    yield f"{namespace}/{name}" if isinstance(namespace, str) else full_name(name)


def _reporter(problems: Problems, at: FieldPath, written: object) -> Report:
    """Return the function that notes a problem of a manifest where it, or its short form, stands.

    A short form has no ``spec.containers[0].resources.requests.cpu``, but it may have ``cpu``.
    """
    short = written if isinstance(written, dict) and "kind" not in written else None

    def report(path: FieldPath, code: str, message: str, hint: str) -> None:
        inside = path
        if short is not None and path:
            inside = path[-1:] if path[-1] in short else path if path[0] in short else ()
        problems.add((*at, *inside), code, message, hint=hint)

    return report


def _pods(
    test: PolicyTest, written: Plain, short: ShortDevices, read: TestObjects
) -> Iterator[_Read]:
    for obj, report in _objects("pending", test.pending, written, short, read):
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


@dataclass(slots=True)
class ShortDevices:
    """What short forms say of devices, over all objects of a test, and what they may begin with.

    ``inputs``: the kinds of inputs, by name; ``custom``: how kinds are
    decoded that policies read.
    """

    problems: Problems
    inputs: Inputs
    custom: Structs
    admitted: bool = False
    """Whether the objects are as an API server had them."""
    devices: dict[tuple[str, str], tuple[str, Plain]] = field(default_factory=dict)
    """By node and name, the driver and the device of a slice."""
    classes: dict[str, FieldPath] = field(default_factory=dict)
    """The classes that requests name, and where."""
    manifests: list[tuple[FieldPath, Plain]] = field(default_factory=list)
    """Slices and claims, each with the short form that it stands for."""

    def complete(self, entry: object, manifest: Plain, path: FieldPath) -> None:
        """Note the devices or claims of a short form; a pod's manifest gets its claims."""
        if isinstance(entry, PodEntry) and entry.claims:
            claims = list(self._of_pod(entry, path))
            self.manifests += [(path, claim) for claim in claims]
            manifest["spec"]["resourceClaims"] = self._references(claims, path)
        elif isinstance(entry, NodeEntry):
            self.manifests += [
                (path, resource_slice) for resource_slice in self._of_node(entry, path)
            ]

    def _of_node(self, entry: NodeEntry, path: FieldPath) -> Iterator[Plain]:
        """Yield the slices of a node in short form."""
        node = entry.node
        by_driver: dict[str, list[Plain]] = {}
        for i, value in enumerate(entry.devices):
            at = (*path, "devices", i)
            stated = DeviceEntry(device=value) if isinstance(value, str) else value
            driver, device = stated.driver or DRIVER, self._device(stated, at)
            if stated.device and (node, stated.device) in self.devices:
                self.problems.add(at, DUPLICATE, f"device {stated.device} is there twice")
            self.devices[node, stated.device] = driver, device
            by_driver.setdefault(driver, []).append(device)
        for driver, devices in by_driver.items():
            pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
            spec: Plain = {"driver": driver, "nodeName": node, "pool": pool, "devices": devices}
            yield _object("ResourceSlice", {"name": f"{node}-{driver}"}, spec)

    def _of_pod(self, entry: PodEntry, path: FieldPath) -> Iterator[Plain]:
        """Yield the claims of a pod in short form."""
        uid = full_name(entry.pod)
        namespace, _, name = uid.partition("/")
        node = entry.node or ""
        for i, value in enumerate(entry.claims):
            where = (*path, "claims", i)
            stated = ClaimEntry(claim=value) if isinstance(value, str) else value
            request = "gpu" if stated.claim is None else stated.claim
            metadata: Plain = {"name": f"{name}-{request}", "namespace": namespace}
            claim = _object(
                "ResourceClaim", metadata, {"devices": self._wanted(stated, request, where)}
            )
            if stated.devices:
                consumer = {"resource": "pods", "name": name, "uid": uid}
                results = [
                    result
                    for j, device in enumerate(stated.devices)
                    if (result := self._result(stated, request, node, device, (*where, j)))
                ]
                claim["status"] = {
                    "allocation": {"devices": {"results": results}, "nodeSelector": _only(node)},
                    "reservedFor": [consumer],
                }
            yield claim

    def _wanted(self, stated: ClaimEntry, request: str, at: FieldPath) -> Plain:
        of_class = DRIVER if stated.device_class is None else stated.device_class
        self.classes.setdefault(of_class, (*at, "class"))
        exactly: Plain = {"deviceClassName": of_class}
        if stated.count == "All":
            exactly["allocationMode"] = "All"
        else:
            count = 1 if stated.count is None else stated.count
            if count < 1:
                text = "a claim is for one device or more"
                self.problems.add((*at, "count"), WRONG_VALUE, text)
            exactly |= {"allocationMode": "ExactCount", "count": count}
        if stated.capacity:
            exactly["capacity"] = {"requests": self._amounts(stated.capacity, (*at, "capacity"))}
        if stated.selector is not None:
            exactly["selectors"] = [{"cel": {"expression": stated.selector}}]
        devices: Plain = {"requests": [{"name": request, "exactly": exactly}]}
        if stated.match_attribute is not None:
            devices["constraints"] = [{"matchAttribute": stated.match_attribute}]
        return devices

    def _result(
        self, stated: ClaimEntry, request: str, node: str, name: str, at: FieldPath
    ) -> Plain | None:
        """Return what says that a claim has a device of the pod's node."""
        driver_and_device = self.devices.get((node, name))
        if driver_and_device is None:
            where = f"node {node}" if node else "no node: the pod runs nowhere"
            text = f"there is no device {name} on {where}"
            hint = "state the node with its devices before the pod"
            self.problems.add(at[:-1], WRONG_VALUE, text, hint=hint)
            return None
        driver, device = driver_and_device
        result: Plain = {"request": request, "driver": driver, "pool": node, "device": name}
        if device.get("allowMultipleAllocations"):
            result["shareID"] = "-".join(map(str, (request, *at)))
            result["consumedCapacity"] = {
                name: str(stated.capacity.get(name, amount["value"]))
                for name, amount in device.get("capacity", {}).items()
            }
        return result

    def device_classes(self, stated_classes: Sequence[str]) -> Iterator[tuple[FieldPath, Plain]]:
        """Yield a class for each name that requests have and ``known`` lacks: of that driver."""
        for name, path in self.classes.items():
            if name not in stated_classes:
                expression = f'device.driver == "{name}"'
                selectors = [{"cel": {"expression": expression}}]
                yield path, _object("DeviceClass", {"name": name}, {"selectors": selectors})

    def _references(self, claims: Sequence[Plain], path: FieldPath) -> list[Plain]:
        """Return a pod's references to its claims."""
        references: list[Plain] = []
        for i, claim in enumerate(claims):
            name = claim["spec"]["devices"]["requests"][0]["name"]
            if any(reference["name"] == name for reference in references):
                self.problems.add((*path, "claims", i), DUPLICATE, f"claim {name} is there twice")
            references.append({"name": name, "resourceClaimName": claim["metadata"]["name"]})
        return references

    def _device(self, stated: DeviceEntry, at: FieldPath) -> Plain:
        """Return the device of a short form."""
        device: Plain = {"name": stated.device}
        if stated.attributes:
            device["attributes"] = {k: _attribute(v) for k, v in stated.attributes.items()}
        if stated.capacity:
            amounts = {k: v for k, v in stated.capacity.items() if not isinstance(v, dict)}
            texts = self._amounts(amounts, (*at, "capacity"))
            device["capacity"] = stated.capacity | {k: {"value": v} for k, v in texts.items()}
        if stated.shared:
            device["allowMultipleAllocations"] = True
        if stated.taints:
            device["taints"] = list(stated.taints)
        return device

    def _amounts(self, amounts: Mapping[str, object], at: FieldPath) -> dict[str, str]:
        """Return amounts as texts; what is no quantity is noted."""
        for name, amount in amounts.items():
            try:
                quantity(str(amount))
            except ValueError:
                text = f"{shortened(str(amount))} is no quantity"
                hint = "for example 40Gi, 500m or 8"
                self.problems.add((*at, name), WRONG_VALUE, text, hint=hint)
        return {name: str(amount) for name, amount in amounts.items()}


def _attribute(value: object) -> object:
    if isinstance(value, bool):
        return {"bool": value}
    if isinstance(value, int):
        return {"int": value}
    return {"string": value} if isinstance(value, str) else value


def _only(node: str) -> Plain:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {"nodeSelectorTerms": [{"matchFields": [field]}]}


def _object(kind: str, metadata: Plain, spec: Plain) -> Plain:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
