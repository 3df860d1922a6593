"""Manifests and an image recipe for running policy_sched on a cluster.

`policy-sched manifests` prints them. RBAC rules are derived from the requests that the client
sends.
"""

from policy_sched.deploy.custom_resources import custom_resources as custom_resources
from policy_sched.deploy.manifests import (
    IMAGE as IMAGE,
    NAME as NAME,
    SYSTEM as SYSTEM,
    Options as Options,
    alert_rules as alert_rules,
    as_json as as_json,
    as_yaml as as_yaml,
    contents as contents,
    dashboard as dashboard,
    manifests as manifests,
)
