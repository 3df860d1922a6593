"""The verb `bench API`: three processes, everything through the API; what it reports."""

from __future__ import annotations

import sys

import pytest

from policy_sched.cli import bench
from policy_sched.cli.main import run
from policy_sched.report import Report


@pytest.fixture(scope="module")
def report() -> Report:
    """The report of one run, which takes a while."""
    items: list[Report] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench, "write_report", lambda report, output: items.append(report))
        arguments = ["--nodes", "20", "--pods", "30", "--existing", "10", "--rate", "100", "--tls"]
        assert run(["bench", "API", *arguments]) == 0
    return items[0]


def test_all_pods_are_bound_while_the_cluster_is_read_again(report: Report) -> None:
    """All phases end with every pod bound; requests, sizes and the longest block are numbers."""
    result = report.document()
    assert (result["nodes"], result["existing"], result["pods"]) == (20, 10, 30)
    assert (result["client_qps"], result["pods_per_second"] > 0) == (5000, True)
    assert 0 < result["longest_block_cpu_ms"] <= result["longest_block_ms"]
    first, second, third = result["phases"].values()
    assert (first["pods"], second["pods"], third["pods"]) == (30, 6, 6)
    assert list(result["phases"])[-1] == "100 pods/s"
    assert first["requests"]["POST pods"] == first["requests"]["POST pods/binding"] == 30
    assert second["requests"]["GET pods (watch)"] == 1, "all pods are read again"
    for phase in (first, second, third):  # a phase ended with its last binding, before its events
        assert phase["requests"]["POST events"] >= phase["pods"]
    assert 0 < first["p50_ms"] <= first["p99_ms"] <= first["max_ms"]
    if sys.platform == "linux":
        for used in (first["scheduler"], first["server"]):
            assert 0 < used["rss_mib"] <= used["peak_mib"]
        assert result["start"]["cpu_seconds"] > 0


def test_it_tells_people_the_same(report: Report) -> None:
    """The rate, the latency, what each process used, and how long the event loop was blocked."""
    lines = list(report.text_lines())
    assert lines[0].startswith("API: 20 nodes, 10 pods there before; ")
    assert lines[0].endswith(" of their own, TLS; client limited to 5000 requests/s")
    assert lines[1].startswith("  create and bind: 30 pods, ")
    assert "    from creation to binding p50 " in lines[2]
    assert lines[-1].startswith("  the event loop was never held longer than ")
