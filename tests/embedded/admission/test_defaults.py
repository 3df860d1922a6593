"""What is filled in where a workload or a service does not say it."""

from __future__ import annotations

from typing import Any

import pytest

from policy_sched.embedded.admission.defaults import fill_in

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
