"""Reports in a browser: nothing serious for axe-core, no network, and hostile names are text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from policy_sched.cli.main import run
from policy_sched.web import report
from tests.experiments.examples import tiny
from tests.web.browser import Tab, chromium, serious
from tests.web.gallery import gallery

POLICIES = Path(__file__).parents[2] / "policies"
CLUSTER = str(POLICIES / "example-cluster" / "manifests")
EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>"
MANIFESTS = f"""\
apiVersion: v1
kind: Node
metadata: {{name: "{EVIL}", labels: {{"{EVIL}": "{EVIL}"}}}}
status: {{allocatable: {{cpu: "4", pods: "10", "{EVIL}": "3"}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: "{EVIL}", namespace: "{EVIL}", creationTimestamp: "2026-03-02T13:00:00Z",
  annotations: {{policysched.dev/duration: 2h}}}}
spec: {{containers: [{{name: c, image: i, resources: {{requests: {{cpu: "3"}}}}}}]}}
---
apiVersion: v1
kind: Pod
metadata: {{name: "\\u202e{EVIL}\\n2", namespace: "{EVIL}",
  creationTimestamp: "2026-03-02T13:30:00Z", annotations: {{policysched.dev/duration: 1h}}}}
spec: {{priority: 5, containers: [{{name: c, image: i, resources: {{requests: {{cpu: "3"}}}}}}]}}
---
apiVersion: v1
kind: Pod
metadata: {{name: lost, namespace: "{EVIL}", creationTimestamp: "2026-03-02T13:30:00Z"}}
spec: {{containers: [{{name: c, image: i, resources: {{requests: {{cpu: "9"}}}}}}]}}
"""
POLICY = f"""\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {{name: Evil}}
spec:
  filter:
  - {{expression: 'pod.name != "lost"', message: "{EVIL}"}}
  - {{expression: 'node.name != "<script>alert(3)</script>"', message: never}}
"""
TESTS = f"""\
name: "{EVIL}"
policies: [policy.yaml]
objects: [{{node: n1}}]
pending: [a, lost]
expect: [{{pod: a, chosen: "{EVIL}"}}]
"""


def written(folder: Path) -> dict[str, list[str]]:
    """Write inputs full of hostile names; return by report the command that makes it."""
    hostile, policy = folder / "cluster.yaml", folder / "policy.yaml"
    hostile.write_text(MANIFESTS, encoding="utf-8")
    policy.write_text(POLICY, encoding="utf-8")
    (folder / "tests.yaml").write_text(TESTS, encoding="utf-8")
    experiment = tiny(folder / "experiment", {"variants": [{"name": EVIL}, {"name": "b"}]})
    results = str(folder / "results")
    both = ["--cluster", str(hostile), "--policies", str(policy)]
    return {
        "explain": ["explain", "shop/report", "--cluster", CLUSTER],
        "explain-scores": ["explain", "shop/web-1", "--cluster", CLUSTER],
        "explain-hostile": ["explain", f"{EVIL}/lost", *both],
        "simulate": ["simulate", CLUSTER, "--nodes", "300*cpu=8,memory=32Gi"],
        "simulate-hostile": ["simulate", str(hostile), "--policies", str(policy)],
        "timeline": ["simulate", str(hostile), "--timeline", "--policies", str(policy)],
        "diff": ["diff", "default", str(policy), "--cluster", str(hostile)],
        "diff-seeds": ["diff", "default", "gpu-bin-packing", "--cluster", CLUSTER, "--seeds", "2"],
        "test": ["test", str(folder / "tests.yaml"), "--coverage"],
        "sweep": ["sweep", experiment, "-j", "1", "--results", results],
    }


NAMES = (
    "explain", "explain-scores", "explain-hostile", "simulate", "simulate-hostile", "timeline",
    "diff", "diff-seeds", "test", "sweep", "gallery",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Return a browser for all tests."""
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def tab(browser: Any) -> Tab:
    """Return a page of the browser, which the tests use one after another."""
    return Tab(browser)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Return the address of a report by its name; it is made once."""
    folder = tmp_path_factory.mktemp("reports")
    commands = written(folder)

    def made(name: str) -> str:
        file = folder / f"{name}.html"
        if name == "gallery":
            file.write_text(report(gallery(EVIL)), encoding="utf-8")
        elif not file.exists():
            assert run([*commands[name], "--report", str(file)]) in (0, 1)
        return file.as_uri()

    return made


@pytest.mark.parametrize("name", NAMES)
def test_a_report_is_accessible_and_asks_for_nothing(
    tab: Tab, address: Callable[[str], str], name: str
) -> None:
    """In light on a desk and dark on a phone: nothing serious, no error, no request, no dialog."""
    for scheme, width, height in (("light", 1280, 800), ("dark", 390, 844)):
        page, seen = tab.opened(address(name), scheme, width, height)
        assert serious(page) == []
        assert seen.messages == []
        assert seen.dialogs == []
        assert [
            request for request in seen.requests if not request.startswith(("file:", "data:"))
        ] == []
        assert len([request for request in seen.requests if request.startswith("file:")]) == 1
        wide = "document.documentElement.scrollWidth"
        assert page.evaluate(wide) <= width, "nothing but tables scrolls sideways"


@pytest.mark.parametrize(
    "name", ["explain-hostile", "simulate-hostile", "timeline", "diff", "test"]
)
def test_hostile_names_are_shown_as_text(
    tab: Tab, address: Callable[[str], str], name: str
) -> None:
    """A name like a script tag is on the page, to be read, and is no element."""
    page, _ = tab.opened(address(name))
    assert "<script>alert(2)</script>" in page.inner_text("main")
    assert page.locator("img").count() == 0
    assert page.locator("main script:not([type='application/json'])").count() == 0


def test_curves_are_interactive_and_there_without_scripts(
    browser: Any, tab: Tab, address: Callable[[str], str]
) -> None:
    """The script draws each chart; without it, and on paper, its picture is there."""
    page, _ = tab.opened(address("timeline"))
    figures = page.locator("figure[data-chart]").count()
    assert page.locator("figure[data-chart] canvas").count() == figures > 3
    assert page.locator("svg.still:visible").count() == 0
    page.emulate_media(media="print")
    assert page.locator("svg.still:visible").count() == figures
    assert page.locator("canvas:visible").count() == 0
    with closing(Tab(browser, java_script_enabled=False)) as still:
        page, _ = still.opened(address("timeline"))
        assert page.locator("svg.still:visible").count() == figures


def test_a_click_on_a_heading_sorts(tab: Tab, address: Callable[[str], str]) -> None:
    """The first click sorts numbers upwards, the second downwards, and the heading says so."""
    page, _ = tab.opened(address("simulate"))
    table = page.locator("table", has_text="The fullest nodes first")
    pods = table.locator("thead th", has_text="Pods")
    column = "rows => rows.map(row => Number(row.cells[1].textContent))"
    for direction in ("ascending", "descending"):
        pods.locator("button").click()
        assert pods.get_attribute("aria-sort") == direction
        evaluations = table.locator("tbody tr").evaluate_all(column)
        assert evaluations == sorted(evaluations, reverse=direction == "descending")


def test_a_report_prints(tab: Tab, address: Callable[[str], str]) -> None:
    """On paper there are no buttons and nothing runs out of the page."""
    page, _ = tab.opened(address("diff-seeds"), "dark", 720, 1000)
    page.emulate_media(media="print")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    assert page.evaluate("document.documentElement.scrollWidth") <= 720
    assert page.pdf().startswith(b"%PDF-")
