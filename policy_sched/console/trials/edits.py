"""Edited policy files: a copy with the new texts, compiled in place of the files, and a patch.

Nothing is written where the files are. A copy lies in a temporary directory as long as it is
compiled, and every problem that is found in it names the file that it stands for.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from msgspec import structs

from policy_sched.errors import Diagnostic, PolicySchedError
from policy_sched.profiles.load import files_below
from policy_sched.profiles.reload import PolicyFiles
from policy_sched.source import MAX_POLICY_BYTES, read_bytes

NEW_FILE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.ya?ml")
"""The name of a file that an edit may add."""


@dataclass(frozen=True, slots=True)
class SourceText:
    """A file of the set: its path, its text, and why it cannot be read."""

    path: str
    text: str
    problem: str = ""


def source_texts(files: PolicyFiles) -> list[SourceText]:
    """Return the files of a set with their texts, in their order."""
    return [_read(path) for path in _paths(files)]


def _paths(files: PolicyFiles) -> list[str]:
    return list(
        dict.fromkeys(str(file) for root in files.paths for file in files_below(Path(root)))
    )


def _read(path: str) -> SourceText:
    try:
        return SourceText(path, read_bytes(path, MAX_POLICY_BYTES).decode())
    except UnicodeDecodeError:
        return SourceText(path, "", "it is not UTF-8")
    except (OSError, EOFError) as error:
        return SourceText(path, "", (error.strerror if isinstance(error, OSError) else "") or "?")


def path_of_new_file(files: PolicyFiles, name: str) -> str:
    """Return the path of a file that is added to a set. Raises PolicySchedError for a bad name."""
    if not NEW_FILE.fullmatch(name):
        raise PolicySchedError(
            f"{name[:100]!r}: a new file is called like policy.yaml, in letters, digits, . _ and -"
        )
    for root in files.policies:
        return str(Path(root) / name) if Path(root).is_dir() else str(Path(root).parent / name)
    return name


def free_place(files: PolicyFiles) -> str:
    """Return the path of a file that could be added to a set, where there is none yet."""
    names = ("policy.yaml", *(f"policy-{number}.yaml" for number in range(2, 100)))
    places = [path_of_new_file(files, name) for name in names]
    return next((candidate for candidate in places if not Path(candidate).exists()), places[0])


def checked_edits(files: PolicyFiles, edits: Mapping[str, str]) -> dict[str, str]:
    """Return the texts that differ from the files, with the line endings of the files.

    Raises PolicySchedError for a path that is neither in the set nor where a new file would be.
    """
    texts = {file.path: file.text for file in source_texts(files)}
    changed = {}
    for path, text in edits.items():
        if path not in texts and path != path_of_new_file(files, Path(path).name):
            raise PolicySchedError(f"{path[:200]!r} is not a file of the policy set")
        old = texts.get(path, "")
        new = text.replace("\r\n", "\n")
        if "\r\n" in old and "\n" not in old.replace("\r\n", ""):
            new = new.replace("\n", "\r\n")
        if new != old:
            changed[path] = new
    return changed


@dataclass(frozen=True, slots=True)
class EditedFiles:
    """A copy of a set of files, with the name of each copy and the path that it stands for."""

    files: PolicyFiles
    names: Mapping[str, str]

    def renamed(self, problems: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
        """Return diagnostics that name the files themselves, not their copies."""
        return tuple(self._renamed(problem) for problem in problems)

    def text(self, text: str) -> str:
        """Return a text that names the files themselves, not their copies."""
        for copy, path in self.names.items():
            text = text.replace(copy, path)
        return text

    def _renamed(self, problem: Diagnostic) -> Diagnostic:
        return replace(
            problem,
            file=self.names.get(problem.file, problem.file),
            message=self.text(problem.message),
            hint=self.text(problem.hint),
            context=self.text(problem.context),
        )


@contextmanager
def edited(files: PolicyFiles, edits: Mapping[str, str]) -> Iterator[EditedFiles]:
    """Copy the files with other texts for some of them; the copy is gone when this is left."""
    with TemporaryDirectory(prefix="policy-sched-") as folder:
        names: dict[str, str] = {}

        def copied(number: int, root: str) -> str:
            return _copied(Path(root), Path(folder, str(number)), edits, names)

        config = copied(0, files.config) if isinstance(files.config, str) else files.config
        policies = [copied(i + 1, root) for i, root in enumerate(files.policies)]
        beside = {str(Path(path).parent): Path(copy).parent for copy, path in names.items()}
        for path in [path for path in edits if path not in names.values()]:
            place = beside.get(str(Path(path).parent), Path(folder, "added"))
            added = _copied(Path(path), place, edits, names)
            if not any(Path(added).is_relative_to(root) for root in policies):
                policies.append(added)
        yield EditedFiles(structs.replace(files, config=config, policies=tuple(policies)), names)


def _copied(root: Path, folder: Path, edits: Mapping[str, str], names: dict[str, str]) -> str:
    """Copy a file or directory into a folder, and return the path of the copy."""
    target = folder / (root.name or "files")
    for file in files_below(root):
        copy = target / file.relative_to(root) if file != root else target
        copy.parent.mkdir(parents=True, exist_ok=True)
        names[str(copy)] = str(file)
        text = edits.get(str(file))
        if text is not None:
            copy.write_bytes(text.encode("utf-8", "surrogatepass"))
        elif file.is_file():
            copy.write_bytes(file.read_bytes()[: MAX_POLICY_BYTES + 1])
    if root.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        names[str(target)] = str(root)
    return str(target)


def patch(files: PolicyFiles, edits: Mapping[str, str]) -> str:
    """Return edits as a unified diff that ``git apply`` takes at the top of the repository.

    Paths are relative to the repository that a file is in, else to the working directory.
    """
    texts = {text.path: text.text for text in source_texts(files)}
    return "".join(_patch(path, texts.get(path), new) for path, new in sorted(edits.items()))


def _patch(path: str, old: str | None, new: str) -> str:
    name = _name_in_patch(Path(path))
    lines = difflib.unified_diff(
        _lines(old or ""),
        _lines(new),
        "/dev/null" if old is None else f"a/{name}",
        f"b/{name}",
    )
    head = f"diff --git a/{name} b/{name}\n" + ("new file mode 100644\n" if old is None else "")
    body = "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
    return head + body


def _lines(text: str) -> list[str]:
    """Return the lines of a text with their ends; only a line feed ends a line, as for git."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _name_in_patch(path: Path) -> str:
    whole = Path(os.path.abspath(path))
    root = next((parent for parent in whole.parents if (parent / ".git").exists()), Path.cwd())
    return Path(os.path.relpath(whole, root)).as_posix()
