"""From the devices that were chosen to the result that is written into a claim's status."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from policy_sched.model import (
    AllocationResult,
    Amount,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ResourceClaim,
)
from policy_sched.plugins.dynamicresources.allocator import AllocatedDevice
from policy_sched.plugins.dynamicresources.requests import AllocationError, Classes, Request

FROM_CLASS = "FromClass"
FROM_CLAIM = "FromClaim"


def allocation_result(
    claim: ResourceClaim,
    allocated: Sequence[AllocatedDevice],
    node: str,
    classes: Classes,
    share_id: Callable[[], str],
) -> AllocationResult:
    """Return the result of one claim. Raises AllocationError."""
    results = tuple([_result(one, share_id) for one in allocated])
    chosen = {one.request.parent: one.request for one in allocated}
    config = _class_configs(chosen, classes)
    if claim.spec.devices.config:
        config += _claim_configs(claim, chosen)
    return AllocationResult(
        devices=DeviceAllocationResult(results=results, config=tuple(config)),
        node_selector=_node_selector(claim, allocated, node),
    )


def _result(one: AllocatedDevice, share_id: Callable[[], str]) -> DeviceRequestAllocationResult:
    device, request, amounts = one.device.device, one.request, one.consumed
    consumed: dict[str, Amount] = (
        {} if not amounts else {name: str(amount) for name, amount in amounts.items()}
    )
    return DeviceRequestAllocationResult(
        request=request.full_name,
        driver=one.device.id.driver,
        pool=one.device.id.pool,
        device=one.device.id.device,
        admin_access=request.admin_access,
        tolerations=request.tolerations,
        binding_conditions=device.binding_conditions or None,
        binding_failure_conditions=device.binding_failure_conditions,
        share_id=None if amounts is None else share_id(),
        consumed_capacity=consumed,
    )


def _class_configs(
    chosen: Mapping[str, Request], classes: Classes
) -> list[DeviceAllocationConfiguration]:
    """Return the configs of the classes of requests that got devices, by name and in order."""
    names: dict[str, list[str]] = {}
    for request in chosen.values():
        names.setdefault(request.class_name, []).append(request.full_name)
    found: list[DeviceAllocationConfiguration] = []
    for class_name, requests in names.items():
        device_class = classes(class_name)
        if device_class is not None and device_class.spec.config:
            found += [
                DeviceAllocationConfiguration(
                    source=FROM_CLASS, requests=tuple(requests), opaque=config.opaque
                )
                for config in device_class.spec.config
            ]
    return found


def _claim_configs(
    claim: ResourceClaim, chosen: Mapping[str, Request]
) -> list[DeviceAllocationConfiguration]:
    found = []
    for config in claim.spec.devices.config:
        entry = DeviceAllocationConfiguration(
            source=FROM_CLAIM, requests=config.requests, opaque=config.opaque
        )
        if not config.requests:
            found.append(entry)
            continue
        for one in claim.spec.devices.requests:
            request = chosen.get(one.name)
            full = one.name if request is None else request.full_name
            if one.name in config.requests or full in config.requests:
                found.append(entry)
    return found


def _node_selector(
    claim: ResourceClaim, allocated: Sequence[AllocatedDevice], node: str
) -> NodeSelector | None:
    """Return what keeps a pod with the claim on the nodes that reach its devices."""
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for one in allocated:
        spec, device = one.device.slice.spec, one.device.device
        place = device if spec.per_device_node_selection else spec
        if place.node_name is not None or device.binds_to_node:
            name = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node,))
            return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(name,)),))
        if place.node_selector is None:
            continue
        terms = place.node_selector.node_selector_terms
        if len(terms) != 1:
            raise AllocationError(
                f"create NodeSelector for claim {claim.metadata.name}: unsupported "
                f"ResourceSlice.NodeSelector with {len(terms)} terms"
            )
        _add(fields, terms[0].match_fields)
        _add(expressions, terms[0].match_expressions)
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(match_fields=tuple(fields), match_expressions=tuple(expressions))
    return NodeSelector(node_selector_terms=(term,))


def _add(found: list[NodeSelectorRequirement], more: Sequence[NodeSelectorRequirement]) -> None:
    known = {(one.key, one.operator, frozenset(one.values)) for one in found}
    found.extend(r for r in more if (r.key, r.operator, frozenset(r.values)) not in known)
