"""What a command imports: the libraries, and how many modules of ours."""

from __future__ import annotations

import json
import os
import re
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
    "run": ["run", "--kubeconfig", "KUBECONFIG", "--secure-port", "0"],
}
NOT_WHILE_RUNNING = {
    "bench", "console", "deploy", "diff", "embedded", "experiments", "explain", "fit", "lsp",
    "policytest", "simulate", "snapshot", "cluster.debug", "instance.shadow", "language.check",
    "language.compile", "language.cost_report", "language.expression", "language.formatter",
    "language.lint", "language.lower", "language.reference", "profiles.check", "profiles.format",
}  # fmt: skip
"""What a scheduler that starts with kept rules does not need."""
KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {}}]
current-context: c
"""
"""Nobody listens there."""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
"""
OURS = re.compile(r"policy_sched(\.|$)")
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory in which the rules of the default profile are kept."""
    directory = tmp_path_factory.mktemp("imports")
    imported("simulate", directory)
    return directory


def imported(name: str, folder: Path) -> tuple[set[str], dict[str, Any]]:
    """Run a command in a new process; return our modules, and with their number the libraries.

    What runs on ends when it has asked the server for its lease.
    """
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    arguments = [str(kubeconfig) if a == "KUBECONFIG" else a for a in COMMANDS[name]]
    with subprocess.Popen(
        [sys.executable, "-c", CODE.format(arguments=arguments)],
        env={**os.environ, "POLICY_SCHED_CACHE": str(folder / "cache")},
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(POD)
        process.stdin.close()
        modules: list[str] = []
        for line in process.stdout:
            if "Leader election failed" in line:
                process.terminate()
            modules = line.split()
    assert process.returncode == 0
    ours = [module.removeprefix("policy_sched.") for module in modules if OURS.match(module)]
    return set(ours), {"libraries": sorted(LIBRARIES & set(modules)), "modules": len(ours)}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_imports_no_more_than_it_did(name: str, folder: Path) -> None:
    """A later start, with kept rules; with POLICY_SCHED_UPDATE_GOLDEN=1 the ceiling is written.

    A library must not come back, and one that is gone is no longer allowed: help needs neither
    NumPy nor the rule language, and what runs once no event loop, process or HTTP server. The
    embedded cluster, which neither runs, made ``simulate`` and ``run --kubeconfig`` start slowly,
    and so did the compiler of rules that were compiled already.
    """
    ours, now = imported(name, folder)
    assert not ours & (NOT_WHILE_RUNNING if name == "run" else {"embedded"})
    ceilings = json.loads(GOLDEN.read_text(encoding="utf-8")) if GOLDEN.exists() else {}
    if UPDATE:
        ceilings[name] = {**now, "modules": now["modules"] + MARGIN}
        GOLDEN.write_text(json.dumps(ceilings, indent=2) + "\n", encoding="utf-8")
    ceiling = ceilings[name]
    assert now["libraries"] == ceiling["libraries"]
    assert now["modules"] <= ceiling["modules"]
