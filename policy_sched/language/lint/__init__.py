"""Lints: warnings about typed rules.

Nothing else in the language depends on them.
"""

from policy_sched.language.lint.conditions import Trees
from policy_sched.language.lint.linter import Vocabulary, lint, unknown_names, unused_params

__all__ = [
    "Trees",
    "Vocabulary",
    "lint",
    "unknown_names",
    "unused_params",
]
