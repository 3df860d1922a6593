"""The table of rights and the client say the same: every call of the protocol has its rows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Literal

from msgspec.structs import replace

from policy_sched.client.apimachinery.resources import resource
from policy_sched.client.kube.cache.informers import POD_GROUPS, READ
from policy_sched.client.kube.client import KubeClient
from policy_sched.client.kube.rbac_rules import (
    GROUP_READING,
    GROUP_WRITING,
    READING,
    WRITING,
    Right,
)
from policy_sched.client.protocol import Client
from policy_sched.client.request import ObjectRequest
from policy_sched.embedded.apiserver.security.rbac import Attributes, attributes_of
from policy_sched.model.meta import ObjectMeta
from policy_sched.model.pod_group import PodGroup
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.resource import ResourceClaim
from policy_sched.model.storage import PersistentVolume, PersistentVolumeClaim
from policy_sched.plugins.volumes.binding import claim_patch, volume_patch
from policy_sched.scheduler import api_calls
from policy_sched.testing import make_pod
from tests.client.kube.stage import Asked, Wire, acted, stage
from tests.embedded.apiserver.protobuf.wire import envelope

POD = PodInfo.of(make_pod("p", uid="u"))
META = ObjectMeta(name="x", namespace="default", uid="x")
CLAIM_REQUESTS: Final[tuple[tuple[Literal["get", "create", "patch", "delete"], str], ...]] = (
    ("get", ""), ("create", ""), ("patch", ""), ("delete", ""), ("patch", "status"),
    ("patch", "binding"),
)  # fmt: skip


def send_claims(client: KubeClient) -> None:
    """Send the requests of DynamicResources."""
    for verb, part in CLAIM_REQUESTS:
        request = ObjectRequest(verb, ResourceClaim, "default", "c", subresource=part)
        client.send(request, lambda _claim, _error: None)
        if verb == "patch":
            client.send(replace(request, exact=True), lambda _claim, _error: None)


REQUESTS = (
    api_calls.nomination(POD, "n"),
    api_calls.pod_unschedulable(POD, "Unschedulable", "no", 0),
    api_calls.group_scheduled(PodGroup(metadata=META), "Scheduled", "", 0, scheduled=True),
    api_calls.disruption_target(POD, "go", 0),
    api_calls.pod_deletion(POD),
    volume_patch(PersistentVolume(metadata=META)),
    claim_patch(PersistentVolumeClaim(metadata=META)),
)
"""What the scheduler and VolumeBinding send."""


def send_all(client: KubeClient) -> None:
    """Send all requests."""
    for request in REQUESTS:
        client.send(request)
    send_claims(client)


CALLS: dict[str, Callable[[KubeClient], None]] = {
    "bind": lambda client: client.bind(POD, "n", lambda _error: None),
    "delegate": lambda client: client.delegate(POD, lambda: None, lambda _error: None),
    "record_event": lambda client: client.record_event(POD, "Normal", "R", "A", "note"),
    "send": send_all,
}
ELSEWHERE = {
    ("", "pods", "get"),
    ("", "pods/finalizers", "update"),
    ("events.k8s.io", "events", "patch"),
}
"""After an answer that was lost, and for what is said again: tests/deploy has both. The second is
what the admission plugin OwnerReferencesPermissionEnforcement asks about an owner."""


def words(right: Right) -> tuple[str, str, str]:
    """Return group, resource and verb."""
    return right.group, right.resource, right.verb


def test_every_call_of_the_protocol_is_tried_here() -> None:
    """A new call needs a line above, and perhaps a row in the table."""
    calls = {name for name in vars(Client) if not name.startswith("_")}
    assert set(CALLS) == calls


def asked_by_all_calls() -> list[Attributes]:
    """Return what the calls ask for."""
    found: list[Attributes] = []

    async def answer(asked: Asked, wire: Wire) -> None:
        found.append(attributes_of(asked.method, asked.path, asked.query))
        if "protobuf" in asked.headers["accept"]:
            await wire.respond(200, envelope("resource.k8s.io/v1", "ResourceClaim", b""))
        else:
            await wire.respond(201, {"kind": "Status", "status": "Success"})

    async def play() -> None:
        async with stage(answer) as here, here.api() as api:
            client = KubeClient(api)
            writing = asyncio.create_task(client.events.run())
            for call in CALLS.values():
                call(client)
            await client.lanes.drained()
            while client.events.waiting:
                await asyncio.sleep(0.005)
            writing.cancel()

    acted(play())
    return found


def test_what_the_calls_ask_for_is_what_the_table_grants() -> None:
    """Neither less nor more."""
    asked = {(one.group, one.combined, one.verb) for one in asked_by_all_calls()}
    assert asked == {words(right) for right in (*WRITING, *GROUP_WRITING)} - ELSEWHERE


def test_all_that_is_read_may_be_listed_and_watched() -> None:
    """The informers' table is where the rights come from."""
    kinds = [resource(one.kind) for one in (*READ, *POD_GROUPS)]
    assert {words(right) for right in (*READING, *GROUP_READING)} == {
        (kind.group, kind.plural, verb) for kind in kinds for verb in ("list", "watch")
    }


def test_every_rbac_rule_has_a_reason() -> None:
    """The administrator sees what to grant."""
    assert all(right.why for right in (*READING, *WRITING, *GROUP_READING, *GROUP_WRITING))
