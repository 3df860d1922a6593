"""Recorded cycles of Kueue: their file form, and what a policy of ours decides in their place.

A record is one line of a ``.jsonl`` file: objects of Kueue, and cycles. In a cycle each
ClusterQueue gives its first workload, and the record states which were admitted, and which were
marked as victims. Here a workload is one pod that requests what all of its pods do together; a
ResourceFlavor is a node that is large enough not to matter, with the flavor's labels and taints.

What decides is the scheduler as it is: its queue, with the policy's order of queues, its rules and
quotas, its preemption. What has no counterpart there is done as Kueue does it: only the first pod
of each queue is tried in a cycle; all of these are decided against one state, and what the first
ones get may leave no room for the others. Victims leave when the record has them leave, and wait
again with their old time; a workload that evicted others is tried again in the next cycle, and
holds nothing then.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from policy_sched import model
from policy_sched.client import ObjectRequest
from policy_sched.errors import Diagnostic, PolicyError
from policy_sched.manifests import ApiObject
from policy_sched.policytest.comparison import Deviation
from policy_sched.policytest.life import Bound, RecordingClient, decoded
from policy_sched.policytest.reader import WRONG_VALUE
from policy_sched.policytest.report import StepResult
from policy_sched.policytest.sequence import decoded_lines
from policy_sched.profiles.models import moment_of
from policy_sched.queue import SECOND, Timing
from policy_sched.scheduler import Attempt, Bind, Preempt, Reject, pod_gone, pod_seen
from policy_sched.scheduler.setup import assemble, read
from policy_sched.simulate import VirtualClock, leaving_form

POLICY: Final = "Cohorts"
"""The shipped policy that decides in Kueue's place."""
QUEUE_NAME: Final = "kueue.x-k8s.io/queue-name"
PODS: Final = "kueue.x-k8s.io/pods"
"""The resource of which a workload requests as many as it has pods, where its queue covers it."""
ENOUGH: Final = "1000000000"
MINUTE: Final = 60 * SECOND
DIFFERS: Final = "an earlier cycle differs"


class Admitted(msgspec.Struct, frozen=True, rename="camel"):
    """A workload that was admitted, and its pod sets with their counts and flavors."""

    workload: str
    pod_sets: list[dict[str, Any]] = []


class Preempted(msgspec.Struct, frozen=True):
    """A workload that was marked."""

    workload: str


class Cycle(msgspec.Struct, frozen=True):
    """What a cycle decided."""

    admitted: list[Admitted] = []
    preempted: list[Preempted] = []


class KueueConfig(msgspec.Struct, frozen=True, rename="camel"):
    """What of Kueue's Configuration decides."""

    fair_sharing: dict[str, Any] = {}


class KueueRecord(msgspec.Struct, frozen=True, rename="camel"):
    """Cycles of Kueue. ``eviction_cycles``: how many cycles after its own a victim leaves."""

    name: str
    family: str
    now: str
    eviction_cycles: int
    objects: list[dict[str, Any]]
    ops: list[dict[str, Any]]
    expect: list[Cycle]
    config: KueueConfig = KueueConfig()
    panic: str = ""


def load_kueue(path: str) -> list[tuple[int, KueueRecord]] | None:
    """Return the records of a file with their lines; None if the file is of another kind.

    Raises PolicyError with every line that is wrong, and OSError if the file cannot be read.
    """
    return decoded_lines(path, {"evictionCycles", "ops", "objects"}, KueueRecord)


class Decided(msgspec.Struct, frozen=True):
    """What was decided in a cycle: workloads with their flavor, and victims."""

    admitted: dict[str, str]
    preempted: list[str]


def run_kueue(file: str, record: KueueRecord, *, rounds: bool = True) -> list[StepResult]:
    """Run the cycles of a record; return one result for each.

    What follows the first cycle that differs is not compared.
    """
    results: list[StepResult] = []
    cycles = KueueCluster(file, record, rounds=rounds).cycles()
    differs = False
    for number, expected in enumerate(record.expect, start=1):
        name, started = f"cycle {number}", time.perf_counter()
        if differs:
            results.append(StepResult(file, record.name, name, (), skipped=DIFFERS))
            continue
        differences = tuple(_differences(expected, next(cycles)))
        differs = bool(differences)
        seconds = time.perf_counter() - started
        results.append(StepResult(file, record.name, name, differences, seconds=seconds))
    return results


def _differences(expected: Cycle, decided: Decided) -> Iterator[Deviation]:
    wanted = sorted(_words(entry) for entry in expected.admitted)
    flavors = {entry.workload: _flavors(entry) for entry in expected.admitted}
    ours = sorted(
        name if flavors.get(name, {flavor}) <= {flavor} else f"{name} ({flavor})"
        for name, flavor in decided.admitted.items()
    )
    if wanted != ours:
        yield Deviation("admitted", wanted, ours)
    victims = sorted(entry.workload for entry in expected.preempted)
    if victims != sorted(decided.preempted):
        yield Deviation("preempted", victims, sorted(decided.preempted))


def _words(entry: Admitted) -> str:
    """Return a workload's name, with its flavors where it has several."""
    flavors = _flavors(entry)
    several = f" ({', '.join(sorted(flavors))})" if len(flavors) > 1 else ""
    return entry.workload + several


def _flavors(entry: Admitted) -> set[str]:
    return {flavor for pod_set in entry.pod_sets for flavor in pod_set["flavors"].values()}


class KueueCluster:
    """A scheduler that lives through a record. Raises PolicyError if an object is wrong."""

    def __init__(self, file: str, record: KueueRecord, *, rounds: bool = True) -> None:
        """``rounds``: the heads of a cycle are decided against one state, else one by one."""
        self._rounds, self._fair = rounds, bool(record.config.fair_sharing.get("enable"))
        self._record, self._file = record, file
        self._start = moment_of(record.now)
        self._clock = VirtualClock(self._start)
        self._client = RecordingClient()
        plans, _ = read(_configuration(record), ())
        self._covers_pods = {
            name: any("pods" in group["coveredResources"] for group in spec["resourceGroups"])
            for name, spec in self._specs("ClusterQueue")
        }
        self._queues = {name: spec["clusterQueue"] for name, spec in self._specs("LocalQueue")}
        kueue_objects = [
            self._custom(manifest)
            for manifest in record.objects
            if manifest["kind"] not in ("Workload", "ResourceFlavor")
        ]
        self._scheduler = assemble(
            plans,
            objects=kueue_objects,
            client=self._client,
            now=self._clock,
            all_nodes=True,
            timing=Timing(unschedulable_timeout=24 * 60 * MINUTE),
        )
        self._client.objects = self._scheduler.handle.objects
        self._pods: dict[str, model.Pod] = {}
        """Pods that run or wait, by the workload's name."""
        self._leaving: list[list[str]] = [[] for _ in range(record.eviction_cycles + 1)]
        """Victims, by how many cycles they stay."""
        self._off: dict[str, model.PodInfo] = {}
        """Those that make room in this cycle, by name."""
        for name, spec in self._specs("ResourceFlavor"):
            self._add_node(_node(name, spec, self._resources()))
        for manifest in record.objects:
            if manifest["kind"] == "Workload":
                self._add(manifest)

    def cycles(self) -> Iterator[Decided]:
        """Yield what is decided in each cycle."""
        number = 0
        for op in self._record.ops:
            if "add" in op:
                self._add(op["add"])
            elif "finish" in op:
                self._gone(op["finish"])
            else:
                self._clock.ns = self._start + number * MINUTE
                number += 1
                yield self._cycle()

    # Objects.

    def _specs(self, kind: str) -> Iterator[tuple[str, Any]]:
        for manifest in self._record.objects:
            if manifest["kind"] == kind:
                yield manifest["metadata"]["name"], manifest["spec"]

    def _resources(self) -> list[str]:
        added = [op["add"] for op in self._record.ops if "add" in op]
        workloads = [m for m in self._record.objects if m["kind"] == "Workload"]
        return sorted(
            {
                resource
                for workload in (*workloads, *added)
                for pod_set in workload["spec"]["podSets"]
                for resource in _container(pod_set)
            }
        )

    def _add_node(self, manifest: dict[str, Any]) -> None:
        node = self._decoded(manifest)
        assert isinstance(node, model.Node), "that is what a flavor becomes"
        self._scheduler.cache.add_node(node)

    def _decoded(self, manifest: dict[str, Any]) -> ApiObject:
        problems: list[Diagnostic] = []
        where = f"{self._record.name}: {manifest['metadata']['name']}"
        obj = decoded(manifest, Diagnostic(self._file, 1, 1, WRONG_VALUE, where), problems)
        if obj is None:
            raise PolicyError(problems)
        return obj

    def _custom(self, manifest: dict[str, Any]) -> model.CustomObject:
        manifest = _as_read(manifest)
        head = {key: manifest[key] for key in ("apiVersion", "kind", "metadata")}
        obj = msgspec.convert(head, model.CustomObject)
        obj.content = manifest
        return obj

    def _add(self, workload: dict[str, Any]) -> None:
        queue = self._queues[workload["spec"]["queueName"]]
        pod = self._decoded(_pod(workload, pods=self._covers_pods[queue]))
        assert isinstance(pod, model.Pod), "that is what a workload becomes"
        self._pods[pod.metadata.name] = pod
        pod_seen(self._scheduler, model.PodInfo.of(pod))

    def _gone(self, name: str) -> None:
        pod = self._pods.pop(name, None)
        if pod is None:
            return
        info, queue = model.PodInfo.of(pod), self._scheduler.queue
        pod_gone(self._scheduler, info)
        if not info.node_name:  # as in Kueue a waiting workload that goes wakes its tree, too
            trees = [*self._scheduler.handle.nodes.quotas.values()]
            parked = [
                other.info.uid
                for other in queue.unschedulable()
                if any(tree.tree_of(other.info) == tree.tree_of(info) for tree in trees)
            ]
            queue.activate(parked)

    # A cycle.

    def _cycle(self) -> Decided:
        scheduler, queue = self._scheduler, self._scheduler.queue
        queue.flush_backoff()
        heads: dict[str, model.QueuedPod] = {}
        for queued in queue.active():
            if not queue.why_held(queued.info.uid):
                heads.setdefault(queued.queue, queued)
        attempts = {
            queued.info.uid: Attempt(queued, scheduler.profiles[queued.info.scheduler_name])
            for queued in heads.values()
        }
        chosen = {}
        if self._rounds:
            chosen = {uid: scheduler.choose(attempt) for uid, attempt in attempts.items()}
        decided, again = Decided({}, []), []
        while attempts:
            uid = next(iter(attempts))
            if self._fair or not self._rounds:
                uid = next(q.info.uid for q in queue.active() if q.info.uid in attempts)
            attempt = attempts.pop(uid)
            if not self._rounds:
                decision = scheduler.choose(attempt)
            else:
                decision = chosen[uid]
                if not self._holds(decision, attempt):
                    continue  # it is ready, and goes again in the next cycle
            queue.pop_member(uid)
            scheduler.execute(attempt, decision)
            scheduler.run_due()
            if self._deliver(decided) or isinstance(decision, Preempt):
                again.append(uid)
        self._end(decided, again)
        return decided

    def _holds(self, decision: Any, attempt: Attempt) -> bool:
        """Return whether what was decided at first can be done after what others got since."""
        if isinstance(decision, Reject):
            return True
        cache, victims = self._scheduler.cache, list[model.PodInfo]()
        if isinstance(decision, Preempt):
            victims = [v for v in decision.victims if cache.pod(v.uid) is not None]
        for victim in victims:
            self._take_off(victim)
        fits = isinstance(self._scheduler.choose(Attempt(attempt.queued, attempt.profile)), Bind)
        if not fits:
            for victim in victims:
                cache.add_pod(victim)
                self._off.pop(victim.name)
        return fits

    def _take_off(self, victim: model.PodInfo) -> None:
        """Let a victim make room, until the end of the cycle."""
        if self._scheduler.cache.pod(victim.uid) is not None:
            self._scheduler.cache.remove_pod(victim)
            self._off[victim.name] = victim

    def _deliver(self, decided: Decided) -> bool:
        """Deliver what was written; return whether pods were evicted.

        The evictor holds the room that its victims make until the end of the cycle.
        """
        writes, self._client.writes = self._client.writes, []
        evicted = False
        for write in writes:
            if isinstance(write, Bound):
                pod = self._pods[write.pod.name] = model.running_form(
                    self._pods[write.pod.name], write.node, self._clock.ns
                )
                pod_seen(self._scheduler, model.PodInfo.of(pod))
                decided.admitted[write.pod.name] = write.node
            elif isinstance(write, ObjectRequest) and write.verb == "delete":
                evicted = True
                if write.name not in decided.preempted:
                    decided.preempted.append(write.name)
                    self._take_off(model.PodInfo.of(self._pods[write.name]))
        return evicted

    def _end(self, decided: Decided, again: Sequence[str]) -> None:
        """Let victims leave whose time has come; they wait again with their old time."""
        nominator = self._scheduler.handle.nominator
        for uid in [*nominator.node_by_uid]:
            nominator.clear(uid)
        for name in self._off:
            pod = self._pods[name]
            if len(self._leaving) > 1 and name in decided.preempted:
                pod = self._pods[name] = leaving_form(pod, self._clock.ns)
            self._scheduler.cache.add_pod(model.PodInfo.of(pod))
        self._off.clear()
        self._leaving[-1] += decided.preempted
        leave, self._leaving = self._leaving[0], [*self._leaving[1:], []]
        left = {name: self._pods[name] for name in leave if name in self._pods}
        for name in left:
            self._gone(name)
        for name, gone in left.items():
            pod = self._pods[name] = _waiting_form(gone)
            pod_seen(self._scheduler, model.PodInfo.of(pod))
        self._scheduler.queue.activate(again)


def _waiting_form(pod: model.Pod) -> model.Pod:
    """Return a pod as it waited before it was bound."""
    metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp=None)
    spec = msgspec.structs.replace(pod.spec, node_name="")
    return msgspec.structs.replace(pod, metadata=metadata, spec=spec, status=type(pod.status)())


def _configuration(record: KueueRecord) -> dict[str, Any]:
    fair = bool(record.config.fair_sharing.get("enable"))
    plugins = {
        "multiPoint": {"enabled": [{"name": POLICY}]},
        "queueSort": {"enabled": [{"name": POLICY}], "disabled": [{"name": "PrioritySort"}]},
        "postFilter": {"disabled": [{"name": "DefaultPreemption"}]},
    }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "plugins": plugins,
                "pluginConfig": [{"name": POLICY, "args": {"fairSharing": fair}}],
            }
        ],
    }


def _as_read(value: Any) -> Any:
    """Return an object of Kueue as the policy reads it: `pods` is a resource that pods request."""
    if isinstance(value, list):
        return [_as_read(part) for part in value]
    if not isinstance(value, dict):
        return PODS if value == "pods" else value
    return {key: _as_read(part) for key, part in value.items()}


def _container(pod_set: dict[str, Any]) -> dict[str, str]:
    (container,) = pod_set["template"]["spec"]["containers"]
    requests: dict[str, str] = container["resources"]["requests"]
    return requests


def _node(name: str, spec: dict[str, Any], resources: Sequence[str]) -> dict[str, Any]:
    """Return the node of a flavor; taints that the flavor itself tolerates are none."""
    own = [
        msgspec.convert(toleration, model.Toleration) for toleration in spec.get("tolerations", ())
    ]
    taints = [
        taint
        for taint in spec.get("nodeTaints", ())
        if not any(t.tolerates(taint["key"], taint.get("value", ""), taint["effect"]) for t in own)
    ]
    amounts = dict.fromkeys((*resources, "cpu", "pods", PODS), ENOUGH) | {"memory": "1Pi"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": spec.get("nodeLabels", {})},
        "spec": {"taints": taints},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def _pod(workload: dict[str, Any], *, pods: bool) -> dict[str, Any]:
    """Return one pod that requests what all pods of a workload do together."""
    metadata, spec = workload["metadata"], workload["spec"]
    total: dict[str, int] = {PODS: 0} if pods else {}
    node_spec: dict[str, Any] = {}
    for pod_set in spec["podSets"]:
        for name, amount in _container(pod_set).items():
            total[name] = total.get(name, 0) + model.units(name, amount) * pod_set["count"]
        if pods:
            total[PODS] += pod_set["count"]
        template = pod_set["template"]["spec"]
        node_spec.setdefault("nodeSelector", {}).update(template.get("nodeSelector", {}))
        for key in ("affinity", "tolerations"):
            if key in template:
                node_spec.setdefault(key, template[key])
    requests = {name: f"{n}m" if name == "cpu" else str(n) for name, n in total.items()}
    container = {"name": "c", "resources": {"requests": requests}}
    admission = workload.get("status", {}).get("admission")
    status: dict[str, Any] = {}
    if admission:
        flavors = admission["podSetAssignments"][0]["flavors"]
        node_spec["nodeName"] = next(iter(flavors.values()))
        (reserved,) = (
            condition["lastTransitionTime"]
            for condition in workload["status"]["conditions"]
            if condition["type"] == "QuotaReserved"
        )
        status = {"phase": "Running", "startTime": reserved}
        for condition in workload["status"]["conditions"]:
            if condition["type"] == "Evicted":
                metadata = {**metadata, "deletionTimestamp": condition["lastTransitionTime"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "labels": {QUEUE_NAME: spec["queueName"]}},
        "spec": {**node_spec, "priority": spec.get("priority", 0), "containers": [container]},
        "status": status,
    }
