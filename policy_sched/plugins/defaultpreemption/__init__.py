"""DefaultPreemption: PostFilter by evicting pods of lower priority.

The search for victims is in `preemption`.
"""

from policy_sched.plugins.defaultpreemption.plugin import (
    Preempting as Preempting,
    Preemption as Preemption,
)
