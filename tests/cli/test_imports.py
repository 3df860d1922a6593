"""What a command imports: the libraries, and how many modules of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).with_name("imports.json")
UPDATE = bool(os.environ.get("POLICY_SCHED_UPDATE_GOLDEN"))
LIBRARIES = {
    "aiohttp", "asyncio", "attr", "cryptography", "cyclopts", "distributed", "httptools", "jinja2",
    "jsonschema", "lark", "matplotlib", "msgspec", "multiprocessing", "numpy", "optuna", "pluggy",
    "prometheus_client", "pyarrow", "pydantic", "pygls", "re2", "rich", "tomllib", "watchfiles",
    "yaml",
}  # fmt: skip
"""What takes milliseconds to import."""
MARGIN = 20
"""Modules that may be added before a ceiling is written anew."""
COMMANDS = {
    "version": ["--version"],
    "help": ["--help"],
    "check": ["check", "policies/spot-nodes/policy.yaml"],
    "simulate": ["simulate", "policies/example-cluster/manifests"],
    "explain": ["explain", "shop/report", "--cluster", "policies/example-cluster/manifests"],
    "fit": ["fit", "-", "--cluster", "policies/example-cluster/manifests"],
    "run": ["run", "--kubeconfig", "missing"],
}
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
"""
ENDED = {"run": 2}
"""The exit code, where it is not 0."""
CODE = """
import sys
from policy_sched.cli.main import main
sys.argv[1:] = {arguments!r}
try:
    main()
except SystemExit as end:
    assert (end.code or 0) == {code}, end.code
print("\\n" + " ".join(sys.modules))
"""


def imported(name: str, cache: Path) -> dict[str, Any]:
    """Run a command in a new process; return its libraries, and the number of our modules."""
    ended = subprocess.run(
        [sys.executable, "-c", CODE.format(arguments=COMMANDS[name], code=ENDED.get(name, 0))],
        env={**os.environ, "POLICY_SCHED_CACHE": str(cache)},
        cwd=ROOT,
        input=POD,
        capture_output=True,
        text=True,
        check=True,
    )
    modules = ended.stdout.splitlines()[-1].split()
    ours = [module for module in modules if module.startswith("policy_sched")]
    assert not [module for module in ours if module.startswith("policy_sched.embedded")]
    return {"libraries": sorted(LIBRARIES & set(modules)), "modules": len(ours)}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_imports_no_more_than_it_did(name: str, tmp_path: Path) -> None:
    """The second start, with kept rules; with POLICY_SCHED_UPDATE_GOLDEN=1 the ceiling is written.

    A library must not come back, and one that is gone is no longer allowed: help needs neither
    NumPy nor the rule language, and what runs once no event loop, process or HTTP server. The
    embedded cluster, which neither runs, made ``simulate`` and ``run --kubeconfig`` start slowly.
    """
    if name == "simulate":
        imported(name, tmp_path)
    now = imported(name, tmp_path)
    ceilings = json.loads(GOLDEN.read_text(encoding="utf-8")) if GOLDEN.exists() else {}
    if UPDATE:
        ceilings[name] = {**now, "modules": now["modules"] + MARGIN}
        GOLDEN.write_text(json.dumps(ceilings, indent=2) + "\n", encoding="utf-8")
    ceiling = ceilings[name]
    assert now["libraries"] == ceiling["libraries"]
    assert now["modules"] <= ceiling["modules"]
