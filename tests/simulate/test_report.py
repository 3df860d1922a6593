"""The report of a run, as text and as data."""

from __future__ import annotations

import json

import pytest
import yaml

from policy_sched.model.quantity import quantity_text
from policy_sched.report import json_text, jsonl_text, yaml_text
from policy_sched.simulate.report import Allocation, OneShotRun, PodPlacement, PreemptionRecord

REFUSED = '0/1 nodes are available: 1 node(s) didn\'t match "é".'
RUN = OneShotRun(
    nodes=1,
    placements=(
        PodPlacement("a/first", "n1", "", 1, 433, "100m", "1Gi", ()),
        PodPlacement("a/second-pod", None, REFUSED, 0, None, "2", "0", ('didn\'t match "é"',)),
    ),
    unschedulable_by={"rare": 1, 'didn\'t match "é"': 12},
    preemptions=(PreemptionRecord("a/second-pod", "n1", ("a/x", "b/y")),),
    allocation=(
        Allocation("cpu", 1500, 4000),
        Allocation("memory", 2**30, 2**32),
        Allocation("example.com/none", 0, 0),
    ),
    seconds=0.5,
)


def test_the_table_has_a_line_per_pod_in_input_order() -> None:
    """Columns are aligned, a pod without a node shows a dash and its message."""
    assert list(RUN.table_lines(wide=False)) == [
        "POD            NODE   MESSAGE",
        "a/first        n1",
        f"a/second-pod   -      {REFUSED}",
    ]


def test_the_wide_table_adds_what_the_decision_saw() -> None:
    """Feasible nodes, the score of the chosen node, and the requests."""
    assert list(RUN.table_lines(wide=True)) == [
        "POD            NODE   FEASIBLE   SCORE   CPU    MEMORY   MESSAGE",
        "a/first        n1     1          433     100m   1Gi",
        f"a/second-pod   -      0          -       2      0        {REFUSED}",
    ]


def test_the_summary_counts_and_adds_up() -> None:
    """Placed pods, pods by reason (most frequent first), preemption, allocation."""
    assert list(RUN.summary_lines()) == [
        "1 of 2 pods placed on 1 node",
        "",
        "Unschedulable pods by reason:",
        '  12  didn\'t match "é"',
        "   1  rare",
        "",
        "Preemption:",
        "  a/second-pod is nominated to n1; victims: a/x, b/y",
        "",
        "Allocation:",
        "  cpu               1500m of   4  37.5 %",
        "  memory              1Gi of 4Gi  25.0 %",
        "  example.com/none      0 of   0   0.0 %",
    ]
    assert RUN.speed_line() == "2 decisions in 0.50 s (4 decisions/s)"


def test_jsonl_has_one_line_per_pod() -> None:
    """Pod, node or null, message; nothing else."""
    first, second = jsonl_text(RUN.records()).splitlines()
    assert json.loads(first) == {"pod": "a/first", "node": "n1", "message": ""}
    assert json.loads(second) == {"pod": "a/second-pod", "node": None, "message": REFUSED}


def test_json_and_yaml_are_equivalent() -> None:
    """One document, two notations, and no times in it."""
    document = json.loads(json_text(RUN.document()))
    assert yaml.safe_load(yaml_text(RUN.document())) == document
    assert document["summary"]["placed"] == 1
    assert document["summary"]["allocation"]["cpu"] == {
        "requested": "1500m",
        "allocatable": "4",
        "percent": 37.5,
    }
    assert "0.5" not in json_text(RUN.document()).replace("37.5", "")


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("memory", 3 * 2**30, "3Gi"),
        ("hugepages-2Mi", 2**21, "2Mi"),
        ("nvidia.com/gpu", 8, "8"),
        ("pods", 1100, "1100"),
    ],
)
def test_amounts_are_written_as_quantities(resource: str, amount: int, text: str) -> None:
    """Milli for cpu, binary suffixes for bytes, plain numbers for the rest."""
    assert quantity_text(resource, amount) == text
