"""Explanations of one decision: filters, scores, and what would change it.

Pure functions over a scheduler's evaluation, shared by the command line and the HTTP endpoint.
"""

from policy_sched.explain.evaluate import evaluated
from policy_sched.explain.explain import explain, filter_parts
from policy_sched.explain.report import Explanation

__all__ = [
    "Explanation",
    "evaluated",
    "explain",
    "filter_parts",
]
