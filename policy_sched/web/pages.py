"""The parts of a report, and pages from templates: of a server, or one file with all assets."""

from __future__ import annotations

import base64
import hashlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

import msgspec

from policy_sched import __version__
from policy_sched.errors import PolicySchedError
from policy_sched.web import components
from policy_sched.web.components import Chart, json_for_script, pieces, visible, visible_lines

if TYPE_CHECKING:
    import jinja2
    from markupsafe import Markup


class Prose(msgspec.Struct, frozen=True):
    """Paragraphs, or the points of a list."""

    component: ClassVar[str] = "prose"
    texts: Sequence[components.Value]
    points: bool = False


class Source(msgspec.Struct, frozen=True):
    """A text of several lines."""

    component: ClassVar[str] = "source"
    caption: str
    text: str
    marks: Mapping[int, components.Badge] = msgspec.field(default_factory=dict)
    """A tone and a remark by line, from 1."""
    folded: bool = False
    """Whether it is shown on demand only, and on paper."""
    numbered: bool = True
    """Whether its lines have numbers."""

    @property
    def lines(self) -> list[tuple[int, str, components.Badge | None]]:
        """Return the lines with their numbers and marks."""
        split = self.text.replace("\r\n", "\n").removesuffix("\n").split("\n")
        return [(n, line, self.marks.get(n)) for n, line in enumerate(split, start=1)]


class Picture(msgspec.Struct, frozen=True):
    """An SVG picture, with a text that screen readers read."""

    component: ClassVar[str] = "picture"
    text: str
    svg: bytes

    @property
    def address(self) -> str:
        """Return the picture as an address that holds it."""
        return f"data:image/svg+xml;base64,{b64encode(self.svg).decode()}"


Block: TypeAlias = (
    components.Table
    | components.Bars
    | components.Funnel
    | components.Cells
    | components.DiagnosticView
    | components.Facts
    | Prose
    | Source
    | Picture
    | Chart
)
"""The components of a section."""


class Section(msgspec.Struct, frozen=True):
    """A heading and its blocks."""

    title: str
    blocks: Sequence[Block]
    note: str = ""
    beside: bool = False
    """Whether the blocks stand in columns if there is room."""


class Summary(msgspec.Struct, frozen=True):
    """A page: its heading, the lead in a sentence, the main numbers, and sections.

    ``kind`` names the report ("explain"), ``tone`` says whether its result is good.
    """

    title: str
    lead: str
    sections: Sequence[Section]
    kind: str = ""
    tone: components.Tone = ""
    remarks: Sequence[str] = ()
    facts: components.Facts | None = None


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


EXTRA: Final = "jinja2>=3.1"
"""Packages of the extra ``console``."""


@cache
def environment(package: str = "policy_sched.web") -> jinja2.Environment:
    """Return the environment of all templates. Raises PolicySchedError without the extra.

    The templates are those of this package, and before them those of ``package``. Every text is
    escaped, a value that is missing is an error, and what cannot be seen in a text becomes an
    escape (`visible`).
    """
    try:
        import jinja2  # noqa: PLC0415  # an extra
    except ImportError:
        message = f"jinja2 is not installed: pip install '{EXTRA}' (the extra console)"
        raise PolicySchedError(message) from None
    own = jinja2.PackageLoader("policy_sched.web")
    also = [] if package == "policy_sched.web" else [jinja2.PackageLoader(package)]
    templates = jinja2.Environment(
        loader=jinja2.ChoiceLoader([*also, own]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters |= {"breaking": _breaking, "lines": _lines, "script_data": _script_data}
    templates.globals |= {"asset": asset, "inlined": _inlined, "version": __version__}
    return templates


def render(template: str, **values: object) -> str:
    """Return a page or a fragment."""
    return environment().get_template(template).render(**values)


def report(summary: Summary) -> str:
    """Return a report as one HTML file."""
    return document(summary.title, "report.html", summary=summary)


def document(title: str, body_template: str, **values: object) -> str:
    """Return one HTML file: styles and scripts are inside, and nothing is loaded.

    ``body_template`` is the template of the content of ``<main>``.
    """
    body = _markup(render(body_template, **values))
    scripts = ["tables.js"] * ("data-sortable" in body)
    scripts += ["uplot.js", "charts.js"] * ("data-chart=" in body)
    styles = ["style.css", *["uplot.css"] * ("data-chart=" in body)]
    policy = _content_security_policy(styles, scripts)
    inside: Mapping[str, Any] = {"styles": styles, "scripts": scripts, "policy": policy}
    return render("document.html", title=title, body=body, **inside)


def _content_security_policy(styles: list[str], scripts: list[str]) -> str:
    """Return a policy under which only these run, and nothing is fetched or sent."""
    allowed = {
        "default-src": ["'none'"],
        "style-src": [f"'{asset(name).integrity}'" for name in styles],
        "script-src": [f"'{asset(name).integrity}'" for name in scripts] or ["'none'"],
        "img-src": ["data:"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
    }
    return "; ".join(f"{name} {' '.join(values)}" for name, values in allowed.items())


def _markup(text: str) -> Markup:
    """Mark a text as HTML: only what templates and assets made."""
    from markupsafe import Markup  # noqa: PLC0415  # comes with the extra

    return Markup(text)  # noqa: S704  # rendered with autoescape, or a file of this package


def _inlined(name: str) -> Markup:
    """Return the text of an asset, for a style or script element."""
    return _markup(asset(name).text)


def _script_data(data: object) -> Markup:
    """Return data as JSON, for a script element."""
    return _markup(json_for_script(data))


def _lines(text: str) -> Markup:
    """Return a text of several lines, escaped."""
    from markupsafe import escape  # noqa: PLC0415  # comes with the extra

    return escape(visible_lines(text))


def _breaking(text: str) -> Markup:
    """Return a text, escaped, whose longest words may go on in the next line."""
    from markupsafe import Markup  # noqa: PLC0415  # comes with the extra

    return Markup("<wbr>").join(pieces(visible(text)))


def _finalized(value: object) -> object:
    """Return what a template writes for a value; markup is written as it is."""
    return value if not isinstance(value, str) or hasattr(value, "__html__") else visible(value)
