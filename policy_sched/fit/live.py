"""The objects of a running scheduler's cluster, to count in a copy of it."""

from __future__ import annotations

from msgspec.structs import replace

from policy_sched.model import ApiObject, PodInfo
from policy_sched.scheduler import Scheduler


def objects_of(scheduler: Scheduler) -> list[ApiObject]:
    """Return all objects as the scheduler counts them; of pending pods, the nominated ones.

    A pod that is assumed on a node is on it. The objects are shared, and not to be changed.
    """
    cache, nominator = scheduler.cache, scheduler.handle.nominator
    nodes = [node for node in cache.nodes.nodes if node is not None]
    objects: list[ApiObject] = [*nodes, *cache.nodes.namespaces.values()]
    objects += scheduler.handle.objects.every()
    for uid in cache.held():
        info = cache.pod(uid)
        if info is not None:
            objects.append(_on(info, cache.node_of(uid)))
    for node, pods in nominator.nominated():
        for info in pods:
            pod = info.pod
            status = replace(pod.status, nominated_node_name=node)
            objects.append(replace(pod, status=status))
    return objects


def _on(info: PodInfo, node: str) -> ApiObject:
    pod = info.pod
    if pod.spec.node_name == node:
        return pod
    return replace(pod, spec=replace(pod.spec, node_name=node))
