"""Reads plain data that a person wrote, and notes every problem with the place where it stands."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from policy_sched.errors import Diagnostic

Path = tuple[str | int, ...]
"""Where a value stands in a document: keys and list positions, from the top."""

Plain = dict[str, object]
"""A mapping as YAML and JSON give it."""

Locate = Callable[[Path, bool], Diagnostic]
"""Return a blank diagnostic at a path: at the key if the flag is set, else at the value."""

UNKNOWN_KEY: Final = "PS702"
WRONG_TYPE: Final = "PS703"
MISSING_KEY: Final = "PS704"
WRONG_VALUE: Final = "PS705"
DUPLICATE: Final = "PS708"
"""Codes of the family PS7xx: the shape of a file."""

MAX_SUGGESTIONS: Final = 100
"""Misspelt keys of a document for which the key that was meant is looked for."""


class Reader:
    """Typed access to one document; what is wrong becomes a Diagnostic in ``problems``."""

    def __init__(self, locate: Locate) -> None:
        self._locate = locate
        self.problems: list[Diagnostic] = []
        self._noted: set[Diagnostic] = set()
        self._suggestions = MAX_SUGGESTIONS

    def problem(
        self, path: Path, code: str, message: str, *, hint: str = "", key: bool = False
    ) -> None:
        """Note, once, that the value at ``path`` (or its key) is wrong."""
        blank = self._locate(path, key)
        found = replace(blank, code=code, message=message, hint=hint)
        if found not in self._noted:
            self._noted.add(found)
            self.problems.append(found)

    def mapping(self, value: object, path: Path, known: Iterable[str] | None = None) -> Plain:
        """Return the mapping at ``path``; unknown keys are noted, with the nearest known one."""
        if not isinstance(value, dict):
            self._wrong(value, path, "a mapping")
            return {}
        fine: Plain = {}
        names = None if known is None else list(known)
        for key, item in value.items():
            if not isinstance(key, str):
                self.problem(path, WRONG_TYPE, f"key {key!r} must be text", hint="quote it")
            elif names is not None and key not in names:
                self._suggestions -= 1
                wanted = names if self._suggestions >= 0 else []
                close = difflib.get_close_matches(key, wanted, n=1)
                hint = f'did you mean "{close[0]}"?' if close else f"known: {', '.join(names)}"
                self.problem((*path, key), UNKNOWN_KEY, f'unknown key "{key}"', hint=hint, key=True)
            else:
                fine[key] = item
        return fine

    def items(self, value: object, path: Path) -> Sequence[object]:
        """Return the list at ``path``; an absent one is empty."""
        if value is None:
            return ()
        if not isinstance(value, list):
            self._wrong(value, path, "a list")
            return ()
        return value

    def text(self, value: object, path: Path) -> str:
        """Return the text at ``path``, or "" where something else stands there."""
        if not isinstance(value, str):
            self._wrong(value, path, "text")
            return ""
        return value

    def texts(self, value: object, path: Path) -> tuple[str, ...]:
        """Return the list of texts at ``path``; one text stands for a list of one."""
        if isinstance(value, str):
            return (value,)
        return tuple(self.text(v, (*path, i)) for i, v in enumerate(self.items(value, path)))

    def whole(self, value: object, path: Path) -> int:
        """Return the whole number at ``path``, or 0 where something else stands there."""
        if isinstance(value, bool) or not isinstance(value, int):
            self._wrong(value, path, "a whole number")
            return 0
        return value

    def require(self, value: Plain, key: str, path: Path) -> bool:
        """Return whether ``key`` is there; its absence is noted."""
        if key not in value:
            self.problem(path, MISSING_KEY, f'"{key}" is missing')
            return False
        return True

    def _wrong(self, value: object, path: Path, wanted: str) -> None:
        what = f'"{path[-1]}"' if path and isinstance(path[-1], str) else "this"
        self.problem(path, WRONG_TYPE, f"{what} must be {wanted}, not {_kind(value)}")


def _kind(value: object) -> str:
    if value is None:
        return "empty"
    names: dict[type, str] = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "text",
        list: "a list",
        dict: "a mapping",
    }
    return names.get(type(value), type(value).__name__)
