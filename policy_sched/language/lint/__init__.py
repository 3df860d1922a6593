"""Lints: warnings about typed rules.

Nothing else in the language depends on them.
"""

from policy_sched.language.lint.conditions import (
    Trees as Trees,
    constant_conditions as constant_conditions,
)
from policy_sched.language.lint.linter import (
    Vocabulary as Vocabulary,
    lint as lint,
    unknown_names as unknown_names,
    unused_params as unused_params,
)
