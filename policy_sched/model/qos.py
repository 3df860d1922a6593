"""The quality-of-service class of a pod, for pods whose status does not say it yet."""

from __future__ import annotations

from policy_sched.model.pod import Pod, ResourceRequirements
from policy_sched.model.quantity import Amount, nanos


def qos_class(pod: Pod) -> str:
    """Return Guaranteed, Burstable or BestEffort: from the status, else from the resources.

    Guaranteed: every container (or the pod as a whole) has equal requests and limits of cpu and
    memory. BestEffort: none asks for any or is limited in any.
    """
    if pod.status.qos_class:
        return pod.status.qos_class
    pod_level = pod.spec.resources
    if pod_level is not None and (_positive(pod_level.requests) or _positive(pod_level.limits)):
        parts = [pod_level]
    else:
        parts = [c.resources for c in (*pod.spec.containers, *pod.spec.init_containers)]
    if not any(_positive(part.requests) or _positive(part.limits) for part in parts):
        return "BestEffort"
    return "Guaranteed" if _guaranteed(parts) else "Burstable"


def _positive(amounts: dict[str, Amount]) -> dict[str, int]:
    """Return the nano-units of cpu and memory, where there are any."""
    found = {name: nanos(amounts[name]) for name in ("cpu", "memory") if name in amounts}
    return {name: amount for name, amount in found.items() if amount > 0}


def _guaranteed(parts: list[ResourceRequirements]) -> bool:
    """Tell whether every part is limited in both, and asks for its limits (or names no request)."""
    for part in parts:
        limits = _positive(part.limits)
        if len(limits) != 2 or limits | _positive(part.requests) != limits:
            return False
    return True
