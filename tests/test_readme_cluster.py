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

from tests.shown import PAGES, ROOT, Example, blocks, examples, page, shared_files

READY = {
    "--serve": '"Running"',
    "--shadow": "Read the cluster",
    "--kubeconfig": '"Successfully acquired lease"',
}
"""What the log of a command says, by the first option that it has, when the next may be typed."""
PATIENCE = 120.0
"""Seconds for what takes one or two on an idle machine."""
SESSION = ("docs/operating.md", "docs/shadow.md")
"""The pages with commands for a shell, in the order in which they are typed."""
TIMES = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


class Shell:
    """A directory in which commands are run one after the other, some beside the others."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "example").mkdir()
        for name, text in shared_files().items():
            (folder / "example" / name).write_text(text, encoding="utf-8")
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
        self._place = socket.socket()  # bound as long as the shell is there: nobody else gets it
        self._place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._place.bind(("127.0.0.1", 0))
        self.port = str(self._place.getsockname()[1])

    def type(self, example: Example) -> str:
        """Run one command and return what it prints; one that ends in & goes on."""
        command = example.command.replace(" 8080 ", f" {self.port} ")
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
        self._place.close()
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
    assert {name for name in PAGES if shell_blocks(name)} == {*SESSION, *guide}


def commands() -> list[Example]:
    """Return the commands of the session, each on one line."""
    texts = [text for name in SESSION for text in shell_blocks(name)]
    joined = [("console", text.replace("\\\n", "")) for text in texts]
    return [example for block in joined for example in examples(block)]


def test_commands_print_what_the_pages_show(shell: Shell) -> None:
    """In this order; what only tells how things stand may take a while to be so."""
    typed = commands()
    assert len(typed) == 10
    for example in typed:
        shown = shell.type(example)
        until = time.monotonic() + PATIENCE
        repeatable = example.command.startswith(("kubectl get", "policy-sched diff"))
        while _timeless(shown) != _timeless(example.output) and repeatable:
            if time.monotonic() > until:
                break
            time.sleep(0.2)
            shown = shell.type(example)
        assert _timeless(shown) == _timeless(example.output), example.command


def _timeless(text: str) -> str:
    return TIMES.sub("TIME", text)
