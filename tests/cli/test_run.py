"""``policy-sched run`` as a process: what it prints, how it follows files, how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from policy_sched.cli.main import run
from tests.profiles.policy_texts import keeping, write

ROOT = Path(__file__).parents[2]
BOUND = 120.0
"""Seconds after which a test gives up; nothing takes that long."""
Record = dict[str, Any]

NODES = "".join(
    f"apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\n"
    "status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}\n---\n"
    for name in "ab"
)


def pod(name: str) -> str:
    """Return the manifest of a pod."""
    head = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n"
    return head + "spec: {containers: [{name: m}]}\n"


class Process:
    """A running ``policy-sched run``, read line by line."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = [sys.executable, "-m", "policy_sched", "run"]
        command += ["--cluster", str(folder / "cluster"), "--policies", str(folder / "policies")]
        self.process = subprocess.Popen(
            [*command, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self.records: list[Record] = []

    def until(self, message: str, **facts: object) -> Record:
        """Read until there is a record with this message and these facts."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            record = json.loads(line)
            self.records.append(record)
            if record["msg"] == message and facts.items() <= record.items():
                return record
        _, errors = self.process.communicate(timeout=BOUND)
        raise AssertionError(f"ended without {message!r}: {errors}")

    def bound(self, name: str) -> tuple[str, int]:
        """Read until a pod is bound; return its node and the generation that decided."""
        record = self.until("Successfully bound pod to node", pod=f"default/{name}")
        return record["node"], record["generation"]

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Send a signal; return the exit code and what stands on standard error."""
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=BOUND)
        return self.process.returncode, errors


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two nodes, and a policy that wants the first."""
    for name in ("cluster", "policies"):
        (tmp_path / name).mkdir()
    write(tmp_path / "cluster" / "nodes.yaml", NODES)
    write(tmp_path / "policies" / "keep.yaml", keeping("Keep", 'node.name == "a"'))
    return tmp_path


@pytest.fixture
def running(folder: Path) -> Iterator[Process]:
    """The process, killed at the latest when the test is over."""
    process = Process(folder)
    yield process
    process.process.kill()
    process.process.communicate()


def test_files_are_followed_and_sigterm_ends_it(folder: Path, running: Process) -> None:
    """Pods and policies that are edited count for the next decision; the end is clean."""
    running.until("Loaded policies", generation=1)
    write(folder / "cluster" / "p.yaml", pod("p"))
    assert running.bound("p") == ("a", 1)
    write(folder / "policies" / "keep.yaml", keeping("Keep", 'node.name == "b"'))
    running.until("Reloaded policies", generation=2, trigger="file")
    write(folder / "cluster" / "q.yaml", pod("q"))
    assert running.bound("q") == ("b", 2)
    write(folder / "policies" / "keep.yaml", keeping("Keep", 'node.nam == "a"'))
    problem = running.until("Node has no field 'nam'; did you mean 'name'?")
    assert (problem["code"], problem["line"]) == ("PS102", 6)
    running.until("Failed to reload policies; keeping the current ones", generation=2)
    write(folder / "cluster" / "r.yaml", pod("r"))
    assert running.bound("r") == ("b", 2)
    assert running.end(signal.SIGTERM) == (0, "")


def test_sighup_reads_again_and_sigint_ends_it(running: Process) -> None:
    """SIGHUP reloads although nothing has changed, SIGUSR2 writes the state."""
    running.until("Running")
    running.process.send_signal(signal.SIGHUP)
    running.until("Policies unchanged", trigger="SIGHUP")
    running.process.send_signal(signal.SIGUSR2)
    assert "policy_sched_config_hash" in running.until("State")["metrics"]
    assert running.end(signal.SIGINT) == (0, "")


def test_a_config_map_is_swapped(folder: Path) -> None:
    """A mounted directory whose ``..data`` link points elsewhere is read again."""
    mount = folder / "policies"
    (mount / "keep.yaml").unlink()
    for version, node in (("1", "a"), ("2", "b")):
        (mount / f"..{version}").mkdir()
        text = keeping("Keep", f'node.name == "{node}"')
        (mount / f"..{version}" / "keep.yaml").write_text(text, encoding="utf-8")
    (mount / "..data").symlink_to("..1")
    (mount / "keep.yaml").symlink_to("..data/keep.yaml")
    running = Process(folder)
    try:
        running.until("Running")
        (mount / "..data_tmp").symlink_to("..2")
        os.replace(mount / "..data_tmp", mount / "..data")
        running.until("Reloaded policies", generation=2)
        assert running.end(signal.SIGTERM) == (0, "")
    finally:
        running.process.kill()
        running.process.communicate()


def test_it_does_not_start_with_mistakes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 1, and every problem is reported with its place."""
    write(folder / "policies" / "keep.yaml", keeping("Keep", "node.nam"))
    names = ["--cluster", str(folder / "cluster"), "--policies", str(folder / "policies")]
    assert run(["run", *names]) == 1
    assert "keep.yaml:6:" in capsys.readouterr().err
