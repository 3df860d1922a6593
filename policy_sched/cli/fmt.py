"""The verb ``fmt``: formats policy files."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from policy_sched import source
from policy_sched.cli.input.paths import PathsOrStdin
from policy_sched.cli.output import diagnostics
from policy_sched.errors import Diagnostic, PolicySchedError, one_line
from policy_sched.profiles.format import format_file
from policy_sched.profiles.load import files_below, files_of_ours
from policy_sched.profiles.models import MISSING_KEY

_YAML = (".yaml", ".yml")


def fmt(
    paths: PathsOrStdin,
    /,
    *,
    check: Annotated[bool, Parameter(negative="")] = False,
    diff: Annotated[bool, Parameter(negative="")] = False,
    ignore_unknown: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Format policy files, and print the names of those that changed.

    Rules are printed anew and keys come in the order of the schema; comments, values and all
    other documents stay.

    Parameters
    ----------
    paths
        Policy files, directories of them, or - for standard input, which is printed.
    check
        Write nothing; exit with 1 if a file would change.
    diff
        Write nothing; print what would change.
    ignore_unknown
        Skip files that are not policies, tests or configurations, judged by their content: for
        hooks that get every YAML file.
    """
    diagnostics.require_files(paths)
    if ignore_unknown:
        paths = tuple(path for path in files_of_ours(paths) if not path.endswith(".json"))
    problems: list[Diagnostic] = []
    changed = False
    empty = [] if ignore_unknown else [path for path in paths if _without_files(path)]
    problems += (_nothing_in(path) for path in empty)
    for name, text in _texts(paths):
        if isinstance(text, Diagnostic):
            problems.append(text)
            continue
        unix = text.replace("\r\n", "\n")
        shown, faults = format_file(name, unix)
        problems += faults
        different = shown != unix
        changed = changed or different
        if diff:
            sys.stdout.writelines(_difference(name, unix, shown))
        elif name == diagnostics.STDIN and not check and not faults:
            sys.stdout.write(shown)
        elif different:
            print(one_line(name))
            if not check:
                mended = shown.replace("\n", "\r\n") if unix != text else shown
                problems += _replaced(name, mended)
    diagnostics.write_diagnostics(problems, sys.stderr)
    return diagnostics.FAILED if problems or (check and changed) else diagnostics.OK


def _texts(paths: Sequence[str]) -> Iterator[tuple[str, str | Diagnostic]]:
    """Yield names and texts, or why a file is none; of a directory only YAML files."""
    for path in dict.fromkeys(paths):
        if path == diagnostics.STDIN:
            yield diagnostics.STDIN, source.read_text(sys.stdin, diagnostics.STDIN)
            continue
        root = Path(path)
        if root.suffix == ".json":
            raise PolicySchedError(f"{path}: JSON has no form to choose; fmt reads YAML files")
        for file in files_below(root):
            if file.suffix in _YAML or file == root:
                data = source.read_bytes(file, source.MAX_POLICY_BYTES, "split it")
                yield str(file), source.decode_text(str(file), data)


def _without_files(path: str) -> bool:
    return Path(path).is_dir() and not any(files_below(Path(path)))


def _nothing_in(path: str) -> Diagnostic:
    """Return that a directory has no files to format: a mistyped path would look like success."""
    message = "there is no YAML file in this directory"
    return Diagnostic(path, 1, 1, MISSING_KEY, message, "files that are read: .yaml, .yml")


def _replaced(name: str, text: str) -> list[Diagnostic]:
    """Replace a file; return why that is not possible, as for a link out of the repository."""
    try:
        source.write_file(source.written_in_place(name), text.encode())
    except OSError as error:
        return [Diagnostic(name, 1, 1, source.UNREADABLE, f"cannot be written: {error.strerror}")]
    return []


def _difference(name: str, before: str, after: str) -> Iterator[str]:
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    for line in difflib.unified_diff(old, new, name, name):
        shown = f"{line[0]}{one_line(line[1:].removesuffix(chr(10)))}\n"
        yield shown if line.endswith("\n") else f"{shown}\\ No newline at end of file\n"
