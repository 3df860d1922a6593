"""The verb `bench API`: three processes, everything through the API; what it reports."""

from __future__ import annotations

import json
import sys

import pytest

from policy_sched.cli.main import run


def test_all_pods_are_bound_while_the_cluster_is_read_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Both phases end with every pod bound; requests, sizes and the longest block are numbers."""
    arguments = ["--nodes", "20", "--pods", "30", "--existing", "10", "-o", "json"]
    assert run(["bench", "API", *arguments]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["nodes"], result["existing"], result["pods"]) == (20, 10, 30)
    assert (result["client_qps"], result["pods_per_second"] > 0) == (5000, True)
    assert 0 < result["longest_block_cpu_ms"] <= result["longest_block_ms"]
    first, second = result["phases"].values()
    assert (first["pods"], second["pods"]) == (30, 6)
    assert first["requests"]["POST pods"] == first["requests"]["POST pods/binding"] == 30
    assert second["requests"]["GET pods (watch)"] == 1, "all pods are read again"
    assert 0 < first["p50_ms"] <= first["p99_ms"] <= first["max_ms"]
    if sys.platform == "linux":
        for used in (first["scheduler"], first["server"]):
            assert 0 < used["rss_mib"] <= used["peak_mib"]


def test_it_tells_people_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """The rate, the latency, what each process used, and how long the event loop was blocked."""
    assert run(["bench", "API", "--nodes", "5", "--pods", "5", "--existing", "1", "--tls"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("API: 5 nodes, 1 pods there before; ")
    assert lines[0].endswith(" of their own, TLS; client limited to 5000 requests/s")
    assert lines[1].startswith("  create and bind: 5 pods, ")
    assert "    from creation to binding p50 " in lines[2]
    assert lines[-1].startswith("  the event loop was never held longer than ")
