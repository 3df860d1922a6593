"""Filter and score over all nodes, with results kept per pod signature.

The Evaluator refreshes kept results on changed rows only; the results are those of a full
evaluation, bit for bit.
"""

from policy_sched.framework.evaluate.evaluator import Domain as Domain, Evaluator as Evaluator
from policy_sched.framework.evaluate.extenders import skip as skip, skipped as skipped
from policy_sched.framework.evaluate.filter_dry_run import FilterDryRun as FilterDryRun
from policy_sched.framework.evaluate.nominated_pods import Nominations as Nominations
from policy_sched.framework.evaluate.pod_signature import Key as Key, key_getter as key_getter
from policy_sched.framework.evaluate.results import (
    Evaluation as Evaluation,
    FilteredNodes as FilteredNodes,
)
from policy_sched.framework.evaluate.sampling import (
    Rotation as Rotation,
    Sample as Sample,
    looks_at_all as looks_at_all,
)
from policy_sched.framework.evaluate.views import (
    FEASIBLE as FEASIBLE,
    MAX_NODE_SCORE as MAX_NODE_SCORE,
    NOT_ASKED as NOT_ASKED,
)
