"""Consoles over the clusters of the tests, and browsers' requests to them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import aiohttp

from policy_sched.cli.input.cluster_files import read_files
from policy_sched.console import ClusterSource, ConsoleServer, FilesSource, InputFiles, serving
from policy_sched.profiles.reload import PolicyFiles

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "policies" / "example-cluster"
FILES = PolicyFiles(str(EXAMPLE / "config.yaml"), (str(ROOT / "policies" / "gpu-bin-packing"),))


def of_files(
    paths: Sequence[str | Path] = (EXAMPLE / "manifests",), policies: PolicyFiles = FILES
) -> FilesSource:
    """Return the source of a cluster in files; the example cluster unless it is another one."""
    names = tuple(map(str, paths))
    return FilesSource(InputFiles(names, lambda: read_files(names), policies))


def plain(html: str) -> str:
    """Return a page without the places where a long word may be broken."""
    return html.replace("<wbr>", "")


class Browser:
    """Sends requests to a console, with or without the cookie."""

    def __init__(self, server: ConsoleServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self._session = session

    async def opened(self) -> Browser:
        """Open the URL with the token; from now on the cookie is sent."""
        status, _, _ = await self.get(self.server.url)
        assert status == 200
        return self

    async def get(
        self, path: str, method: str = "GET", **headers: str
    ) -> tuple[int, str, aiohttp.typedefs.LooseHeaders]:
        """Return status, text and headers of a response."""
        address = path if path.startswith("http") else self.server.address + path.lstrip("/")
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self._session.request(method, address, headers=sent) as response:
            return response.status, plain(await response.text()), dict(response.headers)

    async def post(self, path: str, body: object, **headers: str) -> tuple[int, str]:
        """Send JSON as a page of the console does; return status and text of the response."""
        address = self.server.address + path.lstrip("/")
        sent = {"Origin": self.server.address.rstrip("/")}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        async with self._session.post(address, json=body, headers=sent) as response:
            return response.status, plain(await response.text())


def browsing(
    source: ClusterSource | None,
    act: Callable[[Browser], Awaitable[T]],
    results: Sequence[str] = (),
) -> T:
    """Serve a console, and do something as a browser that has opened nothing yet."""

    async def run() -> T:
        jar = aiohttp.CookieJar(unsafe=True)
        served = serving(source, results)
        async with served as server, aiohttp.ClientSession(cookie_jar=jar) as session:
            return await act(Browser(server, session))

    return asyncio.run(run())


def pages(source: ClusterSource | None, *paths: str) -> list[str]:
    """Return pages of a console; each has to be there."""

    async def act(browser: Browser) -> list[str]:
        await browser.opened()
        items = []
        for path in paths:
            status, text, _ = await browser.get(path)
            assert status == 200, f"{path}: {status} {text}"
            items.append(text)
        return items

    return browsing(source, act)
