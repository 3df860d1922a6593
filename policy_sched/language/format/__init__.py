"""The formatter of expressions.

Used by `fmt`; keeps comments.
"""

from policy_sched.language.format.printer import (
    WIDTH as WIDTH,
    flat_expression as flat_expression,
    format_expression as format_expression,
    plain_expression as plain_expression,
)
