"""Plugins of the default profile that are not built yet, and the pods that would need them.

This is the one place that names them (of DynamicResources there are a few words,
`resource_claims`). A pod whose decision could depend on one of them, enabled
in its profile, is refused with a message that says so; every other pod is decided without them,
as upstream decides it when such a plugin skips.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from policy_sched.model import PodInfo

#: Plugin to what it decides, in words for the refusal.
UNSUPPORTED: Final[Mapping[str, str]] = {
    "DynamicResources": "resource claims",
    "NodeDeclaredFeatures": "features that nodes declare",
}

Reason = Callable[[PodInfo], str]


class UnsupportedFeatures:
    """Tells which pods of one profile cannot be decided yet.

    ``enabled``: names of the profile's plugins.
    """

    def __init__(self, enabled: Iterable[str]) -> None:
        names = set(enabled)
        self._checks = [(name, _CHECKS[name]) for name in UNSUPPORTED if name in names]

    def reason(self, pod: PodInfo) -> str:
        """Return why the pod cannot be decided; empty if it can."""
        for name, check in self._checks:
            why = check(pod)
            if why:
                return (
                    f"{why}, which plugin {name} decides ({UNSUPPORTED[name]}); this version "
                    "does not have it yet, and does not guess"
                )
        return ""


def _features(pod: PodInfo) -> str:
    spec = pod.pod.spec
    for container in (*spec.init_containers, *spec.containers):
        for rule in container.restart_policy_rules:
            if rule.action == "RestartAllContainers":
                return f"container {container.name!r} restarts all containers when it exits"
    return ""


def _claims(pod: PodInfo) -> str:
    return "the pod has spec.resourceClaims" if pod.pod.spec.resource_claims else ""


_CHECKS: Final[Mapping[str, Reason]] = {
    "DynamicResources": _claims,
    "NodeDeclaredFeatures": _features,
}
