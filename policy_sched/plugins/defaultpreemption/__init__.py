"""DefaultPreemption: PostFilter by evicting pods of lower priority.

The search for victims is in `preemption`.
"""

from policy_sched.plugins.defaultpreemption.evaluator import Preempting
from policy_sched.plugins.defaultpreemption.plugin import Preemption

__all__ = [
    "Preempting",
    "Preemption",
]
