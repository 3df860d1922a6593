"""Lists that double with each variable: refused by their size before anything is compiled."""

from __future__ import annotations

import pytest

from policy_sched.language import diagnostics as problems
from policy_sched.language.check.policy import check_policy


def checked(rule: str, *variables: str) -> list[str]:
    """Return the codes of the problems of a rule beside variables v0, v1, ..."""
    named = tuple(
        problems.VariableSource(f"v{i}", problems.Text(text)) for i, text in enumerate(variables)
    )
    policy = problems.PolicySource(
        "P", variables=named, filter=(problems.Rule(problems.Text(rule), "no"),)
    )
    return [one.code for one in check_policy(policy)[1]]


@pytest.mark.parametrize("rule", ["variables.v59 == variables.v59", "size(variables.v59) > 0"])
@pytest.mark.parametrize(
    "step",
    [
        "[{0}, {0}]",
        '{{"a": {0}, "b": {0}}}',
        "cel.bind(a, {0}, [a, a])",
        "[{0}, {0}].map(x, [x, x])",
        "[1, 2, 3].map(x, {0})",
    ],
)
def test_variables_that_double_are_refused(rule: str, step: str) -> None:
    """Sixty variables of `[v, v]` compared with `==` kept check busy until memory ended."""
    steps = [step.format(f"variables.v{i}") for i in range(59)]
    assert checked(rule, "[pod.name]", *steps)[0] in ("PS501", "PS502")


def test_functions_that_double_are_refused() -> None:
    """A function that uses its argument twice doubles as a variable does."""
    functions = (problems.FunctionSource("f", (("x", "list(string)"),), problems.Text("x + x")),)
    calls = "f(" * 20 + "[pod.name]" + ")" * 20 + " == [pod.name]"
    policy = problems.PolicySource(
        "P", functions=functions, filter=(problems.Rule(problems.Text(calls), "no"),)
    )
    assert [one.code for one in check_policy(policy)[1]] == ["PS502"]


def test_types_are_nested_so_deep_at_most() -> None:
    """A list of one element grows a level with each variable, and nothing else."""
    steps = [f"[variables.v{i}]" for i in range(problems.MAX_TYPE_DEPTH)]
    assert checked("size(variables.v0) > 0", "[pod.name]", *steps)[0] == "PS501"


@pytest.mark.parametrize(
    "rule",
    [
        "[1, 2, 3].map(x, [x, x]).size() > 2",
        f"pod.name in {[str(i) for i in range(600)]}",
        f"{list(range(600))}.exists(x, x > size(pod.name))",
        "variables.v1.map(x, x == pod.name).exists(x, x)",
    ],
)
def test_lists_of_a_usual_size_are_fine(rule: str) -> None:
    """Hundreds of names in a list, and variables that share a list, are what policies have."""
    found = checked(rule, '["a", "b"]', "variables.v0 + variables.v0")
    assert not {"PS501", "PS502"} & set(found), found


def test_chains_of_deep_variables_are_refused() -> None:
    """Sixty variables, each eighty calls around the one before, ended check with a traceback."""
    steps = [f"{'abs(' * 80}variables.v{i}{')' * 80}" for i in range(60)]
    assert checked("variables.v60 > 1", "pod.priority", *steps)[0] == "PS501"
    few = [f"abs(variables.v{i} + 1)" for i in range(40)]
    assert "PS501" not in checked("variables.v40 > 1", "pod.priority", *few)
