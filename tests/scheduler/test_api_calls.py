"""The requests that a scheduler sends, as they lie on the wire."""

from __future__ import annotations

import pytest

from policy_sched.client.kube.client import _http_request
from policy_sched.client.memory import MemoryClient, VirtualClient
from policy_sched.client.request import ObjectRequest
from policy_sched.model.meta import Condition, ObjectMeta
from policy_sched.model.pod_group import PodGroup
from policy_sched.model.pod_info import PodInfo
from policy_sched.scheduler import api_calls
from policy_sched.testing import make_pod

NOW = 1_800_000_000_000_000_000
POD = PodInfo.of(make_pod("web", uid="u1"))
STATUS = "/api/v1/namespaces/default/pods/web/status"


def asked_again() -> PodInfo:
    """Return the pod, which is unschedulable already, and has a generation."""
    pod = make_pod("web", uid="u1")
    pod.metadata.generation = 3
    pod.status.conditions = (Condition("PodScheduled", "False"),)
    return PodInfo.of(pod)


@pytest.mark.parametrize(
    ("request_", "path", "body"),
    [
        (api_calls.nomination(POD, "n"), STATUS, {"status": {"nominatedNodeName": "n"}}),
        (api_calls.nomination(POD, ""), STATUS, {"status": {"nominatedNodeName": None}}),
        (
            api_calls.pod_unschedulable(asked_again(), "Unschedulable", "no", NOW, ""),
            STATUS,
            {
                "status": {
                    "conditions": [
                        {
                            "type": "PodScheduled",
                            "status": "False",
                            "reason": "Unschedulable",
                            "message": "no",
                            "observedGeneration": 3,
                        }
                    ],
                    "nominatedNodeName": None,
                }
            },
        ),
    ],
)
def test_a_patch_of_a_status_names_the_pod_by_uid(
    request_: ObjectRequest, path: str, body: dict[str, object]
) -> None:
    """The UID comes first in the body; the time of a condition changes only with its state."""
    method, at, sent, kind = _http_request(request_)
    assert (method, at, kind) == ("PATCH", path, "application/strategic-merge-patch+json")
    assert sent == {"metadata": {"uid": "u1"}, **body}
    assert list(sent) == ["metadata", "status"]


def test_a_uid_stands_beside_what_a_patch_says_of_the_metadata() -> None:
    """A patch of labels that also named a UID would lose one of the two."""
    labels = {"metadata": {"labels": {"a": "b"}}}
    request = ObjectRequest("patch", type(POD.pod), "default", "web", labels, uid="u1")
    assert _http_request(request)[2] == {"metadata": {"uid": "u1", "labels": {"a": "b"}}}


def test_a_deletion_has_the_uid_as_its_precondition() -> None:
    """Another pod of that name stays."""
    method, path, body, _ = _http_request(api_calls.pod_deletion(POD))
    assert (method, path) == ("DELETE", STATUS.removesuffix("/status"))
    assert body == {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "preconditions": {"uid": "u1"},
    }


def test_a_client_in_memory_keeps_what_requests_say() -> None:
    """Conditions, nominations, disruptions and deletions by the UID of the pod; groups by name."""
    client, group = MemoryClient(), PodGroup(metadata=ObjectMeta(name="g", namespace="d"))
    client.send(api_calls.pod_unschedulable(POD, "Unschedulable", "no room", NOW, "n"))
    client.send(api_calls.disruption_target(POD, "preempted", NOW))
    client.send(api_calls.pod_deletion(POD))
    client.send(api_calls.group_scheduled(group, "Scheduled", "done", NOW, scheduled=True))
    assert client.conditions == {"u1": ("Unschedulable", "no room")}
    assert client.nominations == {"u1": "n"}
    assert (client.disruptions, client.deleted) == ({"u1": "preempted"}, ["u1"])
    assert client.group_conditions == {"d/g": ("Scheduled", "done")}
    client.send(api_calls.nomination(POD, ""))
    assert (client.nominations, client.requests) == ({}, [])


def test_a_virtual_client_keeps_what_changes_pods_alone() -> None:
    """A simulation delivers deletions and nominations; nothing reads the conditions."""
    client = VirtualClient()
    client.send(api_calls.pod_unschedulable(POD, "Unschedulable", "no room", NOW))
    client.send(api_calls.disruption_target(POD, "preempted", NOW))
    client.send(api_calls.nomination(POD, "n"))
    client.send(api_calls.pod_deletion(POD))
    assert client.nominated == [("u1", "n")]
    assert [deletion.key for deletion in client.leaving] == ["default/web"]
    assert (client.conditions, client.disruptions) == ({}, {})
