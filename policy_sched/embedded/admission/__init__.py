"""Admission: defaults and the checks that change or refuse an object before it is stored.

Field validation is in apiserver/validation.
"""

from policy_sched.embedded.admission import pod_strategy as pod_strategy
from policy_sched.embedded.admission.admission import (
    add_default_tolerations as add_default_tolerations,
    admit_pod as admit_pod,
    admit_pod_group as admit_pod_group,
    admit_priority_class as admit_priority_class,
    admit_runtime as admit_runtime,
    check_name as check_name,
    complete as complete,
    default as default,
)
from policy_sched.embedded.admission.defaults import (
    fill_in_claim as fill_in_claim,
    write_nulls as write_nulls,
)
from policy_sched.embedded.admission.pod_strategy import (
    MODIFIED as MODIFIED,
    added_containers as added_containers,
    already_exists as already_exists,
    conflict as conflict,
    finalized as finalized,
    forbidden as forbidden,
    invalid as invalid,
    not_found as not_found,
    set_condition as set_condition,
    wrong_uid as wrong_uid,
)
