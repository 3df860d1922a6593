"""Compiled policies become hook implementations.

Bound policies hold a policy over a cluster's tables; hooks run them at each extension point and
translate results to Status.
"""

from policy_sched.plugins.rules.bound_policy import BoundPolicy, bind
from policy_sched.plugins.rules.bound_score import Scored
from policy_sched.plugins.rules.device_rules import DeviceCase, DevicePolicy, ProfileDeviceRules
from policy_sched.plugins.rules.fused_rules import BoundFusedRules, fuse_policies
from policy_sched.plugins.rules.plugin import rule_plugin

__all__ = [
    "BoundFusedRules",
    "BoundPolicy",
    "DeviceCase",
    "DevicePolicy",
    "ProfileDeviceRules",
    "Scored",
    "bind",
    "fuse_policies",
    "rule_plugin",
]
