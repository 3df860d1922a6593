"""KubeClient: the scheduler's client of a cluster behind an API server.

Theory of operation. No call waits. Requests about one pod are sent in the order of the calls,
requests about different pods side by side (`KeyedExecutor`). A binding reports its result to its
callback; after an unclear response the pod is read until it is bound or not (`BindConfirmation`).
Other failures go to ``failed``: the cluster is as it was, which the scheduler sees through its
watches. A patch that conflicts is sent again; it contains only the fields that it changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from policy_sched.client import Done, ObjectRequest, ObjectResponse, begun
from policy_sched.client.apimachinery import (
    CLAIM,
    GROUP,
    MAGIC,
    POD,
    PROTOBUF,
    VOLUME,
    ApiError,
    changed_claim,
    timestamp,
)
from policy_sched.client.kube.events import EventKey, EventWriter, Reference
from policy_sched.client.kube.rest import (
    CONFLICT,
    JSON,
    MERGE_PATCH,
    NOT_FOUND,
    REQUEST_BACKOFF,
    STRATEGIC_PATCH,
    TOO_MANY,
    Api,
    Begin,
    Decoding,
    Ended,
    KeyedExecutor,
    Malformed,
    Unreachable,
    at_once,
    collection_path,
    is_another,
    object_path,
)
from policy_sched.client.kube.time import BackoffState
from policy_sched.errors import ClusterError
from policy_sched.manifests import decode_json
from policy_sched.model import SCHEDULED as GROUP_SCHEDULED
from policy_sched.model import (
    Condition,
    Kind,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodGroup,
    PodInfo,
)

Plain = dict[str, Any]

SENT: Final = 5
"""How often a binding is sent whose fate stays open."""


class BindConfirmation:
    """Binds pods; ``may_write`` raises ClusterError if nothing may be written (any more)."""

    def __init__(self, api: Api, may_write: Callable[[], None]) -> None:
        self._api = api
        self._may_write = may_write
        self._pods = Decoding(POD, Pod)

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
        pauses = BackoffState(REQUEST_BACKOFF, environment.clocks.monotonic, environment.random)
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
            found = await self._read(pod)
            if isinstance(found, ClusterError):
                return refused if _is(refused, CONFLICT) else found
            same = found.metadata.uid == pod.uid
            if same and found.spec.node_name == node:
                return None
            if not same or found.spec.node_name or _is(refused, CONFLICT):
                return refused
        return refused

    async def _read(self, pod: PodInfo) -> Pod | ClusterError:
        """Return the pod of that name, or why there is none to be read, however long it takes."""
        environment = self._api.environment
        pauses = BackoffState(REQUEST_BACKOFF, environment.clocks.monotonic, environment.random)
        path = object_path(POD, pod.namespace, pod.name)
        while True:
            try:
                return self._pods.object(await self._api.get(path))
            except ClusterError as error:
                if not (_open(error) or _is(error, TOO_MANY) or isinstance(error, Unreachable)):
                    return error.with_traceback(None)
            await self._api.pause(pauses.next())


def _binding(pod: PodInfo, node: str) -> tuple[str, Plain]:
    """Return path and body of a binding."""
    path = object_path(POD, pod.namespace, pod.name, "binding")
    meta = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
    target = {"kind": "Node", "name": node}
    return path, {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}


def _open(error: ClusterError) -> bool:
    """Return whether a failed request may have been carried out, which a read can tell."""
    if isinstance(error, ApiError):
        return error.code == CONFLICT or error.code >= 500
    return isinstance(error, Malformed) or (isinstance(error, Unreachable) and error.sent)


def _is(error: ClusterError, code: int) -> bool:
    return isinstance(error, ApiError) and error.code == code


Failed = Callable[[str, str, ClusterError], None]
"""Called for each call that failed: its name, the object, the error."""

RECORD_EVENT: Final = "record_event"
"""The call that ``failed`` gets when an event could not be written."""
DELEGATED: Final = 100
"""Bindings that extenders perform at the same time; each has a thread."""
CONFLICTS: Final = 5
"""How often a patch is sent whose object changes under it (client-go's default retry: 5)."""
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"


_METHODS: Final = {"get": "GET", "create": "POST", "patch": "PATCH", "delete": "DELETE"}


class NotLeading(ClusterError):  # noqa: N818 - it is a state, not a mistake
    """We do not lead: nothing may be written."""


def ignore_failure(_call: str, _key: str, _error: ClusterError) -> None:
    """Ignore the failure."""


def nothing() -> None:
    """Do nothing."""


class KubeClient:
    """Carries decisions out through an API server; needs a running event loop.

    ``leads`` is checked right before each write is sent. ``wake`` is called after a binding had
    a response. ``reporter`` and ``instance`` sign events; ``by_profile``: those of pods are signed
    by the profile that decides them, and the instance begins with its name. ``begin`` starts the
    work of a `KeyedExecutor`.
    """

    def __init__(  # noqa: PLR0913 - all but the first are keywords
        self,
        api: Api,
        *,
        reporter: str = "default-scheduler",
        instance: str = "",
        by_profile: bool = False,
        leads: Callable[[], bool] = lambda: True,
        failed: Failed = ignore_failure,
        wake: Callable[[], None] = nothing,
        begin: Begin = at_once,
    ) -> None:
        self.events = EventWriter(api, partial(failed, RECORD_EVENT), begin)
        self.lanes = KeyedExecutor(begin)
        self._room = asyncio.Semaphore(DELEGATED)
        self._api = api
        self._reporter = reporter
        self._instance = instance or reporter
        self._by_profile = by_profile
        self._leads = leads
        self._failed = failed
        self._wake = wake
        self._settling = BindConfirmation(api, self._check_lead)

    def bind(self, pod: PodInfo, node: str, done: Done) -> None:
        """Bind the pod (by UID) to the node; ``done`` is called with the result."""
        start = partial(self._begin_binding, pod, node, done)
        self.lanes.add(pod.uid, partial(self._bind, pod, node, done), start)

    def delegate(self, pod: PodInfo, work: Callable[[], None], done: Done) -> None:
        """Run the work in a thread; ``done`` is called with the result."""
        self.lanes.add(pod.uid, partial(self._delegate, work, done))

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Set status.nominatedNodeName."""
        self._status("nominate", pod, {"nominatedNodeName": node})

    def set_unschedulable(
        self, pod: PodInfo, reason: str, message: str, nominated: str | None = None
    ) -> None:
        """Set condition PodScheduled=False; ``nominated`` as nominatedNodeName unless None."""
        changed = self._condition(pod, "PodScheduled", "False", reason, message)
        if nominated is not None:
            changed["nominatedNodeName"] = nominated or None
        self._status("set_unschedulable", pod, changed)

    def clear_nomination(self, pod: PodInfo) -> None:
        """Empty status.nominatedNodeName."""
        self._status("clear_nomination", pod, {"nominatedNodeName": None})

    def set_group_scheduled(
        self, group: PodGroup, reason: str, message: str, *, scheduled: bool
    ) -> None:
        """Set condition PodGroupScheduled; a deleted group is no error."""
        meta, state = group.metadata, str(scheduled)
        condition = self._changed(group.status.conditions, GROUP_SCHEDULED, state, reason, message)
        if meta.generation:
            condition["observedGeneration"] = meta.generation
        path = object_path(GROUP, meta.namespace, meta.name, "status")
        patch = {"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}}
        request = ("PATCH", path, patch, STRATEGIC_PATCH)
        key = f"{meta.namespace}/{meta.name}"
        work = partial(self._attempt, "set_group_scheduled", key, request, gone_is_fine=True)
        self.lanes.add(meta.uid or key, work)

    def set_disruption_target(self, pod: PodInfo, message: str) -> None:
        """Set condition DisruptionTarget=True; a deleted pod is no error."""
        reason = "PreemptionByScheduler"
        changed = self._condition(pod, "DisruptionTarget", "True", reason, message)
        self._status("set_disruption_target", pod, changed)

    def delete_pod(self, pod: PodInfo) -> None:
        """Delete the pod (by UID), gracefully; a deleted one is no error."""
        path = object_path(POD, pod.namespace, pod.name)
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": pod.uid}}
        self._send("delete_pod", pod, ("DELETE", path, options, JSON))

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

    def update_volume(self, volume: PersistentVolume) -> None:
        """Write for which claim a volume is kept, if the volume is as it was when we decided."""
        reference, patch = volume.spec.claim_ref, {"spec": {"claimRef": None}}
        annotations: dict[str, str | None] = {}
        if reference is not None:
            claim = {"namespace": reference.namespace, "name": reference.name}
            named: Any = {"apiVersion": "v1", "kind": CLAIM[1], **claim, "uid": reference.uid}
            patch = {"spec": {"claimRef": named}}
            annotations = {BOUND_BY_CONTROLLER: "yes"}
        self._patch("update_volume", VOLUME, volume, annotations, patch)

    def update_claim(self, claim: PersistentVolumeClaim) -> None:
        """Write for which node a claim's volume is to be made, if the claim is as it was."""
        chosen = claim.metadata.annotations.get(SELECTED_NODE)
        self._patch("update_claim", CLAIM, claim, {SELECTED_NODE: chosen}, {})

    def send(self, request: ObjectRequest, done: ObjectResponse) -> None:
        """Send a request about an object; ``done`` is called with the result."""
        key = f"{request.kind.__name__}/{request.namespace}/{request.name}"
        self.lanes.add(key, partial(self._request, request, done))

    # Inside.

    async def _request(self, request: ObjectRequest, done: ObjectResponse) -> None:
        namespace, name = request.namespace, request.name
        path = object_path(request.api_kind, namespace, name, request.subresource)
        if request.verb == "create":
            path = collection_path(request.api_kind, namespace)
        body: Mapping[str, Any] | bytes | None = request.body or None
        method, content_type = _METHODS[request.verb], JSON
        if request.verb == "patch":
            content_type = STRATEGIC_PATCH if request.strategic else MERGE_PATCH
        try:
            exact = await self._exactly(request) if request.exact else None
            if exact is not None:
                method, body, content_type = "PUT", exact, PROTOBUF
            response = await self._api.request(
                method,
                path,
                body,
                content_type=content_type,
                repeatable=request.verb != "create",
                check=self._check_lead,
            )
        except ClusterError as error:
            done(None, error.with_traceback(None))
        else:
            deleted = request.verb == "delete"
            done(None if deleted else decode_json(response, request.kind), None)
        self._wake()

    async def _exactly(self, request: ObjectRequest) -> bytes | None:
        """Return the object with its changes; None if the server keeps objects as JSON."""
        path = object_path(request.api_kind, request.namespace, request.name)
        accept, check = f"{PROTOBUF}, {JSON}", self._check_lead
        found = await self._api.request("GET", path, accept=accept, repeatable=True, check=check)
        if not found.startswith(MAGIC):
            return None
        try:
            return changed_claim(found, request.body)
        except ValueError as error:
            raise Malformed(f"GET {path}: {error}") from None

    def _begin_binding(self, pod: PodInfo, node: str, done: Done, ended: Ended) -> bool:
        def responded(failed: ClusterError | None) -> None:
            if failed is not None:
                ended(partial(self._bind, pod, node, done, failed))
                return
            done(None)
            self._wake()
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

    def _condition(self, pod: PodInfo, kind: str, state: str, reason: str, message: str) -> Plain:
        """Return the change of a pod's condition."""
        changed = self._changed(pod.pod.status.conditions, kind, state, reason, message)
        if pod.pod.metadata.generation:
            changed["observedGeneration"] = pod.pod.metadata.generation
        return {"conditions": [changed]}

    def _changed(
        self, before: Sequence[Condition], kind: str, state: str, reason: str, message: str
    ) -> Plain:
        """Return the change of a condition; its time changes only if its state does."""
        condition: Plain = {"type": kind, "status": state, "reason": reason, "message": message}
        if [c.status for c in before if c.type == kind] != [state]:
            condition["lastTransitionTime"] = timestamp(self._api.environment.clocks.wall())
        return condition

    def _status(self, call: str, pod: PodInfo, changed: Plain) -> None:
        path = object_path(POD, pod.namespace, pod.name, "status")
        patch = {"metadata": {"uid": pod.uid}, "status": changed}
        self._send(call, pod, ("PATCH", path, patch, STRATEGIC_PATCH))

    def _send(self, call: str, pod: PodInfo, request: tuple[str, str, Plain, str]) -> None:
        gone_is_fine = call in ("delete_pod", "set_disruption_target")
        work = partial(self._attempt, call, pod.key, request, gone_is_fine=gone_is_fine)
        self.lanes.add(pod.uid, work, partial(self._begin_attempt, request, work))

    def _begin_attempt(
        self,
        request: tuple[str, str, Plain, str],
        work: Callable[..., Awaitable[None]],
        ended: Ended,
    ) -> bool:
        def responded(failed: ClusterError | None) -> None:
            ended(None if failed is None else partial(work, failed=failed))

        method, path, body, content_type = request
        check = self._check_lead
        begin = self._api.begin
        return begin(method, path, body, responded, content_type=content_type, check=check)

    def _patch(
        self,
        call: str,
        kind: Kind,
        thing: PersistentVolume | PersistentVolumeClaim,
        annotations: dict[str, str | None],
        patch: Plain,
    ) -> None:
        meta = thing.metadata
        version = {"resourceVersion": meta.resource_version} if meta.resource_version else {}
        noted: Plain = {"annotations": annotations} if annotations else {}
        body = {**patch, "metadata": {**version, **noted}}
        request = ("PATCH", object_path(kind, meta.namespace, meta.name), body, MERGE_PATCH)
        key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
        self.lanes.add(meta.uid or key, partial(self._attempt, call, key, request))

    async def _attempt(
        self,
        call: str,
        key: str,
        request: tuple[str, str, Plain, str],
        *,
        gone_is_fine: bool = False,
        failed: ClusterError | None = None,
    ) -> None:
        method, path, body, content_type = request
        unversioned = method == "PATCH" and "resourceVersion" not in body["metadata"]
        for tries_left in reversed(range(CONFLICTS if unversioned else 1)):
            first, failed = failed, None
            try:
                await self._api.request(
                    method,
                    path,
                    body,
                    content_type=content_type,
                    repeatable=True,
                    check=self._check_lead,
                    failed=first,
                )
            except ClusterError as error:
                if _gone(error) and gone_is_fine:
                    return
                if tries_left and not _gone(error) and _conflict(error):
                    continue
                self._failed(call, key, error)
            return


def _gone(error: ClusterError) -> bool:
    """Return whether an error means that the object is deleted."""
    return isinstance(error, ApiError) and (error.code == NOT_FOUND or is_another(error))


def _conflict(error: ClusterError) -> bool:
    return isinstance(error, ApiError) and error.code == CONFLICT


def _reference(pod: PodInfo) -> Reference:
    version = pod.pod.metadata.resource_version
    return Reference("Pod", pod.namespace, pod.name, pod.uid, resource_version=version)
