"""The manual's first hour: every command prints what the page shows."""

from __future__ import annotations

from pathlib import Path

from tests.shown import ROOT, blocks, examples, named_file, printed

MANUAL = (ROOT / "policies" / "README.md").read_text(encoding="utf-8")


def test_the_first_hour_goes_as_the_manual_says(tmp_path: Path) -> None:
    """Files are written as they are shown, and commands run in order."""
    section = MANUAL.partition("## The first hour\n")[2].partition("\n## ")[0]
    folder = tmp_path / "mine"
    folder.mkdir()
    verbs = set()
    for block in blocks(section):
        file = named_file(block, "mine")
        if file is not None:
            (folder / file[0]).write_text(file[1], encoding="utf-8")
        for example in examples(block):
            assert printed(example.command, "mine", folder) == example.output
            verbs.add(example.command.split()[1])
    assert verbs == {"check", "fmt", "test", "explain", "diff"}
