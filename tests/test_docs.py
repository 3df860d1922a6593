"""Pages for contributors: every path that they name exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = (
    "CONTRIBUTING.md",
    "docs/architecture.md",
    *sorted(f"docs/decisions/{page.name}" for page in (ROOT / "docs/decisions").glob("*.md")),
)
PATH = re.compile(
    r"[\w.*-]+(?:/[\w.*-]+)*(?:/|\.(?:py|toml|json|md|yaml|lark))|[\w.-]+(?:/[\w.*-]+)+"
)
OTHERS = {"schemas/", "dist"}
NOT_OURS = re.compile(r"system:|policysched\.dev/|\.io/|/(?:healthz|livez|readyz|policies|proc)\b")


def named(page: str) -> Iterator[str]:
    """Yield what a page has in backticks, outside of blocks, and that looks like a path."""
    blocks = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
    text = blocks.sub("", (ROOT / page).read_text("utf-8"))
    table = ""
    for line in text.splitlines():
        row = re.match(r"\| (.*?) \|", line)
        table = row[1].strip("`") if row and "·" not in row[1] else ""
        for code in re.findall(r"`([^`\n]+)`", line):
            if PATH.fullmatch(code) and not NOT_OURS.search(code):
                yield f"{table}|{code}"


def exists(path: str, package: str) -> bool:
    """Return whether a path is in the repository, the program, or the package of a table's row."""
    folders = (ROOT, ROOT / "policy_sched", ROOT / "policy_sched" / package)
    return any(
        next(folder.glob(form), None) is not None
        for folder in folders
        if folder.is_dir()
        for form in (path.rstrip("/"), f"{path}.py")
    )


@pytest.mark.parametrize("page", PAGES)
def test_every_path_exists(page: str) -> None:
    """A reader finds each file and each package under the name that the page gives."""
    found = [one.split("|") for one in named(page)]
    assert [path for package, path in found if not exists(path, package)] == []


def test_a_page_names_paths() -> None:
    """The test above sees the paths: the reading order has more than ten."""
    assert len(list(named("docs/architecture.md"))) > 30
    assert "|queue/scheduling_queue.py" in list(named("docs/architecture.md"))


def test_the_navigation_of_the_site_has_every_page() -> None:
    """A new page is listed in the site's configuration, below the audience that it is for."""
    navigation = (ROOT / ".github/site/mkdocs.yml").read_text("utf-8")
    pages = {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}
    listed = set(re.findall(r"^ +- (docs/[\w-]+\.md)$", navigation, re.MULTILINE))
    assert pages == listed, "name it under nav in .github/site/mkdocs.yml"
