"""The page on rollouts: its commands are run, and the rollout aborts as it says."""

from __future__ import annotations

import json
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shown import ROOT, blocks, examples, files, page, printed

BLOCKS = blocks(page("docs/rollouts.md"))
COMMANDS = [line for language, text in BLOCKS if language == "sh" for line in text.splitlines()]
RECORDS = [
    json.loads(line) for kind, text in BLOCKS if kind == "json" for line in text.splitlines()
]
(STATUS,) = [text for language, text in BLOCKS if language == "text"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of the page."""
    folder = tmp_path / "canary"
    folder.mkdir()
    for name, text in files(BLOCKS, "canary").items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def edit(folder: Path, command: str) -> None:
    """Do what a line of sed does: replace a text of a file, at once."""
    _, change, path = (word for word in shlex.split(command) if word != "-i")
    _, old, new, _ = change.split("/")
    file = folder / Path(path).name
    text = file.read_text(encoding="utf-8")
    assert old in text
    (folder / "new.tmp").write_text(text.replace(old, new), encoding="utf-8")
    (folder / "new.tmp").rename(file)


def test_the_files_of_the_page_have_no_problem(folder: Path) -> None:
    """`check` prints what is shown."""
    (example,) = [example for block in BLOCKS for example in examples(block)]
    (folder / "cluster.yaml").unlink()
    assert printed(example.command, "canary", folder) == example.output


def test_the_rollout_aborts_by_itself(folder: Path) -> None:
    """Every record that is shown comes, in this order, and the status begins as it is shown."""
    run, tighten, grow = COMMANDS
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = shlex.split(run.replace("canary/", f"{folder}/").replace("10259", str(port)))
    process = subprocess.Popen(
        [sys.executable, "-m", "policy_sched", *words[1:]],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None
        wanted = [{"msg": "Successfully bound pod to node"}] * 2 + RECORDS
        for number, facts in enumerate(wanted):
            for line in process.stdout:
                record = json.loads(line)
                if facts.items() <= record.items():
                    break
            else:
                pytest.fail(f"{facts} does not come")
            if number == 1:
                edit(folder, tighten)
            if facts.get("msg") == "A step of the rollout begins":
                edit(folder, grow)
        assert "more pods find no node (candidate.unschedulable 1, " in record["detail"]
        status = f"policy-sched rollout status --server http://127.0.0.1:{port}"
        assert printed(status, "canary", folder).startswith(STATUS)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()
