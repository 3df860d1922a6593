"""The measured search for victims: what it finds, however long it takes."""

from __future__ import annotations

from policy_sched.bench.preemption import run_dry_runs
from policy_sched.profiles.models.defaults import policies_directory


def test_every_search_finds_the_victims_of_one_node() -> None:
    """Nothing is evicted; a pod of 3 cpu needs the room of eight pods of 400m."""
    result = run_dry_runs(10, 4)
    assert (result.nodes, result.pods, result.disruption_budgets, result.searches) == (
        10,
        100,
        3,
        4,
    )
    assert result.victims == 8
    assert 0 < result.median_ms <= result.p99_ms <= result.max_ms
    assert result.document()["victims"] == result.victims
    assert result.scratch_median_ms > 0
    assert list(result.text_lines())[2].endswith("8 victims")


def test_a_policy_searches_in_place_of_the_default() -> None:
    """One without a preemption section changes nothing of the search."""
    gentle = policies_directory() / "gentle-preemption"
    assert run_dry_runs(10, 2, [str(gentle)]).victims == 8
    gang = policies_directory() / "gang"
    assert run_dry_runs(10, 2, [str(gang)]).victims == 8
