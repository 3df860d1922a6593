"""Validation beyond types, with the words of kube-scheduler.

JSON Schema shapes, plugin arguments, extenders, values of the configuration.
"""

from policy_sched.profiles.validate.configuration import check_configuration, decoded, plugin_set
from policy_sched.profiles.validate.json_schema import mended, shape_problems
from policy_sched.profiles.validate.plugin_args import check_args

__all__ = [
    "check_args",
    "check_configuration",
    "decoded",
    "mended",
    "plugin_set",
    "shape_problems",
]
