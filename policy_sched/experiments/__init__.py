"""Experiments: many runs of a workload with variants of the policies, and what they show.

An Experiment is read and compiled (reading, variants, inputs, measures, sweep), its runs are done
by an engine and kept by their keys (runs, engine, results), and become tables, statistics and
figures (statistics, report, figures, page). tune searches for the best variant.
"""

from policy_sched.experiments.engine import Engine, engine_of, require
from policy_sched.experiments.figures import Drawn, axis_label, draw
from policy_sched.experiments.page import MEASURES, sweep_page
from policy_sched.experiments.report import (
    SweepReport,
    folders_of_results,
    keep_experiment,
    stored_report,
)
from policy_sched.experiments.results import (
    Outcome,
    Store,
    Table,
    by_variant,
    curve_names,
    points,
    run_tasks,
    tables,
    values_of,
    write,
    write_tables,
)
from policy_sched.experiments.statistics import (
    LEVEL,
    Distribution,
    Estimate,
    Paired,
    Significance,
    distribution,
    estimate,
    named,
    number_text,
    paired,
    told,
)
from policy_sched.experiments.sweep import (
    Sweep,
    Task,
    experiment_problems,
    open_experiment_problems,
    read_sweep,
)
from policy_sched.experiments.tune import (
    Objective,
    Tuning,
    patch_of_winner,
    search_lines,
    trials_table,
)

__all__ = [
    "LEVEL",
    "MEASURES",
    "Distribution",
    "Drawn",
    "Engine",
    "Estimate",
    "Objective",
    "Outcome",
    "Paired",
    "Significance",
    "Store",
    "Sweep",
    "SweepReport",
    "Table",
    "Task",
    "Tuning",
    "axis_label",
    "by_variant",
    "curve_names",
    "distribution",
    "draw",
    "engine_of",
    "estimate",
    "experiment_problems",
    "folders_of_results",
    "keep_experiment",
    "named",
    "number_text",
    "open_experiment_problems",
    "paired",
    "patch_of_winner",
    "points",
    "read_sweep",
    "require",
    "run_tasks",
    "search_lines",
    "stored_report",
    "sweep_page",
    "tables",
    "told",
    "trials_table",
    "values_of",
    "write",
    "write_tables",
]
