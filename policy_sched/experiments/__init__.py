"""Experiments: many runs of a workload with variants of the policies, and what they show.

An Experiment is read and compiled (reading, variants, inputs, measures, sweep), its runs are done
by an engine and kept by their keys (runs, engine, results), and become tables, statistics and
figures (statistics, report, figures, page). tune searches for the best variant.
"""

from policy_sched.experiments.engine import engine_of as engine_of, require as require
from policy_sched.experiments.figures import axis_label as axis_label, draw as draw
from policy_sched.experiments.measures import (
    MeasureRules as MeasureRules,
    Series as Series,
    Sums as Sums,
    stated_measures as stated_measures,
)
from policy_sched.experiments.page import MEASURES as MEASURES, sweep_page as sweep_page
from policy_sched.experiments.report import (
    SweepReport as SweepReport,
    folders_of_results as folders_of_results,
    keep_experiment as keep_experiment,
    stored_report as stored_report,
)
from policy_sched.experiments.results import (
    ResultStore as ResultStore,
    by_variant as by_variant,
    curve_names as curve_names,
    points as points,
    run_tasks as run_tasks,
    tables as tables,
    values_of as values_of,
    write as write,
    write_tables as write_tables,
)
from policy_sched.experiments.statistics import (
    ENOUGH as ENOUGH,
    Estimate as Estimate,
    Paired as Paired,
    Significance as Significance,
    distribution as distribution,
    estimate as estimate,
    named as named,
    number_text as number_text,
    paired as paired,
    told as told,
)
from policy_sched.experiments.sweep import (
    Sweep as Sweep,
    experiment_problems as experiment_problems,
    open_experiment_problems as open_experiment_problems,
    read_sweep as read_sweep,
)
from policy_sched.experiments.tune import (
    Objective as Objective,
    Tuning as Tuning,
    patch_of_winner as patch_of_winner,
    search_lines as search_lines,
    trials_table as trials_table,
)
