"""Quantities: exact amounts without a unit, names known at run time, and units that differ."""

from __future__ import annotations

import pytest

from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import make_node, make_pod
from tests.language.test_compile import attempt, rule

from .harness import compiles, rows_of
from .oracle_world import World

TEXTS = {"half": "500m", "three": "3", "big": "9E", "bad": "x", "cpu": "cpu", "ram": "memory"}
NODE = make_node("n", cpu="4", memory="1Gi", annotations=TEXTS)
WORLD = World([NODE], [])
POD = PodInfo.of(make_pod("p", cpu="1500m", memory="1Mi", annotations=TEXTS))

#: What is written of literals alone; `half` and `three` are quantities that have no unit.
LITERALS: dict[str, object] = {
    'half + three == quantity("3500m")': True,
    "(three / 2).milli()": 1500,
    "(-three / 2).milli()": -1500,
    "three / 0 > half": "divide_by_zero",
    '(quantity("1") / 3).isLessThan(quantity("333333334n"))': True,
    'quantity("1") / 3 < quantity("333333333n")': False,
    "three / half": 6.0,
    'half / quantity("0")': float("inf"),
    "percent(half, three)": 16,
    "percent(big, big)": 100,
    "percent(three, half)": 100,
    "percent(half, half - half)": 0,
    '[half, three].sum() == quantity("3500m")': True,
    "[1, 2, 3].sum(n, half * n).asInteger()": 3,
    '[half].filter(q, q > three).sum() == quantity("0")': True,
    "[half, three].includes(half)": True,
    "three in [half]": False,
    "[three, half].sort()[0] == half": True,
    "[three, half].min() == half && [three, half].max() == three": True,
    'clamp(three, half, half * 2) == quantity("1")': True,
    "min(three, half) == half": True,
    'abs(half - three) == quantity("2500m")': True,
    '{"a": half}["a"] == half': True,
    'optional.of(half) == optional.of(quantity("0.5"))': True,
    "(half.sign() > 0 ? three : half).value()": 3,
    "half.isInteger() || !three.isInteger()": False,
    "half.asInteger()": "conversion",
    "half.asApproximateFloat()": 0.5,
    "half.compareTo(three)": -1,
    'half.add(1).sub(three) == quantity("-1500m")': True,
}
#: What is written of literals that meet amounts of the node: 4 cores free.
MEETING: dict[str, object] = {
    'half + node.free["cpu"] == quantity("4.5")': True,
    'half / 2 < node.free["cpu"]': True,
    '[1, 2].sum(n, three) > node.free["cpu"]': True,
    'node.free["cpu"] in [half, quantity("4")]': True,
    'node.free["cpu"] in [half, three]': False,
    '[half, node.free["cpu"]].sum().units()': 4500,
    '([half] + [node.free["cpu"]]).max().units()': 4000,
    '{"a": half, "b": node.free["cpu"]}["a"].units()': 500,
    'optional.of(half) != optional.of(node.free["cpu"])': True,
    'optional.of(half).orValue(node.free["cpu"]).units()': 500,
    '(node.ready ? half : node.free["cpu"]).units()': 500,
    '[[half]].includes([node.free["cpu"]])': False,
    'percent(half, node.free["cpu"])': 12,
    'big > node.free["memory"]': True,
    '"500m,4".split(",").map(s, quantity(s)).exists(q, q == node.free["cpu"])': True,
    'node.free["cpu"] in "500m,4".split(",").map(s, quantity(s))': True,
}
#: What is written of an amount whose resource the pod names: 1500m of cpu.
NAMED: dict[str, object] = {
    "amount > half": True,
    'amount == quantity("1500m")': True,
    'amount + half == quantity("2")': True,
    "amount.value()": 2,
    "(-amount).value()": -2,
    "amount.milli()": 1500,
    "amount.isInteger()": False,
    "amount.asInteger()": "conversion",
    "(amount + amount).asInteger()": 3,
    "amount.asApproximateFloat()": 1.5,
    "amount.add(1).units()": 2500,
    'amount * 2 < node.free["cpu"]': True,
    "amount / half": 3.0,
    "max(amount, half).units()": 1500,
    "(node.ready ? amount : half) > half": True,
    'pod.requests.names().filter(r, pod.requests[r] > quantity("1")).size()': 2,
    'pod.requests.names().map(r, node.free[r]).exists(q, q > quantity("1k"))': True,
}
#: Where the words half, three and big come from: folded, for one pod, from a column.
SOURCES = {
    "folded": lambda key: f'quantity("{TEXTS[key]}")',
    "of the pod": lambda key: f'quantity(pod.annotations["{key}"])',
    "of the node": lambda key: f'quantity(node.annotations["{key}"])',
}


def written(text: str, source: str) -> str:
    """Return a text with its words replaced by quantities of a source."""
    for key in ("half", "three", "big"):
        text = text.replace(key, SOURCES[source](key))
    return text


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("text", LITERALS | MEETING)
def test_amounts_made_of_literals_are_exact(text: str, source: str) -> None:
    """What is made of literals is exact; where it meets an amount it takes the amount's unit."""
    (outcome,) = rows_of(written(text, source), WORLD, POD)
    assert (outcome.error or outcome.value) == (LITERALS | MEETING)[text]


@pytest.mark.parametrize("name", ['pod.annotations["cpu"]', '["cpu"][0]', '"c" + "pu"'])
@pytest.mark.parametrize("text", NAMED)
def test_a_name_known_at_run_time(text: str, name: str) -> None:
    """An amount has the unit of its resource, also where only the pod knows which that is."""
    whole = text.replace("amount", f"pod.requests[{name}]")
    (outcome,) = rows_of(written(whole, "folded"), WORLD, POD)
    assert (outcome.error or outcome.value) == NAMED[text]


def test_another_resource_has_another_unit() -> None:
    """The same text counts bytes where the pod names memory."""
    text = 'pod.requests[pod.annotations["ram"]]'
    assert [o.value for o in rows_of(f"{text}.value()", WORLD, POD)] == [2**20]
    assert [o.value for o in rows_of(f'{text} == quantity("1Mi")', WORLD, POD)] == [True]
    assert [o.value for o in rows_of(f"{text}.milli()", WORLD, POD)] == [2**20 * 1000]


def test_a_bad_text_is_an_error_of_its_row() -> None:
    """A text of a node that is no quantity is a conversion error there."""
    (outcome,) = rows_of('quantity(node.annotations["bad"]) < node.free["cpu"]', WORLD, POD)
    assert outcome.error == "conversion"


def test_an_amount_beyond_int64_is_an_error() -> None:
    """9E cores are more thousandths than an int holds: an overflow, of a constant when loaded."""
    (outcome,) = rows_of('quantity(node.annotations["big"]) > node.free["cpu"]', WORLD, POD)
    assert outcome.error == "overflow"
    _, problems = attempt(filter=rule('quantity("9E") > node.free["cpu"]'))
    assert [p.code for p in problems] == ["PS207"]


def test_a_resource_may_be_absent() -> None:
    """`[?name]` has a value where the resource is named, be it as 0; `[name]` is 0 elsewhere."""
    world = World([make_node("n", resources={"example.com/gpu": "0"})], [])
    for whole in ("node.allocatable", "node.free", "cluster.allocatable"):
        text = f'{whole}[?"example.com/gpu"].hasValue() && !{whole}[?"other"].hasValue()'
        assert [o.value for o in rows_of(text, world, POD)] == [True]
        assert [o.value for o in rows_of(f'{whole}["other"].units()', world, POD)] == [0]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('node.allocatable[params.name] < node.free["memory"]', "PS208"),
        ('[pod.requests[pod.name]].sort()[0] > quantity("1")', "PS211"),
        ('node.free[node.name] > quantity("1")', "PS211"),
    ],
)
def test_units_that_cannot_be_known_are_refused(text: str, code: str) -> None:
    """A rule is refused if units clash, or if a unit is not known before the node."""
    _, problems = attempt(filter=rule(text), params={"name": "cpu"})
    assert [p.code for p in problems] == [code]


def test_units_that_are_known_are_not() -> None:
    """The near misses of these refusals are rules."""
    assert compiles('node.allocatable["cpu"] < node.free["cpu"]', "filter")
    assert compiles("[pod.requests[pod.name]].sort()[0].units() > 1", "filter")
    assert compiles('node.free[pod.name] > quantity("1")', "filter")
