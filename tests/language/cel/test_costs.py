"""Costs of selectors: what an evaluation takes, and what it may take at most."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any, Final

import pytest

from policy_sched.language.cel import compile_selector
from policy_sched.language.cel.costs import MAX_COST, estimated_cost

FOLDER: Final = os.environ.get("POLICY_SCHED_CONFORMANCE")
LOOP: Final = "device.attributes.all(a, device.attributes[a].all(b, {}))"


def estimate(text: str) -> float:
    """Return what a selector costs at most."""
    tree = compile_selector(text).tree
    assert tree is not None
    return estimated_cost(tree)


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("true", 0, 0),
        ("device.driver == 'a'", 2, 4),
        ("device.attributes['d'].model == 'a100'", 4, 6),
        ("device.attributes['d'].all(a, a != '')", 100, 400),
        (LOOP.format("b.startsWith('a')"), 5_000, 20_000),
        ("[1, 2, 3].map(x, x * 2).exists(x, x > 3)", 30, 120),
    ],
)
def test_estimates(text: str, least: int, most: int) -> None:
    """Work grows with the attributes that a device may have, not with those of one device."""
    assert least <= estimate(text) <= most


@pytest.mark.parametrize(
    "text",
    [
        LOOP.format("device.attributes.all(c, device.attributes[c].all(d, b != d))"),
        "lists.range(device.attributes.size()).all(x, x > 0)",
        "'%s'.format([device.driver]).matches('a+')",
    ],
)
def test_too_much_work_is_refused_before_there_is_a_device(text: str) -> None:
    """An estimate beyond the limit refuses a new object, as kube-apiserver does."""
    assert estimate(text) > MAX_COST
    assert not compile_selector(text).error
    assert compile_selector(text, new=True).too_complex
    assert [one.code for one in compile_selector(text, new=True).problems] == ["PS503"]


def cases() -> list[Any]:
    """Return upstream's recorded evaluations."""
    if FOLDER is None:
        return [pytest.param({}, marks=pytest.mark.skip("POLICY_SCHED_CONFORMANCE is not set"))]
    path = Path(FOLDER, "dra-cases", "cel-cases.jsonl.gz")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        found = [json.loads(line) for line in lines]
    return [pytest.param(one, id=one["expression"]) for one in found if "cost" in one]


@pytest.mark.parametrize("case", cases())
def test_estimates_cover_upstreams_costs(case: Any) -> None:
    """No recorded evaluation took more than the estimate."""
    assert case["cost"] <= estimate(case["expression"])
