"""What a lint calls constant is constant on every node of every world, by the oracle.

Point 2 of the language's test plan: PS401 and PS402 are never wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given, strategies as st

from policy_sched.language.check import walk
from policy_sched.language.check.policy import check_policy
from policy_sched.language.diagnostics import Problem
from policy_sched.language.lint.conditions import Trees, conditions
from policy_sched.language.syntax import ast
from policy_sched.language.values import types
from policy_sched.model.pod_info import PodInfo

from .harness import names_of, oracle_outcome
from .oracle_world import World
from .rule_files import policy
from .strategies import PARAMS, rules, worlds

Situation = tuple[World, PodInfo]

TERMS = (
    ("node.podCount", ("0", "1", "-1", "2147483647", "2147483648")),
    ("pod.priority", ("-2147483648", "2147483647", "0", "9223372036854775807")),
    ("cluster.nodeCount", ("0", "1", "5")),
    ("pod.tolerations.size()", ("0", "-1", "1")),
    ('int(pod.labels["rank"])', ("0", "7", "-3")),
    ('node.labels["zone"]', ('"a"', '"b"', '""')),
    ('node.labels[?"zone"].orValue("a")', ('"a"', '"b"')),
    ("pod.namespace", ('"a"', '"b"', '"default"')),
    ("percent(node.podCount, cluster.podCount)", ("0", "100", "101", "-1")),
    ("clamp(node.podCount, 2, 5)", ("1", "2", "5", "6")),
    ("math.abs(pod.priority)", ("-1", "0")),
    ("double(node.podCount) / double(pod.priority)", ("0.0", "-0.0", "1.0")),
    ("pod.hostNetwork", ("true", "false")),
    ("node.podCount % 3", ("-1", "0", "2", "3")),
    ('node.free["cpu"].sign()', ("-2", "0", "2")),
    ("cluster.podCount - node.podCount", ("-1", "0")),
)
OPERATORS = ("==", "!=", "<", "<=", ">", ">=")


def _comparison(term: str, constant: str, operator: str, form: str) -> str:
    """Write a comparison, its sides swapped or negated as ``form`` says."""
    left, right = (constant, term) if form == "swapped" else (term, constant)
    return f"!({left} {operator} {right})" if form == "negated" else f"{left} {operator} {right}"


def _more(part: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    both = st.tuples(st.sampled_from([" && ", " || "]), st.lists(part, min_size=2, max_size=3))
    joined = both.map(lambda found: "(" + found[0].join(found[1]) + ")")
    branches = st.tuples(part, part, part).map(lambda found: "({} ? {} : {})".format(*found))
    return joined | joined | branches


@st.composite
def conditions_of_few_terms(draw: st.DrawFn) -> str:
    """Draw a condition on one or two terms, compared with constants also beyond their ranges."""
    chosen = draw(st.lists(st.sampled_from(TERMS), min_size=1, max_size=2))
    pairs = [(term, constant) for term, constants in chosen for constant in constants]
    forms = st.sampled_from(["plain", "plain", "swapped", "negated"])
    operators = st.sampled_from([*OPERATORS, "==", "!=", "==", "!="])
    single = st.tuples(st.sampled_from(pairs), operators, forms)
    leaves = single.map(lambda found: _comparison(*found[0], *found[1:]))
    return draw(st.recursive(leaves, _more, max_leaves=5))


def told(text: str) -> tuple[list[Problem], ast.Core | None]:
    """Return what is said about the conditions of a filter rule, and its tree."""
    source = policy({"params": PARAMS, "filter": [{"expression": text}]})
    checked, _ = check_policy(source)
    if checked is None:
        return [], None
    (rule,) = checked.filter
    trees = Trees(source, checked)
    tree = rule.expression.core
    return conditions(trees, tree, rule=True), tree


def claims(problem: Problem, tree: ast.Core) -> Iterator[tuple[ast.Core, bool]]:
    """Yield the conditions that a problem speaks of, and what it says that they always are."""
    place = problem.start, problem.end
    for part in walk(tree):
        if problem.code in ("PS401", "PS402") and (part.span.start, part.span.end) == place:
            if part.type == types.BOOL:
                yield part, problem.code == "PS401"
                return
        elif problem.code == "PS403" and isinstance(part, ast.Cond):
            for branch, taken_if in ((part.then, True), (part.otherwise, False)):
                if (branch.span.start, branch.span.end) == place:
                    yield part.test, not taken_if


def assert_sound(text: str, world: World, pod: PodInfo) -> None:
    """Hold what the lints say of a rule against the oracle, on each node."""
    problems, tree = told(text)
    for problem in problems:
        assert tree is not None
        for part, value in claims(problem, tree):
            if "#" in repr(part) and not _closed(part):
                continue  # it is about the elements of a list
            for row in range(len(world.nodes)):
                names = {**names_of(world, pod, row), "params": dict(PARAMS)}
                outcome = oracle_outcome(part, names)
                if outcome.error and "never" in problem.message:
                    continue
                assert (outcome.value, outcome.error) == (value, ""), (text, problem.message)


def _closed(tree: ast.Core) -> bool:
    source = policy({"filter": [{"expression": "true"}]})
    checked, _ = check_policy(source)
    assert checked is not None
    return Trees(source, checked).closed(tree)


@given(rules("filter"), worlds())
def test_constant_results_hold_for_any_rule(text: str, situation: Situation) -> None:
    """Whatever the rule is made of."""
    assert_sound(text, *situation)


@given(conditions_of_few_terms(), worlds())
def test_constant_results_hold_for_comparisons(text: str, situation: Situation) -> None:
    """Comparisons at the ends of ranges, of one term more than once, and of what can fail."""
    assert_sound(text, *situation)


def test_comparisons_are_reported() -> None:
    """The rules above are among those that are warned about: the promise is not empty."""
    for text in ("node.podCount >= 0", "pod.priority > 9223372036854775807"):
        problems, _ = told(text)
        assert [one.code for one in problems] in (["PS401"], ["PS402"])


def test_what_can_fail_is_never_true_rather_than_always_false() -> None:
    """A node without the label makes the comparisons an error; others decide."""
    text = 'node.labels["zone"] {0} "a" {1} node.labels["zone"] {0} "b"'
    found = [told(text.format(*one))[0] for one in (("==", "&&"), ("!=", "||"))]
    words = [problem.message.partition(":")[0] for problems in found for problem in problems]
    assert words == ["this is never true", "this is never false"]
    problems, _ = told('node.osImage == "a" && node.osImage == "b"')
    assert problems[0].message.startswith("this is always false: ")
