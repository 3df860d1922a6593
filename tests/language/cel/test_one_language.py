"""Selectors over devices and rules are one language: a mistake is reported in the same words."""

from __future__ import annotations

import pytest

from policy_sched.language.cel import check_selector
from policy_sched.language.check import check_expression
from policy_sched.language.diagnostics import Problem

MISTAKES = (
    "1 + 'a' == 2",
    "-'a' == 'b'",
    "'a' && true",
    "1 ? true : false",
    "true ? 1 : 'a'",
    "[1, 'a'] == []",
    "{1: 2, 'a': 3} == {}",
    "{'a': 1, 'a': 2} == {'a': 1}",
    "[?1] == []",
    "[1]['a'] == 1",
    "1[0] == 1",
    "'a'.b == 'c'",
    "'a'.lowerAsci() == 'a'",
    "'a'.startsWith(1)",
    "lowerAscii('a') == 'a'",
    "[1].exist(true)",
    "[1].exists(x)",
    "[1].exists('x', true)",
    "[1].exists(x, 1)",
    "1.all(x, true)",
    "duration('5') == duration('5s')",
    "quantity('10Gb') == quantity('10G')",
    "semver('1.2') == semver('1.2.0')",
    "'a'.matches('(')",
    "9223372036854775807 + 1 == 0",
    "'a' = 'b'",
    "true & false",
    "optional.off(1) == optional.of(1)",
    "[1].exists(x, [2].exists(x, x == 2))",
)


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_has_the_same_words(text: str) -> None:
    """Code, place, message and hint of a mistake do not depend on the environment."""
    _, diagnostics = check_expression(text, "matchConditions")
    rules = sorted((one.column, one.code, one.message, one.hint) for one in diagnostics)
    problems = check_selector(text)
    selectors = sorted((one.start + 1, one.code, one.message, one.hint) for one in problems)
    assert rules == selectors != []


def test_the_words_of_what_only_one_of_them_has() -> None:
    """A name of the other environment is recognised, and a quantity gets the method for it."""
    found = {text: check_selector(text) for text in ("percent(1, 2) == 3", "node.name == 'a'")}
    hints = [one.hint for problems in found.values() for one in problems]
    assert hints == [
        "policies have it; Kubernetes' CEL over devices does not",
        "policies have it; a selector sees only `device`",
    ]
    (compared,) = check_selector("quantity('1') > quantity('2')")
    assert compared == Problem(
        14,
        15,
        "PS201",
        "`>` has no overload for quantity and quantity",
        "write `a.isGreaterThan(b)`",
    )
