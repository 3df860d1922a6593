"""The RuntimeClass admission: what a pod's runtime class says is written into the pod."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from policy_sched.client.apimachinery import Resource
from policy_sched.embedded.admission.errors import forbidden
from policy_sched.manifests import Plain
from policy_sched.model import PodSpec, RejectedError, RuntimeClass, admit, check_overhead


def admit_runtime(
    resource: Resource, data: Plain, find: Callable[[str], RuntimeClass | None]
) -> None:
    """Complete a new pod, in place. Raises ApiError if its runtime class does not let it in."""
    spec, pod = data["spec"], data["metadata"]["name"]
    name = spec.get("runtimeClassName")
    if not name and not spec.get("overhead"):
        return
    found = find(name) if name else None
    if name and found is None:
        raise forbidden(resource, pod, f'pod rejected: RuntimeClass "{name}" not found')
    typed = msgspec.convert(spec, PodSpec)
    try:
        if found is not None:
            admit(typed, found)
        check_overhead(typed, found)
    except RejectedError as error:
        raise forbidden(resource, pod, str(error)) from None
    for field, value in (
        ("overhead", typed.overhead),
        ("nodeSelector", typed.node_selector),
        ("tolerations", [msgspec.to_builtins(one) for one in typed.tolerations]),
    ):
        if value:
            spec[field] = value
