"""Runs files of scenarios, whichever kind they are of: decisions, or operations on the queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from policy_sched.errors import Diagnostic, PolicyError
from policy_sched.policytest.report import StepResult
from policy_sched.policytest.runner import ScenarioRun, run_scenario
from policy_sched.policytest.scenario import load_scenarios
from policy_sched.policytest.sequence import load_sequences, run_sequence


@dataclass(slots=True)
class FileResults:
    """One result per expected step, and what kept steps from being run."""

    results: list[StepResult] = field(default_factory=list)
    problems: list[Diagnostic] = field(default_factory=list)


def run_file(path: str) -> list[StepResult]:
    """Return one result per expected step, in file order.

    Raises PolicyError with every problem of the file, and OSError where it cannot be read.
    """
    found = run_files([path])
    if found.problems:
        raise PolicyError(found.problems)
    return found.results


def run_files(paths: Sequence[str], run: ScenarioRun | None = None) -> FileResults:
    """Run the scenarios of all files that can be run; OSError where one cannot be read.

    A file with a problem is not run; a broken policy stops only the scenarios that it is in.
    """
    run = ScenarioRun() if run is None else run
    found = FileResults()
    for path in paths:
        try:
            _run(path, run, found)
        except PolicyError as error:
            found.problems = list(dict.fromkeys([*found.problems, *error.diagnostics]))
    return found


def _run(path: str, run: ScenarioRun, found: FileResults) -> None:
    sequences = load_sequences(path)
    if sequences is not None:
        results = [result for one in sequences for result in run_sequence(path, one)]
        found.results += (r for r in results if run.wanted(r.scenario, r.pod))
        return
    for scenario in load_scenarios(path, run.roots):
        try:
            found.results += run_scenario(scenario, run)
        except PolicyError as error:
            found.problems = list(dict.fromkeys([*found.problems, *error.diagnostics]))
