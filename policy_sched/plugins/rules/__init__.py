"""Compiled policies become hook implementations.

Bound policies hold a policy over a cluster's tables; hooks run them at each extension point and
translate results to Status.
"""

from policy_sched.plugins.rules.bound_policy import BoundPolicy as BoundPolicy, bind as bind
from policy_sched.plugins.rules.bound_score import BoundScore as BoundScore, Scored as Scored
from policy_sched.plugins.rules.device_rules import (
    DeviceCase as DeviceCase,
    DevicePolicy as DevicePolicy,
    ProfileDeviceRules as ProfileDeviceRules,
)
from policy_sched.plugins.rules.fused_rules import (
    BoundFusedRules as BoundFusedRules,
    BoundProgram as BoundProgram,
    ChainedRules as ChainedRules,
    fuse_policies as fuse_policies,
)
from policy_sched.plugins.rules.inputs import (
    Answer as Answer,
    declare_input as declare_input,
    inputs_of as inputs_of,
    kind_of_input as kind_of_input,
    polled_answer as polled_answer,
)
from policy_sched.plugins.rules.plugin import rule_plugin as rule_plugin
