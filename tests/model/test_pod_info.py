"""PodInfo shows a pod as rules see it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from policy_sched.model import meta, pod_info
from policy_sched.model.pod import Pod
from policy_sched.model.pod_group import POD_GROUP_LABEL as GROUP

FULL: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web-1",
        "namespace": "shop",
        "uid": "u1",
        "labels": {"b": "2", "a": "1"},
        "annotations": {"x": "y"},
        "creationTimestamp": "2024-01-01T00:00:01.5Z",
        "deletionTimestamp": "2024-01-02T00:00:00Z",
        "ownerReferences": [
            {"kind": "Thing", "name": "t", "uid": "t1"},
            {"kind": "ReplicaSet", "name": "web", "uid": "r1", "controller": True},
        ],
    },
    "spec": {
        "nodeName": "n1",
        "schedulerName": "mine",
        "priority": 7,
        "priorityClassName": "high",
        "preemptionPolicy": "Never",
        "serviceAccountName": "sa",
        "runtimeClassName": "gvisor",
        "hostNetwork": True,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "nodeSelector": {"zone": "a"},
        "affinity": {"nodeAffinity": {}, "podAffinity": {}},
        "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 5}],
        "schedulingGates": [{"name": "g1"}, {"name": "g2"}],
        "schedulingGroup": {"podGroupName": "gang"},
        "initContainers": [
            {"name": "i", "image": "reg:5000/init", "ports": [{"hostPort": 1}]},
            {
                "name": "s",
                "image": "side@sha256:ab",
                "restartPolicy": "Always",
                "ports": [
                    {"containerPort": 9, "hostPort": 9, "protocol": "UDP", "hostIP": "1.2.3.4"}
                ],
            },
        ],
        "containers": [
            {
                "name": "m",
                "image": "web:1",
                "securityContext": {
                    "seccompProfile": {"type": "Localhost", "localhostProfile": "web.json"}
                },
                "ports": [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81}],
                "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
            }
        ],
        "volumes": [
            {"name": "d", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "e", "ephemeral": {}},
            {"name": "f", "image": {"reference": "files"}},
            {"name": "g", "emptyDir": {}},
        ],
    },
    "status": {"startTime": "2024-01-01T00:00:03+01:00", "nominatedNodeName": "n2"},
}


def info(data: dict[str, Any]) -> pod_info.PodInfo:
    """Return the PodInfo of a pod as JSON has it."""
    return pod_info.PodInfo.of(msgspec.convert(data, Pod))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("key", "shop/web-1"),
        ("name", "web-1"),
        ("namespace", "shop"),
        ("uid", "u1"),
        ("labels", {"a": "1", "b": "2"}),
        ("labels_key", (("a", "1"), ("b", "2"))),
        ("annotations", {"x": "y"}),
        ("annotations_key", (("x", "y"),)),
        ("node_name", "n1"),
        ("nominated_node_name", "n2"),
        ("scheduler_name", "mine"),
        ("priority", 7),
        ("priority_class_name", "high"),
        ("preemption_policy", "Never"),
        ("qos_class", "Burstable"),
        ("service_account_name", "sa"),
        ("runtime_class_name", "gvisor"),
        ("owner_kind", "ReplicaSet"),
        ("owner_name", "web"),
        ("owner_uid", "r1"),
        ("pod_group", "gang"),
        ("host_network", True),
        ("seccomp_profile", meta.SeccompProfile("RuntimeDefault")),
        ("terminating", True),
        ("creation_time", 1_704_067_201_500_000_000),
        ("start_time", 1_704_063_603_000_000_000),
        ("node_selector", {"zone": "a"}),
        ("node_selector_key", (("zone", "a"),)),
        ("tolerations", (meta.Toleration(key="k", operator="Exists", toleration_seconds=5),)),
        ("images", ("reg:5000/init:latest", "side@sha256:ab", "web:1", "files:latest")),
        ("host_ports", (meta.HostPort("0.0.0.0", "TCP", 8080), meta.HostPort("1.2.3.4", "UDP", 9))),
        ("has_pod_affinity", True),
        ("scheduling_gates", ("g1", "g2")),
        ("pvc_names", ("data", "web-1-e")),
        ("requests", {"cpu": 1000}),
        ("requests_key", (("cpu", 1000),)),
        ("limits", {"cpu": 2000}),
        ("limits_key", (("cpu", 2000),)),
    ],
)
def test_every_field_equals_that_of_the_api_object(name: str, expected: object) -> None:
    """Every field equals that of the API object, in the units of the rule language."""
    assert getattr(info(FULL), name) == expected


def test_containers_come_in_the_order_they_start() -> None:
    """Containers come in the order they start: init containers and sidecars, then the main ones."""
    assert info(FULL).containers == (
        meta.Container("i", "reg:5000/init", "init", {}, {}),
        meta.Container("s", "side@sha256:ab", "sidecar", {}, {}),
        meta.Container(
            *("m", "web:1", "main", {"cpu": 1000}, {"cpu": 2000}),
            seccomp_profile=meta.SeccompProfile("Localhost", "web.json"),
        ),
    )


def test_a_missing_field_has_its_zero_value() -> None:
    """A missing field has its zero value, except the two names that have a default."""
    bare = info({"metadata": {"name": "p"}})
    plain = {
        n: v for n in pod_info.FIELDS if isinstance(v := getattr(bare, n), str | int | tuple | dict)
    }
    assert {name: value for name, value in plain.items() if value} == {
        "name": "p",
        "namespace": "default",
        "uid": "default/p",
        "scheduler_name": "default-scheduler",
        "qos_class": "BestEffort",
    }
    assert bare.key == "default/p"
    assert bare.node_affinity is None
    assert not bare.has_pod_affinity


def test_lazy_fields_are_kept() -> None:
    """A field that is worked out is worked out once."""
    found = info(FULL)
    assert found.containers is found.containers
    assert found.limits is found.limits


def test_a_misspelled_attribute_is_an_error() -> None:
    """A misspelled attribute is an error."""
    with pytest.raises(AttributeError, match="'PodInfo' object has no attribute 'lables'"):
        _ = info(FULL).lables  # type: ignore[attr-defined]


def test_node_name_can_be_set() -> None:
    """The cache may put a pod on a node."""
    found = info(FULL)
    found.node_name = "n9"
    assert found.node_name == "n9"
    assert repr(found) == "PodInfo(shop/web-1)"


@pytest.mark.parametrize("name", sorted(pod_info.FIELDS))
def test_keys_of_fields_are_equal_exactly_for_equal_values(name: str) -> None:
    """The key of a field is hashable, equal for equal pods, and different if they differ."""
    one, two, other = info(FULL), info(FULL), info({"metadata": {"name": "p"}})
    key = pod_info.field_key(name)
    assert getattr(one, key) == getattr(two, key)
    assert hash(getattr(one, key)) == hash(getattr(two, key))
    same = getattr(one, name) == getattr(other, name)
    assert (getattr(one, key) == getattr(other, key)) is same


def test_field_key_of_an_unknown_field() -> None:
    """There is no key of a field that does not exist."""
    with pytest.raises(KeyError):
        pod_info.field_key("lables")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("web", "web:latest"),
        ("web:1", "web:1"),
        ("reg:5000/web", "reg:5000/web:latest"),
        ("reg:5000/web:1", "reg:5000/web:1"),
        ("web@sha256:ab", "web@sha256:ab"),
    ],
)
def test_an_image_without_a_tag_means_latest(name: str, expected: str) -> None:
    """An image without a tag means its latest one."""
    assert pod_info.normalized_image(name) == expected


@pytest.mark.parametrize(
    ("containers", "whole", "expected"),
    [
        ([{}], None, "BestEffort"),
        ([{"requests": {"cpu": "0"}}], None, "BestEffort"),
        ([{"requests": {"x.io/a": "1"}}], None, "BestEffort"),
        ([{"requests": {"cpu": "1"}}], None, "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1"}}], None, "Guaranteed"),
        ([{"limits": {"cpu": "1"}}], None, "Burstable"),
        (
            [{"requests": {"cpu": "1000m"}, "limits": {"cpu": "1", "memory": "1"}}],
            None,
            "Guaranteed",
        ),
        ([{"requests": {"cpu": "2"}, "limits": {"cpu": "1", "memory": "1"}}], None, "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1"}}, {}], None, "Burstable"),
        ([{}], {"limits": {"cpu": "1", "memory": "1"}}, "Guaranteed"),
        ([{}], {"requests": {"cpu": "1"}}, "Burstable"),
    ],
)
def test_the_qos_class_follows_from_requests_and_limits(
    containers: list[dict[str, Any]], whole: dict[str, Any] | None, expected: str
) -> None:
    """The class follows from requests and limits if the status has none."""
    spec: dict[str, Any] = {"containers": [{"resources": r} for r in containers]}
    if whole is not None:
        spec["resources"] = whole
    assert info({"metadata": {"name": "p"}, "spec": spec}).qos_class == expected
    reported = {"metadata": {"name": "p"}, "spec": spec, "status": {"qosClass": "Told"}}
    assert info(reported).qos_class == "Told"


def test_queued_pods_are_themselves() -> None:
    """Two entries of one pod are different entries, and start at nothing."""
    found = info(FULL)
    entry = pod_info.QueuedPod(found, enqueued_at=5)
    assert entry != pod_info.QueuedPod(found, enqueued_at=5)
    assert (entry.attempts, entry.unschedulable_count) == (0, 0)


@pytest.mark.parametrize("value", [FULL, {"metadata": {"name": "small"}}])
def test_a_pod_on_another_node_differs_in_the_name_alone(value: dict[str, Any]) -> None:
    """A pod on another node differs in the node's name alone."""
    info = pod_info.PodInfo.of(msgspec.convert(value, Pod))
    there, anew = info.on("other"), pod_info.PodInfo.of(info.pod)
    different = {name for name in pod_info.FIELDS if getattr(there, name) != getattr(anew, name)}
    assert different == {"node_name"}
    assert there.node_name == "other"
    assert there.pod is info.pod


@pytest.mark.parametrize("value", [FULL, {"metadata": {"name": "small"}}])
def test_a_running_form_equals_a_pod_decoded_in_it(value: dict[str, Any]) -> None:
    """A pod that runs reads as one that is decoded in that form, whatever is read first."""
    pending = msgspec.convert(value, Pod)
    time = 1_767_225_600_123_456_789
    anew = pod_info.PodInfo.of(pod_info.running_form(pending, "other", time))
    for first in sorted(pod_info.FIELDS):
        there = pod_info.PodInfo.of(pending).running("other", time)
        assert getattr(there, first) == getattr(anew, first)
        assert there.pod == anew.pod
    assert {
        name for name in pod_info.FIELDS if getattr(there, name) != getattr(anew, name)
    } == set()
    assert (there.node_name, there.nominated_node_name) == ("other", "")
    assert there.start_time == time // 1000 * 1000


@pytest.mark.parametrize("spec", [FULL["spec"], {}])
@pytest.mark.parametrize("metadata", [FULL["metadata"], {"name": "x", "labels": {GROUP: "g"}}])
def test_a_pod_of_the_same_spec(spec: dict[str, Any], metadata: dict[str, Any]) -> None:
    """What follows from the spec is taken over, and the rest is the pod's own."""
    first = pod_info.PodInfo.of(msgspec.convert({"metadata": {"name": "first"}, "spec": spec}, Pod))
    first.node_name = "set by the cache"
    pod = msgspec.structs.replace(first.pod, metadata=msgspec.convert(metadata, meta.ObjectMeta))
    found, anew = first.like(pod), pod_info.PodInfo.of(pod)
    assert {
        name for name in pod_info.FIELDS if getattr(found, name) != getattr(anew, name)
    } == set()
    assert found.pod is pod
    for name in pod_info.PodInfo.__slots__:
        if name != "pending_form":
            assert getattr(found, name) == getattr(anew, name)
