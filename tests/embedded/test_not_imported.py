"""What runs on a real cluster, or on none, does not load the embedded one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from policy_sched.cli.main import main
try:
    main()
except SystemExit as end:
    code = end.code
loaded = sorted(name for name in sys.modules if name.startswith("policy_sched.embedded"))
assert not loaded, loaded
print("code", code)
"""
NODE = """
apiVersion: v1
kind: Node
metadata: {name: n}
status: {allocatable: {cpu: "1", memory: 1Gi, pods: "10"}}
"""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("simulate", "node.yaml"), 0), (("run", "--kubeconfig", "missing"), 2)],
)
def test_the_embedded_cluster_is_not_loaded(
    arguments: tuple[str, ...], code: int, tmp_path: Path
) -> None:
    """``simulate`` and ``run --kubeconfig`` started more slowly and held more memory for it."""
    (tmp_path / "node.yaml").write_text(NODE, encoding="utf-8")
    command = [sys.executable, "-c", PROGRAM, *arguments]
    ended = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout.splitlines()[-1:]) == (0, [f"code {code}"]), ended
