"""Explanations of one decision: filters, scores, and what would change it.

Pure functions over a scheduler's evaluation, shared by the command line and the HTTP endpoint.
"""

from policy_sched.explain.evaluate import NodeValue, evaluated
from policy_sched.explain.evaluate_devices import (
    SELECTOR,
    evaluated_on_devices,
    is_over_devices,
)
from policy_sched.explain.explain import explain, filter_parts
from policy_sched.explain.page import (
    explanation_page,
    explanation_sections,
    filters_funnel,
    rejections_table,
    scores_bars,
    tone_of,
)
from policy_sched.explain.places import locate_selectors
from policy_sched.explain.report import Explanation, some

__all__ = [
    "SELECTOR",
    "Explanation",
    "NodeValue",
    "evaluated",
    "evaluated_on_devices",
    "explain",
    "explanation_page",
    "explanation_sections",
    "filter_parts",
    "filters_funnel",
    "is_over_devices",
    "locate_selectors",
    "rejections_table",
    "scores_bars",
    "some",
    "tone_of",
]
