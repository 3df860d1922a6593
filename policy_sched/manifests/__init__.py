"""Files of Kubernetes objects: reading, decoding, defaults, workload expansion.

YAML and JSON become objects of `model`, with file, line and column for each problem. Workloads
become pods as controllers would create them.
"""

from policy_sched.manifests import workload_expansion as workload_expansion
from policy_sched.manifests.admission import (
    SYSTEM_PRIORITIES as SYSTEM_PRIORITIES,
    Admission as Admission,
    Priorities as Priorities,
    fill_in as fill_in,
    set_creation_times as set_creation_times,
)
from policy_sched.manifests.decode import (
    NO_STRUCTS as NO_STRUCTS,
    OF_ADMISSION as OF_ADMISSION,
    Structs as Structs,
    custom_data as custom_data,
    custom_of_json as custom_of_json,
    decode_as as decode_as,
    decode_json as decode_json,
    list_items as list_items,
    not_applied as not_applied,
    object_key as object_key,
    quantities_valid as quantities_valid,
    unknown_fields as unknown_fields,
)
from policy_sched.manifests.load import (
    SPLIT as SPLIT,
    SUFFIXES as SUFFIXES,
    ApiObject as ApiObject,
    Manifests as Manifests,
    Report as Report,
    decode_object as decode_object,
    load as load,
)
from policy_sched.manifests.struct_errors import (
    BAD_VALUE as BAD_VALUE,
    ManifestPosition as ManifestPosition,
    fit as fit,
    fit_partly as fit_partly,
)
from policy_sched.manifests.workload_expansion import (
    JOB_INDEX as JOB_INDEX,
    MOST_PODS as MOST_PODS,
    POD_CLAIM as POD_CLAIM,
    REVISION_HASH as REVISION_HASH,
    TEMPLATE_HASH as TEMPLATE_HASH,
    Owner as Owner,
    Plain as Plain,
    claim_prefix as claim_prefix,
    may_stay as may_stay,
    replicas_of as replicas_of,
    should_run as should_run,
    suffix as suffix,
    with_claims as with_claims,
)
