"""Questions about policies that are edited: checks, trials, simulations, patches.

Processes with limits of time and memory compute them (questions, processes), with the functions of
the language server (editor) and of `diff` and `simulate` (trial). Edits are copies beside the files
(edits); nothing is applied.
"""

from policy_sched.console.trials.editor import Asked as Asked, EditorQuestion as EditorQuestion
from policy_sched.console.trials.edits import (
    SourceText as SourceText,
    checked_edits as checked_edits,
    free_place as free_place,
    patch as patch,
    place_of_new as place_of_new,
    source_texts as source_texts,
)
from policy_sched.console.trials.processes import (
    EDITOR_PROCESS as EDITOR_PROCESS,
    TIMELINES as TIMELINES,
    TRIAL_PROCESS as TRIAL_PROCESS,
    cluster_of as cluster_of,
    now_of as now_of,
    processes as processes,
)
from policy_sched.console.trials.trial import (
    MOST_SEEDS as MOST_SEEDS,
    Hits as Hits,
    HitsQuestion as HitsQuestion,
    PolicyTrial as PolicyTrial,
    TimelineQuestion as TimelineQuestion,
    TrialQuestion as TrialQuestion,
    packed as packed,
)
