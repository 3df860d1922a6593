"""Objects of right types and any content, of every kind that is served, as JSON and protobuf."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from policy_sched.embedded.apiserver.registry.resources import BUILT_IN, ServedResource
from policy_sched.model import messages
from tests.embedded.apiserver.protobuf.wire import envelope, message
from tests.embedded.world import pod_spec, workload

Plain = dict[str, Any]
TEXTS: Final = (
    "", "a", "x", "web", "n0", "default", "Always", "Never", "Recreate", "RollingUpdate",
    "OnDelete", "Parallel", "Indexed", "Exists", "In", "50%", "9" * 30 + "%", "-1%", "0-5,7", "3-1",
    "True", "Ready", "Progressing", "Complete", "ClusterIP", "NodePort", "None", "Retain",
    "kube-system", "kubernetes.io/hostname", "v1", "Pod", "Running", "Failed", "NoExecute",
    "\u00e9", "a/b", "a" * 70,
)  # fmt: skip
NUMBERS: Final = (0, 1, 2, 5, -1, 100, 30_080, 2**31 - 1, -(2**31))
LONGS: Final = (*NUMBERS, 2**63 - 1, -(2**63))
AMOUNTS: Final = ("0", "1", "100m", "-1", "1Ki", "9E", "1e3", 1, 0.5, "0.0000000001")
TIMES: Final = ("2026-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00")
RESTARTS: Final = {
    "Deployment": "Always", "ReplicaSet": "Always", "StatefulSet": "Always", "DaemonSet": "Always",
    "Job": "Never",
}  # fmt: skip
STORED: Final = [one for one in BUILT_IN.served if not (one.review or one.computed)]
LIKELY: Final = [
    one for one in STORED
    if one.kind in {*RESTARTS, "Pod", "Node", "Service", "ResourceQuota", "PodDisruptionBudget",
                    "PersistentVolume", "PersistentVolumeClaim", "Namespace", "Event"}
]  # fmt: skip
"""What controllers, kubelets and the event log read."""


class Objects:
    """Makes objects from a source of randomness."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def resource(self) -> ServedResource:
        """Return a resource, more often one that something in the cluster reads."""
        return self._random.choice(LIKELY if self._random.random() < 0.6 else STORED)

    def made(self, one: ServedResource) -> Plain:
        """Return an object of a resource; workloads mostly have a template that works."""
        data = self._message(f"{one.group_version}/{one.kind}", 0)
        meta = data.get("metadata") or {}
        kept = {key: meta[key] for key in ("labels", "annotations", "finalizers") if key in meta}
        name = f"o{self._random.randrange(3)}"
        data["metadata"] = {**kept, "name": name}
        if one.kind in RESTARTS and self._random.random() < 0.9:
            valid = workload(one.kind, name, template=pod_spec(restartPolicy=RESTARTS[one.kind]))
            spec = data.get("spec") or {}
            some = [key for key in sorted(spec) if key not in ("selector", "template")]
            odd = {key: spec[key] for key in self._random.sample(some, len(some) // 3)}
            data["metadata"] = {"name": name}
            data["spec"] = {**odd, **valid["spec"]}
        return {"apiVersion": one.group_version, "kind": one.kind, **data}

    def _message(self, name: str, depth: int) -> Plain:
        likely = 0.6 if depth < 2 else 0.25
        return {
            field: self._field(type_, depth)
            for field, type_ in messages.fields_of(name).items()
            if self._random.random() < likely or field in ("spec", "containers", "template")
        }

    def _field(self, field: messages.MessageField, depth: int) -> Any:
        if self._random.random() < 0.03:
            return None
        if field.mapped:
            keys = self._random.sample(TEXTS, self._random.randrange(3))
            return {key: self._value(field.type, depth) for key in keys}
        if field.repeated:
            return [self._value(field.type, depth) for _ in range(self._random.randrange(3))]
        return self._value(field.type, depth)

    def _value(self, kind: str, depth: int) -> Any:
        choice = self._random.choice
        match kind:
            case "s":
                return choice(TEXTS)
            case "i":
                return choice(NUMBERS)
            case "l":
                return choice(LONGS)
            case "b":
                return choice((True, False))
            case "x":
                return choice(("", "YQ=="))
            case "Quantity":
                return choice(AMOUNTS)
            case "Time" | "MicroTime":
                return choice(TIMES)
            case "IntOrString":
                return choice((*TEXTS, *NUMBERS))
            case "ExtraValue":
                return [choice(TEXTS)]
        return {"a": [1]} if kind in messages.LEAVES else self._message(kind, depth + 1)

    # Protobuf.

    def protobuf(self, one: ServedResource) -> bytes:
        """Return an object as protobuf, with bytes changed, cut off or doubled."""
        name = messages.message_of(one.group_version, one.kind)
        wire = self._wire(name, 0) if name else b""
        body = bytearray(envelope(one.group_version, one.kind, wire))
        for _ in range(self._random.randrange(6)):
            at = self._random.randrange(4, len(body) + 1)
            match self._random.randrange(4):
                case 0:
                    body[at : at + 1] = self._random.randbytes(1)
                case 1:
                    del body[at : at + self._random.randrange(9)]
                case 2:
                    body[at:at] = body[at : at + 20]
                case 3:
                    body[at:at] = b"\xff" * self._random.choice((1, 5, 10, 11))
        return bytes(body)

    def _wire(self, name: str, depth: int) -> bytes:
        likely = 0.6 if depth < 2 else 0.2
        fields = [
            (number, self._bare(field.type, depth))
            for number, field in messages.fields_by_number(name).items()
            for _ in range(1 + field.repeated)
            if self._random.random() < likely
        ]
        return message(*fields)

    def _bare(self, kind: str, depth: int) -> object:
        match kind:
            case "i" | "l" | "b":
                return abs(self._random.choice(LONGS)) if kind != "b" else 1
            case "s" | "x":
                return self._random.choice(TEXTS).encode()
        if kind not in messages.texts():
            return self._random.randbytes(self._random.randrange(12))
        return self._wire(kind, depth + 1)
