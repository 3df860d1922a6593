"""Explanations of one decision: filters, scores, and what would change it.

Pure functions over a scheduler's evaluation, shared by the command line and the HTTP endpoint.
"""

from policy_sched.explain.counterfactuals import filter_parts
from policy_sched.explain.evaluate import document, evaluated, text_lines
from policy_sched.explain.explain import explain
from policy_sched.explain.report import Explanation, as_annotations, as_json
from policy_sched.explain.report import text_lines as report_text_lines

__all__ = [
    "Explanation",
    "as_annotations",
    "as_json",
    "document",
    "evaluated",
    "explain",
    "filter_parts",
    "report_text_lines",
    "text_lines",
]
