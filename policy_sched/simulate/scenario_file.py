"""Runs a file of scenarios, whichever kind they are of: decisions, or operations on the queue."""

from __future__ import annotations

from policy_sched.simulate.queue_sequence import load_sequences, run_sequence
from policy_sched.simulate.scenario import load_scenarios
from policy_sched.simulate.scenario_report import StepResult
from policy_sched.simulate.scenario_runner import run_scenario


def run_file(path: str) -> list[StepResult]:
    """Return one result per expected step, in file order.

    Raises PolicyError with every problem of the file, and OSError where it cannot be read.
    """
    sequences = load_sequences(path)
    if sequences is not None:
        return [result for one in sequences for result in run_sequence(path, one)]
    return [result for one in load_scenarios(path) for result in run_scenario(one)]
