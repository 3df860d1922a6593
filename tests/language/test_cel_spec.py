"""The rule language against cel-spec's conformance files: the same value, or a refusal in words.

Of 2,456 cases 950 give their value or error, 53 expect an error and are refused when they are
loaded, and 1,453 use what the dialect leaves out: these are refused with a code and a place.

What a case needs besides its text is written into it: a variable is bound with `cel.bind`, under
the long name that it has where the case has a container (no name has dots here: PS108), and to
the message that its value is (PS014).
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from typing import Final

import pytest

from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import make_node, make_pod

from .cel_spec import DIRECTORY, Anything, Case, Foreign, cases, same
from .harness import Outcome, checked, compiles, constant_outcome, oracle_outcome, rows_of, simple
from .lifting import lifted
from .oracle_world import World

pytestmark = pytest.mark.skipif(not DIRECTORY.exists(), reason="cel-spec's files are not here")

#: Of each file: cases that give their value or error, and cases that are refused for their error.
IN_SCOPE: Final = {
    "basic": (28, 2),
    "bindings_ext": (6, 0),
    "comparisons": (118, 12),
    "conversions": (51, 1),
    "fields": (21, 3),
    "fp_math": (29, 1),
    "integer_math": (41, 1),
    "lists": (19, 0),
    "logic": (21, 4),
    "macros": (38, 1),
    "macros2": (39, 1),
    "math_ext": (102, 0),
    "namespace": (2, 0),
    "optionals": (39, 0),
    "parse": (111, 0),
    "plumbing": (4, 0),
    "string": (45, 0),
    "string_ext": (152, 27),
    "timestamps": (73, 0),
    "type_deduction": (11, 0),
}
#: Errors that the checker foresees where all is constant; with other operands they happen.
FORESEEN: Final = {"PS012", "PS111", "PS207"}
#: CEL knows no such name either, so that its use is an error and not a feature.
NO_DENOTATION: Final = "dyn"


@functools.cache
def corpus() -> Sequence[Case]:
    """Return all cases, read once."""
    return tuple(cases())


def kind_of(case: Case) -> str:
    """Return the class of a case: value, error (refused for it), or foreign (refused)."""
    tree, problems = checked(case.text)
    codes = {p.code for p in problems}
    if tree is not None or (case.fails and codes & FORESEEN):
        return "value"
    if case.fails and ("PS014" not in codes or case.text == NO_DENOTATION):
        return "error"
    return "foreign"


@functools.cache
def sorted_out() -> dict[str, list[Case]]:
    """Return the cases by class."""
    found: dict[str, list[Case]] = {"value": [], "error": [], "foreign": []}
    for case in corpus():
        found[kind_of(case)].append(case)
    return found


def agrees(case: Case, outcome: Outcome) -> bool:
    """Tell whether an outcome is what the case expects: its value, or any error."""
    if case.expected is Anything:
        return True
    if case.fails:
        return bool(outcome.error)
    wanted = simple(case.expected)
    return not outcome.error and wanted is not Foreign and same(outcome.value, wanted)


def test_every_case_has_its_class() -> None:
    """950 have a value or error, 53 are refused for their error, 1,453 lie outside of that."""
    values = sum(value for value, _ in IN_SCOPE.values())
    refused = sum(refused for _, refused in IN_SCOPE.values())
    assert (values, refused) == (950, 53)
    found = sorted_out()
    assert Counter(case.file for case in found["value"]) == Counter(
        {file: value for file, (value, _) in IN_SCOPE.items()}
    )
    assert Counter(case.file for case in found["error"]) == +Counter(
        {file: error for file, (_, error) in IN_SCOPE.items()}
    )
    assert len(found["foreign"]) == 1_453
    assert len(corpus()) == 2_456


def test_refused_text_has_a_code_and_a_place() -> None:
    """A case outside of the dialect, or one whose error is plain, is refused in words."""
    found = sorted_out()
    for case in found["foreign"] + found["error"]:
        tree, problems = checked(case.text)  # which looks at each code and place
        assert tree is None
        assert problems, case


def test_a_case_of_the_specification_is_folded_to_its_value() -> None:
    """A case made of constants has its value, or is refused for the error that it would be."""
    wrong = []
    foreseen = 0
    for case in sorted_out()["value"]:
        tree, _ = checked(case.text)
        if tree is None:
            foreseen += 1
            continue
        for outcome in (oracle_outcome(tree, {}), constant_outcome(tree)):
            assert outcome is not None, case
            if not agrees(case, Outcome(simple(outcome.value), outcome.error)):
                wrong += [f"{case}\n    {outcome}, not {case.expected}"]
    assert not wrong, "\n".join(wrong)
    assert foreseen == 18


@pytest.mark.parametrize("file", IN_SCOPE)
def test_as_columns_and_for_one_pod(file: str) -> None:
    """With its constants in labels of three nodes, or of the pod, a case has its value by row."""
    wrong = []
    for case in sorted_out()["value"]:
        if case.file != file:
            continue
        text, labels = lifted(case.text, "node", compiles)
        world = World([make_node(f"n{i}", labels=labels) for i in range(3)], [])
        pod = PodInfo.of(make_pod(labels=labels))
        for moved in (text, text.replace('node.labels["c', 'pod.labels["c')):
            outcomes = rows_of(moved, world, pod)
            if len(outcomes) != 3 or not all(agrees(case, outcome) for outcome in outcomes):
                wrong.append(f"{case}\n    {moved}\n    {outcomes}, not {case.expected}")
    assert not wrong, "\n".join(wrong)
