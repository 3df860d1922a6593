"""Writes renewed OIDC tokens into a kubeconfig, and leaves every other byte of it as it is."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from yaml import MappingNode, ScalarNode

from policy_sched.source.documents import Marked, parse_documents
from policy_sched.source.file import SourceFile

ID_TOKEN: Final = "id-token"  # noqa: S105 - the name of a key
REFRESH_TOKEN: Final = "refresh-token"  # noqa: S105 - the name of a key


def keeper(path: Path, user: str) -> Callable[[str, str], None]:
    """Return what writes the tokens of a user into a file, if that can be done."""

    def keep(id_token: str, refresh_token: str) -> None:
        tokens = {ID_TOKEN: id_token, REFRESH_TOKEN: refresh_token}
        with suppress(OSError, UnicodeDecodeError):
            _keep(path.resolve(), user, {name: text for name, text in tokens.items() if text})

    return keep


def _keep(path: Path, user: str, tokens: dict[str, str]) -> None:
    text = path.read_text(encoding="utf-8")
    marked = _parsed(text)
    place = None if marked is None else _place(marked.value, user)
    if marked is None or place is None:
        return
    written = _written(text, marked, place, tokens)
    after = None if written is None else _parsed(written)
    expected = _config(marked.value, user) | tokens
    if written is None or after is None or _config(after.value, user) != expected:
        return
    beside, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(beside, "w", encoding="utf-8") as file:
            file.write(written)
        os.chmod(name, path.stat().st_mode & 0o777)
        os.replace(name, path)
    except OSError:
        os.unlink(name)
        raise


def _parsed(text: str) -> Marked | None:
    documents, _ = parse_documents(SourceFile("", text))
    return documents[0] if len(documents) == 1 else None


def _place(value: Any, user: str) -> tuple[str | int, ...] | None:
    """Return where the settings of a user's provider stand."""
    users = value.get("users") if isinstance(value, dict) else None
    for index, entry in enumerate(users if isinstance(users, list) else ()):
        if isinstance(entry, dict) and entry.get("name") == user:
            return ("users", index, "user", "auth-provider", "config")
    return None


def _config(value: Any, user: str) -> dict[str, Any]:
    """Return the settings of a user's provider."""
    found = value
    for step in _place(value, user) or ():
        if isinstance(found, dict):
            found = found.get(step)
        elif isinstance(found, list) and isinstance(step, int):
            found = found[step]
    return dict(found) if isinstance(found, dict) else {}


def _written(
    text: str, marked: Marked, place: tuple[str | int, ...], tokens: dict[str, str]
) -> str | None:
    """Return the text with the tokens in it; None for forms that nobody writes."""
    edits: list[tuple[int, int, str]] = []
    config = marked.node(place)
    if not isinstance(config, MappingNode) or not config.value:
        return None
    for name, token in tokens.items():
        node, quoted = marked.node((*place, name)), json.dumps(token)
        if node is None:
            first = config.value[0][0].start_mark
            after = ", " if config.flow_style else "\n" + " " * first.column
            edits.append((first.index, first.index, f"{name}: {quoted}{after}"))
        elif isinstance(node, ScalarNode) and node.style not in ("|", ">"):
            edits.append((node.start_mark.index, node.end_mark.index, quoted))
        else:
            return None
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text
