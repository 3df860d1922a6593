"""Access from inside a pod: the service account that Kubernetes mounts into it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from policy_sched.client.kube.auth.access import Access, AccessError, Trust, read_secret
from policy_sched.client.kube.auth.credentials import TokenFile
from policy_sched.client.kube.auth.proxies import proxy_of_environment, proxy_problem

MOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def in_cluster(environ: Mapping[str, str], now: Callable[[], int], mount: Path = MOUNT) -> Access:
    """Return how a pod reaches its API server. Raises AccessError outside a pod.

    ``now`` is monotonic, in nanoseconds.
    """
    host = environ.get("KUBERNETES_SERVICE_HOST", "")
    port = environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise AccessError(
            "not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set;"
            " give a kubeconfig"
        )
    authorities = read_secret(mount / "ca.crt")
    read_secret(mount / "token")
    namespace = mount / "namespace"
    name = namespace.read_text(encoding="utf-8").strip() if namespace.exists() else ""
    bracketed = f"[{host}]" if ":" in host else host
    server = f"https://{bracketed}:{port}"
    proxy = proxy_of_environment(server, environ)
    if proxy and (problem := proxy_problem(proxy)):
        raise AccessError(f"the environment names a proxy that cannot be used: {problem}")
    return Access(
        server=server,
        trust=Trust(authorities, file=mount / "ca.crt"),
        credentials=TokenFile(mount / "token", now),
        proxy=proxy,
        namespace=name,
    )
