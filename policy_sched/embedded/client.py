"""EmbeddedClient: the scheduler's client whose cluster is in this process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from policy_sched.client import Done, ObjectRequest, ObjectResponse
from policy_sched.client.apimachinery import Key, Stored, is_gone
from policy_sched.embedded.cluster import EmbeddedCluster
from policy_sched.embedded.events import NOTE_LIMIT, Occurrence
from policy_sched.embedded.store import MERGE, STRATEGIC, DeleteOptions, evict
from policy_sched.errors import ClusterError
from policy_sched.manifests import Plain
from policy_sched.model import PodInfo

Fault = Callable[[str, str], ClusterError | None]
"""Asked before each call with its name and the object's key; what it returns is what happens."""

Beside = Callable[[Callable[[], None], Callable[[], None]], None]
"""Runs a call that may take long, and a second one afterwards in the cluster's own thread."""


def no_fault(call: str, key: str) -> None:
    """Let every call through."""


def _at_once(call: Callable[[], None], done: Callable[[], None]) -> None:
    call()
    done()


class EmbeddedClient:
    """Carries decisions out on an `EmbeddedCluster`.

    ``latency``: nanoseconds that a binding takes; it is done by a step of the cluster then,
    and at once if that is 0. ``fault``: for tests, called before each call. A call that fails
    raises ClusterError, but a binding calls back with it. ``beside`` runs what is delegated.
    """

    def __init__(
        self,
        cluster: EmbeddedCluster,
        *,
        latency: int = 0,
        fault: Fault = no_fault,
    ) -> None:
        self.cluster = cluster
        self.latency = latency
        self.fault = fault
        self._store = cluster.store
        self.beside: Beside = _at_once

    def bind(self, pod: PodInfo, node: str, done: Done) -> None:
        """Bind the pod (by UID) to the node; `done` is called with the result."""
        if self.latency:
            due = self._store.now() + self.latency
            self.cluster.later(due, partial(self._bind_and_tell, pod, node, done))
        else:
            self._bind_and_tell(pod, node, done)

    def _bind_and_tell(self, pod: PodInfo, node: str, done: Done) -> None:
        binding = {"metadata": {"name": pod.name, "uid": pod.uid}, "target": {"name": node}}
        failed: ClusterError | None = None
        try:
            self._ask("bind", pod.key)
            self._store.bind(pod.namespace, pod.name, binding)
        except ClusterError as error:
            failed = error
        done(failed)

    def delegate(self, pod: PodInfo, work: Callable[[], None], done: Done) -> None:  # noqa: ARG002 - see Client
        """Run the work; ``done`` is called afterwards."""
        self.beside(work, partial(done, None))

    def record_event(
        self,
        pod: PodInfo,
        kind: str,
        reason: str,
        action: str,
        note: str,
        related: PodInfo | None = None,
    ) -> None:
        """Record an event about the pod; a note that is too long is cut."""
        self._ask("record_event", pod.key)
        if len(note) > NOTE_LIMIT:
            note = f"{note[: NOTE_LIMIT - 4]} ..."
        about = ("Pod", pod.namespace, pod.name, pod.uid)
        other = None if related is None else ("Pod", related.namespace, related.name, related.uid)
        reporter = (related or pod).scheduler_name
        self.cluster.events.record(
            Occurrence(about, reporter, kind, reason, action, note, other),
        )

    def send(self, request: ObjectRequest, done: ObjectResponse | None = None) -> None:
        """Carry the request out, and call `done` at once."""
        stored: Stored | None = None
        refusal: ClusterError | None = None
        try:
            self._ask(request.call, request.key)
            stored = self._execute(request)
        except ClusterError as error:
            if not (request.ignore_not_found and is_gone(error)):
                refusal = error
        if done is not None:
            if stored is None or request.verb == "delete":
                done(None, refusal)
            else:
                done(msgspec.convert(stored.data, request.kind), None)
        elif refusal is not None:
            raise refusal

    # Inside.

    def _execute(self, request: ObjectRequest) -> Stored:
        key = Key(request.api_kind, request.namespace, request.name)
        if request.verb == "get":
            return self._store.get(key.kind, key.namespace, key.name)
        if request.subresource == "eviction":
            return evict(self._store, key, DeleteOptions(uid=request.uid))
        if request.verb == "delete":
            return self._store.delete(key, DeleteOptions(uid=request.uid))
        body: Plain = msgspec.to_builtins(request.body)
        if request.verb == "create":
            version, kind = request.api_kind
            return self._store.create({"apiVersion": version, "kind": kind, **body})
        if request.uid:
            body["metadata"] = {**body.get("metadata", {}), "uid": request.uid}
        content_type = STRATEGIC if request.strategic else MERGE
        return self._store.patch(key, body, content_type, request.subresource)

    def _ask(self, call: str, key: str) -> None:
        error = self.fault(call, key)
        if error is not None:
            raise error
