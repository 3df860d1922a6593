"""Claims to devices as kube-scheduler writes them: made, allocated, reserved, given back."""

from __future__ import annotations

from pathlib import Path

from policy_sched.embedded.apiserver.protobuf.decoding import read
from tests.embedded.apiserver.go_client import GoClient
from tests.embedded.apiserver.protobuf.wire import envelope, message
from tests.embedded.apiserver.test_kube_scheduler_as_client import CLAIMS, PODS, again, tell
from tests.embedded.apiserver.world import World

GROUP = "resource.k8s.io/v1"
EXACTLY = message((1, "gpu"), (3, "ExactCount"), (4, 1))
SPEC = message((1, message((1, message((1, "r"), (2, EXACTLY))))))
HELD = (14, "resource.kubernetes.io/delete-protection")


def _claim(*parts: tuple[int, bytes]) -> bytes:
    return envelope(GROUP, "ResourceClaim", message(*parts))


def _allocated(uids: dict[str, str]) -> bytes:
    """Return a status: a device of a pool, on one node, for pods by name."""
    capacity = message((1, "memory"), (2, message((1, "8Gi"))))
    device = message((1, "r"), (2, "d.example.com"), (3, "pool"), (4, "dev-0"), (10, capacity))
    opaque = message((1, "d.example.com"), (2, message((1, b'{"mode":"fast"}'))))
    config = message((1, "FromClass"), (2, "r"), (3, message((1, opaque))))
    name = message((1, "metadata.name"), (2, "In"), (3, "n0"))
    where = message((1, message((2, name))))
    result = message((1, message((1, device), (2, config))), (3, where))
    pods = [message((1, ""), (3, "pods"), (4, pod), (5, uid)) for pod, uid in uids.items()]
    return message((1, result), *((2, other) for other in pods))


def test_claims_are_made_allocated_and_given_back(tmp_path: Path) -> None:
    """Each step as kube-scheduler writes it; one pod's reservation goes, the other's stays."""

    async def story(_world: World, client: GoClient) -> None:
        new = message((2, "p-extended-resources-"), (3, "default"))
        claim = await client.done("POST", CLAIMS, _claim((1, new), (2, SPEC)))
        (asked,) = claim["spec"]["devices"]["requests"]
        assert asked == {
            "name": "r",
            "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
        }
        path = f"{CLAIMS}/{claim['metadata']['name']}"
        claim = await client.done("PUT", path, _claim((1, again(claim, HELD)), (2, SPEC)))
        pods = [await client.done("GET", f"{PODS}/{name}") for name in ("p", "q")]
        uids = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}
        body = _claim((1, again(claim, HELD)), (2, SPEC), (3, _allocated(uids)))
        claim = await client.done("PUT", f"{path}/status", body)
        (device,) = claim["status"]["allocation"]["devices"]["results"]
        assert (device["device"], device["consumedCapacity"]) == ("dev-0", {"memory": "8Gi"})
        (config,) = claim["status"]["allocation"]["devices"]["config"]
        assert config["opaque"]["parameters"] == {"mode": "fast"}
        status, answer = await client.ask("PUT", f"{path}/status", body)
        assert (status, answer["reason"]) == (409, "Conflict")
        gone = [{"$patch": "delete", "uid": uids["p"]}]
        uid = claim["metadata"]["uid"]
        change = {"metadata": {"uid": uid}, "status": {"reservedFor": gone}}
        claim = await client.patch(f"{path}/status", change)
        assert [item["uid"] for item in claim["status"]["reservedFor"]] == [uids["q"]]
        assert claim["status"]["allocation"]
        await client.done("PUT", path, _claim((1, again(claim)), (2, SPEC)))
        await client.done("DELETE", path, envelope(GROUP, "DeleteOptions", b""))
        assert (await client.ask("GET", path))[0] == 404

    tell(tmp_path, story)


def test_what_drivers_publish_is_read() -> None:
    """Slices with attributes, capacities, counters and taints; classes with configurations."""
    attributes = [
        message((1, "model"), (2, message((4, "a")))),
        message((1, "cores"), (2, message((2, 0)))),
    ]
    policy = message((1, message((1, "1Gi"))), (4, message((1, message((1, "1Gi"))))))
    capacity = message((1, "memory"), (2, message((1, message((1, "8Gi"))), (2, policy))))
    counters = message((1, "set"), (2, message((1, "c"), (2, message((1, message((1, "2"))))))))
    device = message(
        (1, "dev-0"),
        *((2, attribute) for attribute in attributes),
        (3, capacity),
        (4, counters),
        (7, True),
    )
    pool = message((1, "pool"), (2, 0), (3, 1))
    spec = message((1, "d"), (2, pool), (3, "n0"), (6, device), (8, counters))
    data = read(envelope(GROUP, "ResourceSlice", message((2, spec))))
    assert data["spec"]["pool"] == {"name": "pool", "generation": 0, "resourceSliceCount": 1}
    assert data["spec"]["sharedCounters"] == [{"name": "set", "counters": {"c": {"value": "2"}}}]
    assert data["spec"]["devices"] == [
        {
            "name": "dev-0",
            "attributes": {"model": {"string": "a"}, "cores": {"int": 0}},
            "capacity": {
                "memory": {
                    "value": "8Gi",
                    "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi"}},
                }
            },
            "consumesCounters": [{"counterSet": "set", "counters": {"c": {"value": "2"}}}],
            "allNodes": True,
        }
    ]
    opaque = message((1, "d"), (2, message((1, b"[1]"))))
    selector = message((1, message((1, "true"))))
    chosen = message((1, selector), (2, message((1, message((1, opaque))))))
    data = read(envelope(GROUP, "DeviceClass", message((2, chosen))))
    assert data["spec"] == {
        "selectors": [{"cel": {"expression": "true"}}],
        "config": [{"opaque": {"driver": "d", "parameters": [1]}}],
    }
