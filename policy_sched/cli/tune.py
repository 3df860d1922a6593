"""The verb ``tune``: an experiment and an objective in, the best variant as a patch out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from policy_sched import experiments
from policy_sched.cli.input.parallel_map import cores
from policy_sched.cli.output import diagnostics
from policy_sched.cli.output.progress import progress
from policy_sched.cli.sweep import Settings, Workers, read
from policy_sched.errors import PolicySchedError

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
    store = experiments.Store(Path(results or f"{sweep.name}-results"))
    notes: list[str] = []
    chosen = experiments.engine_of(engine, jobs or cores(), notes.append)
    tuning = experiments.Tuning(sweep, objectives, store, chosen, held_back, seed)
    with progress("trying variants", budget) as advance:
        search = tuning.run(budget, advance)
    diagnostics.write_hints(notes)
    experiments.write_tables([experiments.trials_table(search)], store.folder, parquet=False)
    lines = list(experiments.search_lines(search))
    several = len(objectives) > 1
    for number, winner in enumerate(search.winners, start=1):
        if not winner.better and not several:
            continue
        name = "best.patch" if len(search.winners) == 1 else f"best-{number}.patch"
        patch = experiments.patch_of_winner(sweep, tuning.base, winner)
        experiments.write(store.folder / name, patch.encode())
        lines.append(f"{store.folder / name}: patch -p1 < FILE applies it")
    experiments.write(store.folder / "evidence.txt", ("\n".join(lines) + "\n").encode())
    diagnostics.write_lines(lines)
    return diagnostics.OK if any(winner.better for winner in search.winners) else diagnostics.FAILED
