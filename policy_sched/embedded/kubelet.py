"""The kubelets of all nodes, simulated: bound pods start, succeed, and leave when deleted.

Theory of operation: a bound pod is admitted if it fits beside the admitted pods of its node;
otherwise it fails at once, as a kubelet rejects it. An admitted pod starts after a while. It
succeeds after the time that its annotation names; without the annotation it runs on. A deleted pod
leaves when its grace period is over. Each pod has one timer, for what comes next. All else is read
from the pods' status, also after a restart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from policy_sched import model
from policy_sched.client.apimachinery import NODE, POD, SECOND, Stored, timestamp
from policy_sched.embedded.admission import set_condition
from policy_sched.embedded.controllers import KeyTimers, Over, RetryCounts
from policy_sched.embedded.store import DELETED, ENDED, DeleteOptions, Key, ObjectStore, StoreChange
from policy_sched.manifests import Plain

_BUILT_IN: Final = ("cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class AdmitFailure:
    """Why a pod may not run on a node."""

    reason: str
    message: str


class TakenResources:
    """Resources, ports and number of the pods on a node."""

    def __init__(self, pods: Iterable[model.PodInfo] = ()) -> None:
        self.pods = 0
        self.amounts: dict[str, int] = {}
        self.ports: Counter[model.HostPort] = Counter()
        for pod in pods:
            self.add(pod)

    def add(self, pod: model.PodInfo) -> None:
        """Add a pod."""
        self.pods += 1
        self.ports.update(pod.host_ports)
        for name, amount in pod.requests.items():
            self.amounts[name] = self.amounts.get(name, 0) + amount

    def remove(self, pod: model.PodInfo) -> None:
        """Remove an admitted pod."""
        self.pods -= 1
        for name, amount in pod.requests.items():
            self.amounts[name] -= amount
        for port in pod.host_ports:
            self.ports[port] -= 1
            if not self.ports[port]:
                del self.ports[port]


def rejection(pod: model.PodInfo, node: model.Node, usage: TakenResources) -> AdmitFailure | None:
    """Return why a node cannot take a pod beside those that are there, None if it can."""
    return next(_rejections(pod, node, usage), None)


def _rejections(
    pod: model.PodInfo, node: model.Node, usage: TakenResources
) -> Iterator[AdmitFailure]:
    yield from _insufficient(pod, node, usage)
    labels = node.metadata.labels
    if (pod.node_selector or pod.node_affinity is not None) and not (
        model.equality_selector(pod.node_selector).matches(labels)
        and model.required_matches(pod.node_affinity, labels, node.metadata.name)
    ):
        yield _failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    if model.ports_conflict(pod.host_ports, usage.ports):
        why = "node(s) didn't have free ports for the requested pod ports"
        yield _failed("NodePorts", why)
    for taint in node.spec.taints:
        if taint.effect == "NoExecute" and not model.tolerated(taint, pod.tolerations):
            why = "node(s) had taints that the pod didn't tolerate"
            yield _failed("TaintToleration", why)


def _insufficient(
    pod: model.PodInfo, node: model.Node, usage: TakenResources
) -> Iterator[AdmitFailure]:
    allocatable = node.status.allocatable
    yield from _short("pods", 1, usage.pods, allocatable)
    extended = sorted(pod.requests.keys() - set(_BUILT_IN))
    for name in (*_BUILT_IN, *extended):
        requested = pod.requests.get(name, 0)
        unknown = model.is_scalar_resource(name) and name not in allocatable
        if requested and not unknown:  # unknown scalar resources are not the kubelet's
            yield from _short(name, requested, usage.amounts.get(name, 0), allocatable)


def _short(
    name: str, requested: int, used: int, allocatable: Mapping[str, model.Amount]
) -> Iterator[AdmitFailure]:
    capacity = model.units(name, allocatable.get(name, 0))
    if requested > capacity - used:
        numbers = f"requested: {requested}, used: {used}, capacity: {capacity}"
        message = f"Node didn't have enough resource: {name}, {numbers}"
        yield AdmitFailure(f"OutOf{name}", f"Pod was rejected: {message}")


def _failed(name: str, why: str) -> AdmitFailure:
    return AdmitFailure(name, f"Pod was rejected: Predicate {name} failed: {why}")


_READY: Final = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")


def running(data: Plain, now: int) -> Plain:
    """Return a pod's status once all of its containers run."""
    status = dict(data.get("status") or {})
    status |= {"phase": "Running", "startTime": timestamp(now)}
    written = timestamp(now)
    others = [c for c in status.get("conditions") or () if c.get("type") not in _READY]
    status["conditions"] = others + [
        {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": written}
        for kind in _READY
    ]
    state = {"running": {"startedAt": timestamp(now)}}
    status["containerStatuses"] = _containers(data, state, ready=True)
    return status


def succeeded(data: Plain, now: int) -> Plain:
    """Return a pod's status once all of its containers have ended well."""
    status = dict(data.get("status") or {})
    status["phase"] = "Succeeded"
    for condition in _READY:
        ready = "True" if condition == "Initialized" else "False"
        reason = {} if condition == _READY[0] else {"reason": "PodCompleted"}
        set_condition(status, {"type": condition, "status": ready, **reason}, now)
    ended = {"exitCode": 0, "reason": "Completed", "finishedAt": timestamp(now)}
    started = status.get("startTime")
    state = {"terminated": ended | ({"startedAt": started} if started else {})}
    status["containerStatuses"] = _containers(data, state, ready=False)
    return status


def rejected(data: Plain, reason: str, message: str, now: int) -> Plain:
    """Return the status of a pod that its node does not take."""
    status = dict(data.get("status") or {})
    wanted = {"phase": "Failed", "reason": reason, "message": message}
    return status | wanted | {"startTime": timestamp(now)}


def _containers(data: Plain, state: Plain, *, ready: bool) -> list[Plain]:
    return [
        {
            "name": container.get("name", ""),
            "image": container.get("image", ""),
            "imageID": "",
            "ready": ready,
            "started": ready,
            "restartCount": 0,
            "state": state,
            "lastState": {},
        }
        for container in data["spec"].get("containers") or ()
    ]


TOGETHER: Final = 250
"""Pods that something happens to in one round; to the others in the next."""


@dataclass(frozen=True, slots=True)
class KubeletTimes:
    """How long things take on a node, in nanoseconds."""

    start: int = SECOND
    """From the binding until all containers run, image pulls included."""
    stop: int | None = None
    """Until a deleted pod has ended; None if it uses its whole grace period."""


@dataclass(slots=True)
class _PodState:
    """A pod that is bound to a node."""

    key: Key
    uid: str
    node: str
    info: model.PodInfo
    admitted: bool = False
    """Whether it uses resources of the node."""
    started: int | None = None
    """When its containers started, in nanoseconds."""
    leaves: int | None = None
    """When its grace period is over, in nanoseconds."""


@dataclass(slots=True)
class _NodeState:
    """A node and its pods."""

    api_object: model.Node | None = None
    """None while the node is not registered."""
    pods: dict[str, _PodState] = field(default_factory=dict)
    """The pods bound to it, by uid."""
    usage: TakenResources = field(default_factory=TakenResources)
    """Of its admitted pods."""

    def admit(self, state: _PodState) -> None:
        """Admit a pod, unless it is admitted."""
        if not state.admitted:
            state.admitted = True
            self.usage.add(state.info)

    def release(self, state: _PodState) -> None:
        """Remove the usage of a pod."""
        if state.admitted:
            state.admitted = False
            self.usage.remove(state.info)


_Then = Callable[["Kubelets", _PodState, Stored], None]


class Kubelets:
    """All kubelets of a cluster. `observe` notes changes, `run` does what is due."""

    kinds = frozenset({POD, NODE})

    def __init__(self, store: ObjectStore, times: KubeletTimes) -> None:
        self.times = times
        self._store = store
        self._nodes: dict[str, _NodeState] = {}
        self._pods: dict[str, _PodState] = {}
        self._next: dict[str, _Then] = {}
        self._timers: KeyTimers[str] = KeyTimers()
        self._retries: RetryCounts[Key] = RetryCounts("kubelet", store)

    def observe(self, change: StoreChange) -> None:
        """Apply a change of a pod or a node."""
        kind = change.new.resource.key
        if kind == POD:
            self._pod(change)
        elif kind == NODE:
            self._node(change)

    def next_wakeup(self) -> int | None:
        """Return when something is due next."""
        return self._timers.next()

    def run(self, over: Over) -> bool:
        """Do what is due; return whether anything was."""
        acted = False
        for uid in islice(self._timers.expired(self._store.now()), TOGETHER):
            state, then = self._pods[uid], self._next.pop(uid)
            stored = self._store.find(POD, state.key.namespace, state.key.name)
            acted = True
            if stored is not None and stored.uid == uid:
                self._do(state, then, stored)
            if over():
                break
        return acted

    def _do(self, state: _PodState, then: _Then, stored: Stored) -> None:
        try:
            then(self, state, stored)
        except Exception as error:  # noqa: BLE001 - one pod, of whatever content, is contained
            self._then(state, then, self._retries.failed(state.key, error))
        else:
            self._retries.succeeded(state.key)

    # What happened.

    def _node(self, change: StoreChange) -> None:
        name = change.new.name
        node = self._nodes.setdefault(name, _NodeState())
        arrived = node.api_object is None
        typed = change.new.typed
        assert isinstance(typed, model.Node)
        node.api_object = None if change.type == DELETED else typed
        if node.api_object is None:
            for uid, state in node.pods.items():
                node.release(state)
                self._wait(uid)
            if not node.pods:
                del self._nodes[name]
        elif arrived:
            for state in list(node.pods.values()):
                stored = self._store.find(POD, state.key.namespace, state.key.name)
                if stored is not None and stored.uid == state.uid:
                    self._plan(state, stored)

    def _pod(self, change: StoreChange) -> None:
        stored = change.new
        uid, pod = stored.uid, stored.typed
        assert isinstance(pod, model.Pod)
        if change.type == DELETED:
            self._drop(uid)
            return
        if not pod.spec.node_name:
            return
        state = self._pods.get(uid)
        if state is None:
            key = Key(POD, stored.namespace, stored.name)
            state = _PodState(key, uid, pod.spec.node_name, model.PodInfo.of(pod))
            self._pods[uid] = state
            self._nodes.setdefault(state.node, _NodeState()).pods[uid] = state
        self._plan(state, stored)

    def _drop(self, uid: str) -> None:
        self._wait(uid)
        state = self._pods.pop(uid, None)
        if state is not None:
            node = self._nodes[state.node]
            node.release(state)
            del node.pods[uid]
            if node.api_object is None and not node.pods:
                del self._nodes[state.node]

    def _wait(self, uid: str) -> None:
        self._timers.clear(uid)
        self._next.pop(uid, None)

    # What follows.

    def _plan(self, state: _PodState, stored: Stored) -> None:
        """Set what happens next with a pod, and when."""
        node, pod = self._nodes[state.node], stored.typed
        assert isinstance(pod, model.Pod)
        if node.api_object is None:
            return
        phase, now = pod.status.phase, self._store.now()
        if phase in ENDED:
            node.release(state)
        elif phase == "Running":
            node.admit(state)
            if state.started is None:
                state.started = model.nanoseconds(pod.status.start_time) or now
        if stored.deleting:
            self._plan_leaving(state, stored)
        elif phase in ENDED:
            self._wait(state.uid)
        elif phase == "Running":
            duration = _duration(pod)
            if duration is not None and state.started is not None:
                self._then(state, Kubelets._succeed, state.started + duration)
        elif not state.admitted:
            if rejection(state.info, node.api_object, node.usage) is not None:
                self._then(state, Kubelets._reject, now)
            else:
                node.admit(state)
                self._then(state, Kubelets._start, now + self.times.start)

    def _plan_leaving(self, state: _PodState, stored: Stored) -> None:
        """End a deleted pod after its grace period.

        Its deletion time is written in whole seconds, rounded down. So a pod that was deleted
        before a restart may stay up to a second longer. A second deletion may shorten the time.
        """
        now = self._store.now()
        grace = int(stored.data["metadata"].get("deletionGracePeriodSeconds") or 0) * SECOND
        if not grace:
            self._wait(state.uid)  # it has left; finalizers keep what is written of it
            return
        stop = grace if self.times.stop is None else min(grace, self.times.stop)
        written = model.nanoseconds(stored.typed.metadata.deletion_timestamp) + SECOND
        leaves = min(now + stop, written)
        state.leaves = leaves if state.leaves is None else min(state.leaves, leaves)
        self._then(state, Kubelets._leave, state.leaves)

    def _then(self, state: _PodState, then: _Then, due: int) -> None:
        if self._next.get(state.uid) is not then or then is Kubelets._leave:
            self._next[state.uid] = then
            self._timers.set(state.uid, due)

    # What is done.

    def _start(self, state: _PodState, stored: Stored) -> None:
        now = self._store.now()
        state.started = now
        data = stored.data
        self._write(stored, data, running(data, now))

    def _succeed(self, state: _PodState, stored: Stored) -> None:  # noqa: ARG002 - one signature for all
        data = stored.data
        self._write(stored, data, succeeded(data, self._store.now()))

    def _reject(self, state: _PodState, stored: Stored) -> None:
        node = self._nodes[state.node]
        assert node.api_object is not None
        why = rejection(state.info, node.api_object, node.usage)
        if why is None:
            self._plan(state, stored)
            return
        data, now = stored.data, self._store.now()
        self._write(stored, data, rejected(data, why.reason, why.message, now))

    def _leave(self, state: _PodState, stored: Stored) -> None:
        self._nodes[state.node].release(state)
        self._store.delete(state.key, DeleteOptions(grace_seconds=0, uid=stored.uid))

    def _write(self, stored: Stored, data: Plain, status: Plain) -> None:
        data["status"] = status
        self._store.revise(stored, data)


def _duration(pod: model.Pod) -> int | None:
    """Return how long a pod runs, None if it does not say, or not in a way that is understood."""
    text = pod.metadata.annotations.get(model.DURATION_ANNOTATION)
    if text is None:
        return None
    try:
        return model.nanoseconds_of(text)
    except ValueError:
        return None
