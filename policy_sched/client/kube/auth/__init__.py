"""Kubeconfigs and credentials.

Tokens, client certificates, exec plugins, in-cluster service accounts, proxies. Errors never
contain secrets.
"""

from policy_sched.client.kube.auth.credentials import (
    REREAD_CERTIFICATES as REREAD_CERTIFICATES,
    AccessError as AccessError,
    Anonymous as Anonymous,
    Certificate as Certificate,
    ClusterAccess as ClusterAccess,
    Grant as Grant,
    Trust as Trust,
    read_secret as read_secret,
    tls_context as tls_context,
)
from policy_sched.client.kube.auth.kubeconfig import (
    in_cluster_config as in_cluster_config,
    load as load,
    paths_in as paths_in,
)
from policy_sched.client.kube.auth.proxies import SOCKS as SOCKS
