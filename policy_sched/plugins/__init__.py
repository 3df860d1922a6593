"""Plugins: compiled rules, and under upstream names what rules cannot express.

rules/ turns compiled policies into hooks. The others are kube-scheduler's in-tree plugins. The
registry finds them and third-party plugins by name.
"""

from policy_sched.plugins.default_binder import DefaultBinder as DefaultBinder
from policy_sched.plugins.default_preemption import (
    Preempting as Preempting,
    Preemption as Preemption,
)
from policy_sched.plugins.registry import (
    GATED_PARTS as GATED_PARTS,
    HOUSE as HOUSE,
    factories as factories,
    plugin_points as plugin_points,
)
