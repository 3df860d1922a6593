"""cel-go's messages of mistakes, which kube-apiserver quotes of selectors and events."""

from __future__ import annotations

from collections.abc import Sequence

from policy_sched.language.values import types


def undeclared(name: str) -> str:
    """Return the message of a name that means nothing."""
    return f"undeclared reference to '{name}' (in container '')"


def mismatch(wanted: types.Type, found: types.Type, sign: str = "") -> str:
    """Return the message of a value of another type than ``wanted``, in the operator ``sign``."""
    where = f" in '{sign}'" if sign else ""
    return f"expected type '{types.cel_name(wanted)}' but found '{types.cel_name(found)}'{where}"


def no_overload(name: str, kinds: Sequence[types.Type], *, method: bool = False) -> str:
    """Return the message of a call that no overload takes."""
    applied = [types.cel_name(kind) for kind in kinds]
    receiver = f"{applied.pop(0)}." if method else ""
    return f"found no matching overload for '{name}' applied to '{receiver}({', '.join(applied)})'"


def compilation_failed(text: str, refusals: Sequence[tuple[int, str]]) -> str:
    """Return the message of an expression with mistakes, each at a character of it."""
    lines = []
    for at, message in refusals:
        start = text.rfind("\n", 0, at) + 1
        line, column = text.count("\n", 0, at) + 1, at - start
        end = text.find("\n", start)
        shown = text[start : len(text) if end < 0 else end].replace("\t", " ")
        lines.append(f"ERROR: <input>:{line}:{column + 1}: {message}")
        lines.append(f" | {shown}")
        lines.append(f" | {'.' * column}^")
    return "compilation failed: " + "\n".join(lines)
