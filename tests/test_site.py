"""The documentation as a site: no link is broken, every page is reached, nothing is elsewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
from mkdocs.config import load_config
from mkdocs.structure.files import Files

from tests.shown import ROOT
from tests.web.browser import Tab, chromium

CONFIGURATION = ROOT / ".github/site/mkdocs.yml"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a site that knows no repository; broken links and pages in no navigation end it."""
    directory = tmp_path_factory.mktemp("site")
    # The theme prints a notice of its own in colours; a warning of mkdocs would fail.
    environ = {**os.environ, "POLICY_SCHED_REPOSITORY": "", "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    command += ["-f", str(CONFIGURATION), "-d", str(directory)]
    result = subprocess.run(command, check=False, env=environ, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr + result.stdout
    return directory


def html(site: Path) -> Iterator[tuple[str, str]]:
    """Yield the pages with their paths."""
    for path in sorted(site.rglob("*.html")):
        yield path.relative_to(site).as_posix(), path.read_text("utf-8")


def test_every_page_of_the_repository_is_a_page(site: Path) -> None:
    """The README is the start; the license, changes, and policies' READMEs are there, too."""
    pages = {name for name, _ in html(site)}
    assert {"index.html", "CHANGELOG/index.html", "LICENSE/index.html"} < pages
    for page in (*ROOT.glob("docs/**/*.md"), *ROOT.glob("policies/**/README.md")):
        folder = page.parent if page.stem == "README" else page.with_suffix("")
        assert f"{folder.relative_to(ROOT).as_posix()}/index.html" in pages


def test_no_asset_is_of_another_host(site: Path) -> None:
    """Scripts, styles, fonts and images are files of the site, in pages and in styles."""
    loaded = re.compile(
        r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?([^\"' >]+)|<link\b([^>]*)"
    )
    for name, text in html(site):
        for source, link in loaded.findall(text):
            target = re.search(r"href=[\"']?([^\"' >]+)", link)
            address = source or (target[1] if target else "")
            assert not re.match(r"(?:\w+:)?//", address), f"{name}: {address}"
    for style in site.rglob("*.css"):
        assert re.findall(r"url\([\"']?(?:\w+:)?//[^)]*", style.read_text("utf-8")) == []


def test_links_to_files_that_the_site_lacks(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They lead to the repository where one is named, and are plain text where none is."""
    start = (site / "index.html").read_text("utf-8")
    assert "The recordings are in tests/conformance, and" in start
    assert '<a href="policies/default/">policies/default</a>' in start
    repository = "https://git.example/policy-sched/blob/v1"
    monkeypatch.setenv("POLICY_SCHED_REPOSITORY", repository)
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    config = load_config(str(CONFIGURATION))
    files = config.plugins.run_event("files", Files([]), config=config)
    page = SimpleNamespace(file=files.get_file_from_path("README.md"))
    text = (ROOT / page.file.src_uri).read_text("utf-8")
    options = {"page": page, "config": config, "files": files}
    start = config.plugins.run_event("page_markdown", text, **options)
    assert f"[tests/conformance]({repository}/tests/conformance)" in start
    assert "[policies/default](policies/default/README.md)" in start


def test_pipes_in_code_of_tables(site: Path) -> None:
    r"""An `or` in a table is shown as rules have it, without the backslashes of Markdown."""
    text = (site / "docs/reference/index.html").read_text("utf-8")
    assert "||" in text
    assert "\\|" not in text


def test_search_knows_every_section(site: Path) -> None:
    """The index has the headings of all pages, among them those of the reference."""
    index = json.loads((site / "search/search_index.json").read_text("utf-8"))
    places = {document["location"] for document in index["docs"]}
    assert {"docs/operating/#failover", "policies/capacity/"} < places
    assert len(places) > 250


class _Silent(SimpleHTTPRequestHandler):
    """Serves files and logs nothing."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as inherited
        """Log nothing."""


def test_the_site_in_a_browser(site: Path) -> None:
    """A reader searches, in the dark and on a phone; nothing is asked of another host."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Silent, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    try:
        with chromium() as browser:
            tab = Tab(browser)
            page, seen = tab.opened(f"{address}docs/operating/", "dark", width=400)
            assert page.evaluate("document.documentElement.scrollWidth") == 400
            assert page.evaluate("getComputedStyle(document.body).colorScheme") == "dark"
            page, seen = tab.opened(address)
            page.keyboard.press("/")
            page.keyboard.type("PolicySchedNoLeader")
            page.wait_for_selector(".md-search-result__item a")
            first = page.get_attribute(".md-search-result__item a", "href")
            assert "docs/operating/" in first
            assert [asked for asked in seen.requests if not asked.startswith(address)] == []
            assert seen.messages == []
            tab.close()
    finally:
        server.shutdown()
        server.server_close()
