"""The client of a Kubernetes API server, with the rooms of client-go.

rest/ sends requests, auth/ reads kubeconfigs and obtains credentials, cache/ lists and watches,
leaderelection/ holds a lease, events/ records events. This package itself combines them into the
scheduler's client.
"""

from policy_sched.client.kube.client import RECORD_EVENT, KubeClient
from policy_sched.client.kube.rbac_rules import (
    ELECTING,
    GROUP_READING,
    GROUP_WRITING,
    READING,
    WRITING,
    Right,
)

__all__ = [
    "ELECTING",
    "GROUP_READING",
    "GROUP_WRITING",
    "READING",
    "RECORD_EVENT",
    "WRITING",
    "KubeClient",
    "Right",
]
