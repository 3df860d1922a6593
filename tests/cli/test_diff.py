"""The verb `diff`: what is printed, and what fails a build."""

from __future__ import annotations

import io
import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from policy_sched.cli.main import run

POLICIES = Path(__file__).parents[2] / "policies"
CLUSTER = str(POLICIES / "example-cluster" / "manifests")
REFUSES = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Refuses}
spec:
  filter:
  - {expression: 'pod.name != "web-1"', message: not here}
"""


def test_placements_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    """Policies come first, then the pods that move, then the cluster as a whole."""
    old, new = str(POLICIES / "default"), str(POLICIES / "gpu-bin-packing")
    assert run(["diff", old, new, "--cluster", CLUSTER, "--fail-on", "regression"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("profile default-scheduler: filter GpuBinPacking\n  + enabled\n")
    assert "8 pods on 6 nodes: 6 move, 0 become unschedulable, 1 schedulable\n" in shown
    assert "made by a policy" in shown
    assert "\n  research/train-large: - -> gpu-2\n  shop/web-1: gpu-2 -> general-1\n" in shown
    assert "\npods placed                                  6       7\n" in shown
    assert "\nnvidia.com/gpu requested                43.8 %  93.8 %\n" in shown


def test_diff_with_several_seeds_prints_the_same_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    """The same bytes whatever the number of processes, and another first seed is another run."""
    old, new = str(POLICIES / "default"), str(POLICIES / "gpu-bin-packing")
    command = ["diff", old, new, "--cluster", CLUSTER, "--seeds", "3"]
    shown = set()
    for workers, forms in (("1", ("text", "json", "markdown")), ("2", ("text",)), ("3", ("json",))):
        for form in forms:
            assert run([*command, "--workers", workers, "-o", form]) == 0
            shown.add(capsys.readouterr().out)
    assert len(shown) == 3
    (text,) = (item for item in shown if item.startswith("profile"))
    assert "8 pods on 6 nodes, with 3 seeds: 0 to 2\n" in text
    assert "NEW - OLD   95 % INTERVAL" in text
    assert "\nPolicies of NEW, with seed 0:\n  GpuBinPacking  matched 8 of 8 pods, rej" in text
    (document,) = (json.loads(item) for item in shown if item.startswith("{"))
    assert document["placements"]["seeds"] == [0, 1, 2]
    assert document["placements"]["measures"][0]["difference"] == {
        "mean": 1.0,
        "low": 1.0,
        "high": 1.0,
    }
    assert document["placements"]["policies"]["new"][0]["matched"] == 8


def test_it_takes_what_simulate_takes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of shipped policies, more nodes and standard input were refused here."""
    pods = "\n---\n".join(path.read_text() for path in sorted(Path(CLUSTER).glob("*.yaml")))
    monkeypatch.setattr("sys.stdin", io.StringIO(pods))
    command = ["diff", "default", "gpu-bin-packing", "--cluster", "-", "--nodes", "4*cpu=1"]
    assert run(command) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("profile default-scheduler: filter GpuBinPacking\n  + enabled\n")
    assert "8 pods on 10 nodes: " in shown
    assert run(["diff", "default", "gang", "--nodes", "4*cpu=1"]) == 2
    assert "--nodes goes with --cluster" in capsys.readouterr().err
    assert run(["diff", "default", "gangs"]) != 0
    assert "gangs" in capsys.readouterr().err


@pytest.mark.parametrize(
    "verb", [["explain", "shop/web-1"], ["eval", "node.name"], ["diff", "default", "gang"]]
)
def test_a_cluster_from_standard_input(
    verb: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The documented `--cluster -` was "--cluster needs a value"; an option is still no value."""
    pods = "\n---\n".join(path.read_text() for path in sorted(Path(CLUSTER).glob("*.yaml")))
    monkeypatch.setattr("sys.stdin", io.StringIO(pods))
    assert run([*verb, "--cluster", "-"]) == 0
    assert capsys.readouterr().err == ""
    assert run([*verb, "--cluster", "--now", "2026-01-01T00:00:00Z"]) == 2
    assert "--cluster needs a value" in capsys.readouterr().err


def test_a_terminal_shows_what_is_done_and_processes_make_no_difference(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """Comparing showed nothing for as long as it took; its processes are copied before the bar.

    What two processes find is what one finds.
    """
    code = (
        "import sys; from policy_sched.cli.output import progress; progress.DELAY = 0.0;"
        "progress.progress.__wrapped__.__defaults__ = (None, None, 0.0, 60.0);"
        "from policy_sched.cli.main import run; sys.exit(run(sys.argv[1:]))"
    )
    words = ["diff", "default", "gpu-bin-packing", "--cluster", CLUSTER, "--seeds", "1"]
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", code, *words, "--workers", "2"],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    ) as process:
        os.close(theirs)
        shown = b""
        while chunk := read_or_end(ours):
            shown += chunk
        assert process.stdout is not None
        printed = process.stdout.read()
    os.close(ours)
    assert process.returncode == 0
    assert b"deciding with " in shown
    assert run([*words, "--workers", "1"]) == 0
    assert printed == capfdbinary.readouterr().out


def read_or_end(terminal: int) -> bytes:
    """Return what comes next, nothing at the end."""
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # Linux: the other end is closed
        return b""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--seeds", "3"], "--seeds goes with --cluster"),
        (["--seeds", "0", "--cluster", CLUSTER], "--seeds"),
    ],
)
def test_seeds_that_make_no_sense(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a cluster nothing is drawn."""
    default = str(POLICIES / "default")
    assert run(["diff", default, default, *options]) == 2
    assert said in capsys.readouterr().err


def test_a_pod_less_with_every_seed_is_a_regression(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pod less with every seed is no noise."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(REFUSES, encoding="utf-8")
    arguments = ["--cluster", CLUSTER, "--seeds", "2", "--fail-on", "regression"]
    assert run(["diff", str(POLICIES / "default"), str(policy), *arguments]) == 1
    assert "  shop/web-1: placed with 2 fewer seeds\n" in capsys.readouterr().out
    assert run(["diff", str(policy), str(POLICIES / "default"), *arguments]) == 0


def test_a_regression_fails_with_the_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pod that loses its node is one; the machine format has the counts."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(REFUSES, encoding="utf-8")
    arguments = ["diff", str(POLICIES / "default"), str(policy), "--cluster", CLUSTER]
    assert run(arguments) == 0
    assert "web-1: gpu-2 -> - (0/6 nodes are available: " in capsys.readouterr().out
    assert run([*arguments, "--fail-on", "regression", "-o", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["placements"]["unschedulable"] == 1
    assert document["differences"][0]["where"] == "profile default-scheduler: filter Refuses"


def test_without_a_cluster_only_the_policies_are_compared(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Equal sets say so."""
    default = str(POLICIES / "default")
    assert run(["diff", default, default]) == 0
    assert capsys.readouterr().out == "The policy sets are the same.\n"


def test_a_configuration_below_the_directory_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`diff before/policies policies` reported that nothing changed: no profile has SpotNodes."""
    before, after = tmp_path / "before", tmp_path / "after"
    for folder in (before, after):
        shutil.copytree(POLICIES, folder, ignore=shutil.ignore_patterns("papers"))
    policy = before / "spot-nodes" / "policy.yaml"
    text = policy.read_text(encoding="utf-8")
    policy.write_text(text.replace("spot: [spot]", "spot: [preemptible]"), encoding="utf-8")
    assert run(["diff", str(before), str(after), "--cluster", CLUSTER]) == 0
    head, _, rest = capsys.readouterr().out.partition("\n\n")
    old, idle, new, same = head.split("\n")
    decides = "example-cluster/config.yaml decides which policies are enabled"
    assert old == f"OLD: {before}/{decides}"
    assert new == f"NEW: {after}/{decides}"
    assert idle == same
    assert idle.startswith("  not enabled, and not compared on a cluster: CapacityScheduling, ")
    assert "SpotNodes" in idle
    assert "GpuBinPacking" not in idle
    assert rest.startswith(
        "policy SpotNodes: params.spot\n  - [preemptible]\n  + [spot]\n\n"
        "No profile enables a policy that differs: the placements do not show the"
        " difference.\n\n8 pods on 6 nodes: 0 move,"
    )
    assert run(["diff", str(before), str(after), "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["configurations"]["old"]["file"] == f"{before}/example-cluster/config.yaml"
    assert "SpotNodes" in document["configurations"]["new"]["notEnabled"]
    assert document["differences"][0]["enabled"] is False


REWRITE = REFUSES.replace("pod.name !=", "!!(pod.name !=").replace('"web-1"', '"web-1")')


@pytest.fixture
def rewrite(tmp_path: Path) -> list[str]:
    """Return a command that compares a policy with its rewrite."""
    (tmp_path / "old.yaml").write_text(REFUSES)
    (tmp_path / "new.yaml").write_text(REWRITE)
    return ["diff", str(tmp_path / "old.yaml"), str(tmp_path / "new.yaml"), "--cluster", CLUSTER]


def test_a_rewrite_that_decides_alike_is_not_simulated(
    rewrite: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every form says that no decision can change, and a hint how to simulate it anyway."""
    said = "No decision can change (proven: {} decides as before for every pod and node)."
    page = str(tmp_path / "page.html")
    assert run([*rewrite, "--fail-on", "regression", "--report", page]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith(f"{said.format('Refuses')}\n\nprofile default-scheduler: Refuses")
    assert "pods on" not in shown.out
    assert "nothing is simulated; --always-simulate does" in shown.err
    assert said.format("Refuses") in Path(page).read_text()
    assert run([*rewrite, "-o", "markdown"]) == 0
    assert capsys.readouterr().out.split("\n")[2] == f"**{said.format('`Refuses`')}**"
    assert run([*rewrite, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["proof"]["policies"] == ["Refuses"]
    assert "placements" not in document
    assert run([*rewrite, "--always-simulate"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith(said.format("Refuses"))
    assert "8 pods on 6 nodes: 0 move" in shown.out
    assert shown.err == ""


def test_without_the_solver_a_rewrite_is_simulated(
    rewrite: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What differs is shown as if there were no proofs."""
    monkeypatch.setattr("policy_sched.diff.policy_rewrites.find_spec", lambda _name: None)
    assert run(rewrite) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("profile default-scheduler: Refuses filter[0].expression\n")
    assert "8 pods on 6 nodes: 0 move" in shown


def test_equal_sets_are_not_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is asked of the solver, as nothing differs."""
    assert run(["diff", "default", "default", "--cluster", CLUSTER]) == 0
    assert capsys.readouterr().out == "The policy sets are the same.\n"


def test_ps718_an_order_that_no_step_of_a_rollout_tries_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the queue's order differs, it is a warning; where it does not, nothing is said."""
    text = """\
apiVersion: policysched.dev/v1alpha1
kind: Rollout
metadata: {name: careful}
spec: {steps: [{audit: {for: 10m}}]}
---
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: PrioritySort}
spec: {queueSort: [{expression: pod.priority, order: Descending}]}
"""
    for name, order in (("old", "Descending"), ("new", "Ascending")):
        (tmp_path / f"{name}.yaml").write_text(text.replace("Descending", order))
    old, new = str(tmp_path / "old.yaml"), str(tmp_path / "new.yaml")
    assert run(["diff", old, new]) == 0
    assert f"{new}:9:33: warning PS718: no step of the Rollout" in capsys.readouterr().err
    assert run(["diff", new, new]) == 0
    assert capsys.readouterr().err == ""
