"""Manifests and an image recipe for running policy_sched on a cluster.

`policy-sched manifests` prints them. RBAC rules are derived from the requests that the client
sends.
"""

from policy_sched.deploy.contents import IMAGE, NAME, SYSTEM, Options, contents
from policy_sched.deploy.manifests import as_json, as_yaml, manifests

__all__ = [
    "IMAGE",
    "NAME",
    "SYSTEM",
    "Options",
    "as_json",
    "as_yaml",
    "contents",
    "manifests",
]
