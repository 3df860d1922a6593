"""Fills in the priority of pods that only name a class, as the API server does on admission."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from policy_sched.model.meta import ApiObject
from policy_sched.model.pod import Pod
from policy_sched.model.priority import PriorityClass

BUILT_IN: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""Classes that every cluster has (kubernetes/pkg/apis/scheduling/types.go)."""


def set_priorities(pods: Iterable[Pod], objects: Iterable[ApiObject]) -> list[str]:
    """Set ``spec.priority`` where it is missing; return what is wrong, one sentence each.

    A pod without a class gets the default class's value if there is a default class; a pod that
    has a priority keeps it.
    """
    classes = {one.metadata.name: one for one in objects if isinstance(one, PriorityClass)}
    values = BUILT_IN | {name: one.value for name, one in classes.items()}
    defaults = [one for one in classes.values() if one.global_default]
    problems = []
    for pod in pods:
        if pod.spec.priority is not None:
            continue
        name = pod.spec.priority_class_name
        if name in values:
            pod.spec.priority = values[name]
        elif name:
            key = f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"
            problems.append(f"pod {key}: no PriorityClass with name {name} was found")
        elif defaults:
            pod.spec.priority = max(one.value for one in defaults)
    return problems
