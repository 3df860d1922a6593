"""Which lease a configuration's instances compete for."""

from __future__ import annotations

from typing import Final

from policy_sched.profiles.models import LeaderElection

LEASE: Final = "policy-sched"
"""The lease, unless the configuration names one; kube-scheduler's own is another."""


def lease_of(settings: LeaderElection) -> tuple[str, str]:
    """Return namespace and name of the lease."""
    named = "resource_name" in settings.model_fields_set
    return settings.resource_namespace, settings.resource_name if named else LEASE
