"""What documents show: blocks of files and of commands with what they print."""

from __future__ import annotations

import io
import re
import shlex
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from policy_sched.cli.main import run

ROOT = Path(__file__).parents[1]

PAGES = ("README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md")))
"""The overview and every page of the documentation."""

Block = tuple[str, str]
"""Language and text of a block between fences."""


@dataclass(frozen=True)
class Example:
    """A command of a console block, and what is shown below it."""

    command: str
    output: str


def blocks(text: str) -> list[Block]:
    """Return the blocks of a document, in order."""
    return re.findall(r"^```(\w*)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def examples(block: Block) -> list[Example]:
    """Return the commands of a console block; a line after ``$`` begins one."""
    language, text = block
    if language != "console":
        return []
    parts = (part.partition("\n") for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:])
    return [Example(command, output) for command, _, output in parts]


def named_file(block: Block, folder: str) -> tuple[str, str] | None:
    """Return name and text of a YAML block whose first line is a comment: ``# folder/name``."""
    language, text = block
    name = re.match(rf"# {folder}/(\S+)\n", text)
    return (name[1], text) if language == "yaml" and name else None


def printed(command: str, shown: str, folder: Path) -> str:
    """Run a command in the checkout; ``folder`` stands for the folder ``shown`` in it.

    It runs in this process, which has loaded everything already.
    """
    words = shlex.split(re.sub(rf"(?<= ){shown}(?=[/ ]|$)", str(folder), command))
    assert words[0] == "policy-sched"
    out, errors = io.StringIO(), io.StringIO()
    with chdir(ROOT), redirect_stdout(out), redirect_stderr(errors):
        code = run(words[1:])
    assert code in (0, 1), errors.getvalue()
    return out.getvalue().replace(str(folder), shown)


def files(shown: list[Block], folder: str) -> dict[str, str]:
    """Return the files that blocks show in a folder, by name."""
    found = (named_file(block, folder) for block in shown)
    return dict(file for file in found if file is not None)


def page(name: str) -> str:
    """Return the text of a page."""
    return (ROOT / name).read_text(encoding="utf-8")


def shared_files() -> dict[str, str]:
    """Return the files of the folder ``example`` that all pages show together, by name."""
    found: dict[str, str] = {}
    for name in PAGES:
        for file, text in files(blocks(page(name)), "example").items():
            assert found.setdefault(file, text) == text, f"{name} shows another example/{file}"
    return found
