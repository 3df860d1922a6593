"""The pages on clusters: their commands are typed into a shell, with kubectl, as shown."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shown import PAGES, ROOT, Example, blocks, examples, files, page, shared_files

READY = {
    "--serve": '"Running"',
    "--shadow": "Read the cluster",
    "--kubeconfig": '"Successfully acquired lease"',
    "http.server": "Serving HTTP",
}
"""What the log of a command says, by the first word that it has, when the next may be typed."""
PATIENCE = 120.0
"""Seconds for what takes one or two on an idle machine."""
SESSIONS = (
    ("docs/operating.md", "docs/shadow.md"),
    ("docs/scheduler-plugins.md",),
    ("docs/policy-objects.md",),
    ("docs/rollouts.md",),
)
"""The pages with commands for one shell, in the order in which they are typed."""
PORTS = ("8080", "8081", "2020")
"""Those on the pages; each stands for one that is free."""
TIMES = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


class Shell:
    """A directory in which commands are run one after the other, some beside the others."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._reserved = {port: socket.socket() for port in PORTS}  # as long as the shell is there
        for listener in self._reserved.values():
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", 0))
        (folder / "moving/load").mkdir(parents=True)
        shown = blocks(page("docs/scheduler-plugins.md"))
        (answer,) = [text for language, text in shown if language == "json"]
        (folder / "moving/load/watcher").write_text(answer, encoding="utf-8")
        (folder / "example").mkdir()
        for name, text in shared_files().items():
            (folder / "example" / name).write_text(text, encoding="utf-8")
        for name, text in files(shown, "moving").items():
            (folder / "moving" / name).write_text(self._with_ports(text), encoding="utf-8")
        (folder / "policies").symlink_to(ROOT / "policies")
        ours = folder / "bin" / "policy-sched"
        ours.parent.mkdir()
        ours.write_text(f'#!/bin/sh\nexec {sys.executable} -m policy_sched "$@"\n')
        ours.chmod(0o755)
        self.environment = {
            **os.environ,
            "PATH": f"{ours.parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "HOME": str(folder),
        }
        self.beside: list[subprocess.Popen[bytes]] = []

    def _with_ports(self, text: str) -> str:
        return re.sub(
            rf"\b({'|'.join(PORTS)})\b",
            lambda port: str(self._reserved[port[0]].getsockname()[1]),
            text,
        )

    def type(self, example: Example) -> str:
        """Run one command and return what it prints; one that ends in & goes on."""
        command = self._with_ports(example.command)
        name, _, value = command.removeprefix("export ").partition("=")
        if command.startswith("export "):
            self.environment[name] = value
            return ""
        if command.endswith("&"):
            self._begin(command.removesuffix("&"))
            return ""
        finished = subprocess.run(
            ["bash", "-c", command],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self.environment,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr
        return finished.stdout

    def _begin(self, command: str) -> None:
        command = command.replace("--secure-port 10260 ", "")
        log = self.folder / command.rpartition("> ")[2].strip()
        if "--serve" not in command:
            command = command.replace(" run ", " run --secure-port 0 ")
        begun = subprocess.Popen(
            ["bash", "-c", f"exec {command}"], cwd=self.folder, env=self.environment
        )
        self.beside.append(begun)
        wanted = next(text for option, text in READY.items() if option in command)
        until = time.monotonic() + PATIENCE
        while wanted not in (said := log.read_text(encoding="utf-8") if log.exists() else ""):
            assert begun.poll() is None, command
            assert time.monotonic() < until, f"{log} does not say {wanted}: {said}"
            time.sleep(0.05)

    def close(self) -> None:
        """End what goes on."""
        for listener in self._reserved.values():
            listener.close()
        for one in reversed(self.beside):
            one.send_signal(signal.SIGTERM)
        for one in self.beside:
            try:
                one.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A shell whose commands are ended."""
    shell = Shell(tmp_path)
    try:
        yield shell
    finally:
        shell.close()


def shell_blocks(name: str) -> list[str]:
    """Return the blocks of a page that are for a shell."""
    return [text for language, text in blocks(page(name)) if language == "bash"]


def test_all_shell_blocks_are_typed() -> None:
    """No other page has commands that are not run; inputs have a test of their guide alone."""
    guide = {"docs/inputs.md"}  # tests/instance/test_inputs_page.py
    typed = {name for session in SESSIONS for name in session}
    assert {name for name in PAGES if shell_blocks(name)} == typed | guide


def commands(session: tuple[str, ...]) -> list[Example]:
    """Return the commands of a session, each on one line."""
    texts = [text for name in session for text in shell_blocks(name)]
    joined = [("console", text.replace("\\\n", "")) for text in texts]
    return [example for block in joined for example in examples(block)]


@pytest.mark.parametrize(
    ("session", "count"),
    [(SESSIONS[0], 10), (SESSIONS[1], 17), (SESSIONS[2], 9), (SESSIONS[3], 9)],
)
def test_commands_print_what_the_pages_show(
    session: tuple[str, ...], count: int, shell: Shell
) -> None:
    """In this order; what only tells how things stand may take a while to be so."""
    typed = commands(session)
    assert len(typed) == count
    for example in typed:
        shown = shell.type(example)
        until = time.monotonic() + PATIENCE
        repeatable = example.command.startswith(
            ("kubectl get", "policy-sched diff", "policy-sched explain")
        )
        while _timeless(shown) != _timeless(example.output) and repeatable:
            if time.monotonic() > until:
                break
            time.sleep(0.2)
            shown = shell.type(example)
        assert _timeless(shown) == _timeless(example.output), example.command


def _timeless(text: str) -> str:
    return TIMES.sub("TIME", text)
