"""The verb `bench Hostile`: ordinary pods are bound beside each case, and the lease is renewed."""

from __future__ import annotations

from functools import partial

import pytest

from policy_sched.bench import hostile
from policy_sched.cli import bench
from policy_sched.cli.main import run
from policy_sched.report import Report


def test_ordinary_pods_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside one such pod the lease was lost, and the next leader met the same pod."""
    items: list[Report] = []
    monkeypatch.setattr(bench, "write_report", lambda report, output: items.append(report))
    monkeypatch.setattr(hostile, "run_hostile", partial(hostile.run_hostile, count=4))
    assert run(["bench", "Hostile", "--nodes", "10", "--pods", "20"]) == 0
    result = items[0].document()
    assert (result["nodes"], result["pods"], result["pods_per_second"]) == (10, 20, 500)
    assert [case["hostile"] for case in result["cases"].values()] == [0, 8, 8, 8, 4, 40]
    assert all(0 < case["p50_ms"] <= case["max_ms"] for case in result["cases"].values())
    assert "of lease renewal was" in list(items[0].text_lines())[-1]
