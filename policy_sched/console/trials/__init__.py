"""Questions about policies that are edited: checks, trials, simulations, patches.

Processes with limits of time and memory compute them (questions, processes), with the functions of
the language server (editor) and of `diff` and `simulate` (trial). Edits are copies beside the files
(edits); nothing is applied.
"""

from policy_sched.console.trials.claims import (
    ClaimAnswer as ClaimAnswer,
    ProofQuestion as ProofQuestion,
    Proofs as Proofs,
)
from policy_sched.console.trials.editor import Asked as Asked, EditorQuestion as EditorQuestion
from policy_sched.console.trials.edits import (
    SourceText as SourceText,
    checked_edits as checked_edits,
    free_place as free_place,
    patch as patch,
    path_of_new_file as path_of_new_file,
    source_texts as source_texts,
)
from policy_sched.console.trials.trial import (
    EDITOR_PROCESS as EDITOR_PROCESS,
    MOST_SEEDS as MOST_SEEDS,
    TIMELINES as TIMELINES,
    TRIAL_PROCESS as TRIAL_PROCESS,
    Hits as Hits,
    HitsQuestion as HitsQuestion,
    PolicyTrial as PolicyTrial,
    TimelineQuestion as TimelineQuestion,
    TrialQuestion as TrialQuestion,
    cluster_of as cluster_of,
    now_of as now_of,
    packed as packed,
    processes as processes,
)
