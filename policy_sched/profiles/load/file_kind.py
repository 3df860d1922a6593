"""Tells files that are meant for policy_sched from the many others of a repository."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from policy_sched.language.diagnostics import nearest
from policy_sched.profiles.load.document import files_below, kind_of, parse, read_source
from policy_sched.profiles.models import POLICY_KIND as KIND
from policy_sched.profiles.models import TEST_KINDS
from policy_sched.profiles.models import kube_scheduler_configuration as models
from policy_sched.source import GROUPS, SourceFile, is_file_of_ours

STDIN: Final = "-"
_KINDS: Final = frozenset({KIND, *TEST_KINDS, models.KIND})
_STATED: Final = re.compile(
    rf"""^["']?apiVersion["']?\s*:\s*["']?(?:{"|".join(map(re.escape, GROUPS))})""", re.MULTILINE
)
_TEMPLATE: Final = re.compile(r"\{\{.*?\}\}", re.DOTALL)


def files_of_ours(paths: Iterable[str]) -> list[str]:
    """Return those of the files, and of the files in directories, that are meant for us.

    Standard input is kept.
    """
    return list(dict.fromkeys(file for path in paths for file in _below(path)))


def _below(path: str) -> Iterator[str]:
    if path == STDIN:
        yield path
        return
    for file in files_below(Path(path)):
        source = read_source(file)
        ours = _is_ours(source) if isinstance(source, SourceFile) else is_file_of_ours(file)
        if ours:
            yield str(file)


def _is_ours(source: SourceFile) -> bool:
    """Tell whether a text holds a document of ours, or is a broken one of ours.

    A template of Helm is none: it becomes YAML when it is rendered.
    """
    documents, problems = parse(source)
    if any(_is_our_document(marked.value) for marked in documents):
        return True
    text = source.text
    return bool(problems) and bool(_STATED.search(text)) and not _TEMPLATE.search(text)


def _is_our_document(value: Any) -> bool:
    """Tell whether a document has an apiVersion of ours, a misspelt one, or a kind and none."""
    version, kind = kind_of(value)
    if version.startswith(GROUPS):
        return True
    group = version.partition("/")[0]
    known = [one.rstrip("/") for one in GROUPS]
    return kind in _KINDS and (not version or nearest(group, known) is not None)
