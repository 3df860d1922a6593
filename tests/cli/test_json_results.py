"""The JSON of results stays the same, byte for byte: programs of others read it.

POLICY_SCHED_UPDATE_GOLDEN=1 writes tests/cli/results anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from policy_sched.cli.main import run

HERE = Path(__file__).parent
UPDATE = bool(os.environ.get("POLICY_SCHED_UPDATE_GOLDEN"))
CLUSTER = "--cluster policies/example-cluster/manifests"
SAMPLE = "policies/papers/openb/sample"
BOTH = f"--cluster {SAMPLE}/nodes.csv --cluster {SAMPLE}/pods.csv"

COMMANDS = {
    "explain": f"explain shop/thumbnails-0 {CLUSTER} --policies policies/gpu-bin-packing",
    "fit": f"fit tests/cli/results/pod.yaml {CLUSTER} --per kubernetes.io/os",
    "simulate": "simulate policies/example-cluster/manifests --policies policies/gpu-bin-packing",
    "timeline": f"simulate --timeline --bucket 4h {SAMPLE}/nodes.csv {SAMPLE}/pods.csv",
    "diff": f"diff policies/default policies/gpu-bin-packing {CLUSTER}",
    "diff-seeds": f"diff policies/default policies/gpu-bin-packing {CLUSTER} --seeds 6",
    "eval": f"eval node.podCount*2>pod.priority {CLUSTER} --pod tests/cli/results/pod.yaml",
    "test": "test policies/gpu-bin-packing --coverage",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_json_of_a_result_is_as_recorded(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys, their order and numbers."""
    monkeypatch.chdir(HERE.parents[1])
    assert run([*COMMANDS[name].split(), "-o", "json"]) == 0
    printed = capsys.readouterr().out
    path = HERE / "results" / f"{name}.json"
    if UPDATE:
        path.write_text(printed, encoding="utf-8")
    assert printed == path.read_text(encoding="utf-8")
