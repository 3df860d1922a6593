"""The server: sockets, who is let in, and which part answers which request.

Theory of operation: the object store belongs to one event loop, and so does the server. A request
is read to its end first; what it does to the store happens in one go, with nothing else in
between. Only answers are written bit by bit: lists in pieces, watches as long as they last.
"""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType
from typing import Final, Self

from aiohttp import web

from policy_sched.apiserver.access import Access, Address, Tokens, from_here
from policy_sched.apiserver.calls import Options, Target, target_of
from policy_sched.apiserver.documents import OPEN, TEXT, Document, document
from policy_sched.apiserver.listing import Listed, Lists, pieces
from policy_sched.apiserver.negotiation import (
    METADATA,
    METADATA_LIST,
    TABLE,
    Accepted,
    accepted,
)
from policy_sched.apiserver.refusals import (
    JSON,
    LIMIT,
    NoSuchPage,
    broken,
    not_allowed,
    too_large,
    unauthorized,
)
from policy_sched.apiserver.subresources import Subresources
from policy_sched.apiserver.tables import metadata
from policy_sched.apiserver.watching import Stream, Wakening, asked
from policy_sched.apiserver.writing import Writing, deleted
from policy_sched.client.embedded.api_error import ApiError
from policy_sched.client.embedded.store import ObjectStore
from policy_sched.client.embedded.stored import Stored, encoded
from policy_sched.errors import ClusterError
from policy_sched.model.expansion import Plain

HEADER_BYTES: Final = 64 * 1024
"""Bytes that a header or the first line of a request may have."""
SLOW_SECONDS: Final = 60
"""How much longer than it lasts the reader of a watch may take for what was written."""
_LOG: Final = logging.getLogger("policy_sched.apiserver")
_MISTAKES: Final = (LookupError, TypeError, ValueError, AttributeError, AssertionError)
"""What a body that nobody thought of could raise; answered as an internal error."""


class ApiServer:
    """Serves a store; an async context manager, which begins to listen and ends all watches."""

    def __init__(self, store: ObjectStore, address: Address, access: Access | None = None) -> None:
        self._access = access or Access()
        self._access.check(address)
        self._asked = address
        self.address = address
        self.tokens: Tokens | None = self._access.known()
        self._context = self._access.context()
        self._store = store
        self._lists = Lists(store)
        self._writing = Writing(store)
        self._parts = Subresources(store, self._writing)
        self._wakening: Wakening | None = None
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        """Begin to listen; ``address`` has the port then. Raises ClusterError if that fails."""
        app = web.Application(client_max_size=LIMIT)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._wakening = Wakening(self._store)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handler_cancellation=True,
            shutdown_timeout=1.0,
            max_line_size=HEADER_BYTES,
            max_field_size=HEADER_BYTES,
        )
        await self._runner.setup()
        host, port = self._asked.host, self._asked.port
        try:
            await web.TCPSite(self._runner, host, port, ssl_context=self._context).start()
        except OSError as error:
            await self._close()
            raise ClusterError(f"cannot listen on {self._asked.text}: {error.strerror}") from None
        self.address = Address(host, self._runner.addresses[0][1])
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let all watches end, and stop listening."""
        await self._close()

    async def _close(self) -> None:
        assert self._wakening is not None
        assert self._runner is not None
        self._wakening.end()
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        """Where the server is."""
        return f"{'https' if self._context else 'http'}://{self.address.text}"

    # One request.

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        try:
            self._admit(request)
            return await self._dispatch(request)
        except NoSuchPage:
            return web.Response(status=404, body=b"404 page not found\n", headers=_type(TEXT))
        except ApiError as error:
            return _refused(error)
        except web.HTTPRequestEntityTooLarge:
            return _refused(too_large())
        except _MISTAKES as error:
            _LOG.exception("Failed to answer %s %s", request.method, request.path)
            return _refused(broken(type(error).__name__))

    def _admit(self, request: web.Request) -> None:
        """Raise ApiError if the client may not ask for this."""
        if self.tokens is None:
            if not from_here(request.host, request.headers.get("Origin")):
                raise unauthorized()
        elif request.path not in OPEN:
            header = request.headers.get("Authorization", "")
            if not self.tokens.admit(header):
                raise unauthorized()

    async def _dispatch(self, request: web.Request) -> web.StreamResponse:
        accept = ", ".join(request.headers.getall("Accept", []))
        path = request.rel_url.raw_path
        verbose = "verbose" in request.query
        found = document(path, accept, request.host, verbose=verbose)
        if found is not None:
            if request.method != "GET":
                raise not_allowed()
            return _document(found)
        target = target_of(path)
        verb = target.verb(request.method)
        match verb:
            case "get" | "list":
                return await self._read(request, target, accept, verb)
            case "delete" | "deletecollection":
                options = Options(request.query, "DeleteOptions")
                return self._delete(target, options, await request.read(), accept)
        kind = {"create": "CreateOptions", "update": "UpdateOptions"}.get(verb, "PatchOptions")
        options = Options(request.query, kind)
        body, content_type = await request.read(), request.headers.get("Content-Type", "")
        if target.subresource in ("binding", "eviction", "scale"):
            return self._subresource(target, options, body, content_type, verb)
        return self._write(target, options, body, content_type, verb, accept)

    # Reading.

    async def _read(
        self, request: web.Request, target: Target, accept: str, verb: str
    ) -> web.StreamResponse:
        options = Options(request.query, "ListOptions")
        if verb == "list":
            if options.flag("watch"):
                form = accepted(accept.replace(";stream=watch", ""), (TABLE, METADATA))
                return await self._watch(request, target, options, form)
            form = accepted(accept, (TABLE, METADATA_LIST))
            listed = self._lists.page(target, options)
            return await self._list(request, target, listed, form, options)
        if target.subresource == "scale":
            return _json(200, self._parts.scale(target))
        self._lists.reached(options.text("resourceVersion"))
        key = target.key
        stored = self._store.get(key.kind, key.namespace, key.name)
        return self._object(200, target, stored, accept, options.text("includeObject"))

    async def _list(
        self,
        request: web.Request,
        target: Target,
        listed: Listed,
        form: Accepted,
        options: Options,
    ) -> web.StreamResponse:
        included = options.text("includeObject")
        parts = pieces(target.served, listed, form, self._store.now(), included)
        response = web.StreamResponse(headers=_type(form.content_type))
        if request.version < (1, 1):
            return web.Response(body=b"".join(parts), headers=_type(form.content_type))
        await response.prepare(request)
        for part in parts:
            await response.write(part)
            await asyncio.sleep(0)
        await response.write_eof()
        return response

    async def _watch(
        self, request: web.Request, target: Target, options: Options, form: Accepted
    ) -> web.StreamResponse:
        assert self._wakening is not None
        wanted = asked(target, options, form)
        stream = Stream(wanted, self._store, self._lists, self._wakening)
        response = web.StreamResponse(headers=_type(JSON))
        await response.prepare(request)
        try:
            async with asyncio.timeout(wanted.seconds + SLOW_SECONDS):
                async for lines in stream.lines():
                    await response.write(lines)
                await response.write_eof()
        except (TimeoutError, ConnectionError):
            _LOG.debug("The reader of a watch has gone")
        return response

    # Writing.

    def _write(
        self,
        target: Target,
        options: Options,
        body: bytes,
        content_type: str,
        verb: str,
        accept: str,
    ) -> web.Response:
        accepted(accept, (TABLE, METADATA))
        if verb == "create":
            stored = self._writing.create(target, options, body, content_type)
            return self._object(201, target, stored, accept)
        if verb == "update":
            status, stored = self._writing.update(target, options, body, content_type)
            return self._object(status, target, stored, accept)
        stored = self._writing.patch(target, options, body, content_type)
        return self._object(200, target, stored, accept)

    def _subresource(
        self, target: Target, options: Options, body: bytes, content_type: str, verb: str
    ) -> web.Response:
        parts = self._parts
        match target.subresource, verb:
            case "binding", _:
                return _json(201, parts.bind(target, options, body, content_type))
            case "eviction", _:
                return _json(201, parts.evict(target, options, body, content_type))
            case _, "update":
                return _json(200, parts.set_scale(target, options, body, content_type))
        return _json(200, parts.patch_scale(target, options, body, content_type))

    def _delete(self, target: Target, options: Options, body: bytes, accept: str) -> web.Response:
        if target.name:
            status, last, shown = self._writing.delete(target, options, body)
            if shown:
                return self._object(status, target, last, accept)
            return _json(status, deleted(target, last))
        gone = self._writing.delete_many(target, options, body)
        listed = Listed(self._store.version, gone)
        parts = pieces(target.served, listed, Accepted(), self._store.now(), "")
        return web.Response(body=b"".join(parts), headers=_type(JSON))

    def _object(
        self, status: int, target: Target, stored: Stored, accept: str, included: str = ""
    ) -> web.Response:
        """Answer with one object in the form that is asked for."""
        form = accepted(accept, (TABLE, METADATA))
        served = target.served
        if form.shown_as == TABLE:
            listed = Listed(stored.version, [stored])
            parts = pieces(served, listed, form, self._store.now(), included)
            return web.Response(status=status, body=b"".join(parts), headers=_type(JSON))
        if form.shown_as == METADATA:
            return _json(status, metadata(stored.data))
        raw = served.form.raw(stored) + b"\n"
        return web.Response(status=status, body=raw, headers=_type(JSON))


def _type(content_type: str) -> dict[str, str]:
    return {"Content-Type": content_type, "Cache-Control": "no-cache, private"}


def _json(status: int, body: Plain) -> web.Response:
    return web.Response(status=status, body=encoded(body) + b"\n", headers=_type(JSON))


def _document(found: Document) -> web.Response:
    return web.Response(body=found.body, headers=_type(found.content_type))


def _refused(error: ApiError) -> web.Response:
    response = _json(error.code, error.status())
    after = error.details.get("retryAfterSeconds")
    if after:
        response.headers["Retry-After"] = str(after)
    return response
