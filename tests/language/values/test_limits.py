"""Tests of the bounds of what a rule does: hostile expressions end soon, with a diagnostic."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest
from hypothesis import given, strategies as st

from policy_sched.cluster.cache import Cache
from policy_sched.errors import Diagnostic, PolicyError
from policy_sched.explain.evaluate import evaluated
from policy_sched.language import make_unit
from policy_sched.language.check import check_expression
from policy_sched.language.lower import make_lowering
from policy_sched.language.runtime import Activation, Runtime
from policy_sched.language.stdlib import builtins_collections, builtins_string
from policy_sched.language.stdlib.environment import ANY
from policy_sched.language.values import limits, types
from policy_sched.model.meta import ObjectMeta
from policy_sched.model.pod import Pod
from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import make_node, make_pod

DIGITS: Final = "9" * 5_000


def doubled(first: str, step: str, last: str = "x30") -> str:
    """Return an expression that makes a value from itself and itself thirty times."""
    steps = [f"cel.bind(x0, {first}, "]
    steps += [f"cel.bind(x{i + 1}, {step.format(f'x{i}')}, " for i in range(30)]
    return "".join(steps) + last + ")" * 31


#: Expressions that took minutes, gigabytes or a stack, and the code that refuses them.
BOMBS: Final = {
    "lists": ("[" * 4_000 + "]" * 4_000, "PS501"),
    "maps": ('{"a":' * 1_500 + "1" + "}" * 1_500, "PS501"),
    "indices": ("pod.labels" + '["a"]' * 2_000, "PS501"),
    "fields": ("pod" + ".a" * 5_000, "PS501"),
    "calls": ("abs(" * 2_000 + "1" + ")" * 2_000, "PS501"),
    "methods": ('"a"' + ".trim()" * 1_400, "PS501"),
    "choices": ("true?1:" * 1_400 + "1", "PS501"),
    "sums": ("+".join(["1"] * 5_000), "PS501"),
    "has": ("has(" * 1_500 + "pod.a" + ")" * 1_500, "PS501"),
    "in": ("1 in " * 2_000 + "[1]", "PS501"),
    "parts": ("{" + ",".join(['"a":1'] * 1_500) + "}", "PS501"),
    "open": ("(" * 10_000, "PS001"),
    "not": ("!" * 10_000, "PS001"),
    "questions": ("?" * 9_999, "PS001"),
    "int": (DIGITS, "PS011"),
    "hexadecimal": ("0x" + "f" * 5_000, "PS011"),
    "unsigned": (DIGITS + "u", "PS014"),
    "double": (DIGITS + ".0", "PS011"),
    "exponent": ("1e" + DIGITS, "PS011"),
    "duration": (f'duration("{DIGITS}")', "PS012"),
    "quantity": (f'quantity("{DIGITS}")', "PS012"),
    "quantity exponent": (f'quantity("1e{DIGITS}")', "PS012"),
    "timestamp": (f'timestamp("{DIGITS}")', "PS012"),
    "selector": (f'selector("{"(" * 9_000}").matches({{"a": "b"}})', "PS012"),
    "pattern": ('"a".matches("((a{100}){100}){100}")', "PS012"),
    "semver": ('semver("' + "9" * 3_000 + '.0.0")', "PS012"),
    "int of text": (f'int("{DIGITS}")', "PS605"),
    "double of text": (f'double("{DIGITS}")', "PS605"),
    "decimals": ('"%.999999999f".format([1.0])', "PS605"),
    "digits of decimals": (f'"%.{DIGITS}f".format([1.0])', "PS605"),
    "zone": (f'timestamp("2024-01-01T00:00:00Z").getHours("{"a" * 5_000}")', "PS605"),
    "directory": ('timestamp("2024-01-01T00:00:00Z").getHours("Europe")', "PS605"),
    "surrogate": ('"\ud800"', "PS001"),
    "escaped surrogate": (r'"\ud800"', "PS003"),
    "zero": ("\x00", "PS001"),
    "macros": (" || ".join(["pod.containers.exists(a, true)"] * 200), "PS502"),
    "range": ("lists.range(1000000000)", "PS503"),
    "ranges": (
        "lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, a < b + c)))",
        "PS503",
    ),
    "sums of ranges": (
        "lists.range(1000).sum(a, lists.range(1000).sum(b, lists.range(1000).sum(c, a + b)))",
        "PS503",
    ),
    "unrolled": (
        "lists.range(250).all(a, lists.range(250).all(b, lists.range(250).all(c, a < b + c)))",
        "PS503",
    ),
    "unrolled with the pod": (
        "lists.range(250).all(a, lists.range(250).all(b, pod.priority > a + b))",
        "PS503",
    ),
    "texts": (doubled('"ab"', "{0} + {0}"), "PS503"),
    "texts of the pod": (doubled("pod.name", '{0} + "x" + {0}'), "PS503"),
    "lists doubled": (doubled("[1]", "{0} + {0}"), "PS503"),
    "lists in lists": (doubled("[1]", "[{0}, {0}]", "x30 == x30"), "PS503"),
    "lists of the pod": (doubled("[pod.name]", "{0} + {0}"), "PS503"),
    "format": (doubled('"ab"', '"%s%s".format([{0}, {0}])'), "PS503"),
    "join": (doubled('"ab"', '[{0}, {0}].join("x")'), "PS503"),
    "join of the pod": (doubled("pod.name", '[{0}, {0}].join("x")'), "PS503"),
    "replace": (doubled('"aaaa"', '{0}.replace("a", "aaaa")'), "PS503"),
    "replace nothing": (doubled('"a"', '{0}.replace("", "bbbb")'), "PS503"),
    "quote": (doubled(r'"\u0001"', r"strings.quote({0}) + {0}"), "PS503"),
    "flatten": (doubled("[1]", "[{0}, {0}].flatten()"), "PS503"),
}


@pytest.mark.parametrize("name", sorted(BOMBS))
def test_a_hostile_expression_is_refused_soon(name: str) -> None:
    """`eval` of such an expression took minutes and gigabytes, or printed a traceback."""
    text, code = BOMBS[name]
    assert code_of(text) in {code, "PS502"}  # a list that doubles is refused before it is made


def code_of(text: str) -> str:
    """Return the code of what is wrong with an expression; "" if it has a value."""
    return code_for(text, PodInfo.of(Pod()))


def code_for(text: str, pod: PodInfo) -> str:
    """Return the code of what is wrong with an expression for a pod."""
    problems: tuple[Diagnostic, ...] = ()
    try:
        found = evaluated(text, ANY, None, Cache(), pod, 0)
    except PolicyError as error:
        problems = tuple(error.diagnostics)
    if not problems:
        assert list(found.text_lines())
        return found.values[0].code
    assert all(one.line == 1 and one.column >= 1 for one in problems)
    assert all(len(one.message) < 500 for one in problems)
    return problems[0].code


#: Expressions over long values whose time was the square of their length.
LONG: Final = {
    "distinct": "lists.range(100000).map(x, double(x)).distinct().size() == 100000",
    "sort": "lists.range(20000).map(x, 0 - x).sort().size() == 20000",
    "sets": "sets.equivalent(lists.range(50000), lists.range(50000).reverse())",
    "intersects": "!sets.intersects(lists.range(50000), [-1])",
    "and": "&&".join(["true"] * 1_600),
    "parentheses": "(" * 5_000 + "true" + ")" * 5_000,
    "deep": "[" * 45 + "1" + "]" * 45 + " != " + "[" * 45 + "2" + "]" * 45,
}


@pytest.mark.parametrize("name", sorted(LONG))
def test_long_values_are_no_hostile_ones(name: str) -> None:
    """Functions over long lists are linear: such an expression has a value, and soon."""
    assert code_of(LONG[name]) == ""


@pytest.mark.parametrize(
    "rule",
    [
        'duration(pod.annotations["x"]) > duration("1s")',
        'tryDuration(pod.annotations["x"]).hasValue()',
        'tryQuantity(pod.annotations["x"]).hasValue()',
        'trySemver(pod.annotations["x"]).hasValue()',
        'tryInt(pod.annotations["x"]).hasValue()',
        'tryDouble(pod.annotations["x"]).hasValue()',
        'tryTimestamp(pod.annotations["x"]).hasValue()',
        'pod.annotations["x"].lastIndexOf(pod.annotations["x"].substring(131072)) > 0',
        'pod.annotations["x"].matches("(x+x+)+y")',
        'pod.annotations["x"].split("").distinct().size() > 3',
        'pod.annotations["x"].split("1").all(a, pod.annotations["x"].split("1").all(b, a <= b))',
    ],
)
@pytest.mark.parametrize("digit", ["1", "11.", "1s"])
def test_a_long_annotation_does_not_hold_up_a_rule(rule: str, digit: str) -> None:
    """A pod with an annotation of 256 KiB, which any user may create, does not hold up a rule."""
    text = digit * (2**18 // len(digit))
    pod = Pod(metadata=ObjectMeta(name="p", annotations={"x": text}))
    assert code_for(rule, PodInfo.of(pod)) in ("", "PS503", "PS605")


@given(st.lists(st.sampled_from([1.0, 2.0, -0.0, 0.0, float("nan"), 3.5])))
def test_distinct_and_sort_mean_what_they_meant(items: list[float]) -> None:
    """Hashing and Python's own sort give what comparing each with each gave, also with NaN."""
    slow: list[float] = []
    for item in items:
        if not any(builtins_collections.equal(item, other) for other in slow):
            slow.append(item)
    assert list(map(repr, builtins_collections.distinct(items))) == list(map(repr, slow))
    inserted: list[float] = []
    for item in items:
        at = len(inserted)
        while at and item < inserted[at - 1]:
            at -= 1
        inserted.insert(at, item)
    assert list(map(repr, builtins_collections.ordered(items))) == list(map(repr, inserted))


@given(st.text("ab", max_size=40), st.text("ab", max_size=5), st.text("ab", max_size=5))
def test_texts_are_what_pythons_are(text: str, part: str, new: str) -> None:
    """Looking for the last occurrence and replacing say what Python's own functions do."""
    last = builtins_string.TOTAL["lastIndexOf_string_string"]
    replace = builtins_string.TOTAL["replace_string_string_string"]
    assert last(text, part) == text.rfind(part)
    assert replace(text, part, new) == text.replace(part, new)


def test_steps_are_counted_for_one_evaluation() -> None:
    """What one evaluation has spent is not taken from the next one."""
    left = limits.refill()
    for _ in range(2 * limits.MAX_TOTAL // limits.MAX_STEPS):
        limits.refill()
        limits.begin(left, range(limits.MAX_STEPS))
    with pytest.raises(limits.LimitError, match="its loops take more than"):
        limits.begin(left, range(limits.MAX_STEPS + 1))
    with limits.one_evaluation():
        for _ in range(limits.MAX_TOTAL // limits.MAX_STEPS):
            limits.refill()
            limits.begin(left, range(limits.MAX_STEPS))
        with pytest.raises(limits.LimitError, match="for all nodes together"):
            limits.begin(left, range(limits.MAX_STEPS))
    limits.refill()
    limits.begin(left, range(limits.MAX_STEPS))


@given(
    names=st.lists(st.text("ab", min_size=1, max_size=40), min_size=1, max_size=5),
    text=st.text("ab", max_size=40),
)
def test_a_loop_takes_the_steps_of_what_it_reads(names: list[str], text: str) -> None:
    """A step for each element and each call, and one for 16 characters, in all ways to compute."""
    text_of_rule = 'node.pods.filter(p, p.name.contains(pod.labels[?"x"].orValue(""))).size()'
    core, problems = check_expression(text_of_rule)
    assert core is not None, problems
    low = make_lowering({}, types.RecordType("record"), {})
    unit = make_unit(low, [low.plain(low.lower(core, {}))])
    cache = Cache()
    cache.add_node(make_node("n0"))
    for number, name in enumerate(names):
        cache.assume(PodInfo.of(make_pod(name, uid=f"u{number}")), "n0")
    pod = PodInfo.of(make_pod("p", labels={"x": text}))
    functions = unit.program.bind(Runtime(cache.nodes, cache.pods))
    steps = sum(2 + (len(name) + len(text) >> limits.CHARACTERS) for name in names)
    for compute in (
        lambda: functions.scalar(pod, Activation(), 0),
        lambda: functions.vector(pod, Activation(), slice(0, 1), 1),
    ):
        with limits.one_evaluation():
            left = limits.remaining()
            before = left.total
            found = compute()
            assert before - left.total == steps
        assert np.all(found[0] == sum(text in name for name in names))
