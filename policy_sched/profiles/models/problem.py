"""A problem of one document before it has a place in a file, in upstream's words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import msgspec

from policy_sched.language.diagnostics import nearest

Path = tuple[str | int, ...]
"""Keys and indices from the root of a document."""

UNKNOWN_KEY = "PS702"
WRONG_TYPE = "PS703"
MISSING_KEY = "PS704"
UNKNOWN_PLUGIN = "PS705"
VERSION = "PS706"
BAD_VALUE = "PS707"
DUPLICATE = "PS708"
UNLIKE_QUEUE_SORT = "PS311"
TOO_LARGE = "PS501"
NOT_BUILT = "PS711"
"""A set that compiles, but whose plugins cannot be made."""


class ModelProblem(msgspec.Struct, frozen=True):
    """A problem at ``path``; ``on_key`` points at the key instead of its value.

    ``placeholder`` is a value of the right shape: with it in place, the rest of the document
    can be checked. A problem of an unknown key has none, the key is taken out.
    """

    path: Path
    code: str
    message: str
    hint: str = ""
    on_key: bool = False
    warning: bool = False
    placeholder: object = None


def path_text(path: Iterable[str | int]) -> str:
    """Return a path as upstream writes it: ``profiles[0].plugins.filter``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def shown(value: object) -> str:
    """Return a value as upstream shows it: strings quoted, the rest as JSON, cut if long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return "did you mean 'x'?" if a known word is close to ``word``, else nothing."""
    close = nearest(word, known)
    return f"did you mean {close!r}?" if close else ""


def without_followers(problems: Sequence[ModelProblem]) -> list[ModelProblem]:
    """Return the problems without a missing key that a misspelt neighbour was meant to be."""
    meant = {(p.path[:-1], p.hint) for p in problems if p.code == UNKNOWN_KEY}
    return [
        p
        for p in problems
        if p.code != MISSING_KEY
        or not p.path
        or (p.path[:-1], f"did you mean {p.path[-1]!r}?") not in meant
    ]


def problem_at(
    path: Path,
    why: str,
    code: str = BAD_VALUE,
    hint: str = "",
    *,
    on_key: bool = False,
    warning: bool = False,
) -> ModelProblem:
    """Return a problem whose message begins with its path."""
    return ModelProblem(path, code, f"{path_text(path)}: {why}", hint, on_key, warning)


def invalid(path: Path, value: object, why: str) -> ModelProblem:
    """Return the problem of a value that is of the right type and not allowed."""
    return problem_at(path, f"Invalid value: {shown(value)}: {why}")


def unsupported(path: Path, value: object, known: Iterable[str], hint: str = "") -> ModelProblem:
    """Return the problem of a word that is none of a closed set."""
    words = ", ".join(json.dumps(word) for word in known)
    why = f"Unsupported value: {shown(value)}: supported values: {words}"
    return problem_at(path, why, hint=hint)


def required(path: Path, why: str = "") -> ModelProblem:
    """Return the problem of a value that must be given."""
    tail = f": {why}" if why else ""
    return problem_at(path, f"Required value{tail}", MISSING_KEY)


def duplicate(path: Path, value: object) -> ModelProblem:
    """Return the problem of a value that must be unique and is not."""
    return problem_at(path, f"Duplicate value: {shown(value)}", DUPLICATE)


def forbidden(path: Path, why: str) -> ModelProblem:
    """Return the problem of a field that must be absent."""
    return problem_at(path, f"Forbidden: {why}", on_key=True)
