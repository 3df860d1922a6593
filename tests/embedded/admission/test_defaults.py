"""What is filled in where a workload or a service does not say it.

Claims to devices are completed as kube-apiserver completes them.

Nulls in objects of the embedded API server: taken as absent, written where Go writes them.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from policy_sched.client.apimachinery.object import Key
from policy_sched.embedded.admission.defaults import WRITTEN_AS_NULL, fill_in, write_nulls
from policy_sched.embedded.store.store import ObjectStore
from policy_sched.model.kinds import KINDS, SKIPPED_KINDS, Kind

Plain = dict[str, Any]
QUARTERS = {"maxUnavailable": "25%", "maxSurge": "25%"}


@pytest.mark.parametrize(
    ("kind", "given", "filled"),
    [
        ("Deployment", {}, {
            "replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": QUARTERS},
        }),
        ("StatefulSet", {"replicas": 0, "updateStrategy": {"type": "OnDelete"}}, {
            "replicas": 0, "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10,
            "updateStrategy": {"type": "OnDelete"},
        }),
        ("DaemonSet", {"updateStrategy": {"rollingUpdate": {"maxSurge": 2}}}, {
            "revisionHistoryLimit": 10, "updateStrategy": {
                "type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 2},
            },
        }),
        ("Service", {"ports": [{"port": 80}, {"port": 1, "protocol": "UDP", "targetPort": "x"}]}, {
            "type": "ClusterIP", "sessionAffinity": "None", "ports": [
                {"port": 80, "protocol": "TCP", "targetPort": 80},
                {"port": 1, "protocol": "UDP", "targetPort": "x"},
            ],
        }),
        ("ConfigMap", {"a": 1}, {"a": 1}),
    ],
)  # fmt: skip
def test_missing_fields_get_their_defaults(kind: str, given: Plain, filled: Plain) -> None:
    """And what is said stays."""
    data = {"spec": given}
    fill_in(kind, data)
    assert data == {"spec": filled}
    fill_in(kind, data)
    assert data == {"spec": filled}


@pytest.mark.parametrize("kind", ["Deployment", "Service", "StatefulSet"])
def test_malformed_objects_are_left_to_validation(kind: str) -> None:
    """It is refused when it is read."""
    for spec in (None, 5, [], {"strategy": 5, "updateStrategy": [1], "ports": [5]}, {"ports": 5}):
        fill_in(kind, {"spec": spec})
    fill_in(kind, {"spec": {"strategy": {"rollingUpdate": 5}}})


CLASS = {"deviceClassName": "gpu"}


def _filled(kind: str, requests: Any) -> Any:
    """Return the requests of a claim, or of a template, as they are stored."""
    spec: dict[str, Any] = {"devices": {"requests": requests}}
    fill_in(kind, {"spec": {"spec": spec} if kind == "ResourceClaimTemplate" else spec})
    return spec["devices"]["requests"]


@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceClaimTemplate"])
def test_one_device_is_meant_where_no_number_is_given(kind: str) -> None:
    """Of each request, and of each of its alternatives; tolerations compare."""
    tolerated = {**CLASS, "tolerations": [{"key": "k"}, {"key": "l", "operator": "Exists"}]}
    several = [dict(CLASS), {**CLASS, "count": 3}]
    request, first = _filled(
        kind, [{"name": "a", "exactly": tolerated}, {"name": "b", "firstAvailable": several}]
    )
    counted = {"allocationMode": "ExactCount", "count": 1}
    operators = [toleration["operator"] for toleration in request["exactly"].pop("tolerations")]
    assert operators == ["Equal", "Exists"]
    assert request["exactly"] == {**CLASS, **counted}
    assert first["firstAvailable"] == [{**CLASS, **counted}, {**CLASS, **counted, "count": 3}]


def test_all_devices_have_no_number() -> None:
    """And what is no list of requests stays as it is."""
    everything = {**CLASS, "allocationMode": "All"}
    (request,) = _filled("ResourceClaim", [{"name": "a", "exactly": dict(everything)}])
    assert request["exactly"] == everything
    for odd in (None, "x", ["x"], [{"exactly": "x", "firstAvailable": {}}]):
        assert _filled("ResourceClaim", odd) == odd


CSI_NODE: Kind = ("storage.k8s.io/v1", "CSINode")
ROLE: Kind = ("rbac.authorization.k8s.io/v1", "ClusterRole")
NODE: Kind = ("v1", "Node")


def thing(kind: Kind, **parts: Any) -> dict[str, Any]:
    """Return an object called x."""
    return {"apiVersion": kind[0], "kind": kind[1], "metadata": {"name": "x"}, **parts}


@pytest.mark.parametrize(
    ("given", "path", "expected"),
    [
        (thing(CSI_NODE), ["spec"], {"drivers": None}),
        (thing(CSI_NODE, spec={"drivers": []}), ["spec"], {"drivers": None}),
        (
            thing(CSI_NODE, spec={"drivers": [{"name": "d", "nodeID": "n"}]}),
            ["spec", "drivers"],
            [{"name": "d", "nodeID": "n", "topologyKeys": None}],
        ),
        (
            thing(NODE, status={"images": [{"sizeBytes": 5}, {"names": ["a"]}]}),
            ["status", "images"],
            [{"sizeBytes": 5, "names": None}, {"names": ["a"]}],
        ),
        (thing(ROLE), ["rules"], None),
    ],
)
def test_empty_lists_are_null_where_go_writes_null(
    given: dict[str, Any], path: list[str], expected: Any
) -> None:
    """A client that was only tried here met its first null on a real cluster."""
    store = ObjectStore(time.time_ns)
    data: Any = store.create(given).data
    for step in path:
        assert step in data
        data = data[step]
    assert data == expected


def test_an_update_that_changes_nothing_is_none_where_nulls_are_written() -> None:
    """The version stays, as the server's nulls are no change."""
    store = ObjectStore(time.time_ns)
    first = store.create(thing(CSI_NODE))
    assert store.update(thing(CSI_NODE)).version == first.version
    same = store.patch(Key(CSI_NODE, "", "x"), {"spec": {"drivers": None}})
    assert same.version == first.version
    assert first.typed.metadata.name == "x"


def test_null_is_absent_in_created_objects() -> None:
    """A Deployment with matchLabels: null and a pod without containers' limits are taken."""
    store = ObjectStore(time.time_ns)
    store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
    container = {"name": "c", "image": "i", "resources": None, "ports": None, "env": None}
    spec = {"containers": [container], "tolerations": None, "nodeSelector": None, "volumes": None}
    meta = {"name": "p", "labels": None, "annotations": None, "ownerReferences": None}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": None}
    created = store.create(pod)
    assert b"nodeSelector" not in created.raw
    assert created.labels == {}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    selector = {"matchLabels": {"a": "b"}, "matchExpressions": None}
    apps = thing(("apps/v1", "Deployment"), spec={"selector": selector, "template": template})
    assert "matchExpressions" not in store.create(apps).data["spec"]["selector"]


@pytest.mark.parametrize("kind", WRITTEN_AS_NULL, ids="/".join)
def test_each_row_of_the_table_is_a_kind_and_a_path_that_is_written(kind: Kind) -> None:
    """A path leads through mappings and items of lists, and its end is null afterwards."""
    assert kind in KINDS or kind in SKIPPED_KINDS
    for path in WRITTEN_AS_NULL[kind]:
        data: Any = {}
        here = data
        for step in path.split(".")[:-1]:
            name = step.removesuffix("[]")
            item: dict[str, Any] = {}
            here[name] = [item] if step.endswith("[]") else item
            here = item
        write_nulls(kind, data)
        assert here[path.split(".")[-1]] is None
