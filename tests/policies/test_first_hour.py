"""The tutorial: every command prints what the page shows.

The command on OpenB takes 30 s of CPU. It is run only if POLICY_SCHED_TRACES names the folder with
the published lists, which are no part of the repository.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.shown import blocks, examples, named_file, page, printed

TUTORIAL = page("docs/tutorial.md")

TRACES = os.environ.get("POLICY_SCHED_TRACES", "")
OPENB = "policy-sched diff policies/default mine --cluster openb_nodes.csv.gz"


@pytest.mark.skipif(not TRACES, reason="POLICY_SCHED_TRACES names no folder with OpenB's files")
def test_the_answer_on_openb_is_the_tutorials(tmp_path: Path) -> None:
    """The page leaves out the lines of single pods."""
    files = [file for block in blocks(TUTORIAL) if (file := named_file(block, "mine"))]
    *_, policy = (text for name, text in files if name == "policy.yaml")
    (tmp_path / "policy.yaml").write_text(policy, encoding="utf-8")
    (shown,) = (text for _, text in blocks(TUTORIAL) if text.startswith(f"$ {OPENB}"))
    command, _, expected = shown.partition("\n")
    command = command.partition(" | grep")[0].removeprefix("$ ")
    command = command.replace("openb_", f"{Path(TRACES).resolve()}/openb_")
    lines = printed(command, "mine", tmp_path).splitlines(keepends=True)
    assert "".join(one for one in lines if not one.startswith("  default/")) == expected


@pytest.mark.parametrize(
    ("shown", "verbs"),
    [
        ("mine", {"check", "fmt", "test", "explain", "diff", "prove"}),
        ("teams", {"check", "test", "explain"}),
    ],
)
def test_the_commands_of_the_tutorial_print_what_the_page_shows(
    shown: str, verbs: set[str], tmp_path: Path
) -> None:
    """Files are written as they are shown, and commands run in order: of each policy's chapters."""
    folder, typed = tmp_path / shown, set()
    for block in blocks(TUTORIAL):
        file = named_file(block, shown)
        if file is not None:
            (folder / file[0]).parent.mkdir(parents=True, exist_ok=True)
            (folder / file[0]).write_text(file[1], encoding="utf-8")
        for example in examples(block):
            if re.search(rf" {shown}\b", example.command):
                assert printed(example.command, shown, folder) == example.output
                typed.add(example.command.split()[1])
    assert typed == verbs
