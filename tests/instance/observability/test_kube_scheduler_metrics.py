"""Every metric of kube-scheduler 1.36: here by its name, or left out with a reason."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from policy_sched.instance.observability.metric_families import Histogram, MetricFamily, exponential
from policy_sched.instance.observability.registry import Metrics
from policy_sched.instance.observability.resource_metrics import resource_pieces
from policy_sched.testing import make_pod

LISTED: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "upstream_metrics.json").read_text(encoding="utf-8")
)
"""Names, types, labels, buckets and stability as kube-scheduler has them in its code."""
HERE = [one for one in LISTED if "left_out" not in one and "endpoint" not in one]


def families() -> dict[str, MetricFamily]:
    """Return all families by name."""
    metrics = Metrics()
    return {one.name: one for one in (*metrics.upstream.all, *metrics.policies.all)}


@pytest.mark.parametrize("listed", HERE, ids=lambda one: one["name"])
def test_a_metric_is_as_upstream_has_it(listed: dict[str, Any]) -> None:
    """Name, type, labels, buckets, and the stability in front of its help."""
    family = families()[listed["name"]]
    assert family.kind == listed["type"]
    assert sorted(family.labels) == sorted(listed["labels"])
    assert family.text().startswith(f"# HELP {family.name} [{listed['stability']}] ")
    if listed["type"] == "histogram":
        assert isinstance(family, Histogram)
        buckets = listed["buckets"]
        ends = tuple(buckets) if isinstance(buckets, list) else exponential(**buckets)
        assert family.ends == ends


def test_every_missing_metric_has_a_reason() -> None:
    """It is absent, and the list has the reason."""
    names = families()
    out = [one for one in LISTED if "left_out" in one]
    assert all(one["left_out"] and one["name"] not in names for one in out)


def test_no_other_metric_has_an_upstream_prefix() -> None:
    """Every metric without the prefix policy_sched_ is in the list."""
    listed = {one["name"] for one in LISTED}
    ours = [name for name in families() if name.startswith("policy_sched_")]
    assert set(families()) - set(ours) <= listed
    assert len(ours) == 23


def test_the_resource_metrics_are_as_upstream_has_them() -> None:
    """Both families, each with its labels in upstream's order."""
    pod = make_pod(cpu="1", node_name="a", priority=5)

    async def text() -> str:
        return "".join([piece async for piece in resource_pieces([pod])])

    (read,) = text_string_to_metric_families(asyncio.run(text()))
    listed = next(one for one in LISTED if one["name"] == read.name)
    assert set(read.samples[0].labels) == set(listed["labels"])
    assert read.documentation.startswith("[STABLE] ")


NO_UNITS = ("milliseconds", "microseconds", "minutes", "hours", "kilobytes", "megabytes", "percent")


def test_promtools_lint_finds_nothing() -> None:
    """Help for each, _total for counters alone, base units, no types in names."""
    for family in text_string_to_metric_families(Metrics().text()):
        name = family.name
        assert family.documentation, name
        whole = f"{name}_total" if family.type == "counter" else name
        assert whole.endswith("_total") == (family.type == "counter"), name
        assert family.type != "unknown"
        words = name.split("_")
        assert not set(words) & {*NO_UNITS, "gauge", "counter", "histogram", "summary"}, name
        assert not name.endswith(("_count", "_sum", "_bucket")), name
        assert name == name.lower()
        assert ":" not in name


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool")
def test_promtool_finds_nothing() -> None:
    """The real one, where there is one."""
    command = ["promtool", "check", "metrics"]
    page = Metrics().text()
    done = subprocess.run(command, input=page, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_page_reads_as_prometheus_text() -> None:
    """No name comes twice, and process metrics are among them."""
    names = [family.name for family in text_string_to_metric_families(Metrics().text())]
    assert len(names) == len(set(names))
    assert {"process_cpu_seconds", "process_resident_memory_bytes"} <= set(names)
