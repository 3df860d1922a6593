"""Filter and score over all nodes, with results kept per pod signature.

The Evaluator refreshes kept results on changed rows only; the results are those of a full
evaluation, bit for bit.
"""

from policy_sched.framework.evaluate import extenders
from policy_sched.framework.evaluate.evaluator import Domain, Evaluator
from policy_sched.framework.evaluate.extenders import skip, skipped
from policy_sched.framework.evaluate.filter_dry_run import FilterDryRun
from policy_sched.framework.evaluate.nominated_pods import (
    Nominations,
    rejections_with_nominated_pods,
)
from policy_sched.framework.evaluate.placement import (
    Domains,
    domains,
    normalized_placements,
    placement_scores,
)
from policy_sched.framework.evaluate.pod_signature import Key, key_getter
from policy_sched.framework.evaluate.results import FEASIBLE, NOT_ASKED, Evaluation
from policy_sched.framework.evaluate.sampling import Rotation, Sample, looks_at_all

__all__ = [
    "FEASIBLE",
    "NOT_ASKED",
    "Domain",
    "Domains",
    "Evaluation",
    "Evaluator",
    "FilterDryRun",
    "Key",
    "Nominations",
    "Rotation",
    "Sample",
    "domains",
    "extenders",
    "key_getter",
    "looks_at_all",
    "normalized_placements",
    "placement_scores",
    "rejections_with_nominated_pods",
    "skip",
    "skipped",
]
