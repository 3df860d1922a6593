"""Reloads under load, measured small: the checks that the benchmark makes hold."""

from __future__ import annotations

import pytest

from policy_sched.bench import reload
from policy_sched.bench.reload import Reloads, run_reloads
from policy_sched.errors import PolicySchedError


@pytest.fixture(scope="module")
def result() -> Reloads:
    """Each phase on few nodes, and a directory of few policies."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reload, "POLICIES", 4)
        return run_reloads(nodes=50, pods=120, rate=5_000)


def test_every_pod_is_decided_while_policies_change_and_break(result: Reloads) -> None:
    """A reload for every 20 pods, a third of them refused."""
    for name in ("steady", "at once"):
        assert result.phases[name].reloads == {}
        assert result.phases[f"{name}, reloads"].reloads == {"loaded": 4, "refused": 2}


def test_the_report_shows_every_case(result: Reloads) -> None:
    """Text has a line for each phase, data the same numbers."""
    lines = list(result.text_lines())
    assert "no pod lost" in lines[0]
    assert sum("decisions/s" in line for line in lines) == len(result.phases)
    assert f"a directory of {reload.POLICIES} policies" in lines[-1]
    document = result.document()
    assert document["pods"] == 120
    assert document["workload"] == "Reload"


def test_a_pod_that_fits_nowhere_is_no_result() -> None:
    """The benchmark says so instead of measuring something else."""
    with pytest.raises(PolicySchedError, match="0/1 nodes are available"):
        run_reloads(nodes=1, pods=2, rate=5_000)
