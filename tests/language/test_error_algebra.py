"""Promises about errors: which operators absorb them, and what a missing label means.

Point 3 of the language's test plan: tables of errors, and labels that are missing.
"""

from __future__ import annotations

import itertools
from typing import Final

import pytest

from policy_sched.model.meta import NodeSelectorRequirement
from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import make_node, make_pod

from .harness import Outcome, rows_of
from .oracle_scheduler import requirement_holds
from .oracle_world import World

TRUE: Final = Outcome(value=True)
FALSE: Final = Outcome(value=False)
ERROR: Final = Outcome(None, "no_such_key")
STATES: Final = (TRUE, FALSE, ERROR)
#: How a truth value comes about: from a label that is "t", "f" or missing.
OPERANDS: Final = {
    "node": ('node.labels["l"] == "t"', 'node.labels["r"] == "t"'),
    "pod": ('pod.labels["l"] == "t"', 'pod.labels["r"] == "t"'),
    "pod and node": ('pod.labels["l"] == "t"', 'node.labels["r"] == "t"'),
    "node and pod": ('node.labels["l"] == "t"', 'pod.labels["r"] == "t"'),
}


def labels_of(left: Outcome, right: Outcome) -> dict[str, str]:
    """Return labels l and r that make a pair of states."""
    words = {True: "t", False: "f"}
    return {k: words[o.value] for k, o in (("l", left), ("r", right)) if not o.error}


def both(text: str, operands: str) -> dict[tuple[Outcome, Outcome], Outcome]:
    """Evaluate a text with L and R in it for each pair of states, on nodes and on pods alike."""
    pairs = list(itertools.product(STATES, STATES))
    world = World([make_node(f"n{i}", labels=labels_of(*p)) for i, p in enumerate(pairs)], [])
    left, right = OPERANDS[operands]
    rule = text.replace("L", f"({left})").replace("R", f"({right})")
    table = {}
    for row, pair in enumerate(pairs):
        pod = PodInfo.of(make_pod(labels=labels_of(*pair)))
        table[pair] = rows_of(rule, world, pod)[row]
    return table


def conjunction(left: Outcome, right: Outcome) -> Outcome:
    """Return CEL's conjunction: false wins, then an error."""
    if FALSE in (left, right):
        return FALSE
    return ERROR if ERROR in (left, right) else TRUE


def disjunction(left: Outcome, right: Outcome) -> Outcome:
    """Return CEL's disjunction: true wins, then an error."""
    if TRUE in (left, right):
        return TRUE
    return ERROR if ERROR in (left, right) else FALSE


@pytest.mark.parametrize("operands", OPERANDS)
class TestTables:
    """The nine combinations of true, false and error, whatever level the operands have."""

    def test_a_conjunction_is_false_where_either_side_is(self, operands: str) -> None:
        """``&&`` is false where either side is, else an error where either side is one."""
        for pair, outcome in both("L && R", operands).items():
            assert outcome == conjunction(*pair), pair

    def test_a_disjunction_is_true_where_either_side_is(self, operands: str) -> None:
        """``||`` is true where either side is, else an error where either side is one."""
        for pair, outcome in both("L || R", operands).items():
            assert outcome == disjunction(*pair), pair

    def test_the_order_of_operands_of_logic_changes_no_result(self, operands: str) -> None:
        """The order of operands of ``&&`` and ``||`` makes no difference."""
        assert both("L && R", operands) == both("R && L", operands)
        assert both("L || R", operands) == both("R || L", operands)

    def test_a_negated_conjunction_is_the_disjunction_of_negations(self, operands: str) -> None:
        """A negated conjunction is the disjunction of the negations, errors included."""
        assert both("!(L && R)", operands) == both("!L || !R", operands)
        assert both("!(L || R)", operands) == both("!L && !R", operands)

    def test_negation_passes_errors_on(self, operands: str) -> None:
        """``!`` turns truth over and leaves an error an error; twice is once."""
        for (left, _), outcome in both("!L", operands).items():
            assert outcome == (ERROR if left.error else Outcome(not left.value))
        assert both("!!L", operands) == both("L", operands)

    def test_conditional_takes_only_the_chosen_branch(self, operands: str) -> None:
        """An error in the test is the result's, in a branch only where it is chosen."""
        for (left, right), outcome in both("L ? R : true", operands).items():
            expected = ERROR if left.error else (right if left.value else TRUE)
            assert outcome == expected, (left, right)

    def test_equality_is_strict(self, operands: str) -> None:
        """``==`` of two truth values is an error where either is."""
        for (left, right), outcome in both("(L) == (R)", operands).items():
            failed = left.error or right.error
            assert outcome == (ERROR if failed else Outcome(left.value == right.value))

    def test_all_and_exists_absorb_over_a_list(self, operands: str) -> None:
        """``all`` and ``exists`` over [L, R] are their conjunction and disjunction."""
        for pair, outcome in both("[1, 2].all(x, x == 1 ? L : R)", operands).items():
            assert outcome == conjunction(*pair), pair
        for pair, outcome in both("[1, 2].exists(x, x == 1 ? L : R)", operands).items():
            assert outcome == disjunction(*pair), pair

    def test_exists_one_and_filter_do_not_absorb(self, operands: str) -> None:
        """``exists_one`` and ``filter`` are errors where any test is."""
        for (left, right), outcome in both(
            "[1, 2].exists_one(x, x == 1 ? L : R)", operands
        ).items():
            failed = left.error or right.error
            assert outcome == (ERROR if failed else Outcome(left.value != right.value))
        for (left, right), outcome in both(
            "[1, 2].filter(x, x == 1 ? L : R).size() == 1", operands
        ).items():
            failed = left.error or right.error
            assert outcome == (ERROR if failed else Outcome(left.value != right.value))


WORLD: Final = World(
    [
        make_node("with-a", labels={"z": "a"}),
        make_node("with-b", labels={"z": "b"}),
        make_node("with-empty", labels={"z": ""}),
        make_node("without", labels={"y": "a"}),
    ],
    [],
)


@pytest.mark.parametrize(
    ("text", "operator", "values"),
    [
        ('node.labels[?"z"] == optional.of("a")', "In", ("a",)),
        ('"z" in node.labels && node.labels["z"] in ["a", "b"]', "In", ("a", "b")),
        ('has(node.labels.z) && node.labels.z in ["a", ""]', "In", ("a", "")),
        ('selector("z in (a, b)").matches(node.labels)', "In", ("a", "b")),
        ('node.labels[?"z"].optMap(z, z == "a").orValue(false)', "In", ("a",)),
        ('node.labels[?"z"] != optional.of("a")', "NotIn", ("a",)),
        ('!("z" in node.labels && node.labels["z"] in ["a", "b"])', "NotIn", ("a", "b")),
        ('!has(node.labels.z) || !(node.labels.z in ["", "b"])', "NotIn", ("", "b")),
        ('selector("z notin (a)").matches(node.labels)', "NotIn", ("a",)),
        ('selector("z!=a").matches(node.labels)', "NotIn", ("a",)),
        ('"z" in node.labels', "Exists", ()),
        ("has(node.labels.z)", "Exists", ()),
        ('node.labels[?"z"].hasValue()', "Exists", ()),
        ('selector("z").matches(node.labels)', "Exists", ()),
        ('!("z" in node.labels)', "DoesNotExist", ()),
        ("!has(node.labels.z)", "DoesNotExist", ()),
        ('node.labels[?"z"] == optional.none()', "DoesNotExist", ()),
        ('selector("!z").matches(node.labels)', "DoesNotExist", ()),
    ],
)
def test_recommended_spellings_mean_what_kubernetes_means(
    text: str, operator: str, values: tuple[str, ...]
) -> None:
    """The total forms agree with a node selector requirement, also where the label is missing."""
    requirement = NodeSelectorRequirement("z", operator, values)
    expected = [Outcome(requirement_holds(requirement, n.metadata.labels)) for n in WORLD.nodes]
    assert rows_of(text, WORLD, PodInfo.of(make_pod())) == expected


def test_missing_label_is_an_error_in_the_strict_form() -> None:
    """``node.labels["z"] != "a"`` errs on a node without the label, unlike NotIn."""
    outcomes = rows_of('node.labels["z"] != "a"', WORLD, PodInfo.of(make_pod()))
    assert outcomes == [FALSE, TRUE, TRUE, ERROR]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('node.labels[?"z"].orValue("b") == "b"', [FALSE, TRUE, FALSE, TRUE]),
        ('node.labels[?"z"].orValue(node.labels["y"]) == "a"', [TRUE, FALSE, FALSE, TRUE]),
        ('node.labels[?"y"].orValue(node.labels["z"]) == "a"', [TRUE, FALSE, FALSE, TRUE]),
        ('node.labels[?"z"].value() == "a"', [TRUE, FALSE, FALSE, Outcome(None, "no_value")]),
        ('node.labels[?"z"].or(node.labels[?"y"]).value() == "a"', [TRUE, FALSE, FALSE, TRUE]),
    ],
)
def test_or_value_stands_for_what_is_missing(text: str, expected: list[Outcome]) -> None:
    """``orValue`` is the value or the given one, whose own error counts only where it is needed."""
    assert rows_of(text, WORLD, PodInfo.of(make_pod())) == expected
