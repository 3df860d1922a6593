"""Costs of selectors: what an evaluation takes, and what it may take at most."""

from __future__ import annotations

import gzip
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from policy_sched.language.cel import CelError, compile_selector
from policy_sched.language.cel.costs import MAX_COST, estimated_cost
from policy_sched.language.cel.evaluator import Evaluation
from tests.plugins.dynamicresources.cases import DEVICE

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
def test_the_estimated_cost_grows_with_the_attributes_of_a_device(
    text: str, least: int, most: int
) -> None:
    """Work grows with the attributes that a device may have, not with those of one device."""
    assert least <= estimate(text) <= most


@pytest.mark.parametrize(
    "text",
    [
        LOOP.format("device.attributes.all(c, device.attributes[c].all(d, b != d))"),
        "lists.range(device.attributes.size()).all(x, x > 0)",
        "'%s'.format([device.driver]).matches('a+')",
        "device.driver" + ".split('').join('x')" * 40 + ".matches('a+')",
        "[1]" + ".map(x, [1, 2, 3]).flatten()" * 40 + ".distinct() == []",
        "strings.quote(" * 40 + "device.driver" + ")" * 40 + ".contains('a')",
        "device.driver.split('.').exists(x, x.contains('a'))",
        "device.driver.split('.').join('-') == 'a'",
        "device.attributes['d'][?'model'].orValue('').contains('a100')",
        "['a100', 'h100'].indexOf(device.attributes['d'].model) >= 0",
        "['b', 'a'].sort()[0].contains('a')",
    ],
)
def test_too_much_work_is_refused_before_there_is_a_device(text: str) -> None:
    """An estimate beyond the limit refuses a new object, as kube-apiserver does.

    The one of `split().join()` squares the length each time: it ended in a traceback, or never. Of
    texts whose length cel-go does not know we assumed one, and accepted what is refused elsewhere.
    """
    assert estimate(text) > MAX_COST
    assert not compile_selector(text).error
    assert compile_selector(text, new=True).too_complex
    assert [one.code for one in compile_selector(text, new=True).problems] == ["PS503"]


ATTRIBUTES: Final = "device.attributes['dra.example.com']"
CAPACITY: Final = "device.capacity['dra.example.com']"
NESTED: Final = "int('1'.find('[0-9]*')) < 100"
LEVELS: Final = ("z5", "z4", "z3", "z2", "z", "y", "x")


def nested() -> str:
    """Return loops over ten numbers in each other, seven levels deep."""
    text = NESTED
    for level in LEVELS:
        text = f"[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all({level}, {text})"
    return text


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("'no-such-domain' in device.attributes", 3),
        ("device.driver == ''", 2),
        ("device.driver == 'dra.example.com'", 4),
        (f"{ATTRIBUTES}['name']", 4),
        (f"cel.bind(dra, {ATTRIBUTES}, dra.name)", 15),
        (f"{ATTRIBUTES}.name > 0", 5),
        (f"{ATTRIBUTES}.name == 'fish'", 5),
        (f"{ATTRIBUTES}.name.exists(x, x > 0)", 389),
        (f"{ATTRIBUTES}.names.all(x, x != '')", 261),
        (f"{ATTRIBUTES}.names.all(x, x.isGreaterThan(semver('0.0.1')))", 389),
        (f"1 in {ATTRIBUTES}.names", 68),
        (f"{ATTRIBUTES}.name.isGreaterThan(semver('v0.0.1', true)) && isSemver('v1.0.0', true)", 7),
        (f"!('name' in {CAPACITY}) || {CAPACITY}.name.isGreaterThan(quantity('1Ki'))", 11),
        ("device.attributes.exists_one(x, x == 'dra.example.com')", 164),
        (f"{CAPACITY}.exists_one(x, x == 'memory')", 133),
        (f"{ATTRIBUTES}.services.split('example').size() >= 2", 19),
        (f"{ATTRIBUTES}.services.matches('[^a]?sym')", 18),
        ("device.allowMultipleAllocations == true", 3),
        (nested(), 85555551),
    ],
)
def test_estimated_costs_are_those_of_the_api_server(text: str, cost: int) -> None:
    """What the API server's own tests state of its estimates; ours differed for loops and binds."""
    assert estimate(text) == cost


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


def spent(text: str) -> float:
    """Return what an evaluation takes, also one that fails."""
    tree = compile_selector(text).tree
    assert tree is not None
    evaluation = Evaluation()
    with suppress(CelError):
        evaluation.value(tree, {"device": DEVICE})
    return evaluation.cost


@pytest.mark.parametrize("case", cases())
def test_evaluations_cost_what_they_cost_upstream(case: Any) -> None:
    """The cost of every recorded evaluation is the recorded one, also of one that fails."""
    assert spent(case["expression"]) == case["cost"]


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("1 / 0 == 1 / 0", 3),
        ("device.attributes['x'].a.startsWith('b') == device.driver.startsWith('b')", 9),
        ("[1, 2, 3].exists(x, x == 1)", 3 + 4 + 2 + 1),
        ("[1, 2, 3].exists(x, x == 3)", 3 * (4 + 2) + 1),
        ("[1, 2, 3].all(x, x == 3)", 3 + 2 + 2 + 1),
        ("[1, 2, 3].distinct().size() == 3", 2 * 9 + 11 + 2),
        ("['a', 'b'].sort()[0] == 'a'", 8 + 11 + 2 + 1),
        ("[3, 1].sortBy(x, x)[0] == 1", 2 * 13 + 3 + 19 + 2 + 1),
        ("lists.range(3).size() == 3", 3 + 11 + 2),
        ("int('1') == int(device.driver)", 2 + 1 + 1),
        ("optional.of(1).optMap(x, x) == optional.of(1)", 2 * 1 + 3 + 1 + 1 + 1),
        ("['ab', 'c'].join('-') == 'ab-c'", 2),
    ],
)
def test_costs_of_an_evaluation(text: str, cost: int) -> None:
    """Errors cost what values cost; lists, loops and conversions as cel-go counts them."""
    assert spent(text) == cost
    assert cost <= estimate(text)
