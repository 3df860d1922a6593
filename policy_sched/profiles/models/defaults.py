"""The default plugins of kube-scheduler 1.36: order, weights, and the points they implement.

The tables are in plugins.toml; their source is named there.

The directories that ship with the package (policies, schemas, docs) are found here, too, in a
checkout and when installed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection
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


MULTI_POINT: Final = "multiPoint"

_PLUGINS: Final = tomllib.loads(Path(__file__).with_name("plugins.toml").read_text("utf-8"))

POINTS: Final[tuple[str, ...]] = tuple(_PLUGINS["points"])
"""Every extension point that a configuration names, in the order of a pod's way."""

POINT_TYPES: Final = {point: f"{point[0].upper()}{point[1:]}Plugin" for point in POINTS}
"""How upstream's messages call a point."""

DEFAULT_SCHEDULER: Final = "default-scheduler"

DEFAULT_PLUGINS: Final[tuple[tuple[str, int], ...]] = tuple(
    (name, row.get("weight", 0)) for name, row in _PLUGINS["default"].items()
)
"""multiPoint of the default profile; weight 0 is upstream's "not given", which counts as 1."""

PLUGIN_GATES: Final[dict[str, str]] = {name: row["gate"] for name, row in _PLUGINS["gated"].items()}
"""The plugins that need a feature gate, and the gate of each."""

PLUGIN_POINTS: Final[dict[str, frozenset[str]]] = {
    name: frozenset(row["points"])
    for name, row in (_PLUGINS["default"] | _PLUGINS["gated"]).items()
}
"""Every plugin that kube-scheduler 1.36 ships, and the points that it implements."""

REMOVED_PLUGINS: Final = frozenset(_PLUGINS["removed"])
"""Plugins that v1 of the configuration no longer has; NodeVolumeLimits does their work."""


def default_plugins(gates: Collection[str]) -> tuple[tuple[str, int], ...]:
    """Return multiPoint of the default profile where these feature gates are on."""
    gated = _PLUGINS["gated"].items()
    return (
        *DEFAULT_PLUGINS,
        *((name, row.get("weight", 0)) for name, row in gated if row["gate"] in gates),
    )
