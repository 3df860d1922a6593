"""Explanations of one decision: filters, scores, and what would change it.

Pure functions over a scheduler's evaluation, shared by the command line and the HTTP endpoint.
"""

from policy_sched.explain.devices import locate_selectors as locate_selectors
from policy_sched.explain.evaluate import (
    SELECTOR as SELECTOR,
    NodeValue as NodeValue,
    evaluated as evaluated,
    evaluated_on_devices as evaluated_on_devices,
    is_over_devices as is_over_devices,
)
from policy_sched.explain.explain import explain as explain, filter_parts as filter_parts
from policy_sched.explain.page import (
    explanation_page as explanation_page,
    explanation_sections as explanation_sections,
    scores_bars as scores_bars,
)
from policy_sched.explain.report import Explanation as Explanation, some as some
