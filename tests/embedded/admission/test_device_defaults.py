"""Claims to devices are completed as kube-apiserver completes them."""

from __future__ import annotations

from typing import Any

import pytest

from policy_sched.embedded.admission.defaults import fill_in

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
    one, first = _filled(
        kind, [{"name": "a", "exactly": tolerated}, {"name": "b", "firstAvailable": several}]
    )
    counted = {"allocationMode": "ExactCount", "count": 1}
    operators = [toleration["operator"] for toleration in one["exactly"].pop("tolerations")]
    assert operators == ["Equal", "Exists"]
    assert one["exactly"] == {**CLASS, **counted}
    assert first["firstAvailable"] == [{**CLASS, **counted}, {**CLASS, **counted, "count": 3}]


def test_all_devices_have_no_number() -> None:
    """And what is no list of requests stays as it is."""
    everything = {**CLASS, "allocationMode": "All"}
    (request,) = _filled("ResourceClaim", [{"name": "a", "exactly": dict(everything)}])
    assert request["exactly"] == everything
    for odd in (None, "x", ["x"], [{"exactly": "x", "firstAvailable": {}}]):
        assert _filled("ResourceClaim", odd) == odd
