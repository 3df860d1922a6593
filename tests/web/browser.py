"""A headless Chromium for tests: what a page asks for, says and runs is recorded."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first costs half as much as a browser with windows that nothing shows."""
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
]  # fmt: skip


@dataclass
class Seen:
    """What a page did: addresses that it asked for, messages, errors and dialogs."""

    requests: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)


@contextmanager
def chromium() -> Iterator[Any]:
    """Start a browser; the test is skipped where there is none."""
    api = pytest.importorskip("playwright.sync_api")
    pytest.importorskip("axe_playwright_python.sync_playwright")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("there is no Chromium")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


class Tab:
    """One page for many addresses: a page of its own would cost each a process.

    ``options`` are those of a context, as ``java_script_enabled``.
    """

    def __init__(self, browser: Any, **options: Any) -> None:
        self._context = browser.new_context(**options)
        self._page, self._seen = self._context.new_page(), Seen()
        self._page.on("request", lambda request: self._seen.requests.append(request.url))
        self._page.on("console", lambda m: self._seen.messages.append(f"{m.type}: {m.text}"))
        self._page.on("pageerror", lambda error: self._seen.messages.append(f"error: {error}"))
        self._page.on("dialog", self._dismiss)

    def _dismiss(self, dialog: Any) -> None:
        self._seen.dialogs.append(dialog.message)
        dialog.dismiss()

    def opened(
        self, address: str, scheme: str = "light", width: int = 1280, height: int = 720
    ) -> tuple[Any, Seen]:
        """Leave the page that was open, and open another one on a screen."""
        self._page.goto("about:blank")
        self._page.emulate_media(color_scheme=scheme, media="screen")
        self._page.set_viewport_size({"width": width, "height": height})
        self._seen = Seen()
        self._page.goto(address, wait_until="load")
        return self._page, self._seen

    def close(self) -> None:
        """End the context with its page."""
        self._context.close()


def serious(page: Any) -> list[str]:
    """Return what axe-core calls serious or critical, with the elements that it concerns."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    violations = axe.run(page).response["violations"]
    return [
        f"{violation['id']}: {violation['help']}: {node['html'][:200]}"
        for violation in violations
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"][:3]
    ]
