"""Finds what ships with the package (policies, schemas, docs), in a checkout and when installed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).resolve().parents[2]


def _shipped(name: str) -> Path:
    """Return the directory ``name``: inside the installed package, else beside it.

    FileNotFoundError if it is at neither place.
    """
    for parent in (_PACKAGE, _PACKAGE.parent):
        if (parent / name).is_dir():
            return parent / name
    raise FileNotFoundError(f"the installation lacks its directory {name!r} (in {_PACKAGE})")


def policies_directory() -> Path:
    """Return the directory of the shipped policies; each policy is a folder in it."""
    return _shipped("policies")


def default_policies() -> Path:
    """Return the directory of the default profile's policies."""
    return policies_directory() / "default"


def schemas_directory() -> Path:
    """Return the directory of the JSON Schemas."""
    return _shipped("schemas")


def docs_directory() -> Path:
    """Return the directory of the documentation's pages."""
    return _shipped("docs")
