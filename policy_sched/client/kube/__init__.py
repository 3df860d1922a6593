"""The client of a Kubernetes API server, with the rooms of client-go.

rest/ sends requests, auth/ reads kubeconfigs and obtains credentials, cache/ lists and watches,
leaderelection/ holds a lease, events/ records events. This package itself combines them into the
scheduler's client.
"""

from policy_sched.client.kube.client import RECORD_EVENT as RECORD_EVENT, KubeClient as KubeClient
from policy_sched.client.kube.rbac_rules import (
    ELECTING as ELECTING,
    GROUP_READING as GROUP_READING,
    GROUP_WRITING as GROUP_WRITING,
    READING as READING,
    WRITING as WRITING,
    Right as Right,
)
