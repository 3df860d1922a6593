"""Pages from templates: those of a server, and documents that are one file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from policy_sched import __version__
from policy_sched.errors import PolicySchedError
from policy_sched.web.files import asset
from policy_sched.web.sections import Summary
from policy_sched.web.text import json_for_script, pieces, visible, visible_lines

if TYPE_CHECKING:
    import jinja2
    from markupsafe import Markup

EXTRA: Final = "jinja2>=3.1"
"""What the extra ``console`` installs."""


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
    found = jinja2.Environment(
        loader=jinja2.ChoiceLoader([*also, own]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters |= {"breaking": _breaking, "lines": _lines, "script_data": _script_data}
    found.globals |= {"asset": asset, "inlined": _inlined, "version": __version__}
    return found


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
