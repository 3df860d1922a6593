"""The scheduler's own endpoints: health, metrics, configuration, policies, reload, explanations.

Theory of operation. Three health paths are open; other requests are authenticated and authorized,
path by path as in kube-scheduler. An explanation also requires permission to read the pod, and
names nodes only to users that may read nodes. Requests are handled between two steps of
the instance; pages about all pods are written in pieces.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from aiohttp import web

from policy_sched.client.apimachinery import ApiError
from policy_sched.errors import ClusterError, PolicySchedError
from policy_sched.http import from_here, recognized
from policy_sched.instance import observability
from policy_sched.instance.app import Instance
from policy_sched.instance.http import admission_reviews, status_pages, status_pages as pages
from policy_sched.instance.http.admission_reviews import AdmissionReviews
from policy_sched.instance.http.delegated_auth import (
    ANONYMOUS,
    OPEN,
    AlwaysAllow,
    Authorizer,
    Caller,
    Permission,
    RequestAttributes,
    certified,
)
from policy_sched.instance.http.fit_page import FitBusy, FitQuery, Fitting
from policy_sched.instance.http.listener import TAKEN, sent
from policy_sched.instance.observability import healthz
from policy_sched.profiles.models import KubeSchedulerConfiguration
from policy_sched.profiles.reload import Reload, ReloadResult
from policy_sched.report import Report, json_text

if TYPE_CHECKING:
    from policy_sched.rollout import Action

TEXT: Final = "text/plain; charset=utf-8"
METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"
JSON: Final = "application/json"
NO_ROLLOUT: Final = "nothing is rolled out: there is no Rollout, or no change since the start"
NOT_LEADING: Final = "another instance leads, and drives the rollout: ask that one"
NO_PAGE: Final = "the server could not find the requested resource"
_READING: Final = ("GET", "HEAD")
VALIDATE: Final = "/validate"
_ROLLOUT: Final[dict[str, Action]] = {
    "/-/rollout/promote": "promote",
    "/-/rollout/abort": "abort",
}
_WRITING: Final = ("/-/reload", "/debug/flags/v", "/fit", *_ROLLOUT)
_TURN: Final = 0.005
"""Seconds after which the event loop runs other tasks while metrics are written."""
_LOOKS: Final = 40
"""How often it is looked whether what was asked of a rollout is done."""
_PAUSE: Final = 0.05
"""Seconds between two looks."""
_SHORT: Final = 32 * 1024
"""Bytes above which a response is compressed in a thread, if the client accepts that."""
_EXPLAIN: Final = re.compile(r"/explain/([^/]+)/([^/]+)")

Page = Callable[[web.BaseRequest, Caller], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Offered:
    """What the endpoints serve.

    ``reload`` reads the policies again and returns the result. ``settings`` are those in force,
    flags included; ``flags`` are the flags of the process, by name.
    """

    instance: Instance
    reload: Callable[[], Awaitable[Reload]]
    settings: Callable[[], KubeSchedulerConfiguration]
    open_paths: tuple[str, ...] = OPEN
    flags: Mapping[str, str] = field(default_factory=dict)
    reviews: AdmissionReviews | None = None
    """What judges objects at /validate, which any caller may ask; None: it is not served."""


class Refused(Exception):  # noqa: N818 - carries a response
    """The request is rejected with ``response``."""

    def __init__(self, response: web.Response) -> None:
        super().__init__(response.status)
        self.response = response


class Endpoints:
    """Serves requests; pass `handle` to a `Listener`."""

    def __init__(self, offered: Offered, authorizer: Authorizer) -> None:
        self._offered = offered
        self._authorizer = authorizer
        self._checks = offered.instance.checks()
        self._slis = observability.HealthMetrics()
        store = offered.instance.reloader.store
        self._pages: dict[str, Page] = {
            "/": self._index,
            "/metrics": self._metrics,
            "/metrics/resources": self._resources,
            "/metrics/slis": self._healths,
            "/configz": _shown(lambda: pages.configz(store, offered.settings())),
            "/policies": _shown(lambda: pages.policies(store)),
            "/audits": _shown(lambda: pages.audits(offered.instance)),
            "/version": _shown(pages.version),
            "/statusz": self._statusz,
            "/flagz": self._flagz,
            "/-/reload": self._reload,
            "/fit": self._fit,
            "/rollout": self._rollout,
            **dict.fromkeys(_ROLLOUT, self._ask_rollout),
            "/debug/flags/v": self._verbosity,
        }
        self._fitting = Fitting(offered.instance)
        self._started = offered.instance.now()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Handle one request."""
        try:
            response = await self._found(request)
        except Refused as refused:
            response = refused.response
        except ClusterError as error:
            path = json.dumps(request.path)
            response = _text(f"Internal Server Error: {path}: {error}\n", 500)
        if isinstance(response, web.Response):
            return await sent(request, response)
        return response

    # Authorization.

    async def _found(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        if not path.startswith("/"):  # OPTIONS *, CONNECT HOST:PORT
            raise Refused(_status(404, "NotFound", NO_PAGE))
        meant = from_here(request.host, request.headers.get("Origin"))
        if isinstance(self._authorizer, AlwaysAllow) and not meant:
            raise Refused(_status(403, "Forbidden", "forbidden: only for this machine"))
        free = self._free(path)
        if free and path.removeprefix("/") in self._checks:
            return self._health(request)
        if path == VALIDATE and self._offered.reviews is not None:
            return await self._validate(request, self._offered.reviews)
        caller = await self._caller(request)
        explained = _EXPLAIN.fullmatch(path)
        attributes = RequestAttributes(request.method.lower(), path)
        allowed = (
            Permission(allowed=True)
            if free
            else await self._authorizer.authorize(caller, attributes)
        )
        if not allowed.allowed and explained is not None:
            wanted = RequestAttributes("get", "", "pods", explained[1], explained[2])
            allowed = await self._authorizer.authorize(caller, wanted)
        if not allowed.allowed:
            raise Refused(_forbidden(caller, attributes, allowed.reason))
        if explained is not None:
            return await self._explain(request, caller, explained[1], explained[2])
        if path.split("/")[1] in self._checks and not path.endswith("/"):
            return self._health(request)
        page = self._pages.get(path)
        if page is None:
            return _status(404, "NotFound", NO_PAGE)
        if path not in _WRITING and request.method not in _READING:
            return _not_allowed("GET, HEAD")
        return await page(request, caller)

    def _free(self, path: str) -> bool:
        """Return whether a path needs no authorization."""
        return any(
            path.startswith(pattern[:-1]) if pattern.endswith("*") else path == pattern
            for pattern in self._offered.open_paths
        )

    async def _caller(self, request: web.BaseRequest) -> Caller:
        transport = request.transport
        certificate = None if transport is None else transport.get_extra_info("peercert")
        caller = certified(certificate)
        if caller is None:
            caller = await self._authorizer.authenticate(request.headers.get("Authorization", ""))
        if caller is None:
            raise Refused(_status(401, "Unauthorized", "Unauthorized"))
        if caller != ANONYMOUS:
            recognized(request)
        return caller

    # Pages.

    def _health(self, request: web.BaseRequest) -> web.Response:
        kind, _, name = request.path.removeprefix("/").partition("/")
        checks = self._checks[kind]
        if name:
            named = next((check for check in checks if check.name == name), None)
            if named is None:
                return _status(404, "NotFound", NO_PAGE)
            return _verdict(healthz.single_check_response(named))
        excluded = request.query.getall("exclude", [])
        observe = self._slis.checked
        verdict = healthz.health_response(
            kind, checks, excluded, verbose="verbose" in request.query, observe=observe
        )
        if verdict.failed:
            self._offered.instance.log.write(
                observability.INFO, f"{kind} check failed", failed=verdict.failed
            )
        return _verdict(verdict)

    async def _index(self, _request: web.BaseRequest, _caller: Caller) -> web.Response:
        paths = [path for path in self._pages if path != "/"]
        paths += [VALIDATE] if self._offered.reviews is not None else []
        for kind, checks in self._checks.items():
            paths += [f"/{kind}", *(f"/{kind}/{check.name}" for check in checks)]
        return _json({"paths": sorted([*paths, "/explain/NAMESPACE/POD"])})

    async def _metrics(self, _request: web.BaseRequest, _caller: Caller) -> web.Response:
        """Write all metrics, always as text; compressed if the client accepts that."""
        pieces, turn = [], time.perf_counter()
        for piece in self._offered.instance.metrics.pieces():
            pieces.append(piece)
            if time.perf_counter() - turn > _TURN:
                await asyncio.sleep(0)
                turn = time.perf_counter()
        text = "".join(pieces).encode()
        page = web.Response(body=text, headers=_headers(METRICS), zlib_executor_size=_SHORT)
        page.enable_compression()
        return page

    async def _healths(self, _request: web.BaseRequest, _caller: Caller) -> web.Response:
        return _text(self._slis.text(), content_type=METRICS)

    async def _resources(self, request: web.BaseRequest, _caller: Caller) -> web.StreamResponse:
        """Write requests and limits of all pods; none on a standby, as upstream."""
        instance = self._offered.instance
        if not instance.leads:
            return _text("", content_type=METRICS)
        response = web.StreamResponse(headers=_headers(METRICS))
        await response.prepare(request)
        if request.method != "HEAD":
            async for piece in observability.resource_pieces(instance.pods()):
                await response.write(piece.encode())
        await response.write_eof()
        return response

    async def _statusz(self, request: web.BaseRequest, _caller: Caller) -> web.Response:
        now, paths = self._offered.instance.now(), (*self._pages, *OPEN)
        return _plain(request, status_pages.statusz(self._started, now, paths))

    async def _flagz(self, request: web.BaseRequest, _caller: Caller) -> web.Response:
        return _plain(request, status_pages.flagz(self._offered.flags))

    async def _verbosity(self, request: web.BaseRequest, _caller: Caller) -> web.Response:
        """Set the verbosity of the log, as kube-scheduler does at this path."""
        if request.method != "PUT":
            return _status(406, "NotAcceptable", "unsupported http method")
        try:
            async with asyncio.timeout(TAKEN):
                body = await request.content.read(status_pages.LONGEST_NUMBER)
        except TimeoutError:
            return _status(408, "Timeout", "the body did not arrive in time")
        log = self._offered.instance.log
        status, text = status_pages.set_verbosity(log.verbosity, body)
        if status >= 400:
            return _status(status, "BadRequest", text.strip())
        return _text(text, status)

    async def _reload(self, request: web.BaseRequest, _caller: Caller) -> web.Response:
        """Reload the policies; Prometheus uses the same path."""
        if request.method not in ("POST", "PUT"):
            return _not_allowed("POST, PUT")
        reload = await self._offered.reload()
        if reload.result is not ReloadResult.REFUSED:
            return _text("")
        problems = "\n".join(problem.placed for problem in reload.problems)
        return _text(f"failed to reload config: {problems}\n", 500)

    async def _rollout(self, request: web.BaseRequest, _caller: Caller) -> web.Response:
        """Return where the rollout is, as text or JSON."""
        control = self._offered.instance.rollout
        report = None if control is None else control.report()
        return self._no_rollout() if report is None else await _report(request, report)

    def _no_rollout(self) -> web.Response:
        why = NO_ROLLOUT if self._offered.instance.leads else NOT_LEADING
        return _status(404, "NotFound", why)

    async def _ask_rollout(self, request: web.BaseRequest, caller: Caller) -> web.Response:
        """Promote or abort the candidate; a hash in the query says which one is meant."""
        if request.method not in ("POST", "PUT"):
            return _not_allowed("POST, PUT")
        control = self._offered.instance.rollout
        if control is None or control.report() is None:
            return self._no_rollout()
        requester = "" if caller == ANONYMOUS else caller.name
        action, candidate = _ROLLOUT[request.path], request.query.get("candidate", "")
        refusal = control.request(action, candidate, requester)
        report = control.report()
        for _ in range(_LOOKS):  # it is done between two decisions, once it is written
            if refusal or report is None or report.phase != "Progressing":
                break
            await asyncio.sleep(_PAUSE)
            report = control.report()
        if refusal or report is None:
            return _status(409, "Conflict", refusal or NO_ROLLOUT)
        return await _report(request, report)

    async def _fit(self, request: web.BaseRequest, caller: Caller) -> web.Response:
        """Count the replicas of the pod in the body."""
        if request.method != "POST":
            return _not_allowed("POST")
        if not self._offered.instance.ready:
            return _status(503, "ServiceUnavailable", "the cluster has not been read yet")
        nodes, pods = [
            (await self._authorizer.authorize(caller, RequestAttributes(verb, "", kind))).allowed
            for verb, kind in (("get", "nodes"), ("list", "pods"))
        ]
        try:
            query = FitQuery.of(request.query)
            if not nodes:
                query = replace(query, per="")
            async with asyncio.timeout(TAKEN):
                body = await request.read()
            fit = await self._fitting.of(body, query)
        except TimeoutError:
            return _status(408, "Timeout", "the body did not arrive in time")
        except FitBusy as busy:
            return _busy(str(busy))
        except ClusterError:
            raise
        except PolicySchedError as error:
            return _status(400, "BadRequest", str(error))
        return await _report(request, fit.restricted(nodes=nodes, pods=pods))

    async def _validate(self, request: web.BaseRequest, reviews: AdmissionReviews) -> web.Response:
        """Judge the object of an AdmissionReview; API servers present no credentials."""
        if request.method != "POST":
            return _not_allowed("POST")
        try:
            async with reviews.admitted(), asyncio.timeout(TAKEN):
                body = await admission_reviews.read(request.content)
                return _json(await reviews.review(body))
        except TimeoutError:
            return _status(408, "Timeout", "the body did not arrive in time")
        except admission_reviews.BusyReviews as busy:
            return _busy(str(busy))
        except admission_reviews.BadReview as bad:
            return _status(400, "BadRequest", str(bad))

    async def _explain(
        self, request: web.BaseRequest, caller: Caller, namespace: str, name: str
    ) -> web.Response:
        if request.method not in _READING:
            return _not_allowed("GET, HEAD")
        detailed = (
            await self._authorizer.authorize(caller, RequestAttributes("get", "", "nodes"))
        ).allowed
        try:
            report = await status_pages.explained(
                self._offered.instance, namespace, name, detailed=detailed
            )
        except status_pages.UnknownPod as unknown:
            unknown.__traceback__ = None  # breaks a reference cycle with the waiting frame
            return _status(404, "NotFound", str(unknown))
        return await _report(request, report)


def _shown(document: Callable[[], object]) -> Page:
    """Return the page of a document that every permitted caller sees alike."""

    async def page(_request: web.BaseRequest, _caller: Caller) -> web.Response:
        return _json(document())

    return page


async def _report(request: web.BaseRequest, report: Report) -> web.Response:
    """Return a report as text, or as JSON if the client asks for it."""
    if JSON in request.headers.get("Accept", ""):
        # With thousands of nodes the text is long: other tasks run while it is assembled.
        text = await asyncio.to_thread(lambda: json_text(report.document()))
        return web.Response(body=text.encode(), headers=_headers(JSON))
    return _text("".join(f"{line}\n" for line in report.text_lines()))


def _verdict(verdict: healthz.HealthResponse) -> web.Response:
    return _text(verdict.text, verdict.status)


def _headers(content_type: str) -> dict[str, str]:
    return {
        "Content-Type": content_type,
        "Cache-Control": "no-cache, private",
        "X-Content-Type-Options": "nosniff",
        "Server": "policy-sched",
    }


def _text(text: str, status: int = 200, content_type: str = TEXT) -> web.Response:
    return web.Response(status=status, body=text.encode(), headers=_headers(content_type))


def _plain(request: web.BaseRequest, text: str) -> web.Response:
    """Return a text page, if the client accepts text."""
    if not status_pages.takes_text(request.headers.get("Accept", "")):
        return _status(406, "NotAcceptable", status_pages.NOT_ACCEPTABLE.strip())
    return _text(text)


def _json(value: object, status: int = 200) -> web.Response:
    body = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    return web.Response(status=status, body=body.encode(), headers=_headers(JSON))


def _not_allowed(methods: str) -> web.Response:
    message = "the server does not allow this method on the requested resource"
    response = _status(405, "MethodNotAllowed", message)
    response.headers["Allow"] = methods
    return response


def _busy(why: str) -> web.Response:
    response = _status(429, "TooManyRequests", why)
    response.headers["Retry-After"] = "1"
    return response


def _forbidden(caller: Caller, attributes: RequestAttributes, reason: str) -> web.Response:
    """Return upstream's response to a forbidden request, with the API server's reason."""
    message = f'forbidden: User "{caller.name}" cannot {attributes.verb} path "{attributes.path}"'
    return _status(403, "Forbidden", f"{message}: {reason}" if reason else message, details=True)


def _status(code: int, reason: str, message: str, *, details: bool = False) -> web.Response:
    body = ApiError(code, reason, message).status()
    if details:
        body = {**{k: v for k, v in body.items() if k != "code"}, "details": {}, "code": code}
    response = web.Response(status=code, body=(json.dumps(body) + "\n").encode())
    response.headers.update(_headers(JSON))
    return response
