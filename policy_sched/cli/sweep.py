"""The verbs ``sweep`` and ``tune``: an experiment in; tables, or the best variant, out."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from cyclopts import Parameter
from cyclopts.validators import Number

from policy_sched import experiments
from policy_sched.cli.input.parallel_map import cores
from policy_sched.cli.output import diagnostics
from policy_sched.cli.output.progress import progress
from policy_sched.cli.output.report import require_report, write_page, write_report
from policy_sched.errors import PolicyError, PolicySchedError

Form: TypeAlias = Literal["svg", "png"]
Settings = Annotated[tuple[str, ...], Parameter(name="--set", negative="", show_default=False)]
Workers = Annotated[int | None, Parameter(name=["--jobs", "-j"], validator=Number(gte=1))]


def sweep(  # noqa: PLR0913  # the options of the verb
    experiment: Annotated[str, Parameter(name="EXPERIMENT")],
    /,
    *,
    jobs: Workers = None,
    engine: str | None = None,
    results: str | None = None,
    settings: Settings = (),
    parquet: Annotated[bool, Parameter(negative="")] = False,
    figures: Annotated[tuple[Form, ...], Parameter(negative="", show_default=False)] = (),
    report: str | None = None,
    output: Annotated[Literal["text", "json"], Parameter(name=["--output", "-o"])] = "text",
) -> int:
    """Run every variant of an Experiment with every seed, and write tables of what was measured.

    A run whose result is there already is not run again: results are kept by a hash of everything
    that goes into a run. The tables are the same bytes whatever the number of workers.

    Parameters
    ----------
    experiment
        A file with an Experiment.
    jobs
        Processes, one for each core unless given; with 1 everything runs in this one.
    engine
        dask+tls://HOST:PORT runs on a Dask cluster with the certificates of Dask's configuration,
        dask://HOST:PORT on one without, on this machine (needs distributed, the extra dask).
    results
        The folder of results: NAME-results unless given, with the experiment's name.
    settings
        A parameter of the experiment, as in trace=default; once for each.
    parquet
        Write the tables as Parquet, too (needs pyarrow, the extra parquet).
    figures
        Write the figures as svg or png; once for each (needs matplotlib, the extra
        plot).
    report
        Write one HTML file with figures, tables and the experiment, which needs no network
        (needs matplotlib and jinja2, the extras plot and console).
    output
        text or json: what is printed.
    """
    require_report(report)
    if figures or report:
        experiments.require("matplotlib", "plot")
    if parquet:
        experiments.require("pyarrow", "parquet")
    prepared = read(experiment, settings)
    store = experiments.ResultStore(Path(results or f"{prepared.name}-results"))
    workers = jobs or cores()
    notes: list[str] = []
    chosen = experiments.engine_of(engine, workers, notes.append)
    with progress("running", len(prepared.tasks)) as advance:
        outcome = experiments.run_tasks(prepared, prepared.tasks, store, chosen, advance)
    diagnostics.write_hints(notes)
    experiments.write_tables(
        experiments.tables(prepared.spec, outcome.results), store.folder, parquet=parquet
    )
    as_run = prepared.as_run()
    experiments.keep_experiment(prepared, as_run, store.folder)
    sweep_report = experiments.SweepReport(
        prepared.name,
        prepared.spec,
        outcome.results,
        outcome.failures,
        str(store.folder),
        outcome.reused,
        as_run,
    )
    if figures or report:
        drawn = experiments.draw(prepared.spec, outcome.results)
        for figure in drawn:
            for form in figures:
                experiments.write(
                    store.folder / "figures" / f"{figure.name}.{form}", figure.write(form)
                )
        if report:
            write_page(report, experiments.sweep_page(sweep_report, drawn))
    write_report(sweep_report, output)
    return diagnostics.FAILED if outcome.failures else diagnostics.OK


def read(path: str, settings: Sequence[str]) -> experiments.Sweep:
    """Return an experiment that can be run. Raises PolicyError with every problem."""
    diagnostics.require_files([path])
    prepared, problems = experiments.read_sweep(path, given(settings))
    if prepared is None:
        raise PolicyError(problems)
    diagnostics.write_diagnostics(problems, sys.stderr)
    return prepared


def given(settings: Sequence[str]) -> Mapping[str, str]:
    """Return the values of --set by name. Raises PolicySchedError."""
    pairs = [setting.partition("=") for setting in settings]
    wrong = next(
        (setting for setting, pair in zip(settings, pairs, strict=True) if not pair[1]), None
    )
    if wrong is not None:
        raise PolicySchedError(f"--set {wrong}: write NAME=VALUE")
    return {name: value for name, _, value in pairs}


Objectives = Annotated[
    tuple[str, ...], Parameter(negative="", show_default=False, allow_leading_hyphen=True)
]
Count = Annotated[int, Parameter(validator=Number(gte=1, lte=100_000))]


def tune(  # noqa: PLR0913  # the options of the verb
    experiment: Annotated[str, Parameter(name="EXPERIMENT")],
    /,
    *,
    objective: Objectives = (),
    budget: Count = 50,
    held_back: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    seed: int = 0,
    jobs: Workers = None,
    engine: str | None = None,
    results: str | None = None,
    settings: Settings = (),
) -> int:
    """Search spec.search of an Experiment for the weights and parameters with the best objective.

    Writes the winner as a patch of the policy or configuration, and the evidence beside it. Some
    seeds are held back, and the winner is compared with the experiment's own variant on them; the
    exit code is 1 if it is not better there beyond noise. Needs optuna, the extra tune.

    Parameters
    ----------
    experiment
        A file with an Experiment that has spec.search.
    objective
        An expression over measures, such as "cpu - 0.5 * unplaced": the greater the better. Given
        more than once, each is an objective, and the winners are those that no other one beats.
    budget
        How many variants are tried.
    held_back
        How many seeds are held back, the last ones: half of them unless given.
    seed
        Decides what the search tries.
    jobs
        Processes, one for each core unless given; the search is the same.
    engine
        dask+tls://HOST:PORT runs on a Dask cluster with the certificates of Dask's configuration,
        dask://HOST:PORT on one without, on this machine (needs distributed, the extra dask).
    results
        The folder of results: NAME-results unless given, with the experiment's name.
    settings
        A parameter of the experiment, as in trace=default; once for each.
    """
    if not objective:
        raise PolicySchedError("--objective is needed: an expression over measures")
    sweep = read(experiment, settings)
    names = [measure.name for measure in sweep.spec.measures]
    objectives = [experiments.Objective(text, names) for text in objective]
    store = experiments.ResultStore(Path(results or f"{sweep.name}-results"))
    notes: list[str] = []
    chosen = experiments.engine_of(engine, jobs or cores(), notes.append)
    tuning = experiments.Tuning(sweep, objectives, store, chosen, held_back, seed)
    with progress("trying variants", budget) as advance:
        search = tuning.run(budget, advance)
    diagnostics.write_hints(notes)
    experiments.write_tables([experiments.trials_table(search)], store.folder, parquet=False)
    lines = list(experiments.search_lines(search))
    several = len(objectives) > 1
    for rank, winner in enumerate(search.winners, start=1):
        if not winner.better and not several:
            continue
        name = "best.patch" if len(search.winners) == 1 else f"best-{rank}.patch"
        patch = experiments.patch_of_winner(sweep, tuning.base, winner)
        experiments.write(store.folder / name, patch.encode())
        lines.append(f"{store.folder / name}: patch -p1 < FILE applies it")
    experiments.write(store.folder / "evidence.txt", ("\n".join(lines) + "\n").encode())
    diagnostics.write_lines(lines)
    return diagnostics.OK if any(winner.better for winner in search.winners) else diagnostics.FAILED
