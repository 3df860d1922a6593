"""Validation beyond types, with the words of kube-scheduler.

JSON Schema shapes, plugin arguments, extenders, values of the configuration.
"""

from policy_sched.profiles.validate.configuration import (
    HEAD as HEAD,
    check_args as check_args,
    check_configuration as check_configuration,
    check_head as check_head,
    decoded as decoded,
    plugin_set as plugin_set,
)
from policy_sched.profiles.validate.json_schema import (
    mended as mended,
    shape_problems as shape_problems,
    unknown_keys as unknown_keys,
)
from policy_sched.profiles.validate.rollout import (
    STEPS as STEPS,
    check_rollout_steps as check_rollout_steps,
)
