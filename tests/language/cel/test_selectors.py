"""CEL over devices, beyond the recorded cases: literals, loops, errors and the limit of work."""

from __future__ import annotations

from typing import Final

import pytest

from policy_sched.language import cel

DEVICE: Final = cel.device_record(
    "d.io",
    {"numa": 1, "model": "A100", "o.io/list": 3},
    {"memory": "40Gi"},
    allow_multiple_allocations=True,
)


def outcome(text: str) -> bool | str:
    """Return what a selector says of the device: whether it matches, or its error."""
    selector = cel.compile_selector(text)
    if selector.error:
        return selector.error
    try:
        return selector.evaluate(DEVICE)[0]
    except cel.CelError as error:
        return str(error)


TRUE: Final = (
    "0x10 == 16 && 1u + 2u == 3u && -7 / 2 == -3 && -7 % 2 == -1",
    "b'\\xff'.size() == 1 && b'é'.size() == 2 && string(b'abc') == 'abc'",
    "[3, 1, 2].sort() == [1, 2, 3] && [1, 2].sum() == 3 && [1.5].max() == 1.5",
    "['b', 'aa'].sortBy(x, x.size()) == ['b', 'aa']",
    "[1, 2, 3].map(x, x > 1, x * 2) == [4, 6] && [1, 2].exists(i, x, i == 1 && x == 2)",
    "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
    "{'a': 1}.transformMapEntry(k, v, {string(v): k}) == {'1': 'a'}",
    "lists.range(3) == [0, 1, 2] && sets.equivalent([1, 1], [1])",
    "'%s has %d of %.2f'.format([dyn('x'), 2, 1.5]) == 'x has 2 of 1.50'",
    "'a1b22'.findAll('[0-9]+') == ['1', '22'] && 'abc'.find('z') == ''",
    "optional.of(2).optFlatMap(x, optional.of(x + 1)).or(optional.none()).value() == 3",
    "[?optional.none(), ?optional.of(1)] == [1] && {?'a': optional.none()} == {}",
    "type(device.attributes['d.io'].numa) == int && type(1u) == uint",
    "semver('v1.2', true) == semver('1.2.0') && isSemver('1.2.3-rc.1')",
    "quantity('1Gi').add(quantity('1Gi')).compareTo(quantity('2Gi')) == 0",
    "duration('90m').getHours() == 1 && timestamp(0) < timestamp('2000-01-01T00:00:00Z')",
    "ip('10.0.0.1').family() == 4 && cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8')",
    "url('https://a.b:80/c?d=e').getHostname() == 'a.b'",
    "!format.dns1123Label().validate('abc').hasValue()",
    "device.attributes['d.io'].missing || true",
    "[1, 2].all(x, x > 0) && ['a'].exists(x, device.attributes['d.io'].missing || x == 'a')",
)
FALSE: Final = (
    "dyn(true) == 1",
    "dyn(1) == 'a' || dyn(null) == 0",
    "dyn([true]) == dyn([1])",
    "1 in dyn([true])",
)
ERRORS: Final = {
    "9223372036854775807 + 1 == 0": "integer overflow",
    "1u - 2u == 0u": "unsigned integer overflow",
    "[1][5] == 1": "index out of bounds: 5",
    "{'a': 1, 'a': 2}.size() == 1": "insert failed: key a already exists",
    "[].max() == 1": "max called on empty list",
    "optional.none().value() == 1": "optional.none() dereference",
    "device.attributes['d.io'].numa.startsWith('a')": "no such overload: startsWith",
    "lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))": (
        "operation cancelled: actual cost limit exceeded"
    ),
}
FAULTS: Final = {
    "devic.driver == ''": "undeclared reference to 'devic' (in container '')",
    "device.driver(1)": "undeclared reference to 'driver' (in container '')",
    "1.all(x, true)": "cannot be range of a comprehension",
    "'a' && true": "expected type 'bool' but found 'string'",
    "{1: 2}['a'] == 2": "no matching overload for '_[_]' applied to '(map(int, int), string)'",
    "1 +": "Syntax error",
}


@pytest.mark.parametrize("text", TRUE)
def test_functions_of_kubernetes_cel(text: str) -> None:
    """Functions and macros that Kubernetes turns on are there, and mean the same."""
    assert outcome(text) is True


@pytest.mark.parametrize("text", FALSE)
def test_values_of_other_kinds_are_unequal(text: str) -> None:
    """A bool is no number, and null is only null."""
    assert outcome(text) is False


@pytest.mark.parametrize(("text", "error"), ERRORS.items())
def test_what_fails_for_a_device_fails_in_cel_gos_words(text: str, error: str) -> None:
    """What fails for a device fails in cel-go's words, and work without end is cut short."""
    assert outcome(text) == error


@pytest.mark.parametrize(("text", "fault"), FAULTS.items())
def test_mistakes_are_found_before_any_device_is_there(text: str, fault: str) -> None:
    """A selector that cannot work does not compile; the error has the text and the place."""
    selector = cel.compile_selector(text)
    assert selector.tree is None
    assert fault in selector.error
    assert selector.problems


def test_attributes_that_selectors_do_not_know() -> None:
    """A list as an attribute, or a version that is none, fails before any selector is asked."""
    with pytest.raises(cel.CelError, match="attribute x: unsupported attribute value"):
        cel.device_record("d", {"x": None}, {}, allow_multiple_allocations=False)
    with pytest.raises(cel.CelError, match="attribute v: parse semantic version: "):
        cel.device_record("d", {"v": ("version", "x")}, {}, allow_multiple_allocations=False)


def test_a_long_selector_is_divided() -> None:
    """The limit of length is kube-apiserver's; there is no limit of parts beside it."""
    (found,) = cel.check_selector(f"device.driver == '{'a' * 10_240}'")
    assert found.code == "PS501"
    assert found.hint == "divide it into several selectors: all of them must be true"
    assert cel.check_selector(f"1 in [{','.join('1' * 3_000)}]") == ()


def test_an_evaluation_is_interrupted_by_its_caller() -> None:
    """A million units of cost took 5 s of each device, and nothing ended them."""
    loops = "[1, 2, 3, 4, 5].all(a, [1, 2, 3, 4, 5].all(b, a + b > 0))"
    whole = cel.Evaluation()
    assert evaluated(loops, whole) is True
    part = cel.Evaluation(allowed=whole.work - 1)
    with pytest.raises(cel.InterruptError):
        evaluated(loops, part)
    assert part.work >= whole.work
    assert evaluated(loops, cel.Evaluation(allowed=whole.work)) is True


def test_elements_of_literals_are_work() -> None:
    """A literal costs nothing in cel-go, and was made anew in each turn of a loop."""
    numbers = ", ".join(map(str, range(1000)))
    made, member = cel.Evaluation(), cel.Evaluation()
    assert evaluated(f"[1, 2, 3, 4].all(a, [{numbers}].size() > a)", made) is True
    assert 1000 < made.work < 1100  # one list, for all turns
    assert evaluated(f"[1, 2, 3, 4].all(a, -a in [{numbers}] || true)", member) is True
    assert member.work > 4000  # which is looked through in each


def evaluated(text: str, evaluation: cel.Evaluation) -> object:
    """Return the value of an expression."""
    return cel.compile_selector(text).value(DEVICE, evaluation)[0]
