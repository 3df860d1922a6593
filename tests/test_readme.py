"""The README's examples are run, and what it shows is what they print."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.shown import ROOT, Example, blocks, examples, files, printed

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = blocks(README)
EXAMPLES = [example for block in BLOCKS for example in examples(block)]


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.command for example in EXAMPLES])
def test_examples_print_what_the_readme_shows(example: Example, tmp_path: Path) -> None:
    """Every command of a console block, run in the checkout, prints the lines below it."""
    folder = tmp_path / "example"
    folder.mkdir()
    for name, text in files(BLOCKS, "example").items():
        (folder / name).write_text(text, encoding="utf-8")
    assert printed(example.command, "example", folder) == example.output


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
