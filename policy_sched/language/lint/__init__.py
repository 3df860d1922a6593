"""Lints: warnings about typed rules.

Nothing else in the language depends on them.
"""

from policy_sched.language.lint.linter import lint, unused_params
from policy_sched.language.lint.snapshot import Vocabulary, unknown_names
from policy_sched.language.lint.visitor import Trees

__all__ = [
    "Trees",
    "Vocabulary",
    "lint",
    "unknown_names",
    "unused_params",
]
