"""What a command imports before it does its work: the libraries, and how many modules of ours."""

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
    "check": ["check", "policies/spot-nodes/policy.yaml"],
    "simulate": ["simulate", "policies/example-cluster/manifests"],
}
CODE = """
import sys
from policy_sched.cli.main import main
sys.argv[1:] = {arguments!r}
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("\\n" + " ".join(sys.modules))
"""


def imported(arguments: list[str], cache: Path) -> dict[str, Any]:
    """Run a command in a new process; return its libraries, and the number of our modules."""
    found = subprocess.run(
        [sys.executable, "-c", CODE.format(arguments=arguments)],
        env={**os.environ, "POLICY_SCHED_CACHE": str(cache)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    modules = found.stdout.splitlines()[-1].split()
    ours = [name for name in modules if name.startswith("policy_sched")]
    return {"libraries": sorted(LIBRARIES & set(modules)), "modules": len(ours)}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_imports_no_more_than_it_did(name: str, tmp_path: Path) -> None:
    """The second start, with kept rules; with POLICY_SCHED_UPDATE_GOLDEN=1 the ceiling is written.

    A library must not come back, and one that is gone is no longer allowed.
    """
    if name == "simulate":
        imported(COMMANDS[name], tmp_path)
    found = imported(COMMANDS[name], tmp_path)
    ceilings = json.loads(GOLDEN.read_text(encoding="utf-8")) if GOLDEN.exists() else {}
    if UPDATE:
        ceilings[name] = {**found, "modules": found["modules"] + MARGIN}
        GOLDEN.write_text(json.dumps(ceilings, indent=2) + "\n", encoding="utf-8")
    ceiling = ceilings[name]
    assert found["libraries"] == ceiling["libraries"]
    assert found["modules"] <= ceiling["modules"]
