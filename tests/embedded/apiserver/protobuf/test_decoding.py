"""Protobuf bodies: what client-go sends, as JSON; and what is none."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from policy_sched.client.apimachinery.protobuf import PROTOBUF, varint
from policy_sched.embedded.apiserver.protobuf.decoding import NotReadError, read
from policy_sched.model.messages import LEAVES, fields_by_number, texts
from tests.embedded.apiserver.protobuf.wire import envelope, message, meta
from tests.embedded.apiserver.world import PODS, World, pod, serving
from tests.embedded.world import node

TIME = message((1, 1_700_000_000), (2, 123_456_000))
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


def read_as(api_version: str, kind: str, *fields: tuple[int, object]) -> Any:
    """Return what a message of a kind is read as, without its kind."""
    data = read(envelope(api_version, kind, message(*fields)))
    assert (data.pop("apiVersion"), data.pop("kind")) == (api_version, kind)
    return data


def test_an_object_is_read_as_the_json_that_go_would_write() -> None:
    """Empty fields are left out, pointers to zero are not; times, maps, lists, nested messages."""
    spec = message((1, ""), (2, 15), (3, TIME), (4, TIME), (5, 0))
    owner = message((1, "Pod"), (3, "p"), (4, "u"), (5, "v1"), (6, False))
    label = message((1, "k"), (2, "v"))
    empty = message((1, "none"))
    of = message((1, "l"), (8, message((1, 0))), (11, label), (11, empty), (13, owner), (14, "f"))
    assert read_as("coordination.k8s.io/v1", "Lease", (1, of), (2, spec)) == {
        "metadata": {
            "name": "l",
            "creationTimestamp": "1970-01-01T00:00:00Z",
            "labels": {"k": "v", "none": ""},
            "ownerReferences": [
                {"kind": "Pod", "name": "p", "uid": "u", "apiVersion": "v1", "controller": False}
            ],
            "finalizers": ["f"],
        },
        "spec": {
            "holderIdentity": "",
            "leaseDurationSeconds": 15,
            "acquireTime": "2023-11-14T22:13:20.123456Z",
            "renewTime": "2023-11-14T22:13:20.123456Z",
            "leaseTransitions": 0,
        },
    }


def test_volumes_are_read_with_their_source_in_their_spec() -> None:
    """As Go's embedded structs are; quantities are texts."""
    size = message((1, "storage"), (2, message((1, "1Gi"))))
    csi = message((22, message((1, "d"), (2, "h"), (3, False), (4, ""))))
    spec = message((1, size), (2, csi), (3, "ReadWriteOnce"), (5, "Delete"), (8, "Filesystem"))
    assert read_as("v1", "PersistentVolume", (2, spec)) == {
        "spec": {
            "capacity": {"storage": "1Gi"},
            "csi": {"driver": "d", "volumeHandle": "h"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete",
            "volumeMode": "Filesystem",
        }
    }


def test_all_values_of_the_tables_are_read() -> None:
    """Bytes, negative numbers, lists of texts in maps, fields of managers, the zero time."""
    assert read_as("v1", "ConfigMap", (3, message((1, "k"), (2, b"\xff")))) == {
        "binaryData": {"k": "/w=="}
    }
    extra = message((1, "scopes"), (2, message((1, "a"), (1, "b"))))
    spec = message((3, "joe"), (5, extra))
    assert read_as("authorization.k8s.io/v1", "SubjectAccessReview", (2, spec)) == {
        "spec": {"user": "joe", "extra": {"scopes": ["a", "b"]}}
    }
    entry = message((1, "m"), (4, message((1, -62_135_596_800))), (7, message((1, b'{"f:x":{}}'))))
    assert read_as("v1", "ConfigMap", (1, message((17, entry)))) == {
        "metadata": {"managedFields": [{"manager": "m", "fieldsV1": {"f:x": {}}}]}
    }
    assert read_as("autoscaling/v1", "Scale", (2, message((1, -1)))) == {"spec": {"replicas": -1}}


BINDING = message((1, meta("p")), (2, message((1, "Node"), (3, "n"))))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "expected prefix"),
        (b"k8s\0\xff", "unexpected EOF"),
        (b"k8s\0" + b"\xff" * 11, "integer overflow"),
        (b"k8s\0\x00\x00", "illegal tag 0"),
        (b"k8s\0\x0b", "illegal wireType 3"),
        (b"k8s\0" + varint(1 << 3) + b"\x01", "wrong wireType = 0"),
        (envelope("v1", "Binding", BINDING)[:-9], "unexpected EOF"),
        (envelope("v1", "Binding", message((1, message((1, b"\xff"))))), "can't decode byte"),
        (envelope("v1", "Binding", varint(1 << 3 | 5) + b"\0\0\0\0"), "wrong wireType = 5"),
        (envelope("v1", "Event", message((6, message((1, 2**62))))), "a time out of range"),
        (envelope("v1", "Event", message((6, message((1, "x"))))), "wrong wireType = 2"),
    ],
)
def test_what_is_no_object_is_refused(body: bytes, words: str) -> None:
    """Each with its own words."""
    with pytest.raises(ValueError, match=words):
        read(body)


@pytest.mark.parametrize(
    ("version", "kind", "body", "read_as_json"),
    [
        ("v1", "Binding", message((9, "x"), (2, message((3, "n")))), {"target": {"name": "n"}}),
        ("v1", "ConfigMap", message((2, message((1, "k"), (2, "v"), (3, "x")))),
         {"data": {"k": "v"}}),
        ("v1", "Pod", message((3, message((2, message((1, "Ready"), (7, 3)))))),
         {"status": {"conditions": [{"type": "Ready", "observedGeneration": 3}]}}),
        ("batch/v1", "Job",
         message((3, message((5, 1), (8, message((1, "a"))), (99, message((1, "x"))), (98, 5)))),
         {"status": {"succeeded": 1, "uncountedTerminatedPods": {"succeeded": ["a"]}}}),
    ],
)  # fmt: skip
def test_fields_that_are_not_known_are_skipped(
    version: str, kind: str, body: bytes, read_as_json: Any
) -> None:
    """A kube-controller-manager that is newer than the tables got 400 for a Job or a condition."""
    assert read(envelope(version, kind, body)) == {
        "kind": kind,
        "apiVersion": version,
        **read_as_json,
    }


def test_endpoint_slices_are_created_and_updated() -> None:
    """A kube-controller-manager got 415 for every service that it wrote slices of."""
    slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"

    def written(ready: int) -> bytes:
        endpoint = message((1, "10.0.0.1"), (2, message((1, ready))), (6, "n0"))
        port = message((1, "http"), (2, "TCP"), (3, 80))
        body = message((1, meta("s")), (2, endpoint), (3, port), (4, "IPv4"))
        return envelope("discovery.k8s.io/v1", "EndpointSlice", body)

    async def run() -> None:
        async with serving() as world:
            status, made = await world.ask("POST", slices, written(1), type=PROTOBUF)
            assert status == 201, made
            conditions = {"ready": True}
            addresses = ["10.0.0.1"]
            (endpoint,) = made["endpoints"]
            assert endpoint == {
                "addresses": addresses, "conditions": conditions, "nodeName": "n0",
            }  # fmt: skip
            assert made["ports"] == [{"name": "http", "protocol": "TCP", "port": 80}]
            assert made["addressType"] == "IPv4"
            status, made = await world.ask("PUT", f"{slices}/s", written(0), type=PROTOBUF)
            assert (status, made["endpoints"][0]["conditions"]) == (200, {"ready": False})

    asyncio.run(run())


def test_the_later_fields_of_pods_and_groups_are_read() -> None:
    """kube-controller-manager writes them, and a field that is skipped is lost."""
    spec = message((2, message((2, message((1, 3))))), (5, b"PodGroup"), (6, b"high"), (7, 1000))
    group = message((1, message((1, b"g"))), (2, spec))
    data = read(envelope("scheduling.k8s.io/v1alpha2", "PodGroup", group))
    gang = {"gang": {"minCount": 3}}
    assert data["spec"] == {
        "schedulingPolicy": gang, "disruptionMode": "PodGroup", "priorityClassName": "high",
        "priority": 1000,
    }  # fmt: skip
    cpu = message((1, b"cpu"), (2, message((1, b"2"))))
    status = message((19, cpu), (20, message((2, cpu))))
    pod = read(envelope("v1", "Pod", message((1, message((1, b"p"))), (3, status))))
    given = {"allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "2"}}}
    assert pod["status"] == given


def test_kinds_that_are_not_in_the_tables_are_not_guessed() -> None:
    """Nor what is encoded a second time."""
    for body in (
        envelope("batch/v2", "Job", b""),
        envelope("v2", "Binding", b""),
        b"k8s\0" + message((1, message((1, "v1"), (2, "Binding"))), (4, "application/json")),
    ):
        with pytest.raises(NotReadError):
            read(body)


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    """They are an object, or a ValueError."""
    for body in (data, b"k8s\0" + data, envelope("v1", "Event", data)):
        try:
            json.dumps(read(body))
        except ValueError:
            continue


def test_the_tables_name_only_messages_that_they_have() -> None:
    """Each type is a scalar, a leaf, or another message."""
    types = {"s", "i", "l", "b", "x", *LEAVES, *texts()}
    assert {f.type for name in texts() for f in fields_by_number(name).values()} <= types


async def _send(world: World, method: str, path: str, body: bytes) -> tuple[int, Any]:
    return await world.ask(method, path, body, type=PROTOBUF, accept=f"{PROTOBUF}, */*")


def test_a_scheduler_that_speaks_protobuf_is_understood() -> None:
    """It binds, writes events, renews its lease, and deletes; the answers are JSON."""

    async def run() -> None:
        async with serving() as world:
            await world.create("/api/v1/nodes", node("n"))
            for name in ("p", "q"):
                await world.create(PODS, pod(name))
            body = envelope("v1", "Binding", BINDING)
            status, answer = await _send(world, "POST", f"{PODS}/p/binding", body)
            assert (status, answer["status"]) == (201, "Success")
            about = message((1, "Pod"), (2, "default"), (3, "p"))
            who = ((4, "s"), (5, "s-0"), (6, "Binding"), (7, "Scheduled"), (11, "Normal"))
            event = message((1, meta("e")), (2, TIME), *who, (8, about))
            body = envelope("events.k8s.io/v1", "Event", event)
            path = "/apis/events.k8s.io/v1/namespaces/default/events"
            status, answer = await _send(world, "POST", path, body)
            assert (status, answer["regarding"]["name"]) == (201, "p")
            lease = message((1, meta("l")), (2, message((1, "me"), (2, 15))))
            body = envelope("coordination.k8s.io/v1", "Lease", lease)
            assert (await _send(world, "POST", LEASES, body))[0] == 201
            assert (await _send(world, "PUT", f"{LEASES}/l", body))[0] == 200
            body = envelope("v1", "DeleteOptions", message((1, 0), (4, "Background")))
            assert (await _send(world, "DELETE", f"{PODS}/q", body))[0] == 200
            gone = (await world.ask("GET", f"{PODS}/q"))[0]
            assert gone == 404

    asyncio.run(run())


def test_other_kinds_and_broken_bodies_are_refused_in_the_api_servers_words() -> None:
    """415 names what can be sent instead; 400 what is wrong."""

    async def run() -> None:
        async with serving() as world:
            body = envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", b"")
            path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            status, answer = await _send(world, "POST", path, body)
            assert (status, answer["reason"]) == (415, "UnsupportedMediaType")
            assert answer["message"].endswith(
                "accepted media types include: application/json, application/yaml"
            )
            status, answer = await _send(world, "POST", LEASES, b"k8s\0\x01")
            assert (status, answer["reason"]) == (400, "BadRequest")

    asyncio.run(run())
