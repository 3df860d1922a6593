"""The console in a real browser: no violation of the policy, no error, nothing inaccessible."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from policy_sched.console import ClusterSource, RunningSource, opening_file
from policy_sched.profiles.reload import PolicyFiles
from tests.console import clusters
from tests.console.browsing import of_files
from tests.console.threaded import Running, embedded, served
from tests.instance.app.test_cluster_instance import pod
from tests.web.browser import serious

LARGEST = 60 << 20
"""Bytes of memory that the page of the largest cluster may take."""


@contextlib.contextmanager
def opened(
    browser: Any, make: Callable[[], ClusterSource], results: Sequence[str] = (), **options: Any
) -> Iterator[tuple[Any, Running]]:
    """Open a console; in the end the browser has reported no error and no violation."""
    complaints: list[str] = []
    with served(make, results) as running:
        context = browser.new_context(viewport={"width": 1280, "height": 800}, **options)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        page.on("dialog", lambda dialog: complaints.extend(_said(dialog)))
        page.goto(running.server.url)
        assert "token" not in page.url
        yield page, running
        context.close()
    # A request that ends with its page is no error, though htmx logs it as one.
    assert [complaint for complaint in complaints if not complaint.startswith("htmx:")] == []


def _said(dialog: Any) -> list[str]:
    """Return what a dialog says; one about edits that are left is as it should be."""
    return [] if dialog.type == "beforeunload" else [f"dialog: {dialog.message}"]


def visit(page: Any, running: Running, path: str) -> None:
    """Open a page by its path."""
    page.goto(running.server.address.rstrip("/") + path)
    page.wait_for_selector("h1", state="attached")


@pytest.fixture(scope="module")
def example(browser: Any) -> Iterator[tuple[Any, Running]]:
    """Return one page of a console over the example cluster: a page of its own costs a process."""
    with opened(browser, of_files) as console:
        yield console


@pytest.fixture
def phone(example: tuple[Any, Running]) -> Iterator[tuple[Any, Running]]:
    """Return the page at the size of a phone."""
    page, running = example
    page.set_viewport_size({"width": 390, "height": 844})
    yield page, running
    page.set_viewport_size({"width": 1280, "height": 800})


def test_pages_of_the_example_cluster_are_accessible(example: tuple[Any, Running]) -> None:
    """Every page, light and dark: no error, no violation, nothing serious by axe-core."""
    page, running = example
    for path in (
        "/",
        "/pods?by=reason",
        "/pods/shop/report",
        "/pods/shop/web-1",
        "/nodes",
        "/nodes/gpu-1",
    ):
        visit(page, running, path)
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme)
            assert serious(page) == [], (path, scheme)


def test_the_private_file_leads_to_the_console(browser: Any) -> None:
    """A real browser follows it to the first page, with a cookie and without the token."""
    with (
        served(of_files) as running,
        opening_file(running.server.url) as file,
        browser.new_context() as context,
    ):
        page = context.new_page()
        page.goto(file.as_uri())
        page.wait_for_url(running.server.address)
        assert "Needs attention" in page.content()
        (cookie,) = context.cookies()
        assert (cookie["domain"], cookie["httpOnly"]) == (running.server.security.host, True)


def test_pages_fit_on_a_phone(phone: tuple[Any, Running]) -> None:
    """At 390 x 844 no page is wider than the screen."""
    page, running = phone
    for path in ("/", "/pods?by=reason", "/pods/shop/report", "/nodes", "/nodes/gpu-1"):
        visit(page, running, path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path


def test_badges_are_whole_on_a_phone(phone: tuple[Any, Running]) -> None:
    """ "no node" was two lines, and the sign that takes a long filter away was off the screen."""
    page, running = phone
    visit(page, running, "/pods?reason=node(s)+didn't+match+Pod's+node+affinity/selector")
    badges = page.evaluate(
        "[...document.querySelectorAll('.badge')].map(one => {"
        " const at = one.getBoundingClientRect();"
        " return [one.textContent, at.height / parseFloat(getComputedStyle(one).fontSize)]; })"
    )
    assert len(badges) >= 3
    assert [text for text, lines in badges if lines > 2] == []
    away = page.locator(".chosen .badge a").bounding_box()
    assert away["x"] + away["width"] <= 390
    page.click(".chosen .badge a")
    page.wait_for_selector("header.headline:has-text('13 pods')")


def test_pages_of_an_empty_cluster_are_accessible(browser: Any) -> None:
    """Every list is there, and nothing is wrong."""
    with opened(browser, lambda: clusters.of_objects([])) as (page, running):
        for path in ("/", "/pods", "/nodes", "/policies", "/timeline"):
            visit(page, running, path)
            assert serious(page) == [], path


def test_a_broken_policy_is_shown_until_it_is_mended(browser: Any, tmp_path: Path) -> None:
    """The problem is on the overview with its caret; when the file is mended it goes, unasked."""
    file = tmp_path / "policy.yaml"
    file.write_text("kind: Policy\n")
    with opened(browser, lambda: of_files(policies=PolicyFiles(None, (str(file),)))) as (
        page,
        running,
    ):
        page.wait_for_selector(".diagnostic.bad")
        assert "the default profile decides" in page.inner_text(".banner.bad")
        assert serious(page) == []
        for path in ("/pods", "/pods/shop/report", "/nodes", "/nodes/gpu-1", "/policies"):
            visit(page, running, path)
        assert serious(page) == []
        visit(page, running, "/")
        metadata = "metadata: {name: Kept}"
        rule = "spec: {filter: [{expression: 'true', message: kept}]}"
        file.write_text(f"apiVersion: policysched.dev/v1alpha1\nkind: Policy\n{metadata}\n{rule}\n")
        page.wait_for_selector(".diagnostic.bad", state="detached")
        assert page.query_selector(".banner.bad") is None


def test_pods_appear_as_they_come(browser: Any) -> None:
    """The stream of changes brings new pods, their reasons and the curves to an open page."""
    with opened(browser, embedded) as (page, running):
        source = running.source
        assert isinstance(source, RunningSource)
        visit(page, running, "/pods")
        assert "0 pods" in page.inner_text("header.headline")
        running.call(lambda: source.instance.cluster.apply(pod("first")))  # type: ignore[attr-defined]
        page.wait_for_selector("a[href='/pods/default/first']")
        visit(page, running, "/")
        running.call(lambda: source.instance.cluster.apply(pod("huge", "64")))  # type: ignore[attr-defined]
        page.wait_for_selector("a[href='/pods/default/huge']")
        page.wait_for_selector(".chart .live")
        assert serious(page) == []


def test_the_largest_cluster_fits_into_the_memory_of_a_page(browser: Any) -> None:
    """5,000 nodes and 30,000 pods: every cell is there, colours change, and memory is bounded."""
    with opened(browser, clusters.large) as (page, running):
        visit(page, running, "/")
        assert page.locator(".cells .field > a").count() == 5_000
        page.select_option("select[name=colour]", "pods")
        page.wait_for_url("**colour=pods**")
        page.wait_for_selector("figcaption:has-text('pods requested')")
        assert page.locator(".cells .field > a").count() == 5_000
        devtools = page.context.new_cdp_session(page)
        devtools.send("HeapProfiler.collectGarbage")
        devtools.send("Performance.enable")
        measured = devtools.send("Performance.getMetrics")["metrics"]
        metrics = {item["name"]: item["value"] for item in measured}
        assert metrics["JSHeapTotalSize"] <= LARGEST
        assert page.evaluate("document.getElementsByTagName('*').length") <= 30_000
        page.fill("input[name=expression]", "node.free.cpu")
        page.select_option("select[name=colour]", "expression")
        page.wait_for_selector("figcaption:has-text('node.free.cpu')")
        visit(page, running, "/pods?state=pending&page=3")
        assert "201 to 300 of 1000" in page.inner_text(".pager")
        page.click(".pager a[rel=next]")
        page.wait_for_selector(".pager:has-text('301 to 400')")
        visit(page, running, "/pods/default/new-00003")
        assert "fits on none of 5,000 nodes" in page.inner_text("header.headline")
        visit(page, running, "/nodes?page=2")
        visit(page, running, "/nodes/node-0007")
        assert "node-0007" in page.inner_text("h1")
        visit(page, running, "/policies")


def test_names_like_script_tags_do_nothing(browser: Any) -> None:
    """Names like script tags are texts: no dialog opens, and no policy is violated."""
    with opened(browser, clusters.hostile) as (page, running):
        for path in ("/", "/pods", "/nodes"):
            visit(page, running, path)
            assert clusters.NASTY[0] in page.inner_text("body")
        page.click(f"a:has-text('{clusters.NASTY[0]}') >> nth=0")
        page.wait_for_selector("h1")
        assert clusters.NASTY[0] in page.inner_text("h1")


def test_pages_work_by_keyboard(example: tuple[Any, Running]) -> None:
    """The first stop leads to the content, links follow, and a filter is applied by Enter."""
    page, running = example
    visit(page, running, "/pods")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    page.focus("input[name=q]")
    page.keyboard.type("report")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=report**")
    page.wait_for_selector("header.headline:has-text('1 of 13 pods')")


def test_a_page_of_another_origin_reads_and_calls_nothing(browser: Any) -> None:
    """Fetches, frames, forms and images of another site in the same browser get no response."""
    evil = """<!doctype html><title>evil</title><iframe src="URL"></iframe><img src="URL">
    <form id="f" method="post" action="URLpolicies/edit" target="t"></form>
    <iframe name="t"></iframe>"""
    statuses: list[int] = []
    with opened(browser, of_files) as (page, running):
        address = running.server.address
        other = page.context.new_page()
        body = evil.replace("URL", address)
        other.route("http://evil.example/", lambda route: route.fulfill(body=body))
        other.on(
            "response",
            lambda response: (
                statuses.append(response.status) if response.url.startswith(address) else None
            ),
        )
        other.goto("http://evil.example/")
        other.evaluate("document.getElementById('f').submit()")
        script = """async address => {
            const found = [];
            for (const options of [{credentials: 'include'}, {method: 'POST', body: 'x'}]) {
                found.push(await fetch(address, options).then(a => a.text()).catch(() => null));
            }
            await fetch(address, {mode: 'no-cors', method: 'POST'}).catch(() => null);
            return found;
        }"""
        assert other.evaluate(script, address) == [None, None]
        assert "Needs attention" not in str([frame.content() for frame in other.frames])
        assert set(statuses) <= {403}
        other.close()
        page.reload()
        assert "Needs attention" in page.content()
