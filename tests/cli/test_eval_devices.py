"""The verb `eval` over devices: a selector's value, or its error, for each of a snapshot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from policy_sched.cli.main import run

SLICES = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: new}
spec:
  driver: gpu.example.com
  nodeName: gpu-1
  pool: {name: gpu-1, generation: 2, resourceSliceCount: 1}
  devices:
  - name: gpu-0
    attributes: {model: {string: A100}, numa: {int: 0}, firmware: {version: 1.2.3-rc.1}}
    capacity: {memory: {value: 40Gi}}
  - name: gpu-1
    attributes: {model: {string: H100}, numa: {int: 1}}
    capacity: {memory: {value: 80Gi}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: old}
spec:
  driver: gpu.example.com
  nodeName: gpu-1
  pool: {name: gpu-1, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-9}]
"""
DOMAIN = '["gpu.example.com"]'


@pytest.fixture
def slices(tmp_path: Path) -> str:
    """Return a file with two slices of a pool, of which one is outdated."""
    path = tmp_path / "slices.yaml"
    path.write_text(SLICES, encoding="utf-8")
    return str(path)


def test_a_selector_on_each_device(slices: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Devices of the newest generation, each with its value, and how many are selected."""
    text = f'device.capacity{DOMAIN}.memory.isGreaterThan(quantity("40Gi"))'
    assert run(["eval", text, "--cluster", slices]) == 0
    assert (
        capsys.readouterr().out
        == """\
type   bool
cost   at most 6 units of CEL for a device

gpu.example.com/gpu-1/gpu-0  false
gpu.example.com/gpu-1/gpu-1  true

1 of 2 devices are selected
"""
    )


def test_values_of_any_type_and_errors(slices: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An attribute that a device lacks is an error in place of its value."""
    text = f"device.attributes{DOMAIN}.firmware"
    assert run(["eval", text, "--section", "selector", "--cluster", slices]) == 0
    assert (
        capsys.readouterr().out
        == """\
type   any
cost   at most 4 units of CEL for a device

gpu.example.com/gpu-1/gpu-0  "1.2.3-rc.1"
gpu.example.com/gpu-1/gpu-1  error: no such key: firmware

1 of 2 devices have no value: 1 no such key: firmware
"""
    )


def test_values_of_devices_are_json_with_driver_pool_and_name(
    slices: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program reads driver, pool and device beside the value."""
    assert run(["eval", f"device.attributes{DOMAIN}", "--cluster", slices, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["selected"] is None
    assert document["values"][1] == {
        "driver": "gpu.example.com",
        "pool": "gpu-1",
        "device": "gpu-1",
        "value": {"model": "H100", "numa": 1},
    }


def test_mistakes_are_shown_with_their_place(
    slices: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A selector that cannot work is reported as every other expression is."""
    assert run(["eval", 'device.drivr == "a"', "--section", "selector", "--cluster", slices]) == 1
    assert (
        capsys.readouterr().err
        == """\
<expression>:1:8: error PS102: Device has no field 'drivr'; did you mean 'driver'?
    1 | device.drivr == "a"
      |        ^~~~~
"""
    )


def test_a_cluster_without_slices_is_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    """A cluster without slices is reported as one."""
    assert run(["eval", 'device.driver == "a"']) == 2
    assert "give ResourceSlices by --cluster" in capsys.readouterr().err


def test_options_of_rules_are_refused(slices: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A selector reads a device only: a pod or a time that is given would be ignored."""
    options = ["--cluster", slices, "--pod", slices, "--now", "2026-01-31T18:00:00Z"]
    assert run(["eval", "device.driver", *options]) == 2
    wanted = "a selector over devices does not go together with --pod, --now\n"
    assert wanted in capsys.readouterr().err
