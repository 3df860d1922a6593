"""Admission: defaults and the checks that change or refuse an object before it is stored.

Field validation is in apiserver/validation.
"""

from policy_sched.embedded.admission import pod_strategy
from policy_sched.embedded.admission.admission import (
    add_default_tolerations,
    admit_pod,
    admit_pod_group,
    admit_priority_class,
    admit_runtime,
    check_name,
    complete,
    default,
)
from policy_sched.embedded.admission.defaults import fill_in_claim, write_nulls
from policy_sched.embedded.admission.pod_strategy import (
    MODIFIED,
    added_containers,
    already_exists,
    conflict,
    finalized,
    forbidden,
    invalid,
    not_found,
    set_condition,
    wrong_uid,
)

__all__ = [
    "MODIFIED",
    "add_default_tolerations",
    "added_containers",
    "admit_pod",
    "admit_pod_group",
    "admit_priority_class",
    "admit_runtime",
    "already_exists",
    "check_name",
    "complete",
    "conflict",
    "default",
    "fill_in_claim",
    "finalized",
    "forbidden",
    "invalid",
    "not_found",
    "pod_strategy",
    "set_condition",
    "write_nulls",
    "wrong_uid",
]
