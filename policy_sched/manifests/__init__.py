"""Files of Kubernetes objects: reading, decoding, defaults, workload expansion.

YAML and JSON become objects of `model`, with file, line and column for each problem. Workloads
become pods as controllers would create them.
"""

from policy_sched.manifests import workload_expansion
from policy_sched.manifests.admission import (
    SYSTEM_PRIORITIES,
    Admission,
    Priorities,
    fill_in,
    set_creation_times,
)
from policy_sched.manifests.decode import (
    decode_as,
    decode_json,
    list_items,
    object_key,
    quantities_valid,
)
from policy_sched.manifests.load import (
    SPLIT,
    SUFFIXES,
    ApiObject,
    Manifests,
    Report,
    decode_object,
    load,
)
from policy_sched.manifests.resource_claims import (
    POD_CLAIM,
    claim_prefix,
    with_claims,
)
from policy_sched.manifests.struct_errors import BAD_VALUE, ManifestPosition, fit, fit_partly
from policy_sched.manifests.workload_expansion import (
    JOB_INDEX,
    MOST_PODS,
    REVISION_HASH,
    TEMPLATE_HASH,
    Owner,
    Plain,
    may_stay,
    replicas_of,
    should_run,
    suffix,
)

__all__ = [
    "BAD_VALUE",
    "JOB_INDEX",
    "MOST_PODS",
    "POD_CLAIM",
    "REVISION_HASH",
    "SPLIT",
    "SUFFIXES",
    "SYSTEM_PRIORITIES",
    "TEMPLATE_HASH",
    "Admission",
    "ApiObject",
    "ManifestPosition",
    "Manifests",
    "Owner",
    "Plain",
    "Priorities",
    "Report",
    "claim_prefix",
    "decode_as",
    "decode_json",
    "decode_object",
    "fill_in",
    "fit",
    "fit_partly",
    "list_items",
    "load",
    "may_stay",
    "object_key",
    "quantities_valid",
    "replicas_of",
    "set_creation_times",
    "should_run",
    "suffix",
    "with_claims",
    "workload_expansion",
]
