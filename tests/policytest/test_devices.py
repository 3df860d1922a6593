"""Devices and claims in short form, and the devices that a pod is expected to get."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.errors import PolicyError
from policy_sched.model import DeviceClass, ResourceClaim, ResourceSlice
from policy_sched.policytest.runner import ScenarioRun, run_scenario
from policy_sched.policytest.scenario import Scenario, load_scenarios
from policy_sched.policytest.update_golden import update_file

HEAD = "apiVersion: policysched.dev/v1alpha1\nkind: PolicyTest\nname: t\n"
NODE = """\
- node: n1
  devices:
  - gpu-0
  - device: gpu-1
    driver: other.example.com
    attributes: {numa: 1, nvlink: true, model: a100, firmware: {version: 1.2.3}}
    capacity: {memory: 40Gi}
    shared: true
"""


def scenario(folder: Path, body: str) -> Scenario:
    """Return the scenario of a body."""
    (folder / "tests.yaml").write_text(HEAD + body)
    (found,) = load_scenarios(str(folder / "tests.yaml"))
    return found


def problems(folder: Path, body: str) -> list[str]:
    """Return the messages about a body, each with its line."""
    with pytest.raises(PolicyError) as error:
        scenario(folder, body)
    return [f"{one.line}: {one.message}" for one in error.value.diagnostics]


def test_devices_become_slices_of_their_drivers(tmp_path: Path) -> None:
    """A slice for each driver; attributes have the kind of their value."""
    found = scenario(tmp_path, f"objects:\n{NODE}pending: [web]\n").objects
    slices = [one for one in found if isinstance(one, ResourceSlice)]
    drivers = [(one.spec.driver, one.spec.node_name) for one in slices]
    assert drivers == [("gpu.example.com", "n1"), ("other.example.com", "n1")]
    (device,) = slices[1].spec.devices
    assert device.allow_multiple_allocations
    kinds = device.attributes
    assert (kinds["numa"].int_value, kinds["nvlink"].bool_value) == (1, True)
    assert (kinds["model"].string, kinds["firmware"].version) == ("a100", "1.2.3")
    assert device.capacity["memory"].value == "40Gi"


def test_claims_are_of_classes_that_need_not_be_stated(tmp_path: Path) -> None:
    """A class that the objects lack has the devices of the driver of its name."""
    claims = "[gpu, {claim: nic, class: other.example.com, count: All, matchAttribute: a/b}]"
    body = f"objects:\n{NODE}pending:\n- {{pod: p, claims: {claims}}}\n"
    found = scenario(tmp_path, body)
    (pod,) = found.pending
    names = [one.resource_claim_name for one in pod.spec.resource_claims]
    assert names == ["p-gpu", "p-nic"]
    nic = next(o for o in found.objects if o.metadata.name == "p-nic")
    assert isinstance(nic, ResourceClaim)
    (request,) = nic.spec.devices.requests
    assert request.exactly is not None
    assert request.exactly.allocation_mode == "All"
    assert nic.spec.devices.constraints[0].match_attribute == "a/b"
    classes = [one for one in found.objects if isinstance(one, DeviceClass)]
    assert [one.metadata.name for one in classes] == ["gpu.example.com", "other.example.com"]


def test_expected_devices_are_compared_and_updated(tmp_path: Path) -> None:
    """Of all requests together, or of each that is named; --update writes what was got."""
    body = (
        f"objects:\n{NODE}pending:\n- {{pod: p, claims: [gpu]}}\n"
        "expect:\n- {pod: p, devices: [gpu-1]}\n"
    )
    (step,) = run_scenario(scenario(tmp_path, body))
    shown = [(one.field, one.expected, one.got) for one in step.differences]
    assert shown == [("devices", ["gpu-1"], ["gpu-0"])]
    assert update_file(str(tmp_path / "tests.yaml"), ScenarioRun())
    assert "devices: [gpu-0]" in (tmp_path / "tests.yaml").read_text()
    by_request = body.replace("[gpu-1]", "{gpu: [gpu-0], nic: []}")
    (step,) = run_scenario(scenario(tmp_path, by_request))
    assert step.ok


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "objects:\n- {node: n, devices: [{driver: d}]}\n",
            "5: objects[0].devices[0].device: Required value",
        ),
        ("objects:\n- {node: n, devices: [a, a]}\n", "5: device a is there twice"),
        (
            "objects:\n- {node: n, devices: [{device: a, atributes: {}}]}\n",
            '5: unknown field "objects[0].devices[0].atributes"',
        ),
        (
            "objects:\n- {node: n, devices: [a]}\n- {pod: p, node: n, claims: [{devices: [b]}]}\n",
            "6: there is no device b on node n",
        ),
        (
            "objects: []\npending:\n- {pod: p, claims: [gpu, gpu]}\n",
            "6: claim gpu is there twice",
        ),
        (
            "objects:\n- {node: n, devices: [{device: a, capacity: {memory: lots}}]}\n",
            "5: 'lots' is no quantity",
        ),
        (
            "objects: []\npending:\n- {pod: p, claims: [{count: many}]}\n",
            '6: pending[0].claims[0].count: Unsupported value: "many"',
        ),
        (
            "objects: []\npending:\n- {pod: p, claims: [{count: -1}]}\n",
            "6: a claim is for one device or more",
        ),
    ],
)
def test_mistakes_are_told_where_they_stand(tmp_path: Path, body: str, message: str) -> None:
    """A device without a name, twice the same, an unknown key, a device that is not there."""
    found = problems(tmp_path, body)
    assert any(one.startswith(message) for one in found), found
