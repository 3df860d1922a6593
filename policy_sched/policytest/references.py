"""The files that a test names: policies and configurations, below a root, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from policy_sched.profiles.load import files_below
from policy_sched.source import is_file_of_ours, leads_out, root_of, shortened


class References:
    """Finds the files that one file of tests names, or what is wrong with that.

    ``roots`` are the directories that the command was given; without any, `root_of` says what
    is allowed.
    """

    def __init__(self, file: str, roots: Sequence[str] = ()) -> None:
        self.file = file
        self._folder = Path(file).parent
        self._roots = (root_of(file), *map(Path, roots))

    def path(self, reference: str) -> str:
        """Return the path of a reference, as it is shown."""
        return str(self._folder / reference)

    def fault(self, reference: str) -> tuple[str, str] | None:
        """Return message and hint if a reference is not to be read; nothing of it is shown.

        A missing file is left to those that read it.
        """
        shown = shortened(reference)
        try:
            path = self._folder / reference
            if leads_out(path, self._roots):
                root = self._roots[0]
                hint = f"policy-sched test --root DIR lets tests name files below DIR, not {root}"
                return f"{shown} leads out of the directory that tests may read", hint
            return self._fault_of(path, shown) if path.exists() else None
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it holds the character NUL"
            return f"{shown} cannot be read: {why}", ""

    def _fault_of(self, path: Path, shown: str) -> tuple[str, str] | None:
        if path.is_dir():
            for file in files_below(path):
                if leads_out(file, self._roots):
                    return f"{shown} holds a link that leads out: {file.name!r}", ""
        elif not is_file_of_ours(path):
            message = f"{shown} is neither a policy nor a configuration"
            return message, "run policy-sched check FILE to see the problems of a file"
        return None
