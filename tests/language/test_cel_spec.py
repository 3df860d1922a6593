"""The rule language against cel-spec's conformance files: the same value, or a refusal in words."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import pytest

from .cel_spec import DIRECTORY, Case, Foreign, cases, same
from .harness import Outcome, checked, constant_outcome, oracle_outcome

pytestmark = pytest.mark.skipif(not DIRECTORY.exists(), reason="cel-spec's files are not here")

#: How many cases have to be in scope; the rest uses what the dialect leaves out.
IN_SCOPE = 925


@functools.cache
def corpus() -> Sequence[Case]:
    """Return all cases, read once."""
    return tuple(cases())


def agrees(case: Case, outcome: Outcome) -> bool:
    """Tell whether an outcome is what the case expects: its value, or any error."""
    if case.fails:
        return bool(outcome.error)
    return not outcome.error and case.expected is not Foreign and same(outcome.value, case.expected)


def test_every_case_has_its_value_or_is_refused_in_words() -> None:
    """A case is refused with a code and a place, or has its value in oracle and compiler."""
    wrong = []
    right = 0
    for case in corpus():
        tree, problems = checked(case.text)
        if tree is None:
            assert problems, case
            continue
        folded = constant_outcome(tree)
        for outcome in (oracle_outcome(tree, {}), folded):
            if outcome is not None and not agrees(case, outcome):
                wrong += [f"{case}\n    {outcome}, not {case.expected}"]
        right += folded is not None
    assert not wrong, "\n".join(wrong)
    assert right >= IN_SCOPE
