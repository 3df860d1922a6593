"""EmbeddedClient: the scheduler's client whose cluster is in this process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from policy_sched.client import Done, ObjectRequest, ObjectResponse
from policy_sched.client.apimachinery import CLAIM, GROUP, POD, VOLUME, Stored, resource
from policy_sched.embedded.admission import not_found, set_condition
from policy_sched.embedded.cluster import EmbeddedCluster
from policy_sched.embedded.events import NOTE_LIMIT, Occurrence
from policy_sched.embedded.store import MERGE, STRATEGIC, DeleteOptions, Key
from policy_sched.errors import ClusterError
from policy_sched.manifests import Plain
from policy_sched.model import SCHEDULED as GROUP_SCHEDULED
from policy_sched.model import PersistentVolume, PersistentVolumeClaim, PodGroup, PodInfo

Fault = Callable[[str, str], ClusterError | None]
"""Asked before each call with its name and the object's key; what it returns is what happens."""

Beside = Callable[[Callable[[], None], Callable[[], None]], None]
"""Runs a call that may take long, and a second one afterwards in the cluster's own thread."""

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"


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
        reporter: str = "default-scheduler",
        latency: int = 0,
        fault: Fault = no_fault,
    ) -> None:
        self.cluster = cluster
        self.reporter = reporter
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

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Set status.nominatedNodeName."""
        self._ask("nominate", pod.key)
        self._set_status(self._pod(pod), None, node)

    def set_unschedulable(
        self, pod: PodInfo, reason: str, message: str, nominated: str | None = None
    ) -> None:
        """Set condition PodScheduled=False; ``nominated`` as nominatedNodeName unless None."""
        self._ask("set_unschedulable", pod.key)
        condition = {"type": "PodScheduled", "status": "False"}
        condition |= {"reason": reason, "message": message}
        self._set_status(self._pod(pod), condition, nominated)

    def clear_nomination(self, pod: PodInfo) -> None:
        """Empty status.nominatedNodeName."""
        self._ask("clear_nomination", pod.key)
        self._set_status(self._pod(pod), None, "")

    def set_group_scheduled(
        self, group: PodGroup, reason: str, message: str, *, scheduled: bool
    ) -> None:
        """Set condition PodGroupScheduled; a deleted group is no error."""
        namespace, name = group.metadata.namespace or "default", group.metadata.name
        self._ask("set_group_scheduled", f"{namespace}/{name}")
        stored = self._store.find(GROUP, namespace, name)
        if stored is None or stored.uid != group.metadata.uid:
            return
        condition = {"type": GROUP_SCHEDULED, "status": str(scheduled)}
        condition |= {"reason": reason, "message": message}
        data = stored.data
        if data["metadata"].get("generation"):
            condition["observedGeneration"] = data["metadata"]["generation"]
        status = data["status"] = data.get("status") or {}
        set_condition(status, condition, self._store.now())
        for one in status["conditions"]:
            one.pop("lastProbeTime", None)  # a pod's condition has it, no other does
        self._store.revise(stored, data)

    def set_disruption_target(self, pod: PodInfo, message: str) -> None:
        """Set condition DisruptionTarget=True; a deleted pod is no error."""
        self._ask("set_disruption_target", pod.key)
        stored = self._find(pod)
        if stored is not None:
            condition = {"type": "DisruptionTarget", "status": "True"}
            condition |= {"reason": "PreemptionByScheduler", "message": message}
            self._set_status(stored, condition, None)

    def delete_pod(self, pod: PodInfo) -> None:
        """Delete the pod (by UID), gracefully; a deleted one is no error."""
        self._ask("delete_pod", pod.key)
        stored = self._find(pod)
        if stored is not None:
            options = DeleteOptions(uid=stored.uid)
            self._store.delete(Key(POD, pod.namespace, pod.name), options)

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

    def update_volume(self, volume: PersistentVolume) -> None:
        """Write for which claim a volume is kept."""
        name, reference = volume.metadata.name, volume.spec.claim_ref
        self._ask("update_volume", name)
        patch: Plain = {"spec": {"claimRef": None}}
        if reference is not None:
            patch["spec"]["claimRef"] = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": reference.namespace,
                "name": reference.name,
                "uid": reference.uid,
            }
            patch["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
        self._patch(Key(VOLUME, "", name), volume.metadata.resource_version, patch)

    def update_claim(self, claim: PersistentVolumeClaim) -> None:
        """Write for which node a claim's volume is to be made."""
        meta = claim.metadata
        namespace = meta.namespace or "default"
        self._ask("update_claim", f"{namespace}/{meta.name}")
        ours = {SELECTED_NODE: meta.annotations.get(SELECTED_NODE)}
        key = Key(CLAIM, namespace, meta.name)
        self._patch(key, meta.resource_version, {"metadata": {"annotations": ours}})

    def send(self, request: ObjectRequest, done: ObjectResponse) -> None:
        """Carry the request out, and call `done` at once."""
        key = Key(request.api_kind, request.namespace, request.name)
        try:
            self._ask(request.verb, f"{request.namespace}/{request.name}")
            response = self._carried_out(key, request)
        except ClusterError as error:
            done(None, error)
            return
        deleted = request.verb == "delete"
        done(None if deleted else msgspec.convert(response.data, request.kind), None)

    # Inside.

    def _carried_out(self, key: Key, request: ObjectRequest) -> Stored:
        if request.verb == "get":
            return self._store.get(key.kind, key.namespace, key.name)
        if request.verb == "delete":
            return self._store.delete(key)
        body: Plain = msgspec.to_builtins(request.body)
        if request.verb == "create":
            version, kind = request.api_kind
            return self._store.create({"apiVersion": version, "kind": kind, **body})
        content_type = STRATEGIC if request.strategic else MERGE
        return self._store.patch(key, body, content_type, request.subresource)

    def _ask(self, call: str, key: str) -> None:
        error = self.fault(call, key)
        if error is not None:
            raise error

    def _find(self, pod: PodInfo) -> Stored | None:
        stored = self._store.find(POD, pod.namespace, pod.name)
        return stored if stored is not None and stored.uid == pod.uid else None

    def _pod(self, pod: PodInfo) -> Stored:
        stored = self._find(pod)
        if stored is None:
            raise not_found(resource(POD), pod.name)
        return stored

    def _set_status(self, stored: Stored, condition: Plain | None, nominated: str | None) -> None:
        data = stored.data
        status = data["status"] = data.get("status") or {}
        if condition is not None:
            if data["metadata"].get("generation"):
                condition["observedGeneration"] = data["metadata"]["generation"]
            set_condition(status, condition, self._store.now())
        if nominated:
            status["nominatedNodeName"] = nominated
        elif nominated is not None:
            status.pop("nominatedNodeName", None)
        self._store.revise(stored, data)

    def _patch(self, key: Key, version: str, patch: Plain) -> None:
        """Patch an object whose version must still be the one that the decision was made on."""
        if version:
            patch["metadata"] = {**patch.get("metadata", {}), "resourceVersion": version}
        self._store.patch(key, patch)
