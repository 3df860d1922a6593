"""The layout of the documentation's site: pages have the paths that they have in the repository.

So links between them hold as they are written. A link to a folder leads to its README; one to a
file that the site does not have leads to the repository, where one is named, or is plain text.
"""

from __future__ import annotations

import posixpath
import re
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[2]
LICENSE: Final = "LICENSE"
"""A page of its own; browsers save files without a suffix."""
STYLES: Final = "site.css"
PAGES: Final = (
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
    *("docs/**/*.md", "policies/**/README.md"),
)
ASSETS: Final = ("docs/images/*", "docs/figures/*", "policies/**/*.yaml", "policies/**/*.svg")
FENCED: Final = re.compile(r"^( *)(```|~~~).*?^\1\2", re.MULTILINE | re.DOTALL)
CELL: Final = re.compile(r"<td.*?</td>", re.DOTALL)
LINK: Final = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill in the pages that patterns of the navigation name, and the version."""
    config.nav = list(_expanded(config.nav or []))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    config.copyright = f"{project['name']} {project['version']}, {project['license']}"
    return config


def _expanded(entries: list[Any]) -> Iterator[Any]:
    for entry in entries:
        if isinstance(entry, dict):
            for title, inner in entry.items():
                yield {title: list(_expanded(inner)) if isinstance(inner, list) else inner}
        elif "*" in entry:
            yield from sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob(entry))
        else:
            yield entry


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace the files of docs/ by those of the site, under their paths in the repository."""
    for file in list(files):
        if file.src_dir == config.docs_dir:
            files.remove(file)
    for pattern in (*PAGES, *ASSETS):
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    files.append(File.generated(config, STYLES, abs_src_path=str(Path(__file__).parent / STYLES)))
    text = (ROOT / LICENSE).read_text("utf-8")
    page = f"# License\n\n```text\n{text}```\n"
    files.append(File.generated(config, f"{LICENSE}.md", content=page))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the text of a page with the links that the site needs, outside of code blocks."""

    def link(match: re.Match[str]) -> str:
        title, target, anchor = match[1], match[2], match[3] or ""
        folder = posixpath.dirname(page.file.src_uri)
        path = posixpath.normpath(posixpath.join(folder, target))
        for known in (path, f"{path}.md", f"{path}/README.md"):
            if files.get_file_from_path(known):
                return f"[{title}]({posixpath.relpath(known, folder)}{anchor})"
        if not (ROOT / path).exists():
            return match[0]  # a broken link, which mkdocs reports
        return f"[{title}]({config.repo_url}/{path})" if config.repo_url else title

    ends = [0, *(end for block in FENCED.finditer(markdown) for end in block.span()), len(markdown)]
    parts = [markdown[start:end] for start, end in pairwise(ends)]
    return "".join(
        part if number % 2 else LINK.sub(link, part) for number, part in enumerate(parts)
    )


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - mkdocs' signature
    """Return the content of a page in which a pipe in code of a table is one, as on GitHub."""
    return CELL.sub(lambda cell: cell[0].replace("\\|", "|"), html)
