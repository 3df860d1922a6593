"""The README's examples are run, and what it shows is what they print."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)

Example = tuple[str, str]


def examples() -> list[Example]:
    """Return command and output of every console block; a line after ``$`` begins a command."""
    found: list[Example] = []
    for language, text in BLOCKS:
        if language != "console":
            continue
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


@pytest.mark.parametrize(("command", "output"), examples(), ids=[c for c, _ in examples()])
def test_examples_print_what_the_readme_shows(command: str, output: str, tmp_path: Path) -> None:
    """Every command of a console block, run in the checkout, prints the lines below it."""
    folder = tmp_path / "example"
    folder.mkdir()
    for name, text in files().items():
        (folder / name).write_text(text, encoding="utf-8")
    words = shlex.split(command.replace("example/", f"{folder}/"))
    assert words[0] == "policy-sched"
    finished = subprocess.run(
        [sys.executable, "-m", "policy_sched", *words[1:]],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert finished.stdout.replace(f"{folder}/", "example/") == output, finished.stderr


def files() -> dict[str, str]:
    """Return the files that the README shows, by the name in their first line's comment."""
    found = {}
    for language, text in BLOCKS:
        name = re.match(r"# example/(\S+)\n", text)
        if language == "yaml" and name:
            found[name[1]] = text
    return found


def test_the_policy_has_ten_lines() -> None:
    """The first thing that a reader sees is a whole policy, and it is short."""
    language, text = BLOCKS[0]
    assert language == "yaml"
    assert yaml.safe_load(text)["kind"] == "Policy"
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(lines) == 10


def test_there_are_two_set_up_commands() -> None:
    """One installs and simulates, the other installs and tests; each is one line."""
    commands = [line for language, text in BLOCKS if language == "sh" for line in text.splitlines()]
    set_up = [line for line in commands if line.startswith("python3.11 -m venv")]
    simulating, testing = set_up
    assert "policy-sched simulate policies/example-cluster" in simulating
    assert "pytest" in testing
