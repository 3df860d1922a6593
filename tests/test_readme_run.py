"""The page on the embedded cluster: the command is run, and its policy broken, as it says."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shown import ROOT, blocks, page, shared_files

BLOCKS = blocks(page("docs/embedded-cluster.md"))

COMMANDS = [line for language, text in BLOCKS if language == "sh" for line in text.splitlines()]
RECORDS = [text for language, text in BLOCKS if language == "json"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The example files of all pages."""
    folder = tmp_path / "example"
    folder.mkdir()
    for name, text in shared_files().items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_run_prints_what_the_page_shows(folder: Path) -> None:
    """Every record that is shown comes, in this order; the policy is broken after the second."""
    (command,) = [line for line in COMMANDS if line.startswith("policy-sched run ")]
    shown = [json.loads(line) for text in RECORDS for line in text.splitlines()]
    words = shlex.split(command.replace("example/policy", f"{folder}/policy"))
    process = subprocess.Popen(
        [sys.executable, "-m", "policy_sched", *words[1:]],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None
        for number, wanted in enumerate(shown):
            for line in process.stdout:
                record = json.loads(line.replace(f"{folder}/", "example/"))
                if wanted.items() <= record.items():
                    break
            else:
                pytest.fail(f"{wanted} does not come")
            if number == 1:
                text = (folder / "policy.yaml").read_text(encoding="utf-8")
                broken = text.replace("percent(node.requested", "percent(node.requestd")
                (folder / "new.tmp").write_text(broken, encoding="utf-8")
                (folder / "new.tmp").rename(folder / "policy.yaml")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()
