"""The pages of policies, timelines and experiments in Chromium: keyboard, edits, access, CSP."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from policy_sched.cli.main import run
from policy_sched.profiles.reload import PolicyFiles
from tests.console.browsing import of_files
from tests.console.files import put
from tests.console.test_in_browser import opened, visit
from tests.console.threaded import Running
from tests.experiments.examples import tiny
from tests.web.browser import serious

LONG = 60_000
"""Milliseconds after which something has not happened."""
POD = """\
---
apiVersion: v1
kind: Pod
metadata:
  name: pNUMBER
  namespace: default
  creationTimestamp: "2026-01-01T00:0NUMBER:00Z"
  annotations: {policysched.dev/duration: 3m}
spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
"""
NODES = """\
apiVersion: v1
kind: Node
metadata: {name: small, labels: {pool: a}}
status: {allocatable: {cpu: "2", memory: 4Gi, pods: "10"}}
---
apiVersion: v1
kind: Node
metadata: {name: large, labels: {pool: b}}
status: {allocatable: {cpu: "8", memory: 16Gi, pods: "10"}}
"""
POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Pools}
spec:
  params: {pool: b}
  filter:
  - expression: node.labels[?"pool"].orValue("") == params.pool
    message: node(s) were in another pool
"""

SETTLED = {
    "/policies": "text=Hits of policies and rules",
    "/policies/edit": "[data-part=state]:has-text('no problems')",
    "/timeline": "#moment h2",
    "/experiments": ".chart .u-legend",
}
"""What is on each page when everything is there."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a policy, a cluster and results."""
    directory = tmp_path_factory.mktemp("browser")
    subprocess.run(["git", "init", "-q", str(directory)], check=True)
    put(directory / "mine" / "pools.yaml", POLICY)
    put(
        directory / "cluster.yaml", NODES + "".join(POD.replace("NUMBER", str(i)) for i in range(6))
    )
    experiment = tiny(directory / "experiment")
    run(["sweep", experiment, "-j", "1", "--results", str(directory / "results"), "-o", "json"])
    return directory


@pytest.fixture(scope="module")
def console(browser: Any, folder: Path) -> Iterator[tuple[Any, Running]]:
    """One page of a console over the folder; in the end nothing was refused or went wrong."""
    policies = PolicyFiles(None, (str(folder / "mine"),))
    make = partial(of_files, [folder / "cluster.yaml"], policies)
    with opened(browser, make, [str(folder / "results")]) as opened_page:
        opened_page[0].set_default_timeout(LONG)
        opened_page[0].on("dialog", lambda dialog: dialog.accept())
        yield opened_page


def editing(console: tuple[Any, Running]) -> Any:
    """Open the editor, and wait for its first check."""
    page, running = console
    visit(page, running, "/policies/edit")
    page.locator("[data-part=state]", has_text="no problems").wait_for()
    return page


def type_after(page: Any, word: str, text: str) -> None:
    """Type at the end of the line of a word."""
    page.locator(".CodeMirror-line", has_text=word).first.click()
    page.keyboard.press("End")
    page.keyboard.type(text)


def test_what_is_typed_is_checked_in_place(console: tuple[Any, Running]) -> None:
    """A mistake is underlined, listed with its line, and leads there; mended it is gone."""
    page = editing(console)
    type_after(page, "orValue", " && node.nam")
    page.locator("[data-part=problems] li", has_text="nam").first.wait_for()
    page.locator(".CodeMirror-lint-mark-error").first.wait_for()
    page.locator("[data-part=problems] button").first.click()
    assert "7" in page.locator("[data-part=problems] button").first.inner_text()
    page.locator("[data-part=revert]").click()
    page.locator("[data-part=state]", has_text="no problems").wait_for()


def test_completion_and_descriptions_work_by_keyboard(console: tuple[Any, Running]) -> None:
    """Ctrl-Space lists members, arrows describe them, Enter takes one; Ctrl-I explains a word."""
    page = editing(console)
    type_after(page, "orValue", " && node.")
    page.locator(".CodeMirror-hint").first.wait_for()
    page.keyboard.type("unsch")
    page.locator(".CodeMirror-hint-active", has_text="unschedulable").wait_for()
    page.locator("[data-part=meaning]", has_text="unschedulable").wait_for()
    page.keyboard.press("Enter")
    page.locator(".CodeMirror-code", has_text="node.unschedulable").wait_for()
    page.locator("[data-part=meaning]").evaluate("(one) => one.replaceChildren()")
    page.keyboard.press("Control+i")
    page.locator("[data-part=meaning]", has_text="unschedulable").wait_for()


def test_a_pointer_on_a_word_explains_it(console: tuple[Any, Running]) -> None:
    """The description is shown beside the word; Escape closes it."""
    page = editing(console)
    page.locator(".CodeMirror-code .cm-atom", has_text="filter").hover()
    page.locator(".bubble", has_text="filter").wait_for()
    page.keyboard.press("Escape")
    page.locator(".bubble").wait_for(state="hidden")


def test_tab_leaves_the_editor(console: tuple[Any, Running]) -> None:
    """Nobody who has no pointer is caught in the text."""
    page = editing(console)
    page.locator(".CodeMirror-code").click()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert not page.evaluate("document.activeElement.closest('.CodeMirror') !== null")


def test_an_edit_is_tried_and_downloaded(console: tuple[Any, Running], folder: Path) -> None:
    """The trial names the moved pods; the patch is one that git takes; nothing is written."""
    page = editing(console)
    page.evaluate(
        "(() => { const one = document.querySelector('.CodeMirror').CodeMirror;"
        " one.setValue(one.getValue().replace('pool: b', 'pool: a')); })()"
    )
    page.locator(".CodeMirror-code").click()
    page.keyboard.press("Control+Enter")
    result = page.locator("#result")
    result.get_by_text("Which pods move").wait_for()
    assert result.get_by_role("link", name="default/p0").is_visible()
    assert "pool" in result.inner_text()
    assert serious(page) == []
    with page.expect_download() as download:
        page.get_by_role("button", name="Download as a patch").click()
    download.value.save_as(folder / "policies.patch")
    assert (folder / "mine" / "pools.yaml").read_text() == POLICY
    subprocess.run(["git", "apply", "--check", "policies.patch"], cwd=folder, check=True)
    assert "+  params: {pool: a}" in (folder / "policies.patch").read_text()


def test_a_new_file_is_tried_and_proven(console: tuple[Any, Running]) -> None:
    """A file that is added begins with a policy, and counts in a trial and a proof."""
    page = editing(console)
    page.locator("[data-part=name]").fill("another.yaml")
    page.get_by_role("button", name="Add").click()
    page.locator(".CodeMirror-code", has_text="MyPolicy").wait_for()
    page.locator("[data-part=state]", has_text="no problems").wait_for()
    page.get_by_role("button", name="Try it").click()
    page.locator("#result", has_text="MyPolicy").wait_for()
    page.get_by_role("button", name="Prove it").click()
    page.locator("#result", has_text="MyPolicy: some node passes").wait_for()


def test_the_slider_moves_by_keyboard(console: tuple[Any, Running]) -> None:
    """Arrows change the moment, its numbers, and the cursor of every curve."""
    page, running = console
    visit(page, running, "/timeline")
    slider = page.get_by_label("Moment")
    slider.wait_for()
    before = page.locator("[data-timeline] output").inner_text()
    slider.focus()
    for _ in range(8):
        page.keyboard.press("ArrowRight")
    after = page.locator("[data-timeline] output").inner_text()
    assert before != after
    page.locator("#moment h2", has_text=f"After {after}").wait_for()
    assert slider.get_attribute("aria-valuetext") == after


@pytest.mark.parametrize("path", SETTLED)
@pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), (390, "dark")], ids=["wide", "phone"]
)
def test_pages_are_accessible_and_fit(
    console: tuple[Any, Running], path: str, width: int, scheme: str
) -> None:
    """Axe finds nothing serious, light and dark, and nothing is wider than a phone."""
    page, running = console
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme=scheme)
    visit(page, running, path)
    page.locator(SETTLED[path]).first.wait_for()
    assert serious(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.set_viewport_size({"width": 1280, "height": 800})
    page.emulate_media(color_scheme="light")


def test_a_broken_policy_is_shown_with_carets(browser: Any, tmp_path: Path) -> None:
    """The page and the editor show what is wrong, where it is."""
    put(tmp_path / "mine.yaml", POLICY.replace("orValue", "orValu"))
    put(tmp_path / "cluster.yaml", NODES)
    policies = PolicyFiles(None, (str(tmp_path / "mine.yaml"),))
    make = partial(of_files, [tmp_path / "cluster.yaml"], policies)
    with opened(browser, make) as (page, running):
        visit(page, running, "/policies")
        page.locator(".diagnostic mark").first.wait_for()
        page.locator(".diagnostic .place a").first.click()
        page.locator("[data-part=problems] li", has_text="orValu").wait_for(timeout=LONG)


def test_a_new_policy_is_tried_without_any_file(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A console without policies has a named buffer; leaving it as it was asks nothing."""
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "cluster.yaml", NODES + POD.replace("NUMBER", "1"))
    source = partial(of_files, ["cluster.yaml"], PolicyFiles())
    asked: list[str] = []
    with opened(browser, source) as (page, running):
        page.on("dialog", lambda dialog: asked.append(dialog.type))
        visit(page, running, "/policies/edit")
        page.wait_for_selector("[data-part=state]:has-text('no problems')", timeout=LONG)
        assert page.input_value("[data-part=file]") == "policy.yaml"
        page.click("[data-part=try]")
        page.wait_for_selector("#result h2", timeout=LONG)
        assert "MyPolicy" in page.inner_text("#result")
        visit(page, running, "/policies")
    assert asked == []
