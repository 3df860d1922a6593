"""The benchmark of a large cluster: what an object takes in memory."""

from __future__ import annotations

import json

import pytest

from policy_sched.bench.size import run_size
from policy_sched.cli.main import run

COMMAND = ["bench", "Size", "--nodes", "40", "--pods", "20", "--existing", "400"]


def test_memory_is_told_for_each_node_and_pod(capsys: pytest.CaptureFixture[str]) -> None:
    """Counts are those asked for; bytes are those of all, divided."""
    assert run([*COMMAND, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    nodes, pods = document["loaded"]
    assert (nodes["kind"], nodes["count"]) == ("nodes", 40)
    assert (pods["kind"], pods["count"]) == ("pods", 400)
    for item in (nodes, pods):
        assert item["bytes_each"] == pytest.approx(
            item["mebibytes"] * 2**20 / item["count"], rel=0.2, abs=1500
        )
    assert document["pods"] == 20
    assert 0 < document["p50_us"] <= document["p99_us"]


def test_the_text_has_a_line_for_each_kind(capsys: pytest.CaptureFixture[str]) -> None:
    """Nodes, pods, and both phases."""
    assert run(COMMAND) == 0
    heading, nodes, pods, cold, warm = capsys.readouterr().out.splitlines()
    assert heading.startswith("Size: 40 nodes, 400 pods; ")
    assert nodes.startswith("  nodes ")
    assert pods.startswith("  pods ")
    assert cold.startswith("  cold ")
    assert warm.startswith("  warm ")


def test_loading_shows_how_far_it_is() -> None:
    """Nodes, then pods: progress is reported after each thousand objects."""
    seen: list[int] = []
    run_size(1_000, 5, 2_000, seen.append)
    assert seen == [1_000] * 3
