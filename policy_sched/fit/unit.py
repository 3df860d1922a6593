"""The unit that `fit` counts: what the manifests of a pod or a gang hold, and its copies.

Theory of operation. One replica is everything in the manifests: the pods, their groups, and the
claims that are written beside them. Each copy has names and UIDs of its own, and its pods refer to
its own groups and claims. A workload stands for one pod of its template. A group with a least
number of members gets that many copies of its only pod. Templates and classes exist once, and so
does everything that pods name and the manifests do not hold: it is the cluster's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from policy_sched import model
from policy_sched.errors import Diagnostic, PolicyError
from policy_sched.manifests import BAD_VALUE, Admission, Manifests, object_key, workload_expansion

MOST_MEMBERS: Final = 5_000
"""The most pods of one replica."""
_NO_UNIT: Final = (model.Node, model.Namespace)
_COPIED: Final = (
    model.Pod,
    model.PodGroup,
    model.CoschedulingGroup,
    model.PersistentVolumeClaim,
    model.ResourceClaim,
)


@dataclass(frozen=True, slots=True)
class FitUnit:
    """One replica: its pods, and the other objects that each copy has of its own.

    ``shared`` exist once, whatever the number of copies. ``name`` is for people.
    """

    name: str
    pods: tuple[model.Pod, ...]
    own: tuple[model.ApiObject, ...] = ()
    shared: tuple[model.ApiObject, ...] = ()

    def copy(self, number: int) -> tuple[list[model.ApiObject], list[model.Pod]]:
        """Return the objects and the pods of one copy."""
        suffix = f"-fit-{number}"
        own = {object_key(obj): obj.metadata.name + suffix for obj in (*self.own, *self.pods)}
        objects = [_renamed(obj, own[object_key(obj)]) for obj in self.own]
        pods = [_copy(pod, own) for pod in self.pods]
        return [*objects, *(claim for pod in pods for claim in _ephemeral_claims(pod))], pods


def unit_of(manifests: Manifests, cluster: Sequence[model.ApiObject], file: str) -> FitUnit:
    """Return the unit that manifests describe. Raises PolicyError with every problem.

    ``cluster``: the objects whose classes apply to the pods, and whose groups they may name.
    ``file`` is where the manifests were read.
    """
    problems = _misplaced(manifests)
    pods: list[model.Pod] = []
    made: list[model.ApiObject] = []
    for obj in manifests.objects:
        try:
            made += _of_workload(obj, [*cluster, *manifests.objects])
        except model.RejectedError as error:
            problems.append(_problem(manifests, obj, str(error)))
    given = [*manifests.objects, *made]
    pods = [_fresh(member) for member in given if isinstance(member, model.Pod)]
    if not pods and not problems:
        what = "there is no pod here, and no workload with pods"
        problems.append(Diagnostic(file, 1, 1, BAD_VALUE, what))
    if problems:
        raise PolicyError(problems)
    copied = [
        member
        for member in given
        if isinstance(member, _COPIED) and not isinstance(member, model.Pod)
    ]
    groups = _groups(pods, copied, cluster)
    name = _name(pods)
    pods = _whole_gangs(manifests, pods, groups)
    own = [_unclaimed(member) for member in [*copied, *_missing(groups, copied)]]
    shared = [member for member in given if not isinstance(member, (*_COPIED, model.Workload))]
    shared += [member for member in made if isinstance(member, model.ReplicaSet)]
    return FitUnit(name, tuple(pods), tuple(own), tuple(shared))


def _name(pods: Sequence[model.Pod]) -> str:
    """Return the name of the pods' group, or that of the first pod."""
    groups = {_group_of(pod) for pod in pods}
    name = groups.pop() if len(groups) == 1 else ""
    return f"{_namespace(pods[0])}/{name or pods[0].metadata.name}"


def _misplaced(manifests: Manifests) -> list[Diagnostic]:
    """Return the problems of objects that no replica can have."""
    misplaced = []
    for obj in manifests.objects:
        if isinstance(obj, _NO_UNIT):
            what = f"a {type(obj).__name__} is part of the cluster, not of a replica"
            misplaced.append(_problem(manifests, obj, what, "name its file with --cluster"))
        elif isinstance(obj, model.DaemonSet):
            what = "a DaemonSet has one pod for each node, so its replicas are not counted"
            misplaced.append(_problem(manifests, obj, what))
        elif isinstance(obj, model.Workload) and obj.spec.template is None:
            what = f"the {type(obj).__name__} has no template, so it has no pods"
            misplaced.append(_problem(manifests, obj, what))
    return misplaced


def _problem(
    manifests: Manifests, obj: model.ApiObject, message: str, hint: str = ""
) -> Diagnostic:
    position = manifests.positions.get(object_key(obj)) or next(iter(manifests.positions.values()))
    return position.look().diagnostic(("kind",), BAD_VALUE, message, hint)


# Workloads.


def _of_workload(
    obj: model.ApiObject, existing: Iterable[model.ApiObject]
) -> Iterator[model.ApiObject]:
    """Yield one pod of a workload, with what its controller creates besides.

    Raises RejectedError for a pod that its runtime class does not admit.
    """
    if (
        not isinstance(obj, model.Workload)
        or isinstance(obj, model.DaemonSet)
        or obj.spec.template is None
    ):
        return
    plain = _plain(obj)
    match obj:
        case model.Deployment():
            sets = workload_expansion.replica_set_of(plain, 1)
            sets["metadata"]["uid"] = f"{plain['metadata']['uid']}/0"
            yield msgspec.convert(sets, model.ReplicaSet)
            pod = _replica(sets)
        case model.ReplicaSet() | model.ReplicationController():
            pod = _replica(plain)
        case model.StatefulSet():
            ordinal = workload_expansion.first_ordinal(plain)
            for claim in workload_expansion.stateful_claims(plain, ordinal):
                yield msgspec.convert(claim, model.PersistentVolumeClaim)
            pod = workload_expansion.stateful_pod(plain, ordinal)
        case model.Job():
            pod = workload_expansion.job_pod(plain, "0")
    made = msgspec.convert(pod, model.Pod)
    Admission(existing).complete(made)
    yield made


def _plain(workload: model.Workload) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(workload)
    plain["kind"], plain["apiVersion"] = (
        workload.kind or type(workload).__name__,
        workload.api_version,
    )
    if not workload.metadata.uid:
        plain["metadata"]["uid"] = "/".join(object_key(workload))
    return plain


def _replica(plain: Mapping[str, Any]) -> dict[str, Any]:
    owner = workload_expansion.Owner.of(plain)
    return workload_expansion.replica(owner, workload_expansion.template_of(plain), "0")


# Pods and their groups.


def _fresh(pod: model.Pod) -> model.Pod:
    """Return a pod as it is when it is created; nothing keeps it out of the queue."""
    metadata = replace(pod.metadata, uid="", deletion_timestamp=None, creation_timestamp=None)
    spec = replace(pod.spec, node_name="", scheduling_gates=())
    return replace(pod, metadata=metadata, spec=spec, status=model.PodStatus())


def _group_of(pod: model.Pod) -> str:
    group = pod.spec.scheduling_group
    return group.pod_group_name if group else pod.metadata.labels.get(model.POD_GROUP_LABEL, "")


Groups = Mapping[tuple[str, str], model.PodGroup | model.CoschedulingGroup]


def _groups(
    pods: Sequence[model.Pod], own: Iterable[model.ApiObject], cluster: Iterable[model.ApiObject]
) -> Groups:
    """Return the groups of the pods; the given groups take precedence over the cluster's."""
    wanted = {(_namespace(pod), _group_of(pod)) for pod in pods if _group_of(pod)}
    by_name: dict[tuple[str, str], model.PodGroup | model.CoschedulingGroup] = {}
    for obj in (*own, *cluster):
        if isinstance(obj, model.PodGroup | model.CoschedulingGroup):
            key = _namespace(obj), obj.metadata.name
            if key in wanted:
                by_name.setdefault(key, obj)
    return by_name


def _missing(groups: Groups, own: Sequence[model.ApiObject]) -> list[model.ApiObject]:
    return [group for group in groups.values() if not any(group is obj for obj in own)]


def _whole_gangs(manifests: Manifests, pods: list[model.Pod], groups: Groups) -> list[model.Pod]:
    """Return pods of which each group has as many as it needs. Raises PolicyError if one has not.

    The only pod of a group is repeated.
    """
    members: list[model.Pod] = []
    for pod in pods:
        own = _namespace(pod), _group_of(pod)
        group = groups.get(own)
        least = 0 if group is None else group.min_count
        mates = [other for other in pods if own[1] and (_namespace(other), _group_of(other)) == own]
        if group is None or len(mates) >= least:
            members.append(pod)
            continue
        if len(mates) > 1 or least > MOST_MEMBERS:
            name = group.metadata.name
            why = f"the group {name} needs {least} pods, and {len(mates)} are here"
            if least > MOST_MEMBERS:
                why = f"the group {name} needs {least} pods, more than {MOST_MEMBERS}"
            raise PolicyError([_problem(manifests, pod, why, "write one pod, or all of them")])
        names = (f"{pod.metadata.name}-{member}" for member in range(least))
        members += [replace(pod, metadata=replace(pod.metadata, name=name)) for name in names]
    return members


# Copies.


def _namespace(obj: model.ApiObject) -> str:
    return obj.metadata.namespace or model.DEFAULT_NAMESPACE


def _unclaimed(obj: model.ApiObject) -> model.ApiObject:
    """Return a claim or group as it is when it is created: no claim has anything yet."""
    if isinstance(obj, model.ResourceClaim):
        return replace(obj, status=model.ResourceClaimStatus())
    return obj


def _renamed(obj: model.ApiObject, name: str) -> model.ApiObject:
    uid = f"fit/{_namespace(obj)}/{name}"
    return replace(obj, metadata=replace(obj.metadata, name=name, uid=uid))


def _ephemeral_claims(pod: model.Pod) -> Iterator[model.PersistentVolumeClaim]:
    """Yield the claims of a pod's ephemeral volumes, as their controller creates them."""
    meta = pod.metadata
    owner = model.OwnerReference(
        api_version="v1", kind="Pod", name=meta.name, uid=meta.uid, controller=True
    )
    for volume in pod.spec.volumes:
        template = None if volume.ephemeral is None else volume.ephemeral.volume_claim_template
        if template is None:
            continue
        name = f"{meta.name}-{volume.name}"
        yield model.PersistentVolumeClaim(
            api_version="v1",
            kind="PersistentVolumeClaim",
            metadata=model.ObjectMeta(
                name=name,
                namespace=_namespace(pod),
                uid=f"fit/{_namespace(pod)}/{name}",
                owner_references=(owner,),
            ),
            spec=msgspec.convert(
                msgspec.to_builtins(template.spec), model.PersistentVolumeClaimSpec
            ),
        )


Names = Mapping[tuple[str, str, str], str]
"""The name of each object of a copy, by kind, namespace and name in the manifests."""


def _copy(pod: model.Pod, own: Names) -> model.Pod:
    """Return the pod of a copy, which refers to what the copy has of its own."""
    namespace, meta, spec = _namespace(pod), pod.metadata, pod.spec

    def renamed(kind: str, name: str) -> str:
        return own.get((kind, namespace, name), name)

    name = renamed("Pod", meta.name)
    labels, group = meta.labels, _group_of(pod)
    if model.POD_GROUP_LABEL in labels:
        labels = {
            **labels,
            model.POD_GROUP_LABEL: renamed("PodGroup", labels[model.POD_GROUP_LABEL]),
        }
    changes: dict[str, Any] = {}
    if spec.scheduling_group is not None:
        changes["scheduling_group"] = model.SchedulingGroup(
            pod_group_name=renamed("PodGroup", group)
        )
    if spec.volumes:
        changes["volumes"] = tuple(
            volume
            if (claim := volume.persistent_volume_claim) is None
            else replace(
                volume,
                persistent_volume_claim=replace(
                    claim, claim_name=renamed("PersistentVolumeClaim", claim.claim_name)
                ),
            )
            for volume in spec.volumes
        )
    if spec.resource_claims:
        changes["resource_claims"] = tuple(
            replace(
                reference,
                resource_claim_name=renamed("ResourceClaim", reference.resource_claim_name),
            )
            if reference.resource_claim_name
            else reference
            for reference in spec.resource_claims
        )
    return replace(
        pod,
        metadata=replace(meta, name=name, uid=f"fit/{namespace}/{name}", labels=labels),
        spec=replace(spec, **changes) if changes else spec,
    )
