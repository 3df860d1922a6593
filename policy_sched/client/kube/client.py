"""KubeClient: the scheduler's client of a cluster behind an API server.

Theory of operation. No call waits. Requests about one pod are sent in the order of the calls,
requests about different pods side by side (`KeyedExecutor`). A binding reports its result to its
callback; after an unclear response the pod is read until it is bound or not (`BindConfirmation`).
Other failures go to ``failed``: the cluster is as it was, which the scheduler sees through its
watches. A patch that conflicts is sent again; it contains only the fields that it changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from policy_sched.client import Done, ObjectRequest, ObjectResponse, apimachinery, begun
from policy_sched.client.kube import rest
from policy_sched.client.kube.events import EventKey, EventWriter, Reference
from policy_sched.client.kube.time import BackoffState
from policy_sched.errors import ClusterError
from policy_sched.manifests import decode_json
from policy_sched.model import Pod, PodInfo

Plain = dict[str, Any]

SENT: Final = 5
"""How often a binding is sent whose fate stays open."""


class BindConfirmation:
    """Binds pods; ``may_write`` raises ClusterError if nothing may be written (any more)."""

    def __init__(self, api: rest.Api, may_write: Callable[[], None]) -> None:
        self._api = api
        self._may_write = may_write
        self._pods = rest.Decoding(apimachinery.POD, Pod)

    def begin(self, pod: PodInfo, node: str, done: Callable[[ClusterError | None], None]) -> bool:
        """Send a binding without waiting, if that is possible now; see `Api.begin`."""
        path, binding = _binding(pod, node)
        return self._api.begin("POST", path, binding, done, check=self._may_write)

    async def bound(
        self, pod: PodInfo, node: str, failed: ClusterError | None = None
    ) -> ClusterError | None:
        """Bind a pod (by UID) to a node; return None, or why it is not bound there.

        ``failed``: the failure of the try that `begin` made.
        """
        environment = self._api.environment
        pauses = BackoffState(
            rest.REQUEST_BACKOFF, environment.clocks.monotonic, environment.random
        )
        refused: ClusterError | None = None
        for _ in range(SENT):
            if refused is not None:
                await self._api.pause(pauses.next())
            try:
                path, binding = _binding(pod, node)
                first, failed = failed, None
                await self._api.request("POST", path, binding, check=self._may_write, failed=first)
            except ClusterError as error:
                refused = error.with_traceback(None)  # which would keep this call, and it the error
                if not _open(error):
                    return refused
            else:
                return None
            current = await self._read(pod)
            if isinstance(current, ClusterError):
                return refused if _is(refused, rest.CONFLICT) else current
            same = current.metadata.uid == pod.uid
            if same and current.spec.node_name == node:
                return None
            if not same or current.spec.node_name or _is(refused, rest.CONFLICT):
                return refused
        return refused

    async def _read(self, pod: PodInfo) -> Pod | ClusterError:
        """Return the pod of that name, or why there is none to be read, however long it takes."""
        environment = self._api.environment
        pauses = BackoffState(
            rest.REQUEST_BACKOFF, environment.clocks.monotonic, environment.random
        )
        path = rest.object_path(apimachinery.POD, pod.namespace, pod.name)
        while True:
            try:
                return self._pods.object(await self._api.get(path))
            except ClusterError as error:
                if not (
                    _open(error) or _is(error, rest.TOO_MANY) or isinstance(error, rest.Unreachable)
                ):
                    return error.with_traceback(None)
            await self._api.pause(pauses.next())


def _binding(pod: PodInfo, node: str) -> tuple[str, Plain]:
    """Return path and body of a binding."""
    path = rest.object_path(apimachinery.POD, pod.namespace, pod.name, "binding")
    meta = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
    target = {"kind": "Node", "name": node}
    return path, {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}


def _open(error: ClusterError) -> bool:
    """Return whether a failed request may have been carried out, which a read can tell."""
    if isinstance(error, apimachinery.ApiError):
        return error.code == rest.CONFLICT or error.code >= 500
    return isinstance(error, rest.Malformed) or (isinstance(error, rest.Unreachable) and error.sent)


def _is(error: ClusterError, code: int) -> bool:
    return isinstance(error, apimachinery.ApiError) and error.code == code


Failed = Callable[[str, str, ClusterError], None]
"""Called for each call that failed: its name, the object, the error."""

RECORD_EVENT: Final = "record_event"
"""The call that ``failed`` gets when an event could not be written."""
DELEGATED: Final = 100
"""Bindings that extenders perform at the same time; each has a thread."""
CONFLICTS: Final = 5
"""How often a patch is sent whose object changes under it (client-go's default retry: 5)."""

_METHODS: Final = {"get": "GET", "create": "POST", "patch": "PATCH", "delete": "DELETE"}


class NotLeading(ClusterError):  # noqa: N818 - it is a state, not a mistake
    """We do not lead: nothing may be written."""


def ignore_failure(_call: str, _key: str, _error: ClusterError) -> None:
    """Ignore the failure."""


def nothing() -> None:
    """Do nothing."""


class KubeClient:
    """Carries decisions out through an API server; needs a running event loop.

    ``leads`` is checked right before each write is sent. ``wake`` is called after a response that
    a decision may wait for, ``wake_later`` after one that says that a pod is bound. ``reporter``
    and ``instance`` sign events; ``by_profile``: those of pods are signed by the profile that
    decides them, and the instance begins with its name. ``begin`` starts the work of a
    `KeyedExecutor`.
    """

    def __init__(  # noqa: PLR0913 - all but the first are keywords
        self,
        api: rest.Api,
        *,
        reporter: str = "default-scheduler",
        instance: str = "",
        by_profile: bool = False,
        leads: Callable[[], bool] = lambda: True,
        failed: Failed = ignore_failure,
        wake: Callable[[], None] = nothing,
        wake_later: Callable[[], None] | None = None,
        begin: rest.Begin = rest.at_once,
    ) -> None:
        self.events = EventWriter(api, partial(failed, RECORD_EVENT), begin)
        self.lanes = rest.KeyedExecutor(begin)
        self._room = asyncio.Semaphore(DELEGATED)
        self._api = api
        self._reporter = reporter
        self._instance = instance or reporter
        self._by_profile = by_profile
        self._leads = leads
        self._failed = failed
        self._wake, self._wake_later = wake, wake_later or wake
        self._settling = BindConfirmation(api, self._check_lead)

    def bind(self, pod: PodInfo, node: str, done: Done) -> None:
        """Bind the pod (by UID) to the node; ``done`` is called with the result."""
        start = partial(self._begin_binding, pod, node, done)
        self.lanes.add(pod.uid, partial(self._bind, pod, node, done), start)

    def delegate(self, pod: PodInfo, work: Callable[[], None], done: Done) -> None:
        """Run the work in a thread; ``done`` is called with the result."""
        self.lanes.add(pod.uid, partial(self._delegate, work, done))

    def record_event(
        self,
        pod: PodInfo,
        kind: str,
        reason: str,
        action: str,
        note: str,
        related: PodInfo | None = None,
    ) -> None:
        """Record an event about the pod, as the scheduler that its profile is."""
        reporter, instance = self._reporter, self._instance
        if self._by_profile:
            reporter = (related or pod).scheduler_name
            instance = reporter + instance.removeprefix(self._reporter)
        other = None if related is None else _reference(related)
        about = _reference(pod)
        self.events.say(EventKey(about, kind, reason, action, reporter, instance, note, other))

    def say(self, about: Reference, kind: str, reason: str, action: str, note: str) -> None:
        """Record an event about anything."""
        self.events.say(EventKey(about, kind, reason, action, self._reporter, self._instance, note))

    async def patch_status(
        self, selection: rest.Selection, namespace: str, name: str, status: Plain
    ) -> None:
        """Merge a status into that of an object, beside the requests of decisions.

        Raises ClusterError.
        """
        path = selection.object_path(namespace, name, "status")
        await self._api.request(
            "PATCH",
            path,
            {"status": status},
            content_type=rest.MERGE_PATCH,
            repeatable=True,
            check=self._check_lead,
            aside=True,
        )

    async def replace_status(self, selection: rest.Selection, whole: Plain) -> bytes:
        """Replace the status of an object of the version that is stated; return the object.

        Raises ClusterError; with code 409 if the object has changed.
        """
        path = selection.object_path("", whole["metadata"]["name"], "status")
        return await self._api.request("PUT", path, whole, check=self._check_lead, aside=True)

    def send(self, request: ObjectRequest, done: ObjectResponse | None = None) -> None:
        """Send a request about an object; ``done`` is called with the response.

        Without ``done`` a failure goes to ``failed``.
        """
        key = request.uid or f"{request.kind.__name__}/{request.namespace}/{request.name}"
        if done is not None:
            self.lanes.add(key, partial(self._answer, request, done))
        else:
            work = partial(self._report, request)
            self.lanes.add(key, work, partial(self._begin_request, request, work))

    # Inside.

    async def _answer(self, request: ObjectRequest, done: ObjectResponse) -> None:
        """Send a request, and hand on the object of the response."""
        try:
            response = await self._send(request)
        except ClusterError as error:
            done(None, error.with_traceback(None))
        else:
            deleted = request.verb == "delete" or not response
            done(None if deleted else decode_json(response, request.kind), None)
        self._wake()

    async def _report(self, request: ObjectRequest, failed: ClusterError | None = None) -> None:
        """Send a request whose response is not needed. ``failed``: how the first try ended."""
        try:
            await self._send(request, failed)
        except ClusterError as error:
            self._failed(request.call, request.key, error)

    def _begin_request(
        self, request: ObjectRequest, work: Callable[..., Awaitable[None]], ended: rest.Ended
    ) -> bool:
        """Send a request without a task, if that is possible now; see `Api.begin`."""

        def responded(failed: ClusterError | None) -> None:
            ended(None if failed is None else partial(work, failed=failed))

        method, path, body, content_type = _http_request(request)
        check, begin = self._check_lead, self._api.begin
        return body is not None and begin(
            method, path, body, responded, content_type=content_type, check=check
        )

    async def _send(self, request: ObjectRequest, failed: ClusterError | None = None) -> bytes:
        """Return the response to a request, empty for an object that may be gone and is."""
        method, path, body, content_type = _http_request(request)
        versioned = "resourceVersion" in request.body.get("metadata", ())
        exact = await self._exactly(request) if request.exact else None
        if exact is not None:
            method, content_type = "PUT", apimachinery.PROTOBUF
        tries = CONFLICTS if method == "PATCH" and not versioned else 1
        for tries_left in reversed(range(tries)):
            first, failed = failed, None
            try:
                return await self._api.request(
                    method,
                    path,
                    body if exact is None else exact,
                    content_type=content_type,
                    repeatable=request.verb != "create",
                    check=self._check_lead,
                    failed=first,
                )
            except ClusterError as error:
                gone = apimachinery.is_gone(error)
                if gone and request.ignore_not_found:
                    return b""
                if gone or not tries_left or not _is(error, rest.CONFLICT):
                    raise
        raise AssertionError("the last try returns or raises")

    async def _exactly(self, request: ObjectRequest) -> bytes | None:
        """Return the object with its changes; None if the server keeps objects as JSON."""
        path = rest.object_path(request.api_kind, request.namespace, request.name)
        accept, check = f"{apimachinery.PROTOBUF}, {rest.JSON}", self._check_lead
        stored = await self._api.request("GET", path, accept=accept, repeatable=True, check=check)
        if not stored.startswith(apimachinery.MAGIC):
            return None
        try:
            return apimachinery.changed_claim(stored, request.body)
        except ValueError as error:
            raise rest.Malformed(f"GET {path}: {error}") from None

    def _begin_binding(self, pod: PodInfo, node: str, done: Done, ended: rest.Ended) -> bool:
        def responded(failed: ClusterError | None) -> None:
            if failed is not None:
                ended(partial(self._bind, pod, node, done, failed))
                return
            done(None)
            self._wake_later()
            ended(None)

        return self._settling.begin(pod, node, responded)

    async def _bind(
        self, pod: PodInfo, node: str, done: Done, failed: ClusterError | None = None
    ) -> None:
        done(await self._settling.bound(pod, node, failed))
        self._wake()

    async def _delegate(self, work: Callable[[], None], done: Done) -> None:
        failed: ClusterError | None = None
        async with self._room:
            try:
                self._check_lead()
            except ClusterError as error:
                failed = error.with_traceback(None)
            else:
                await asyncio.wrap_future(begun(work))
        done(failed)
        self._wake()

    def _check_lead(self) -> None:
        if not self._leads():
            raise NotLeading("this scheduler does not lead (any more)")


def _http_request(request: ObjectRequest) -> tuple[str, str, Plain | None, str]:
    """Return method, path, body and content type of a request."""
    kind, namespace, body = request.api_kind, request.namespace, dict(request.body)
    path = rest.object_path(kind, namespace, request.name, request.subresource)
    content_type = rest.JSON
    if request.verb == "create":
        path = rest.collection_path(kind, namespace)
    elif request.subresource == "eviction":
        meta = {"name": request.name, "namespace": namespace}
        options = {"preconditions": {"uid": request.uid}}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
        return "POST", path, {**body, "deleteOptions": options}, content_type
    elif request.verb == "delete" and request.uid:
        uid = {"uid": request.uid}
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": uid}
    elif request.verb == "patch":
        content_type = rest.STRATEGIC_PATCH if request.strategic else rest.MERGE_PATCH
        if request.uid:
            body = {"metadata": {}, **body}
            body["metadata"] = {"uid": request.uid, **body["metadata"]}
    return _METHODS[request.verb], path, body or None, content_type


def _reference(pod: PodInfo) -> Reference:
    version = pod.pod.metadata.resource_version
    return Reference("Pod", pod.namespace, pod.name, pod.uid, resource_version=version)
