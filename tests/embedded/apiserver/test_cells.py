"""Cells of tables, as kubectl prints them: states of pods, counts of workloads, spans of time."""

from __future__ import annotations

from typing import Any

import pytest

from policy_sched.client.apimachinery.object import parsed
from policy_sched.embedded.apiserver.printers import cells
from policy_sched.embedded.apiserver.printers.cells import ago, pod_status, span
from policy_sched.embedded.apiserver.printers.tables import definitions, row, tables

NOW = parsed("2026-01-02T00:00:00Z")
BORN = "2026-01-01T00:00:00Z"
Plain = dict[str, Any]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-2, "<invalid>"), (-1, "0s"), (119, "119s"), (120, "2m"), (599, "9m59s"), (600, "10m"),
        (10_799, "179m"), (10_800, "3h"), (12_000, "3h20m"), (28_800, "8h"), (172_799, "47h"),
        (172_800, "2d"), (180_000, "2d2h"), (691_200, "8d"), (63_072_000, "2y"),
        (70_000_000, "2y80d"), (252_288_000, "8y"),
    ],
)  # fmt: skip
def test_spans_have_at_most_two_units(seconds: int, shown: str) -> None:
    """As duration.HumanDuration writes them."""
    assert span(seconds) == shown


def test_malformed_times_have_no_age() -> None:
    """Nothing, another type, another text."""
    assert [ago(text, NOW) for text in (None, "", 5, "yesterday")] == ["<unknown>"] * 4
    assert ago(BORN, NOW) == "24h"


def _pod(status: Plain, **meta: str) -> Plain:
    return {"metadata": {"name": "p", **meta}, "spec": {}, "status": status}


def _containers(*states: Plain, ready: bool = False, **status: Any) -> Plain:
    items = [{"state": state, "ready": ready or "running" in state} for state in states]
    return _pod({"phase": "Running", "containerStatuses": items, **status})


READY = [{"type": "Ready", "status": "True"}]
DONE: Plain = {"terminated": {"reason": "Completed"}}


@pytest.mark.parametrize(
    ("pod", "shown"),
    [
        (_pod({"phase": "Pending"}), "Pending"),
        (_pod({"phase": "Failed", "reason": "Evicted"}), "Evicted"),
        (_pod({"phase": "Running"}, deletionTimestamp=BORN), "Terminating"),
        (_pod({"phase": "Failed"}, deletionTimestamp=BORN), "Failed"),
        (_pod({"reason": "NodeLost"}, deletionTimestamp=BORN), "Unknown"),
        (_containers({"waiting": {"reason": "CrashLoopBackOff"}}), "CrashLoopBackOff"),
        (_containers({"terminated": {"exitCode": 3}}), "ExitCode:3"),
        (_containers({"terminated": {"signal": 9}}), "Signal:9"),
        (_containers(DONE, {"running": {}}, conditions=READY), "Running"),
        (_containers(DONE, {"running": {}}), "NotReady"),
    ],
)
def test_the_state_of_a_pod_is_one_word(pod: Plain, shown: str) -> None:
    """What the first container that has anything to say says."""
    assert pod_status(pod) == shown


def _starting(*states: Plain) -> Plain:
    names = [f"i{index}" for index in range(len(states))]
    items = [{"name": name, **state} for name, state in zip(names, states, strict=True)]
    spec = {"initContainers": [{"name": n, "restartPolicy": "Always"} for n in names]}
    return {**_pod({"phase": "Pending", "initContainerStatuses": items}), "spec": spec}


@pytest.mark.parametrize(
    ("states", "shown"),
    [
        ([{"state": {"terminated": {"exitCode": 0}}}, {"started": True}], "Pending"),
        ([{"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}], "Init:Error"),
        ([{"state": {"terminated": {"exitCode": 2}}}], "Init:ExitCode:2"),
        ([{"state": {"waiting": {"reason": "ErrImagePull"}}}], "Init:ErrImagePull"),
        ([{"started": True}, {"state": {"waiting": {"reason": "PodInitializing"}}}], "Init:1/2"),
    ],
)
def test_init_containers_come_first(states: list[Plain], shown: str) -> None:
    """Those that have ended well, or run beside the others, are passed over."""
    assert pod_status(_starting(*states)) == shown


META = {"name": "x", "creationTimestamp": BORN}
TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i"}], "nodeSelector": {"a": "b"}}}
SELECTOR = {"matchLabels": {"a": "b"}, "matchExpressions": [
    {"key": "k", "operator": "In", "values": ["2", "1"]}, {"key": "e", "operator": "Exists"},
    {"key": "n", "operator": "DoesNotExist"},
]}  # fmt: skip
SHOWN = "a=b,k in (1,2),e,!n"
TRUE = [{"type": "Complete", "status": "True"}]
CASES: list[tuple[str, Plain, list[Any]]] = [
    ("Deployment", {"spec": {"replicas": 3, "selector": SELECTOR, "template": TEMPLATE},
                    "status": {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1}},
     ["x", "1/3", 2, 1, "24h", "c", "i", SHOWN]),
    ("ReplicaSet", {"spec": {"selector": SELECTOR}, "status": {"replicas": 1}},
     ["x", 1, 1, 0, "24h", "", "", SHOWN]),
    ("ReplicationController", {"spec": {"selector": {"a": "b"}}},
     ["x", 1, 0, 0, "24h", "", "", "a=b"]),
    ("StatefulSet", {"spec": {"replicas": 0, "template": TEMPLATE}}, ["x", "0/0", "24h", "c", "i"]),
    ("DaemonSet", {"spec": {"template": TEMPLATE}, "status": {"numberReady": 2}},
     ["x", 0, 0, 2, 0, 0, "a=b", "24h", "c", "i", "<none>"]),
    ("Job", {"spec": {"completions": 2}, "status": {"succeeded": 1, "startTime": BORN}},
     ["x", "Running", "1/2", "24h", "24h", "", "", "<none>"]),
    ("Job", {"spec": {"parallelism": 3}, "status": {"conditions": TRUE, "startTime": BORN,
                                                    "completionTime": "2026-01-01T00:01:00Z"}},
     ["x", "Complete", "0/1 of 3", "60s", "24h", "", "", "<none>"]),
    ("Job", {"metadata": {**META, "deletionTimestamp": BORN}},
     ["x", "Terminating", "0/1", "", "24h", "", "", "<none>"]),
    ("CronJob", {"spec": {"schedule": "@daily"}, "status": {"lastScheduleTime": BORN}},
     ["x", "@daily", "<none>", False, 0, "24h", "24h"]),
    ("Service", {"spec": {"ports": [{"port": 80, "nodePort": 30000}], "selector": {"a": "b"}}},
     ["x", "ClusterIP", "<none>", "<none>", "80:30000/TCP", "24h", "a=b"]),
    ("PodDisruptionBudget", {"spec": {"minAvailable": "50%"}}, ["x", "50%", "N/A", 0, "24h"]),
    ("PersistentVolume", {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                                   "claimRef": {"namespace": "n", "name": "c"}},
                          "status": {"phase": "Bound"}},
     ["x", "1Gi", "RWO", "Retain", "Bound", "n/c", "", "<unset>", "", "24h", "<unset>"]),
    ("PersistentVolumeClaim", {"spec": {"volumeName": "v"}, "status": {
        "phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["Other"]}},
     ["x", "Bound", "v", "1Gi", "Other", "", "<unset>", "24h", "<unset>"]),
    ("StorageClass", {"provisioner": "p", "metadata": {**META, "annotations": {
        "storageclass.kubernetes.io/is-default-class": "true"}}},
     ["x (default)", "p", "Delete", "Immediate", False, "24h"]),
    ("Lease", {"spec": {"holderIdentity": "me"}}, ["x", "me", "24h"]),
    ("CSINode", {"spec": {"drivers": [{}]}}, ["x", 1, "24h"]),
    ("ConfigMap", {"data": {"a": "b"}, "binaryData": {"c": ""}}, ["x", "2", "24h"]),
    ("Secret", {"data": {"a": "b"}}, ["x", "Opaque", 1, "24h"]),
    ("NetworkPolicy", {"spec": {"podSelector": {}}}, ["x", "<none>", "24h"]),
    ("Namespace", {"metadata": {**META, "deletionTimestamp": BORN}}, ["x", "Terminating", "24h"]),
    ("ResourceQuota", {"spec": {"hard": {"pods": "2", "limits.cpu": "1"}},
                       "status": {"used": {"pods": "1"}}},
     ["x", "pods: 1/2", "limits.cpu: 0/1", "24h"]),
    ("Ingress", {"spec": {"tls": [{}]},
                 "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}},
     ["x", "<none>", "*", "1.2.3.4", "80, 443", "24h"]),
    ("ServiceAccount", {}, ["x", 0, "24h"]),
    ("LimitRange", {}, ["x", BORN]),
    ("ControllerRevision", {"revision": 3}, ["x", "<none>", 3, "24h"]),
    ("RuntimeClass", {"handler": "runc"}, ["x", "runc", "24h"]),
    ("CSIDriver", {"spec": {"attachRequired": False, "volumeLifecycleModes": ["Ephemeral"]}},
     ["x", False, False, False, "<unset>", False, "Ephemeral", "24h"]),
    ("VolumeAttachment", {"spec": {"attacher": "a", "nodeName": "n",
                                   "source": {"persistentVolumeName": "v"}}},
     ["x", "a", "v", "n", False, "24h"]),
    ("CSIStorageCapacity", {"storageClassName": "s", "capacity": "1Gi"}, ["x", "s", "1Gi"]),
    ("IngressClass", {"spec": {"controller": "c", "parameters": {"kind": "K", "name": "n",
                                                                "apiGroup": "g"}}},
     ["x", "c", "n", "24h"]),
    ("EndpointSlice", {"addressType": "IPv4", "ports": [{"port": 80}],
                       "endpoints": [{"addresses": ["10.0.0.1"]}]},
     ["x", "IPv4", "80", "10.0.0.1", "24h"]),
    ("ResourceClaim", {"status": {"allocation": {"a": 1}, "reservedFor": [{}]}},
     ["x", "allocated,reserved", "24h"]),
    ("ResourceClaim", {}, ["x", "pending", "24h"]),
    ("ResourceSlice", {"spec": {"driver": "d", "allNodes": True, "pool": {"name": "p"}}},
     ["x", "<all>", "d", "p", "24h"]),
    ("DeviceClass", {}, ["x", "24h"]),
    ("RoleBinding", {}, ["x", "<invalid>", "<invalid>", "<invalid>", "<invalid>", "<invalid>"]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "data", "cells"), CASES)
def test_rows_have_the_cells_of_their_kind(kind: str, data: Plain, cells: list[Any]) -> None:
    """As many as there are columns; what is not shaped like its kind shows its name only."""
    shown = row(kind, {"kind": kind, "metadata": META, **data}, NOW, "None")
    assert shown == {"cells": cells}
    assert len(cells) == len(definitions(kind))


def test_rows_contain_the_requested_form_of_their_objects() -> None:
    """All of it, or the metadata."""
    data = {"kind": "ConfigMap", "metadata": META, "data": {"a": "b"}}
    assert row("ConfigMap", data, NOW, "Object")["object"] == data
    assert row("ConfigMap", data, NOW, "")["object"]["kind"] == "PartialObjectMetadata"


def test_each_column_is_filled_by_one_thing() -> None:
    """By a field, a time, a count, or a function that there is."""
    for columns in tables().values():
        assert len(columns) > 1
        for column in columns:
            sources = [column.path, column.count, column.cell, column.since]
            assert len(list(filter(None, sources))) == 1
            assert column.form in ("", *cells.FORMS)
            assert not column.cell or callable(getattr(cells, column.cell))
            assert column.type in ("string", "integer", "boolean")
