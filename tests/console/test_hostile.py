"""Names, labels and messages of clusters are shown, and do nothing else."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from policy_sched.console.pages import Query, Results
from policy_sched.console.pages.page import node_href, pod_href
from policy_sched.web import visible
from tests.console.browsing import of_files, pages
from tests.console.clusters import NASTY, hostile

PATHS = ("/", "/pods", "/pods?by=namespace", "/nodes", "/pods?q=%3Cscript%3E&reason=%22%3E")


class Elements(HTMLParser):
    """Collects what a browser would run, and the texts."""

    def __init__(self) -> None:
        super().__init__()
        self.running: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note scripts, frames, handlers and addresses that run."""
        given = dict(attrs)
        if tag == "script" and given.get("type") != "application/json":
            assert (given.get("src") or "").startswith("/assets/")
        if tag in ("iframe", "object", "embed", "base", "style", "img"):
            self.running.append(tag)
        for name, value in attrs:
            if name.startswith("on") or name == "style":
                self.running.append(f"{tag} {name}")
            if name in ("href", "action", "hx-get", "src"):
                safe = (value or "").startswith(("/", "#", "data:,"))
                self.running += [] if safe else [f"{tag} {name}={value}"]

    def handle_data(self, data: str) -> None:
        """Note a text."""
        self.texts.append(data)


def parsed(text: str) -> Elements:
    """Return what is in a page."""
    elements = Elements()
    elements.feed(text)
    return elements


def test_attacks_are_texts_on_every_page() -> None:
    """Script tags, handlers, addresses, templates and marks of direction appear as they are."""
    texts = pages(hostile(), *PATHS)
    shown = [parsed(text) for text in texts]
    for document in shown:
        assert document.running == []
    for name in NASTY:
        assert any(visible(name) in text for document in shown for text in document.texts), name
    assert not any("\u202e" in text or "\x1b" in text for text in texts)


@pytest.mark.parametrize("name", [item for item in NASTY if "/.." not in item and len(item) < 200])
def test_links_lead_to_pods_and_nodes_of_any_name(name: str) -> None:
    """Whatever a name contains, its page is about it."""
    pod, node = pages(hostile(), pod_href(f"default/{name}"), node_href(name))
    for text in (pod, node):
        document = parsed(text)
        assert document.running == []
        assert any(visible(name) in item for item in document.texts)


def test_parameters_of_the_address_are_texts() -> None:
    """Whatever an address says appears, or has no effect."""
    attack = "%22%3E%3Cscript%3Ealert(1)%3C/script%3E"
    names = ("q", "state", "by", "reason", "priority", "page", "colour", "expression", "label")
    paths = ("/", "/pods", "/nodes", "/pods/shop/report")
    for text in pages(of_files(), *(f"{path}?{name}={attack}" for path in paths for name in names)):
        assert parsed(text).running == []


def test_addresses_of_parameters_are_escaped() -> None:
    """A link that keeps the parameters of the page escapes them."""
    query = Query("/pods", {"q": "a&state=x#\"'<", "page": "2"})
    assert query.url(page=None) == "/pods?q=a%26state%3Dx%23%22%27%3C"
    assert Results().paths == ()
