"""Expands the workloads of manifests to the pods that their controllers would create.

Theory of operation. Input objects stay as they are, in their order, and each workload is
followed by the objects that its controller creates. Pods that a workload owns already are counted
by their owner references; only missing ones are created. A Deployment creates a ReplicaSet (or uses
an existing one), which creates the pods. Form and names of new objects are those of
manifests/workload_expansion.py: the same manifests give the same names.

Work of controllers over time is not simulated: a StatefulSet's pods exist all at once, surplus
pods are not deleted, and a Deployment with pods of an older template is scaled, not rolled out.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, repeat
from typing import Any, Final, TypeVar

import msgspec

from policy_sched import manifests, model
from policy_sched.manifests import workload_expansion as expansion
from policy_sched.model import job_indexes
from policy_sched.scheduler.setup import ENDED


def active(pod: model.Pod) -> bool:
    """Return whether a pod counts for its controller: it has not ended and is not terminating."""
    return pod.status.phase not in ENDED and pod.metadata.deletion_timestamp is None


def daemon_nodes(pod: model.Pod) -> frozenset[str]:
    """Return the node that a daemon's pod runs on or was created for."""
    if pod.spec.node_name:
        return frozenset({pod.spec.node_name})
    affinity = pod.spec.affinity
    names = model.required_node_names(affinity.node_affinity) if affinity is not None else None
    return names or frozenset()


def same_template(template: model.PodTemplate, other: model.PodTemplate) -> bool:
    """Return whether two templates are equal, apart from the label that the controller adds."""
    if template.spec != other.spec or template.metadata.annotations != other.metadata.annotations:
        return False
    labels, others = dict(template.metadata.labels), dict(other.metadata.labels)
    labels.pop(manifests.TEMPLATE_HASH, None)
    others.pop(manifests.TEMPLATE_HASH, None)
    return labels == others


#: Conditions of a job that creates no more pods.
OVER: Final = frozenset({"Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"})


def missing_of_job(job: model.Job, pods: Sequence[model.Pod]) -> Iterator[int | None]:
    """Yield the completion index of each missing pod, None where pods have none.

    ``pods``: the job's own, of any phase.
    """
    spec, status = job.spec, job.status
    if spec.suspend or any(c.type in OVER and c.status == "True" for c in status.conditions):
        return
    running = [pod for pod in pods if active(pod)]
    done = [pod for pod in pods if pod.status.phase == "Succeeded"]
    succeeded = max(status.succeeded, len(done))
    at_a_time = 1 if spec.parallelism is None else spec.parallelism
    if spec.completions is None and spec.parallelism is not None:
        # A work queue: once one pod has succeeded the others finish, and none is created.
        wanted = at_a_time if not succeeded else 0
    else:
        completions = 1 if spec.completions is None else spec.completions
        wanted = min(at_a_time, completions - succeeded)
    missing = max(0, wanted - len(running))
    if spec.completion_mode != "Indexed" or spec.completions is None:
        yield from repeat(None, missing)
        return
    taken = {_index(pod) for pod in (*running, *done)}
    runs = job_indexes.runs_of(status.completed_indexes, spec.completions)
    yield from islice(job_indexes.open_indexes(runs, taken, spec.completions), missing)


def _index(pod: model.Pod) -> int:
    text = pod.metadata.labels.get(manifests.JOB_INDEX) or pod.metadata.annotations.get(
        manifests.JOB_INDEX, ""
    )
    return int(text) if text.isdecimal() else -1


T = TypeVar("T", bound=model.ApiObject)
Key = tuple[str, str, str]
"""Namespace, kind and name."""

UIDS: Final = uuid.UUID("0f2b6c3a-5d0e-5f67-9f55-3f1f5a3b6d11")
"""UUID namespace for workloads without a uid."""


def expand(
    objects: Iterable[model.ApiObject], cluster: Sequence[model.ApiObject] = ()
) -> list[model.ApiObject]:
    """Return the objects, each workload followed by the objects that its controller creates.

    A workload without a template, or one that is being deleted, creates nothing. The priority and
    runtime classes of ``cluster`` apply as well. Raises ExpansionError.
    """
    given = list(objects)
    if not any(isinstance(obj, model.Workload) for obj in given):
        return given
    most = len(given) + manifests.MOST_PODS
    expansion = _Expansion(given, cluster)
    expanded: list[model.ApiObject] = []
    for given_object in given:
        expanded.append(given_object)
        if isinstance(given_object, model.Workload):
            what = (
                f"{type(given_object).__name__} {'/'.join(manifests.object_key(given_object)[1:])}"
            )
            try:
                expanded += islice(expansion.made(given_object), manifests.MOST_PODS + 1)
            except model.RejectedError as error:
                raise ExpansionError(f"{what}: {error}") from None
            if len(expanded) > most:
                allowed = f"the {manifests.MOST_PODS} pods that a cluster may have"
                why = f"the workloads make more than {allowed}"
                raise ExpansionError(f"{what}: {why}")
    return expanded


class ExpansionError(ValueError):
    """Workloads with more pods than a cluster supports, or with invalid pods."""


class _Expansion:
    """The existing objects, and those that workloads add."""

    def __init__(
        self, given: Sequence[model.ApiObject], cluster: Sequence[model.ApiObject]
    ) -> None:
        self._keys = {manifests.object_key(obj) for obj in given}
        self._nodes = [
            given_object for given_object in given if isinstance(given_object, model.Node)
        ]
        self._admission = manifests.Admission([*cluster, *given])
        self._pods: defaultdict[Key, list[tuple[str, model.Pod]]] = defaultdict(list)
        self._sets: defaultdict[Key, list[tuple[str, model.ReplicaSet]]] = defaultdict(list)
        for given_object in given:
            owner = _controller(given_object)
            if owner is None:
                continue
            key = _namespace(given_object), owner.kind, owner.name
            if isinstance(given_object, model.Pod):
                self._pods[key].append((owner.uid, given_object))
            elif isinstance(given_object, model.ReplicaSet):
                self._sets[key].append((owner.uid, given_object))
        self._orphans: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self._count_orphans()
        self._scaled: dict[Key, int] = {}
        self._new_sets: dict[Key, model.ReplicaSet] = {}
        for given_object in given:
            if isinstance(given_object, model.Deployment) and _makes(given_object):
                self._scale(given_object)

    def made(self, workload: model.Workload) -> Iterator[model.ApiObject]:
        """Yield the objects that a workload's controller creates when the workload is created."""
        created = workload.metadata.creation_timestamp
        for new in self._made(workload):
            new.metadata.creation_timestamp = created
            yield new

    def _made(self, workload: model.Workload) -> Iterator[model.ApiObject]:
        if isinstance(workload, model.Deployment):
            new = self._new_sets.get(_key(workload))
            if new is not None:
                yield new
                yield from self._replicas(new, new.spec.replicas)
            return
        if not _makes(workload):
            return
        match workload:
            case model.ReplicaSet():
                yield from self._replicas(
                    workload, self._scaled.get(_key(workload), workload.spec.replicas)
                )
            case model.ReplicationController():
                yield from self._replicas(workload, workload.spec.replicas)
            case model.StatefulSet():
                yield from self._stateful(workload)
            case model.DaemonSet():
                yield from self._daemons(workload)
            case model.Job():
                yield from self._job(workload)

    def _owned(self, workload: model.Workload) -> list[model.Pod]:
        return _of_owner(workload, self._pods[_key(workload)])

    def _count_orphans(self) -> None:
        """Count the pods of absent replica sets by deployment and template hash.

        The owner name of such a pod consists of the deployment's name and the hash.
        """
        for (namespace, kind, owner), pods in self._pods.items():
            if kind != "ReplicaSet" or (kind, namespace, owner) in self._keys:
                continue
            for _, pod in pods:
                digest = pod.metadata.labels.get(expansion.TEMPLATE_HASH, "")
                if digest and owner.endswith(f"-{digest}"):
                    deployment = owner.removesuffix(f"-{digest}")
                    self._orphans[namespace, deployment][digest] += active(pod)

    def _scale(self, deployment: model.Deployment) -> None:
        """Find the replica set for the missing replicas; create one if needed."""
        namespace, _, name = _key(deployment)
        sets = _of_owner(deployment, self._sets[_key(deployment)])
        wanted = max(0, deployment.spec.replicas) - sum(max(0, s.spec.replicas) for s in sets)
        template = deployment.spec.template
        assert template is not None, "a workload without a template makes nothing"
        for replica_set in sets:
            own = replica_set.spec.template
            if own is not None and same_template(own, template):
                self._scaled[_key(replica_set)] = max(0, replica_set.spec.replicas) + max(0, wanted)
                return
        if sets and wanted <= 0:
            return
        counts = self._orphans[namespace, name]
        fingerprint = next(reversed(counts), "")
        others = sum(counts.values()) - counts[fingerprint]
        plain = expansion.replica_set_of(_plain(deployment), max(0, wanted - others), fingerprint)
        new = msgspec.convert(plain, model.ReplicaSet)
        self._new_sets[_key(deployment)] = msgspec.convert(_plain(new), model.ReplicaSet)

    def _replicas(
        self, workload: model.ReplicaSet | model.ReplicationController, replicas: int
    ) -> Iterator[model.ApiObject]:
        missing = replicas - sum(map(active, self._owned(workload)))
        if missing <= 0:
            return
        plain = _plain(workload)
        owner, template = expansion.Owner.of(plain), expansion.template_of(plain)
        first = self._completed(expansion.replica(owner, template, "0"))
        for name in self._free_names(owner, owner.name, missing):
            metadata = msgspec.structs.replace(first.metadata, name=name)
            yield msgspec.structs.replace(first, metadata=metadata)

    def _free_names(self, owner: expansion.Owner, base: str, count: int) -> Iterator[str]:
        """Yield generated names that no pod has."""
        seed = 0
        for _ in range(count):
            name = expansion.generated_name(base, str(seed))
            while ("Pod", owner.namespace, name) in self._keys:
                seed += 1
                name = expansion.generated_name(base, str(seed))
            seed += 1
            self._keys.add(("Pod", owner.namespace, name))
            yield name

    def _stateful(self, workload: model.StatefulSet) -> Iterator[model.ApiObject]:
        plain, start, namespace = (
            _plain(workload),
            workload.spec.ordinals.start,
            _namespace(workload),
        )
        for ordinal in range(start, start + max(0, workload.spec.replicas)):
            for claim in expansion.stateful_claims(plain, ordinal):
                key = "PersistentVolumeClaim", namespace, claim["metadata"]["name"]
                if key not in self._keys:
                    self._keys.add(key)
                    yield msgspec.convert(claim, model.PersistentVolumeClaim)
            name = expansion.stateful_name(workload.metadata.name, ordinal)
            if ("Pod", namespace, name) not in self._keys:
                self._keys.add(("Pod", namespace, name))
                yield self._completed(expansion.stateful_pod(plain, ordinal))

    def _daemons(self, workload: model.DaemonSet) -> Iterator[model.ApiObject]:
        plain = _plain(workload)
        candidate = msgspec.convert(expansion.daemon_candidate(plain), model.Pod)
        served = {
            name for pod in self._owned(workload) if active(pod) for name in daemon_nodes(pod)
        }
        for node in self._nodes:
            name = node.metadata.name
            if name not in served and manifests.should_run(candidate, node):
                pod = expansion.daemon_pod(plain, name)
                owner, base = expansion.Owner.of(plain), workload.metadata.name
                if ("Pod", owner.namespace, pod["metadata"]["name"]) in self._keys:
                    pod["metadata"]["name"] = next(self._free_names(owner, f"{base}-{name}", 1))
                self._keys.add(("Pod", owner.namespace, pod["metadata"]["name"]))
                yield self._completed(pod)

    def _job(self, job: model.Job) -> Iterator[model.ApiObject]:
        plain = _plain(job)
        owner = expansion.Owner.of(plain)
        for index in missing_of_job(job, self._owned(job)):
            base = owner.name if index is None else f"{owner.name}-{index}"
            pod = expansion.job_pod(plain, "0", index)
            pod["metadata"]["name"] = next(self._free_names(owner, base, 1))
            yield self._completed(pod)

    def _completed(self, pod: dict[str, Any]) -> model.Pod:
        """Return a pod with the API server's defaults."""
        decoded = msgspec.convert(pod, model.Pod)
        self._admission.complete(decoded)
        return decoded


def _makes(workload: model.Workload) -> bool:
    return workload.spec.template is not None and workload.metadata.deletion_timestamp is None


def _namespace(obj: model.ApiObject) -> str:
    return obj.metadata.namespace or "default"


def _key(workload: model.Workload) -> Key:
    return _namespace(workload), workload.kind or type(workload).__name__, workload.metadata.name


def _controller(obj: model.ApiObject) -> model.OwnerReference | None:
    for reference in obj.metadata.owner_references:
        if reference.controller:
            return reference
    return None


def _of_owner(owner: model.Workload, named: Iterable[tuple[str, T]]) -> list[T]:
    """Return the objects with this owner; the uid excludes an older one of the same name."""
    own = owner.metadata.uid
    return [obj for uid, obj in named if not (uid and own) or uid == own]


def _plain(workload: model.Workload) -> dict[str, Any]:
    """Return a workload as plain data; one without a uid gets a uid derived from its name."""
    plain: dict[str, Any] = msgspec.to_builtins(workload)
    plain["apiVersion"] = workload.api_version
    namespace, plain["kind"], name = _key(workload)
    if not workload.metadata.uid:
        plain["metadata"]["uid"] = str(uuid.uuid5(UIDS, f"{plain['kind']}/{namespace}/{name}"))
    return plain
