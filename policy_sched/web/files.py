"""Styles and scripts as they are shipped: our own, and those of published packages."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Final

import msgspec

FILES: Final = {
    "style.css": "assets/style.css",
    "charts.js": "assets/charts.js",
    "tables.js": "assets/tables.js",
    "editor.js": "assets/editor.js",
    "editor.css": "assets/editor.css",
    "timeline.js": "assets/timeline.js",
    "uplot.js": "vendor/uplot-1.6.32/uPlot.iife.min.js",
    "uplot.css": "vendor/uplot-1.6.32/uPlot.min.css",
    "htmx.js": "vendor/htmx.org-2.0.11/htmx.min.js",
    "sse.js": "vendor/htmx-ext-sse-2.2.4/sse.min.js",
    "codemirror.js": "vendor/codemirror-5.65.21/codemirror.js",
    "codemirror.css": "vendor/codemirror-5.65.21/codemirror.css",
    "codemirror-yaml.js": "vendor/codemirror-5.65.21/yaml.js",
    "codemirror-lint.js": "vendor/codemirror-5.65.21/lint.js",
    "codemirror-lint.css": "vendor/codemirror-5.65.21/lint.css",
    "codemirror-hint.js": "vendor/codemirror-5.65.21/show-hint.js",
    "codemirror-hint.css": "vendor/codemirror-5.65.21/show-hint.css",
}
"""By the name that templates use: the file in this package."""

_TYPES: Final = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}


class Asset(msgspec.Struct, frozen=True):
    """A style or a script."""

    name: str
    content: bytes
    content_type: str
    sha256: bytes

    @property
    def hashed_name(self) -> str:
        """Return a file name that changes with the content, as in ``style-0123456789ab.css``."""
        path = PurePosixPath(self.name)
        return f"{path.stem}-{self.sha256.hex()[:12]}{path.suffix}"

    @property
    def text(self) -> str:
        """Return the content as text."""
        return self.content.decode()

    @property
    def integrity(self) -> str:
        """Return the digest as Content-Security-Policy and ``integrity`` attributes write it."""
        return f"sha256-{base64.b64encode(self.sha256).decode()}"


@cache
def asset(name: str) -> Asset:
    """Return the style or script with a name of `FILES`."""
    content = files(__package__).joinpath(FILES[name]).read_bytes()
    kind = _TYPES[PurePosixPath(name).suffix]
    return Asset(name, content, kind, hashlib.sha256(content).digest())


@cache
def served_assets() -> dict[str, Asset]:
    """Return every asset by its hashed name."""
    return {asset(name).hashed_name: asset(name) for name in FILES}
