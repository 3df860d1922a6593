"""Questions about policies that are edited: checks, trials, simulations, patches.

Processes with limits of time and memory compute them (questions, processes), with the functions of
the language server (editor) and of `diff` and `simulate` (trial). Edits are copies beside the files
(edits); nothing is applied.
"""

from policy_sched.console.trials.editor import Asked, EditorQuestion
from policy_sched.console.trials.edits import (
    SourceText,
    checked_edits,
    free_place,
    patch,
    place_of_new,
    source_texts,
)
from policy_sched.console.trials.processes import (
    EDITOR_PROCESS,
    TIMELINES,
    TRIAL_PROCESS,
    cluster_of,
    now_of,
    processes,
)
from policy_sched.console.trials.trial import (
    MOST_SEEDS,
    Hits,
    HitsQuestion,
    TimelineQuestion,
    Trial,
    TrialQuestion,
    packed,
)

__all__ = [
    "EDITOR_PROCESS",
    "MOST_SEEDS",
    "TIMELINES",
    "TRIAL_PROCESS",
    "Asked",
    "EditorQuestion",
    "Hits",
    "HitsQuestion",
    "SourceText",
    "TimelineQuestion",
    "Trial",
    "TrialQuestion",
    "checked_edits",
    "cluster_of",
    "free_place",
    "now_of",
    "packed",
    "patch",
    "place_of_new",
    "processes",
    "source_texts",
]
