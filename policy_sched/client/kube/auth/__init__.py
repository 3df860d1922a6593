"""Kubeconfigs and credentials.

Tokens, client certificates, exec plugins, in-cluster service accounts, proxies. Errors never
contain secrets.
"""

from policy_sched.client.kube.auth.credentials import (
    REREAD_CERTIFICATES,
    Access,
    AccessError,
    Anonymous,
    Certificate,
    Grant,
    Trust,
    read_secret,
    tls_context,
)
from policy_sched.client.kube.auth.kubeconfig import in_cluster_config, load, paths_in
from policy_sched.client.kube.auth.proxies import SOCKS

__all__ = [
    "REREAD_CERTIFICATES",
    "SOCKS",
    "Access",
    "AccessError",
    "Anonymous",
    "Certificate",
    "Grant",
    "Trust",
    "in_cluster_config",
    "load",
    "paths_in",
    "read_secret",
    "tls_context",
]
