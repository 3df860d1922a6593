"""Families of metrics, and their text format."""

from __future__ import annotations

from typing import get_type_hints

import pytest
from prometheus_client.parser import text_string_to_metric_families

from policy_sched.instance.observability import kube_scheduler_metrics, metric_families
from policy_sched.instance.observability.registry import PolicyMetrics


def test_buckets_grow_by_a_factor() -> None:
    """Each end is the one before times the factor."""
    assert metric_families.exponential(0.001, 2, 4) == (0.001, 0.002, 0.004, 0.008)


def test_a_counter_counts_by_labels() -> None:
    """A series exists once it was counted; one without labels from the start."""
    family = metric_families.NumberFamily("pods_total", "counter", "Pods.", ["node"])
    family.values[("a",)] += 2
    family.values[("b",)] += 1
    assert family.text() == (
        "# HELP pods_total Pods.\n# TYPE pods_total counter\n"
        'pods_total{node="a"} 2.0\npods_total{node="b"} 1.0\n'
    )
    assert metric_families.NumberFamily("x_total", "counter", "X.").text().splitlines()[2:] == [
        "x_total 0.0"
    ]


def test_a_gauge_forgets_no_series() -> None:
    """A series that was removed is 0, so that an alert on it ends."""
    family = metric_families.NumberFamily("waiting", "gauge", "Waiting.", ["queue"])
    family.replace({("active",): 3})
    family.replace({("gated",): 1})
    assert dict(family.values) == {("active",): 0, ("gated",): 1}


def test_a_histogram_is_what_prometheus_reads() -> None:
    """Buckets are added up, an end belongs to its bucket, and sum and count are those of all."""
    family = metric_families.Histogram("took_seconds", "Took.", [0.1, 1], ["what"])
    take = family.taker("filter")
    for seconds in (0.05, 0.1, 0.5, 7):
        take(seconds)
    family.take(("filter",), [1.0])
    (read,) = text_string_to_metric_families(family.text())
    found = {(s.name, s.labels.get("le")): s.value for s in read.samples}
    assert found == {
        ("took_seconds_bucket", "0.1"): 2,
        ("took_seconds_bucket", "1.0"): 4,
        ("took_seconds_bucket", "+Inf"): 5,
        ("took_seconds_sum", None): 8.65,
        ("took_seconds_count", None): 5,
    }
    assert (family.count("filter"), family.total("filter")) == (5, 8.65)


def test_the_sum_of_values_that_wait_is_known_at_once() -> None:
    """Without reading their number, or the page, before."""
    family = metric_families.Histogram("took_seconds", "Help.", (1.0,), ["point"])
    family.taker("filter")(0.5)
    assert family.total("filter") == 0.5


def test_labels_and_help_are_escaped() -> None:
    """Quotes, backslashes and line feeds do not end a line or a label."""
    family = metric_families.NumberFamily("x", "gauge", "One\nline \\ of help.", ["name"])
    value = 'a"b\\c\nd'
    family.values[(value,)] = 1
    (read,) = text_string_to_metric_families(family.text())
    assert read.documentation == "One\nline \\ of help."
    assert read.samples[0].labels == {"name": value}


@pytest.mark.parametrize(
    "families",
    [kube_scheduler_metrics.UpstreamMetrics, PolicyMetrics, kube_scheduler_metrics.HealthMetrics],
)
def test_each_metric_of_the_table_is_declared_where_it_is_used(
    families: type[metric_families.Families],
) -> None:
    """With its type; and nothing is declared that the table does not have."""
    found = families()
    declared = {name: kind for name, kind in get_type_hints(families).items() if name[0] != "_"}
    there = {name: type(value) for name, value in vars(found).items() if name != "all"}
    assert there == declared
    assert len(there) == len(found.all)
