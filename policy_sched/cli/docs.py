"""The verbs ``docs`` and ``schema``: print pages, entries of names, and schemas for editors."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Literal

from policy_sched.cli.manual import commands, reference
from policy_sched.cli.output.diagnostics import OK
from policy_sched.errors import PolicySchedError, nearest
from policy_sched.language import entries, topics
from policy_sched.profiles import models
from policy_sched.profiles.models import docs_directory


def docs(topic: str = "", /) -> int:
    """Print a page of the documentation, or the entry of a name.

    Parameters
    ----------
    topic
        A page (tutorial), a code (PS412), a function (percent), a variable (node), a field
        (node.labels), a section (permit), a verb (check), or the beginning of a heading (columns);
        without it the list of pages and the whole reference.
    """
    pages = _pages()
    if not topic:
        print("\n".join(["Pages:", *(f"  {name}: {_title(pages[name])}" for name in pages), ""]))
        print("\n".join([commands(), reference()]), end="")
        return OK
    parts = [*map(str, entries(topic)), *_page(topic, pages)]
    parts = parts or _headed(topic, [commands(), reference()])
    parts = parts or _headed(topic, [_text(path) for path in pages.values()])
    if not parts:
        close = nearest(topic, (*topics(), *pages))
        hint = f'; did you mean "{close}"?' if close else ""
        raise PolicySchedError(f'the documentation has nothing called "{topic}"{hint}')
    print("\n\n".join(parts))
    return OK


def _pages() -> dict[str, Path]:
    """Return the files of the pages by name, sorted: ``tutorial``, ``decisions/no-sampling``."""
    folder = docs_directory()
    pages = {path.relative_to(folder).with_suffix("").as_posix(): path for path in _files(folder)}
    return dict(sorted(pages.items()))


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*.md") if path.is_file()]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _title(path: Path) -> str:
    return _text(path).partition("\n")[0].lstrip("# ")


def _page(topic: str, pages: dict[str, Path]) -> list[str]:
    """Return the page of that name; the folder and the suffix ``.md`` may be left out."""
    wanted = topic.lower().removesuffix(".md")
    return [_text(p).rstrip() for name, p in pages.items() if wanted in (name, _last(name))]


def _last(name: str) -> str:
    return name.rpartition("/")[2]


def _headed(topic: str, texts: list[str]) -> list[str]:
    """Return the first part whose heading begins with, or ends in, the topic."""
    parts = [
        part
        for text in texts
        for part in re.split(r"^(?=#+ )", _unfenced(text), flags=re.MULTILINE)
    ]
    wanted = topic.lower()
    for index, part in enumerate(parts):
        heading = part.partition("\n")[0].lstrip("#").strip().lower()
        if heading.startswith(wanted) or heading.endswith(f" {wanted}"):
            inner = []
            for following in parts[index + 1 :]:
                if _depth(following) <= _depth(part):
                    break
                inner.append(following)
            return ["".join([part, *inner]).replace(_ESCAPED, "#").rstrip()]
    return []


_ESCAPED = "\0"
"""Replaces a number sign at the beginning of a line of code while headings are searched."""


def _unfenced(text: str) -> str:
    """Return a text in which no line of a code block looks like a heading."""
    code = re.compile(r"^```.*?^```", flags=re.MULTILINE | re.DOTALL)
    return code.sub(lambda block: re.sub("^#", _ESCAPED, block[0], flags=re.MULTILINE), text)


def _depth(part: str) -> int:
    return len(part) - len(part.lstrip("#"))


FILES = {
    "policy": models.POLICY_FILE,
    "configuration": models.CONFIGURATION_FILE,
    "test": models.TEST_FILE,
    "experiment": models.EXPERIMENT_FILE,
    "proof": models.PROOF_FILE,
    "rollout": models.ROLLOUT_FILE,
}


def schema(
    kind: Literal["policy", "configuration", "test", "experiment", "proof", "rollout"] = "policy",
    /,
) -> int:
    """Print a JSON Schema (draft-07).

    Parameters
    ----------
    kind
        policy: Policy; configuration: KubeSchedulerConfiguration; test: PolicyTest;
        experiment: Experiment; proof: PolicyProof; rollout: Rollout.
    """
    sys.stdout.write((models.schemas_directory() / FILES[kind]).read_text(encoding="utf-8"))
    return OK
