"""The console's server: routes, the security of every response, and the stream of changes.

Theory of operation. A page is a function of the source and of the URL's parameters; it runs while
nothing else uses the scheduler, and its result is rendered in the same thread. Browsers hold one
stream open, which names the kinds of things that changed, at most once a second; pages fetch
themselves again then.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from html import escape
from time import perf_counter
from typing import Final
from urllib.parse import urlencode

from aiohttp import web
from aiohttp.typedefs import Handler

from policy_sched.client.apimachinery import ApiError
from policy_sched.console.pages import Missing, Page, Query, Results, View, pages
from policy_sched.console.security import (
    FOREIGN,
    HEADERS,
    HERE,
    READING,
    TOKEN,
    Security,
    own_address,
)
from policy_sched.console.sources import ClusterSource
from policy_sched.console.trials import processes
from policy_sched.errors import ClusterError, PolicySchedError
from policy_sched.http import Address, Bounds, Connections, Site, recognized
from policy_sched.web import environment, served_assets

EVERY: Final = 1.0
"""Seconds between two looks for changes, at least."""
SHARE: Final = 10
"""Pages that follow changes take one part in so many of the time, at most."""
STREAMS: Final = 32
"""Streams of changes at the same time; the oldest ends when there are more."""
BODY: Final = 4 << 20
"""Most bytes of a request's body."""
BOUNDS: Final = Bounds(
    connections=256, header=16 << 10, headers=64, body=BODY, silent=30.0, idle=300.0
)
"""Limits of clients without the cookie; those with it are authenticated."""
SHARED: Final = (
    "this machine has no address of 127.0.0.0/8 but 127.0.0.1: the browser sends the console's"
    " cookie to other programs that it opens there, too"
)
_IMMUTABLE: Final = "private, max-age=31536000, immutable"
_LOG: Final = logging.getLogger("policy_sched.console")
_MISTAKES: Final = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError),
    *(OSError, RuntimeError, TypeError, ValueError),
)


@dataclass(frozen=True, slots=True)
class ConsoleServer:
    """A console that is served; ``url`` has the token, ``warning`` what the user should know."""

    security: Security
    source: ClusterSource | None
    results: Results
    warning: str = ""

    @property
    def address(self) -> str:
        """Return the URL without the token."""
        return f"http://{Address(self.security.host, self.security.port).text}/"

    @property
    def url(self) -> str:
        """Return the URL that opens the console in one browser."""
        return f"{self.address}?{TOKEN}={self.security.token}"


class Console:
    """Serves requests about a source and results."""

    def __init__(self, source: ClusterSource | None, results: Results) -> None:
        self.source = source
        self.results = results
        self.security: Security | None = None
        self.announce: Callable[[], None] = _no_announcement
        """Called when a token was spent: the URL has a new one."""
        self.pages = pages(
            has_cluster=source is not None,
            has_results=bool(results.paths),
            runs=source is not None and source.decides,
        )
        self._streams: list[asyncio.Task[object]] = []
        self._cost = 0.0
        """Seconds that the last page took."""

    def application(self) -> web.Application:
        """Return the application."""
        app = web.Application(middlewares=[self._guarded], client_max_size=BODY)
        app.on_response_prepare.append(_add_headers)
        app.cleanup_ctx.append(processes)
        app.router.add_get("/assets/{name}", self._asset)
        app.router.add_get("/events", self._events)
        if self.source is None:
            app.router.add_get("/", partial(_first, self.pages[0].path))
        for page in self.pages:
            app.router.add_get(page.path, partial(self._page, page))
            for path, action in page.actions.items():
                app.router.add_route("*", path, partial(self._action, action))
        return app

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Serve a request of the browser that has the token, and no other."""
        security = self.security
        assert security is not None, "it listens"
        given = request.query.get(TOKEN)
        if security.admits(request.method, request.headers, given):
            self.announce()
            return _welcome(request, security)
        refusal = security.refusal(request.method, request.headers, request.cookies, given)
        if refusal:
            return web.Response(status=403, text=f"403: {refusal}\n")
        recognized(request)
        if given is not None and request.method in READING:
            return web.Response(status=303, headers={"Location": _without_token(request)})
        try:
            return await handler(request)
        except web.HTTPException as error:
            return self._failed(request, error.status, _words(error, request.method))
        except Missing as error:
            return self._failed(request, 404, str(error))
        except PolicySchedError as error:
            return self._failed(request, 500, str(error))
        except _MISTAKES:
            _LOG.exception("Failed to serve %s", request.rel_url.path)
            return self._failed(request, 500, "this is a mistake of policy-sched itself")

    def _failed(self, request: web.Request, status: int, text: str) -> web.Response:
        """Return an error page, or its text alone for a request of a script (POST)."""
        if request.method not in READING:
            return web.Response(status=status, text=text)
        values = {"problem": text, "status_code": status, "since": ""}
        query = Query(_path(request), dict(request.query), {})
        return _html(self._rendered("problem.html", query, values, ""), status)

    async def _page(self, page: Page, request: web.Request) -> web.StreamResponse:
        query = Query(_path(request), dict(request.query), dict(request.match_info))
        make = partial(self._made, page, query, urlencode(self._versions()))
        if self.source is None:
            return _html(await asyncio.to_thread(make))
        return _html(await self.source.undisturbed(make))

    def _made(self, page: Page, query: Query, since: str) -> str:
        """Return a page as HTML; ``since``: the numbers of changes before it was made."""
        began = perf_counter()
        view: View = page.view(self.source, query, self.results)
        text = self._rendered(page.template, query, {**view, "since": since}, page.section)
        self._cost = perf_counter() - began
        return text

    def _rendered(
        self, template: str, query: Query, values: Mapping[str, object], section: str
    ) -> str:
        status = None if self.source is None else self.source.status
        loaded = environment("policy_sched.console").get_template(template)
        links = [page.link(section) for page in self.pages if page.title]
        return loaded.render(navigation=links, query=query, source_status=status, **values)

    async def _action(
        self,
        action: Callable[[ClusterSource | None, web.Request], Awaitable[web.StreamResponse]],
        request: web.Request,
    ) -> web.StreamResponse:
        return await action(self.source, request)

    async def _asset(self, request: web.Request) -> web.Response:
        asset = served_assets().get(request.match_info["name"])
        if asset is None:
            raise web.HTTPNotFound
        headers = {"Content-Type": asset.content_type, "Cache-Control": _IMMUTABLE}
        return web.Response(body=asset.content, headers=headers)

    # Changes.

    def _versions(self) -> dict[str, str]:
        """Return the numbers of changes, as texts."""
        now = {} if self.source is None else self.source.versions()
        return {kind: str(number) for kind, number in now.items()}

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """Write the kinds of things that changed, as they change, until the browser leaves.

        The address has the numbers that the page was made with: what changed since counts, too.
        """
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        task = asyncio.current_task()
        assert task is not None, "a handler runs in a task"
        self._streams.append(task)
        if len(self._streams) > STREAMS:
            self._streams.pop(0).cancel()
        seen = dict(request.query)
        try:
            await response.write(b"retry: 2000\n\n")
            while True:
                now = self._versions()
                changed = [kind for kind in now if now[kind] != seen.get(kind, now[kind])]
                seen = now
                text = "".join(f"event: {kind}\ndata: {now[kind]}\n\n" for kind in changed)
                await response.write((text or ": nothing new\n\n").encode())
                await asyncio.sleep(max(EVERY, SHARE * self._cost))
        except (ConnectionError, asyncio.CancelledError):
            return response
        finally:
            if task in self._streams:
                self._streams.remove(task)

    def end(self) -> None:
        """End all streams."""
        for task in self._streams:
            task.cancel()


async def _first(path: str, _request: web.Request) -> web.Response:
    """Lead to the first page of a console that has no overview."""
    return web.Response(status=303, headers={"Location": path})


def _path(request: web.Request) -> str:
    """Return the path of a request as it was sent; two slashes would begin another host."""
    return f"/{request.rel_url.raw_path.lstrip('/')}"


def _without_token(request: web.Request) -> str:
    left = request.rel_url.without_query_params(TOKEN).raw_query_string
    return f"{_path(request)}{'?' * bool(left)}{left}"


def _no_announcement() -> None:
    """Do nothing."""


def _words(error: web.HTTPException, method: str) -> str:
    """Return what is wrong with a request: the words of our page, or ours for the library's."""
    if error.text and error.text != f"{error.status}: {error.reason}":
        return error.text
    texts = {404: "there is no such page", 405: f"{method} is not what this page takes"}
    return texts.get(error.status, error.reason)


def _plain(error: ApiError) -> web.Response:
    """Return the response to what is no request."""
    text = f"{error.code}: {error.message}\n"
    return web.Response(status=error.code, text=text, headers=HEADERS)


def _welcome(request: web.Request, security: Security) -> web.Response:
    """Exchange the token of a URL for the cookie, and go on without it."""
    location = _without_token(request)
    if request.headers.get("Sec-Fetch-Site", "none") in FOREIGN:
        # A redirect would still be of the page with the link, and go without the cookie.
        text = f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(location)}">'
        response = _html(text)
    else:
        response = web.Response(status=303, headers={"Location": location})
    response.set_cookie(
        security.cookie, security.session, httponly=True, samesite="Strict", path="/"
    )
    return response


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers["Server"] = HEADERS["Server"]


def _html(text: str, status: int = 200) -> web.Response:
    return web.Response(status=status, text=text, content_type="text/html", charset="utf-8")


async def _logged(work: Coroutine[None, None, None]) -> None:
    """Run a task that keeps the source up to date; log it if it fails, and go on without it."""
    try:
        await work
    except _MISTAKES:
        _LOG.exception("Failed to keep the console up to date")


@asynccontextmanager
async def serving(
    source: ClusterSource | None,
    results: Sequence[str] = (),
    *,
    host: str | None = None,
    port: int = 0,
    announce: Callable[[ConsoleServer], None] | None = None,
) -> AsyncIterator[ConsoleServer]:
    """Serve the console on loopback within the context. Port 0 is any free one.

    ``host``: an address of loopback, one of its own unless given. ``announce`` is called with the
    server at first, and again when a browser has opened the URL, which then is another one.

    Raises ClusterError if it cannot listen, PolicySchedError without the extra ``console``.
    """
    templates = environment("policy_sched.console")
    console = Console(source, Results(tuple(results)))
    for page in console.pages:
        templates.get_template(page.template)  # compiled before the first request
    runner = web.AppRunner(console.application())
    await runner.setup()
    try:
        async with _listening(runner, host, port) as (site, bound):
            console.security = Security(bound, site.port)
            warning = SHARED if host is None and bound == HERE else ""
            server = ConsoleServer(console.security, source, console.results, warning)
            if announce is not None:
                announce(server)
                console.announce = partial(announce, server)
            async with _kept_up_to_date(console):
                yield server
    finally:
        await runner.cleanup()


@asynccontextmanager
async def _kept_up_to_date(console: Console) -> AsyncIterator[None]:
    """Run the source's tasks within the context; streams end with it."""
    source = console.source
    tasks = [
        asyncio.create_task(_logged(besides)) for besides in (source.beside() if source else ())
    ]
    try:
        yield
    finally:
        console.end()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def _listening(
    runner: web.AppRunner, host: str | None, port: int
) -> AsyncIterator[tuple[Site, str]]:
    """Listen within the context; yield the site and its host. Raises ClusterError."""
    application = runner.server
    assert application is not None, "it has been set up"
    wanted = [host] if host is not None else [own_address(), HERE]
    for address in wanted:
        connections = Connections(
            application.request_handler, BOUNDS, application=application, refuse=_plain
        )
        site = Site(connections, (address, port), None)
        try:
            await site.__aenter__()
        except OSError as error:
            # Not every system has the whole of 127.0.0.0/8.
            if error.errno == errno.EADDRNOTAVAIL and address != wanted[-1]:
                continue
            why = os.strerror(error.errno) if error.errno else str(error)
            raise ClusterError(f"cannot listen on {Address(address, port).text}: {why}") from None
        try:
            yield site, address
        finally:
            await site.__aexit__(None, None, None)
        return
