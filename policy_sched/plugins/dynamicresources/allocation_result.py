"""From the devices that were chosen to the result that is written into a claim's status."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from policy_sched import model
from policy_sched.plugins.dynamicresources.allocator import AllocatedDevice
from policy_sched.plugins.dynamicresources.requests import AllocationError, Classes, Request

FROM_CLASS = "FromClass"
FROM_CLAIM = "FromClaim"


def allocation_result(
    claim: model.ResourceClaim,
    allocated: Sequence[AllocatedDevice],
    node: str,
    classes: Classes,
    share_id: Callable[[], str],
) -> model.AllocationResult:
    """Return the result of one claim. Raises AllocationError."""
    results = tuple([_result(device, share_id) for device in allocated])
    chosen = {device.request.parent: device.request for device in allocated}
    config = _class_configs(chosen, classes)
    if claim.spec.devices.config:
        config += _claim_configs(claim, chosen)
    return model.AllocationResult(
        devices=model.DeviceAllocationResult(results=results, config=tuple(config)),
        node_selector=_node_selector(claim, allocated, node),
    )


def _result(
    allocated: AllocatedDevice, share_id: Callable[[], str]
) -> model.DeviceRequestAllocationResult:
    device, request, amounts = allocated.device.device, allocated.request, allocated.consumed
    consumed: dict[str, model.Amount] = (
        {} if not amounts else {name: str(amount) for name, amount in amounts.items()}
    )
    return model.DeviceRequestAllocationResult(
        request=request.full_name,
        driver=allocated.device.id.driver,
        pool=allocated.device.id.pool,
        device=allocated.device.id.device,
        admin_access=request.admin_access,
        tolerations=request.tolerations,
        binding_conditions=device.binding_conditions or None,
        binding_failure_conditions=device.binding_failure_conditions,
        share_id=None if amounts is None else share_id(),
        consumed_capacity=consumed,
    )


def _class_configs(
    chosen: Mapping[str, Request], classes: Classes
) -> list[model.DeviceAllocationConfiguration]:
    """Return the configs of the classes of requests that got devices, by name and in order."""
    names: dict[str, list[str]] = {}
    for request in chosen.values():
        names.setdefault(request.class_name, []).append(request.full_name)
    configs: list[model.DeviceAllocationConfiguration] = []
    for class_name, requests in names.items():
        device_class = classes(class_name)
        if device_class is not None and device_class.spec.config:
            configs += [
                model.DeviceAllocationConfiguration(
                    source=FROM_CLASS, requests=tuple(requests), opaque=config.opaque
                )
                for config in device_class.spec.config
            ]
    return configs


def _claim_configs(
    claim: model.ResourceClaim, chosen: Mapping[str, Request]
) -> list[model.DeviceAllocationConfiguration]:
    configs = []
    for config in claim.spec.devices.config:
        entry = model.DeviceAllocationConfiguration(
            source=FROM_CLAIM, requests=config.requests, opaque=config.opaque
        )
        if not config.requests:
            configs.append(entry)
            continue
        for request_spec in claim.spec.devices.requests:
            request = chosen.get(request_spec.name)
            full = request_spec.name if request is None else request.full_name
            if request_spec.name in config.requests or full in config.requests:
                configs.append(entry)
    return configs


def _node_selector(
    claim: model.ResourceClaim, allocated: Sequence[AllocatedDevice], node: str
) -> model.NodeSelector | None:
    """Return what keeps a pod with the claim on the nodes that reach its devices."""
    fields: list[model.NodeSelectorRequirement] = []
    expressions: list[model.NodeSelectorRequirement] = []
    for allocation in allocated:
        spec, device = allocation.device.slice.spec, allocation.device.device
        source = device if spec.per_device_node_selection else spec
        if source.node_name is not None or device.binds_to_node:
            name = model.NodeSelectorRequirement(key="metadata.name", operator="In", values=(node,))
            return model.NodeSelector(
                node_selector_terms=(model.NodeSelectorTerm(match_fields=(name,)),)
            )
        if source.node_selector is None:
            continue
        terms = source.node_selector.node_selector_terms
        if len(terms) != 1:
            raise AllocationError(
                f"create NodeSelector for claim {claim.metadata.name}: unsupported "
                f"ResourceSlice.NodeSelector with {len(terms)} terms"
            )
        _add(fields, terms[0].match_fields)
        _add(expressions, terms[0].match_expressions)
    if not fields and not expressions:
        return None
    term = model.NodeSelectorTerm(match_fields=tuple(fields), match_expressions=tuple(expressions))
    return model.NodeSelector(node_selector_terms=(term,))


def _add(
    requirements: list[model.NodeSelectorRequirement], more: Sequence[model.NodeSelectorRequirement]
) -> None:
    present = {
        (requirement.key, requirement.operator, frozenset(requirement.values))
        for requirement in requirements
    }
    requirements.extend(r for r in more if (r.key, r.operator, frozenset(r.values)) not in present)
