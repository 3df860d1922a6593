"""Claims whose drivers' parameters are bytes that JSON cannot keep, on a server that keeps them."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
import pytest

from policy_sched.client.apimachinery import PROTOBUF, fields
from policy_sched.client.kube.client import KubeClient
from policy_sched.errors import ClusterError
from policy_sched.framework import SUCCESS, Code, PendingStatus, Status
from policy_sched.model import AllocationResult, PodInfo, ResourceClaim
from policy_sched.plugins.dynamicresources import claim_writes
from policy_sched.testing import make_pod
from tests.client.kube.stage import Asked, Script, Wire, acted, stage, status
from tests.embedded.apiserver.protobuf.wire import envelope, message

Plain = dict[str, Any]
PATH: Final = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c"
PARAMETERS: Final = b'{ "mode" : "fast",\n  "share": "a & b" }'
OPAQUE: Final = message((1, "gpu.example.com"), (2, message((1, PARAMETERS))))
REQUEST: Final = message((1, "r"), (2, message((1, "gpu"), (3, "ExactCount"), (4, 1))))
SPEC: Final = message((1, message((1, REQUEST), (3, message((2, message((1, OPAQUE))))))))
DEVICE: Final = message((1, "r"), (2, "gpu.example.com"), (3, "n0"), (4, "d0"))
ALLOCATION: Final = message(
    (1, message((1, DEVICE), (2, message((1, "FromClaim"), (3, message((1, OPAQUE))))))),
    (5, message((1, 1_800_000_000), (2, 0))),
    (77, "of a later version"),
)
RESULT: Final[Plain] = {
    "devices": {
        "results": [{"request": "r", "driver": "gpu.example.com", "pool": "n0", "device": "d0"}]
    }
}


class Etcd:
    """A claim as an API server keeps it: in protobuf; only JSON goes through JSON.

    Of an update of the object the specification is immutable, of its status the allocation once
    there is one. (strategy.go and validation.go of kube-apiserver's ResourceClaim)
    """

    def __init__(self, allocation: bytes = b"", *consumers: str) -> None:
        self.version = 7
        self.finalizers: tuple[str, ...] = (claim_writes.FINALIZER,) if allocation else ()
        self.spec = SPEC
        self.allocation = allocation
        self.consumers = consumers
        self.answers: list[tuple[str, str, int]] = []

    @property
    def body(self) -> bytes:
        """The claim in protobuf, with a field of a later version."""
        finalizers = [(14, name) for name in self.finalizers]
        head = ((1, "c"), (2, ""), (3, "default"), (5, "uid-c"), (6, str(self.version)))
        meta = message(*head, *finalizers, (99, "of a later version"))
        consumers = [(2, message((3, "pods"), (4, n), (5, f"uid-{n}"))) for n in self.consumers]
        allocation = [(1, self.allocation)] if self.allocation else []
        claim = message((1, meta), (2, self.spec), (3, message(*allocation, *consumers)))
        return envelope("resource.k8s.io/v1", "ResourceClaim", claim)

    def json(self) -> Plain:
        """The claim in JSON: parameters are compact there."""
        config = {"opaque": {"driver": "gpu.example.com", "parameters": msgspec.Raw(PARAMETERS)}}
        consumers = [{"resource": "pods", "name": n, "uid": f"uid-{n}"} for n in self.consumers]
        found: Plain = {"reservedFor": consumers}
        if self.allocation:
            stamp = {"allocationTimestamp": "2027-01-15T08:00:00Z"}
            devices = {**RESULT["devices"], "config": [{"source": "FromClaim", **config}]}
            found["allocation"] = {"devices": devices, **stamp}
        meta = {"name": "c", "namespace": "default", "uid": "uid-c"}
        meta |= {"resourceVersion": str(self.version), "finalizers": list(self.finalizers)}
        request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
        spec = {"devices": {"requests": [request], "config": [config]}}
        plain = {"kind": "ResourceClaim", "metadata": meta, "spec": spec, "status": found}
        decoded: Plain = msgspec.json.decode(msgspec.json.encode(plain))
        return decoded

    async def script(self, asked: Asked, wire: Wire) -> None:
        """Answer as the API server does."""
        in_status = asked.path == f"{PATH}/status"
        assert in_status or asked.path == PATH
        code, answer = self._answer(asked, in_status=in_status)
        self.answers.append((asked.method, asked.path.removeprefix(PATH), code))
        kind = PROTOBUF if isinstance(answer, bytes) else "application/json"
        await wire.respond(code, answer, Content_Type=kind)

    def _answer(self, asked: Asked, *, in_status: bool) -> tuple[int, Plain | bytes]:
        if asked.method == "GET":
            exact = asked.headers["accept"].startswith(PROTOBUF)
            return 200, self.body if exact else self.json()
        if asked.method == "PATCH":
            if not in_status or (self.allocation and PARAMETERS in self.allocation):
                field = "status.allocation" if in_status else "spec"
                text = f'ResourceClaim "c" is invalid: {field}: Invalid value: field is immutable'
                return 422, status(422, "Invalid", text)
            allocation = asked.json["status"]["allocation"]
            assert allocation["devices"]["results"] == RESULT["devices"]["results"]
            self.allocation = ALLOCATION
            self.consumers = tuple(one["name"] for one in asked.json["status"]["reservedFor"])
        else:
            assert (asked.method, asked.headers["content-type"]) == ("PUT", PROTOBUF)
            meta, spec, state = (_parts(asked.body)[number] for number in (1, 2, 3))
            if _texts(meta, 6) != [str(self.version)]:
                return 409, status(409, "Conflict")
            assert _texts(meta, 99) == ["of a later version"]
            if in_status:
                assert b"".join(_values(state, 1)) == self.allocation
                reserved = [(*_texts(one, 4), *_texts(one, 5)) for one in _values(state, 2)]
                names = [name for name, _ in reserved]
                assert reserved == [(name, f"uid-{name}") for name in names]
                self.consumers = tuple(names)
            else:
                assert spec == self.spec
                self.finalizers = tuple(_texts(meta, 14))
        self.version += 1
        return 200, self.json()


def _values(data: bytes, number: int) -> list[bytes]:
    return [bytes(value) for found, _, value in fields(memoryview(data)) if found == number]


def _texts(data: bytes, number: int) -> list[str]:
    return [value.decode() for value in _values(data, number)]


def _parts(body: bytes) -> dict[int, bytes]:
    (claim,) = _values(body.removeprefix(b"k8s\0"), 2)
    return {number: b"".join(_values(claim, number)) for number in (1, 2, 3)}


POD: Final = PodInfo.of(make_pod("p", uid="uid-p"))


def _reserving(claim: ResourceClaim, result: Plain | None) -> claim_writes.Writing[Status]:
    allocation = None if result is None else msgspec.convert(result, AllocationResult)
    try:
        yield from claim_writes.written(claim, POD, allocation, 1_800_000_000 * 10**9)
    except ClusterError as error:
        return Status(Code.ERROR, (str(error),))
    return SUCCESS


def run(etcd: Etcd, result: Plain | None, script: Script | None = None) -> Status:
    """Write the pod, and perhaps an allocation, into the claim as the watch has shown it."""
    found: list[Status | None] = []

    async def play() -> None:
        async with stage(script or etcd.script) as here, here.api() as api:
            client = KubeClient(api)
            claim = msgspec.convert(etcd.json(), ResourceClaim)
            writing = claim_writes.Run(client, _reserving(claim, result), PendingStatus())
            writing.start()
            await client.lanes.drained()
            client.lanes.check()
            found.append(writing.status)

    acted(play())
    assert found[0] is not None
    return found[0]


def test_a_claim_whose_parameters_have_white_space_is_allocated() -> None:
    """Its finalizer was patched in JSON: "spec: field is immutable", and no pod was ever bound."""
    etcd = Etcd()
    assert run(etcd, RESULT).ok
    assert etcd.finalizers == (claim_writes.FINALIZER,)
    assert etcd.consumers == ("p",)
    assert etcd.answers == [("GET", "", 200), ("PUT", "", 200), ("PATCH", "/status", 200)]


def test_an_allocation_with_such_parameters_takes_another_pod() -> None:
    """The second pod of a shared claim was refused, as a patch changed the allocation."""
    etcd = Etcd(ALLOCATION, "first")
    assert run(etcd, None).ok
    assert etcd.consumers == ("first", "p")
    assert etcd.answers == [("GET", "", 200), ("PUT", "/status", 200)]


def test_a_pod_is_taken_off_such_a_claim() -> None:
    """Unreserve could not give the claim back to others."""
    etcd = Etcd(ALLOCATION, "first", "p")

    async def play() -> None:
        async with stage(etcd.script) as here, here.api() as api:
            client = KubeClient(api)
            claim = msgspec.convert(etcd.json(), ResourceClaim)
            client.send(
                claim_writes.unreservation(claim, POD), lambda _claim, error: refused.append(error)
            )
            await client.lanes.drained()

    refused: list[ClusterError | None] = []
    acted(play())
    assert refused == [None]
    assert etcd.consumers == ("first",)


def test_a_claim_that_has_changed_since_is_read_again() -> None:
    """The update carries the version that was decided on, so the server tells of the change."""
    etcd = Etcd(ALLOCATION, "first")
    pending = [True]

    async def script(asked: Asked, wire: Wire) -> None:
        if pending and asked.method == "PUT":
            pending.clear()
            etcd.version, etcd.consumers = 8, ("first", "second")
        await etcd.script(asked, wire)

    assert run(etcd, None, script).ok
    assert etcd.consumers == ("first", "second", "p")
    assert [code for _, _, code in etcd.answers] == [200, 409, 200, 200, 200]


def test_a_server_without_protobuf_gets_patches() -> None:
    """The embedded API server responds in JSON whatever is accepted, and keeps JSON."""
    etcd, patches = Etcd(), []

    async def script(asked: Asked, wire: Wire) -> None:
        if asked.method == "PATCH":
            patches.append(asked.json)
            etcd.finalizers = (claim_writes.FINALIZER,)
        await wire.respond(200, etcd.json())

    assert run(etcd, RESULT, script).ok
    assert [list(one) for one in patches] == [["metadata"], ["metadata", "status"]]


@pytest.mark.parametrize("cut", [0, 3, 4, 7, 40, -1])
def test_a_response_that_is_no_claim_is_told(cut: int) -> None:
    """A response that broke off ends the write with a message, not the scheduler."""
    etcd = Etcd(ALLOCATION, "first")

    async def script(asked: Asked, wire: Wire) -> None:
        if asked.method == "GET":
            await wire.respond(200, etcd.body[:cut], Content_Type=PROTOBUF)
        else:
            await etcd.script(asked, wire)

    found = run(etcd, None, script)
    assert not found.ok
    assert re.search("add reservation to claim default/c: ", found.message())
