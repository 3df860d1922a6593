"""What changed between two forms of a pod or a node, as the events that plugins register for.

As in kube-scheduler (framework/events.go) an update that is nothing in particular is the event
``Update``. An update of a pod's status alone is no event: the scheduler itself writes that status
whenever it rejects a pod. Fields that a rule may read and that have no event of their own
(annotations, some but not all scheduling gates, node selector and affinity, and of the status the
nominated node; of a node that it is cordoned) are an ``Update`` as well, even beside others: no
plugin is woken in vain, and no pod is left waiting for something that has happened.
"""

from __future__ import annotations

from functools import cache

from msgspec.structs import replace

from policy_sched.model import ActionType, ClusterEvent, EventResource, Node, PodInfo

_NODE = EventResource.NODE
_event = cache(ClusterEvent)


def pod_changes(old: PodInfo, new: PodInfo) -> tuple[ClusterEvent, ...]:
    """Return the events of a pod's update; none for the rest of its status."""
    resource = EventResource.ASSIGNED_POD if new.node_name else EventResource.UNSCHEDULABLE_POD
    actions = []
    if old.labels != new.labels:
        actions.append(ActionType.UPDATE_POD_LABEL)
    if any(amount > new.requests.get(name, -1) for name, amount in old.requests.items()):
        actions.append(ActionType.UPDATE_POD_SCALE_DOWN)
    opened = bool(old.scheduling_gates) and not new.scheduling_gates
    if opened:
        actions.append(ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    if len(old.tolerations) != len(new.tolerations):
        actions.append(ActionType.UPDATE_POD_TOLERATION)
    if _generated_claims(old) != _generated_claims(new):
        actions.append(ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
    other = (
        old.annotations != new.annotations
        or (old.scheduling_gates != new.scheduling_gates and not opened)
        or old.node_selector != new.node_selector
        or old.node_affinity != new.node_affinity
        or (not new.node_name and old.nominated_node_name != new.nominated_node_name)
    )
    if other or (not actions and not _only_status(old, new)):
        actions.append(ActionType.UPDATE_OTHER)
    return tuple([_event(resource, action) for action in actions])


def only_nominated(old: PodInfo, new: PodInfo) -> bool:
    """Tell whether all that changed of a pod is its nominated node, which a scheduler writes."""
    if old.nominated_node_name == new.nominated_node_name:
        return False
    cleared = replace(new.pod.status, nominated_node_name=old.nominated_node_name)
    return not pod_changes(old, PodInfo.of(replace(new.pod, status=cleared)))


def _generated_claims(info: PodInfo) -> tuple[object, ...]:
    """Return the claims that were made for a pod."""
    status = info.pod.status
    return status.resource_claim_statuses, status.extended_resource_claim_status


def _only_status(old: PodInfo, new: PodInfo) -> bool:
    """Tell whether nothing but the status differs of what is read of a pod."""
    before, after = old.pod, new.pod
    return (
        before.spec == after.spec
        and before.metadata.owner_references == after.metadata.owner_references
        and before.metadata.deletion_timestamp == after.metadata.deletion_timestamp
    )


def node_changes(old: Node, new: Node) -> tuple[ClusterEvent, ...]:
    """Return the events of a node's update; none if nothing changed that a plugin looks at."""
    taint = old.spec.taints != new.spec.taints
    uncordoned = old.spec.unschedulable and not new.spec.unschedulable
    cordoned = new.spec.unschedulable and not old.spec.unschedulable
    changed = {
        ActionType.UPDATE_NODE_ALLOCATABLE: old.status.allocatable != new.status.allocatable,
        ActionType.UPDATE_NODE_LABEL: old.metadata.labels != new.metadata.labels,
        ActionType.UPDATE_NODE_TAINT: taint or uncordoned,
        ActionType.UPDATE_NODE_CONDITION: _conditions(old) != _conditions(new),
        ActionType.UPDATE_NODE_ANNOTATION: old.metadata.annotations != new.metadata.annotations,
        ActionType.UPDATE_NODE_DECLARED_FEATURE: (
            old.status.declared_features != new.status.declared_features
        ),
        ActionType.UPDATE_OTHER: cordoned or _others(old) != _others(new),
    }
    return tuple([_event(_NODE, action) for action, is_so in changed.items() if is_so])


def _others(node: Node) -> tuple[object, ...]:
    """Return what rules read of a node and no event of kube-scheduler's is about."""
    status = node.status
    if type(node) is not Node:  # it has fields that only rules read
        return node.spec, status, node.metadata.owner_references
    return status.capacity, status.images, status.node_info, node.spec.provider_id


def _conditions(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}
