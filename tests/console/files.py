"""Files of tests of the console."""

from __future__ import annotations

from pathlib import Path


def put(path: Path, text: str) -> None:
    """Write a text as it is, in folders that are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
