"""The formatter of expressions.

Used by `fmt`; keeps comments.
"""

from policy_sched.language.format.printer import (
    WIDTH,
    flat_expression,
    format_expression,
    plain_expression,
)

__all__ = [
    "WIDTH",
    "flat_expression",
    "format_expression",
    "plain_expression",
]
