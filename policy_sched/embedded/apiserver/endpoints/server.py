"""The server: sockets, authentication and routing.

Theory of operation: the object store belongs to one event loop, and so does the server. A request
is read to its end first; what it does to the store happens in one go, with nothing else in
between. Only responses are written bit by bit: lists in pieces, watches as long as they last.

What the server says of itself is here too: component statuses and API services as objects;
discovery, health, version and the API's description as other responses.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final, Self

import msgspec
from aiohttp import web

from policy_sched.client.apimachinery import ApiError, Stored, encoded, read
from policy_sched.embedded.admission import conflict, not_found
from policy_sched.embedded.apiserver import registry, security
from policy_sched.embedded.apiserver.endpoints import negotiation, watch
from policy_sched.embedded.apiserver.endpoints.list import Listed, ListRequests, pieces, selection
from policy_sched.embedded.apiserver.endpoints.subresources import PATHS, Subresources, refusal
from policy_sched.embedded.apiserver.endpoints.webhooks import Webhooks
from policy_sched.embedded.apiserver.endpoints.write import APPLY_PATCH, Writing, deleted
from policy_sched.embedded.apiserver.printers import definitions, metadata, row
from policy_sched.embedded.apiserver.registry import discovery
from policy_sched.embedded.apiserver.request import (
    ANONYMOUS,
    RequestOptions,
    RequestTarget,
    Sent,
    UserInfo,
    is_set,
    target_of,
)
from policy_sched.embedded.store import ObjectStore
from policy_sched.errors import ClusterError
from policy_sched.http import RBAC, Access, Address, Bounds, Connections, Site, failure, recognized
from policy_sched.manifests import Plain

TEXT: Final = "text/plain; charset=utf-8"
_STORAGE: Final = "storage-readiness"
_CHECKS: Final = ("ping", "log", _STORAGE)


@dataclass(frozen=True, slots=True)
class ResponseBody:
    """The body of a response, and its media type."""

    body: bytes
    content_type: str = registry.JSON
    status: int = 200


def document(
    request: web.BaseRequest,
    accept: str,
    catalog: registry.Catalog,
    storage_error: Callable[[], str],
) -> ResponseBody | None:
    """Return what is under a path, None if it is none of these.

    Raises ApiError if it is not in an accepted form. ``storage_error`` returns why changes
    cannot be written, "" if they can.
    """
    host, verbose = request.host, "verbose" in request.query
    parts = request.rel_url.raw_path.strip("/").split("/")
    match parts:
        case [""]:
            paths = ["/api", "/apis", "/openapi/v2", "/openapi/v3", "/version"]
            return _json_body({"paths": paths})
        case ["version"]:
            return _json_body(discovery.VERSION)
        case [name, *rest] if name in security.HEALTH:
            return _health(name, rest, storage_error, verbose=verbose)
        case ["openapi", *rest]:
            return _openapi(catalog, rest, accept)
        case ["api"]:
            return _discovered(
                catalog, accept, lambda: discovery.api_versions(catalog, host), core=True
            )
        case ["apis"]:
            return _discovered(catalog, accept, lambda: discovery.group_list(catalog), core=False)
        case ["api", version]:
            return _discovery(discovery.resource_list(catalog, "", version), accept)
        case ["apis", group]:
            return _discovery(discovery.group(catalog, group), accept)
        case ["apis", group, version]:
            return _discovery(discovery.resource_list(catalog, group, version), accept)
    return None


def _json_body(value: object) -> ResponseBody:
    return ResponseBody(encoded(value) + b"\n")


def _discovery(value: object | None, accept: str) -> ResponseBody:
    if value is None:
        raise registry.NoSuchPage
    negotiation.accepted(accept, ())
    return _json_body(value)


def _discovered(
    catalog: registry.Catalog, accept: str, classic: Callable[[], object], *, core: bool
) -> ResponseBody:
    form: negotiation.Accepted = negotiation.accepted(accept, (negotiation.DISCOVERY,))
    if form.shown_as == negotiation.DISCOVERY:
        return ResponseBody(
            encoded(discovery.aggregated(catalog, core=core)) + b"\n", form.content_type
        )
    return _json_body(classic())


def _health(
    name: str, rest: list[str], storage_error: Callable[[], str], *, verbose: bool
) -> ResponseBody:
    """Report at a health path. A server that cannot write is not ready, and lives on."""
    if rest and rest[0] not in _CHECKS:
        raise registry.NoSuchPage
    failed = name == "readyz" and (not rest or rest[0] == _STORAGE) and bool(storage_error())
    if not failed and (not verbose or rest):
        return ResponseBody(b"ok", TEXT)
    lines = [f"[+]{check} ok" for check in _CHECKS if not (failed and check == _STORAGE)]
    if failed:
        lines.append(f"[-]{_STORAGE} failed: reason withheld")
    lines += [f"{name} check {'failed' if failed else 'passed'}", ""]
    return ResponseBody("\n".join(lines).encode(), TEXT, 500 if failed else 200)


def _openapi(catalog: registry.Catalog, rest: list[str], accept: str) -> ResponseBody:
    match rest:
        case ["v2"]:
            if "protobuf" in accept.partition(",")[0]:
                return ResponseBody(discovery.openapi_v2_protobuf(), discovery.OPENAPI_V2_PROTOBUF)
            return _json_body(discovery.openapi_v2())
        case ["v3"]:
            return _json_body(discovery.openapi_v3_index(catalog))
        case ["v3", *path]:
            if accept and "json" not in accept and "*" not in accept:
                raise registry.not_acceptable()
            schema = discovery.openapi_v3(catalog, "/".join(path))
            if schema is not None:
                return _json_body(schema)
    raise registry.NoSuchPage


BODY_SECONDS: Final = 60.0
"""How long a client may take to send a body (the API server's limit of most requests)."""
WARNINGS: Final = 32
"""Warnings that a response carries, as headers."""
WARNING_BYTES: Final = 4096
"""Bytes of the warnings that a response carries (the API server's limit)."""
REVIEWS: Final = 5
"""How often a request is worked out whose object changes while webhooks review it."""
CHANGING: Final = "the object has been modified; please apply your changes to the latest version"
SMALL: Final = 50
"""Objects of a list that is written as a whole."""
_LOG: Final = logging.getLogger("policy_sched.embedded.apiserver")


_OPTIONS: Final = {
    "create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions",
}  # fmt: skip
_APART: Final = ("binding", "eviction", "scale", "token")
"""Subresources that are no part of their object."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the server that handle requests."""

    writing: Writing
    subresources: Subresources
    reviews: security.Reviews


class RequestHandler:
    """Handles the requests that are let in."""

    def __init__(self, store: ObjectStore, wakening: watch.WatchWaker, parts: Parts) -> None:
        self._store = store
        self._wakening = wakening
        self._lists = ListRequests(store)
        self._catalogs = registry.Catalogs(store.custom)
        self._watch_slots = watch.WatchSlots()
        self._parts = parts
        self._webhooks = Webhooks(store)

    async def handle(self, request: web.BaseRequest, user: UserInfo) -> web.StreamResponse:
        """Handle a request. Raises ApiError, or NoSuchPage."""
        accept = ", ".join(request.headers.getall("Accept", []))
        catalog = self._catalogs.present()
        public = document(request, accept, catalog, self._store.storage.write_error)
        if public is not None:
            if request.method != "GET":
                raise registry.not_allowed()
            return _document(public)
        target = target_of(request.rel_url.raw_path, catalog)
        response = await self._handle(request, target, user, accept)
        custom = target.served.custom
        if custom is not None and custom.deprecation and not response.prepared:
            response.headers.add("Warning", f"299 - {registry.quoted(custom.deprecation)}")
        return response

    async def _handle(
        self, request: web.BaseRequest, target: RequestTarget, user: UserInfo, accept: str
    ) -> web.StreamResponse:
        """Handle a request for objects."""
        verb = target.verb(request.method)
        if target.subresource in PATHS:
            key = target.key
            stored = self._store.get(key.kind, key.namespace, key.name)
            raise refusal(target, stored, request.query)
        if verb in ("get", "list"):
            if target.served.computed:
                return await self._computed(request, target, accept, verb)
            if verb == "list" and is_set(request.query, "watch"):
                with self._watch_slots.taken(user):
                    return await self._watch(request, target, accept)
            return await self._read(request, target, accept, verb)
        options = RequestOptions(request.query, _OPTIONS.get(verb, "DeleteOptions"))
        headers = request.headers
        content_type, agent = headers.get("Content-Type", ""), headers.get("User-Agent", "")
        sent = Sent(target, options, await _body(request), content_type, user, agent)
        if self._webhooks.concern(target):
            await self._reviewed(sent, verb)
        if verb in ("delete", "deletecollection"):
            return await self._delete(request, sent, accept)
        if target.served.review:
            return self._review(sent)
        if target.subresource in _APART:
            return self._subresource(sent, verb)
        response = self._write(sent, verb, accept)
        room = WARNING_BYTES
        for warning in sent.warnings[:WARNINGS]:
            header = f"299 - {registry.quoted(warning)}"
            room -= len(header)
            if room < 0:
                break
            response.headers.add("Warning", header)
        return response

    # Reading.

    async def _read(
        self, request: web.BaseRequest, target: RequestTarget, accept: str, verb: str
    ) -> web.StreamResponse:
        options = RequestOptions(request.query, "ListOptions")
        if verb == "list":
            form = negotiation.accepted(accept, (negotiation.TABLE, negotiation.METADATA_LIST))
            listed = await self._lists.page(target, options)
            return await self._list(request, target, listed, form, options)
        if target.subresource == "scale":
            return self._scale(target, accept, options)
        self._lists.reached(options.text("resourceVersion"))
        key = target.key
        stored = self._store.get(key.kind, key.namespace, key.name)
        return self._object(200, target, stored, accept, options.text("includeObject"))

    async def _computed(
        self, request: web.BaseRequest, target: RequestTarget, accept: str, verb: str
    ) -> web.StreamResponse:
        options = RequestOptions(request.query, "ListOptions")
        if is_set(request.query, "watch"):
            raise registry.not_allowed()
        wanted = selection(target, options)
        selected = [
            stored
            for stored in computed(target.served, self._store, self._catalogs.present())
            if wanted.selects(stored)
        ]
        if verb == "list":
            form = negotiation.accepted(accept, (negotiation.TABLE, negotiation.METADATA_LIST))
            listed = Listed(self._store.version, selected)
            response = await self._list(request, target, listed, form, options)
        elif selected:
            response = self._object(200, target, selected[0], accept, options.text("includeObject"))
        else:
            raise not_found(target.served.resource, target.name)
        if warning := DEPRECATED.get(target.served.kind):
            response.headers.add("Warning", f"299 - {registry.quoted(warning)}")
        return response

    def _scale(self, target: RequestTarget, accept: str, options: RequestOptions) -> web.Response:
        scale = self._parts.subresources.scale(target)
        form = negotiation.accepted(accept, (negotiation.TABLE, negotiation.METADATA))
        if form.shown_as != negotiation.TABLE:
            return _json(200, scale)
        shown = row("Scale", scale, self._store.now(), options.text("includeObject"))
        head = {"kind": negotiation.TABLE, "apiVersion": f"meta.k8s.io/{form.version}"}
        meta = {"resourceVersion": scale["metadata"].get("resourceVersion", "")}
        columns = definitions("Scale")
        return _json(200, {**head, "metadata": meta, "columnDefinitions": columns, "rows": [shown]})

    async def _list(
        self,
        request: web.BaseRequest,
        target: RequestTarget,
        listed: Listed,
        form: negotiation.Accepted,
        options: RequestOptions,
    ) -> web.StreamResponse:
        included = options.text("includeObject")
        parts = pieces(target.served, listed, form, self._store.now(), included)
        response = web.StreamResponse(headers=headers_of(form.content_type))
        if request.version < (1, 1) or len(listed.items) <= SMALL:
            return web.Response(body=b"".join(parts), headers=headers_of(form.content_type))
        try:
            await response.prepare(request)
            for part in parts:
                await response.write(part)
                await asyncio.sleep(0)
            await response.write_eof()
        except ConnectionError:
            _LOG.debug("The client of a list has disconnected")
        return response

    async def _watch(
        self, request: web.BaseRequest, target: RequestTarget, accept: str
    ) -> web.StreamResponse:
        form = negotiation.accepted(
            accept.replace(";stream=watch", ""), (negotiation.TABLE, negotiation.METADATA)
        )
        options = RequestOptions(request.query, "ListOptions")
        wanted = watch.watch_request(target, options, form)
        stream = watch.Stream(wanted, self._store, self._lists, self._wakening)
        response = web.StreamResponse(headers=headers_of(registry.JSON))
        try:
            await response.prepare(request)
            async for lines in stream.lines():
                await response.write(lines)
            await response.write_eof()
        except ConnectionError:
            _LOG.debug("The client of a watch has disconnected")
        return response

    # Writing.

    async def _reviewed(self, sent: Sent, verb: str) -> None:
        """Have webhooks review what a request does to its object. Raises ApiError."""
        target, dry = sent.target, sent.options.dry_run
        if verb in ("delete", "deletecollection"):
            await self._reviewed_deletions(sent)
            return
        for _ in range(REVIEWS):
            old = self._present(target)
            with self._store.rehearsal():
                _, new = self._written(sent, verb)
            sent.warnings.clear()
            operation = "CREATE" if old is None else "UPDATE"
            await self._webhooks.review(sent, operation, old, new, dry=dry)
            if self._present(target) is old:
                return
        raise conflict(target.served.resource, target.name, CHANGING)

    async def _reviewed_deletions(self, sent: Sent) -> None:
        target = sent.target
        kind, namespace = target.served.resource.key, target.namespace
        if target.name:
            there = [self._store.get(kind, namespace, target.name)]
        else:
            wanted = selection(target, sent.options)
            there = [item for item in self._store.select(kind, namespace) if wanted.selects(item)]
        for stored in there:
            await self._webhooks.review(sent, "DELETE", stored, None, dry=sent.options.dry_run)

    def _present(self, target: RequestTarget) -> Stored | None:
        """Return the object of a path as it is now."""
        key = target.key
        return self._store.find(key.kind, key.namespace, key.name) if target.name else None

    def _review(self, sent: Sent) -> web.Response:
        target = sent.target
        data = negotiation.object_of(sent.body, sent.content_type, target.served)
        reviewed = self._parts.reviews.review(target.served.kind, data, sent.user, target.namespace)
        return _json(201, reviewed)

    def _write(self, sent: Sent, verb: str, accept: str) -> web.Response:
        negotiation.accepted(accept, (negotiation.TABLE, negotiation.METADATA))
        status, stored = self._written(sent, verb)
        return self._object(status, sent.target, stored, accept)

    def _written(self, sent: Sent, verb: str) -> tuple[int, Stored]:
        """Create, replace, apply or patch an object; return the status code, too."""
        writing = self._parts.writing
        if verb == "create":
            return 201, writing.create(sent)
        if verb == "update":
            return writing.update(sent)
        if negotiation.media_type(sent.content_type) == APPLY_PATCH:
            return writing.apply(sent)
        return 200, writing.patch(sent)

    def _subresource(self, sent: Sent, verb: str) -> web.Response:
        parts = self._parts.subresources
        match sent.target.subresource, verb:
            case "binding", _:
                return _json(201, parts.bind(sent))
            case "eviction", _:
                return _json(201, parts.evict(sent))
            case "token", _:
                return _json(201, parts.token(sent))
            case _, "update":
                return _json(200, parts.set_scale(sent))
        return _json(200, parts.patch_scale(sent))

    async def _delete(
        self, request: web.BaseRequest, sent: Sent, accept: str
    ) -> web.StreamResponse:
        target, writing = sent.target, self._parts.writing
        if target.name:
            status, last, shown = writing.delete(sent)
            if shown:
                return self._object(status, target, last, accept)
            return _json(status, deleted(target, last))
        gone = await writing.delete_many(sent)
        listed = Listed(self._store.version, gone)
        return await self._list(request, target, listed, negotiation.Accepted(), sent.options)

    def _object(
        self, status: int, target: RequestTarget, stored: Stored, accept: str, included: str = ""
    ) -> web.Response:
        """Return one object in the accepted form."""
        form = negotiation.accepted(accept, (negotiation.TABLE, negotiation.METADATA))
        served = target.served
        if form.shown_as == negotiation.TABLE:
            listed = Listed(stored.version, [stored])
            parts = pieces(served, listed, form, self._store.now(), included)
            return web.Response(
                status=status, body=b"".join(parts), headers=headers_of(registry.JSON)
            )
        if form.shown_as == negotiation.METADATA:
            return _json(status, metadata(stored.data))
        raw = served.form.raw(stored) + b"\n"
        return web.Response(status=status, body=raw, headers=headers_of(registry.JSON))


async def _body(request: web.BaseRequest) -> bytes:
    """Return the body of a request. Raises ApiError if its client takes too long to send it."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.read()
    except TimeoutError:
        raise registry.too_slow() from None


def headers_of(content_type: str) -> dict[str, str]:
    """Return the headers of a response of a media type."""
    return {"Content-Type": content_type, "Cache-Control": "no-cache, private"}


def _json(status: int, body: Plain) -> web.Response:
    return web.Response(
        status=status, body=encoded(body) + b"\n", headers=headers_of(registry.JSON)
    )


def _document(answered: ResponseBody) -> web.Response:
    headers = headers_of(answered.content_type)
    return web.Response(status=answered.status, body=answered.body, headers=headers)


def refused(error: ApiError) -> web.Response:
    """Return the response that refuses a request."""
    response = _json(error.code, error.status())
    after = error.details.get("retryAfterSeconds")
    if after:
        response.headers["Retry-After"] = str(after)
    return response


BOUNDS: Final = Bounds(
    connections=1000, header=64 * 1024, headers=128, body=registry.LIMIT, silent=30.0, idle=300.0
)
_MISTAKES: Final = (
    LookupError, TypeError, ValueError, AttributeError, AssertionError, OverflowError,
    RecursionError, msgspec.MsgspecError,
)  # fmt: skip
"""Exceptions of an unexpected body; reported as an internal error."""


class ApiServer:
    """Serves a store; an async context manager, which begins to listen and ends all watches."""

    def __init__(self, store: ObjectStore, address: Address, access: Access | None = None) -> None:
        self._access = access or Access()
        self._access.check(address)
        self._requested = address
        self.address = address
        self.tokens: security.Tokens | None = (
            security.Tokens.read(self._access.tokens) if self._access.tokens else None
        )
        self._context = self._access.context()
        self._store = store
        rbac = security.Rbac(store) if self._access.mode == RBAC else None
        accounts = security.AccountTokens(store)
        anonymous = not self._access.knows
        authenticator = security.Authenticator(self.tokens, accounts, anonymous=anonymous)
        self._gate = security.Gate(authenticator, rbac, anonymous=anonymous)
        writing = Writing(store, security.Granting(rbac))
        self._wakening = watch.WatchWaker(store)
        subresources = Subresources(store, writing, accounts)
        parts = Parts(writing, subresources, security.Reviews(authenticator, rbac))
        self._requests = RequestHandler(store, self._wakening, parts)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Start listening; ``address`` has the port then. Raises ClusterError if that fails."""
        if self._access.mode == RBAC:
            security.install(self._store)
        security.publish(self._store, self._access.clients)
        host, port = self._requested.host, self._requested.port
        site = Site(Connections(self._handle, BOUNDS), (host, port), self._context)
        try:
            await self._stack.enter_async_context(site)
        except OSError as error:
            raise ClusterError(
                f"cannot listen on {self._requested.text}: {error.strerror}"
            ) from None
        self._wakening.begin()
        self._stack.callback(self._wakening.end)
        self.address = Address(host, site.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        """End all watches, and stop listening."""
        await self._stack.aclose()

    @property
    def url(self) -> str:
        """Where the server is."""
        return f"{'https' if self._context else 'http'}://{self.address.text}"

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Handle one request."""
        try:
            user = self._gate.admit(request)
            if user is not ANONYMOUS:
                recognized(request)
            return await self._requests.handle(request, user)
        except registry.NoSuchPage:
            return refused(registry.no_such_resource())
        except ApiError as error:
            return refused(error)
        except web.HTTPRequestEntityTooLarge:
            return refused(registry.too_large())
        except _MISTAKES as error:
            return refused(failure(request.method, error))


DEPRECATED: Final = {"ComponentStatus": "v1 ComponentStatus is deprecated in v1.19+"}
"""The warning that a response carries, by kind."""
_STORE: Final = "etcd-0"
_BESIDE: Final = ("controller-manager", "scheduler")
"""Components in the server's process; they are healthy if the server responds."""
_HIGHEST: Final = 18_000
_STEP: Final = 100
_AUTOMANAGED: Final = "kube-aggregator.kubernetes.io/automanaged"


def computed(
    served: registry.ServedResource, store: ObjectStore, catalog: registry.Catalog
) -> list[Stored]:
    """Return the objects of a kind, by name."""
    documents = _components(store) if served.kind == "ComponentStatus" else _api_services(catalog)
    head = {"kind": served.kind, "apiVersion": served.group_version}
    raws = [encoded({**head, **document}) for document in sorted(documents, key=_name)]
    return [Stored(served.resource, store.version, r, read(served.resource, r)) for r in raws]


def _name(data: Plain) -> str:
    name: str = data["metadata"]["name"]
    return name


def _components(store: ObjectStore) -> Iterator[Plain]:
    """Yield the health of each part; that of the store is whether it can be written to."""
    for name in (*_BESIDE, _STORE):
        error = store.storage.write_error() if name == _STORE else ""
        said = {"error": error} if error else {"message": "ok"}
        condition = {"type": "Healthy", "status": str(not error), **said}
        yield {"metadata": {"name": name}, "conditions": [condition]}


def _api_services(catalog: registry.Catalog) -> Iterator[Plain]:
    """Yield each version of each group; all are this server's own."""
    available = {
        "type": "Available",
        "status": "True",
        "reason": "Local",
        "message": "Local APIServices are always available",
    }
    for index, (group, versions) in enumerate(catalog.versions.items()):
        for later, version in enumerate(versions):
            spec = {
                "version": version,
                "groupPriorityMinimum": _HIGHEST - _STEP * index,
                "versionPriority": len(versions) - later,
            }
            yield {
                "metadata": {"name": f"{version}.{group}", "labels": {_AUTOMANAGED: "onstart"}},
                "spec": {**({"group": group} if group else {}), **spec},
                "status": {"conditions": [available]},
            }
