"""Every function, section and code has an example, which is what it says it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from policy_sched.cluster.cache import Cache
from policy_sched.explain.evaluate import evaluated
from policy_sched.language.check import walk
from policy_sched.language.check.policy import check_expression
from policy_sched.language.diagnostics import codes
from policy_sched.language.expression import FIRST_ERROR, compile_expression
from policy_sched.language.stdlib.environment import Overload, policy_environment
from policy_sched.language.stdlib.value_printer import value_text
from policy_sched.language.syntax import ast
from policy_sched.language.values.limits import KINDS
from policy_sched.profiles.check.check import check_open

PARAMS = {"affinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
HEAD = "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: P}\n"
CODES = codes()
RUN_TIME = [code for code in CODES if code.startswith("PS6")]
#: What is told in words, as it takes more than one policy, or a cluster.
IN_WORDS = {
    *("PS311", "PS312", "PS407", "PS408", "PS410", "PS411", "PS501", "PS705", "PS708"),
    *(
        "PS711",
        "PS712",
        "PS713",
        "PS714",
        "PS715",
        "PS717",
        "PS718",
        "PS719",
        "PS803",
        "PS804",
        "PS805",
        "PS807",
        "PS821",
        "PS822",
        "PS901",
        "PS902",
    ),
}
SHOWN = [code for code in CODES if code not in IN_WORDS and code not in RUN_TIME]


def test_every_code_section_and_function_has_an_example() -> None:
    """No example is empty."""
    environment = policy_environment()
    described = [*environment.overloads, *environment.sections.values(), *CODES.values()]
    assert all(one.example for one in described)


#: A quota is one of a policy, which an example lacks.
WITHOUT_QUOTAS = [o for o in policy_environment().overloads if "quota." not in o.example]


@pytest.mark.parametrize("overload", WITHOUT_QUOTAS, ids=lambda o: o.signature)
def test_an_example_uses_its_function(overload: Overload) -> None:
    """The example of an overload calls it, and has the value that it shows."""
    text, _, value = overload.example.partition(" => ")
    core, problems = check_expression(text, "any", PARAMS)
    assert core is not None, problems
    assert overload.id in {part.overload for part in walk(core) if isinstance(part, ast.Call)}
    if value:
        assert shown(text) == value


def shown(text: str) -> str:
    """Return the value of an expression that reads nothing."""
    found = evaluated(text, "any", None, Cache(), None, 0)
    (value,) = found.values
    return value_text(value.value, found.type)


#: The object of a quota has the fields of an input, which an example lacks.
WITHOUT_INPUTS = sorted(
    policy_environment().sections.keys()
    - {"quotas.amounts", "quotas.publish", "queueOrder.by", "queueOrder.strict"}
)


@pytest.mark.parametrize("section", WITHOUT_INPUTS)
def test_an_example_may_stand_in_its_section(section: str) -> None:
    """It has the right type, and reads only what is visible there."""
    core, problems = check_expression(policy_environment().sections[section].example, section)
    assert core is not None, problems


@pytest.mark.parametrize("code", SHOWN)
def test_an_example_has_its_problem(code: str, tmp_path: Path) -> None:
    """As a filter rule, or as a part of a policy's spec."""
    text = CODES[code].example
    spec = {"filter": [{"expression": text, "message": "m"}]}
    document = HEAD + f"spec: {yaml.safe_dump(spec, default_flow_style=True, width=9999)}"
    if text.startswith("apiVersion: "):
        document = HEAD.replace("apiVersion: policysched.dev/v1alpha1", text) + "spec: {}"
    elif ", filter: " in text:
        document = f"{HEAD}spec: {{{text}}}\n"
    elif re.match(r"[a-zA-Z]+: ", text):
        rest = "" if text.startswith("score") else "  score: {expression: '1'}\n"
        document = f"{HEAD}spec:\n{rest}  {text}\n"
    found = check_open(str(tmp_path / "p.yaml"), document)
    assert code in {one.code for one in found}
    assert all(one.severity == CODES[one.code].severity for one in found)


@pytest.mark.parametrize("code", RUN_TIME)
def test_an_example_can_fail_so(code: str) -> None:
    """The compiler records that it can fail."""
    core, problems = check_expression(CODES[code].example.rpartition(", ")[0], "filter")
    assert core is not None, problems
    kinds = {KINDS[site.kind] for site in compile_expression(core).sites if site.kind}
    assert KINDS[int(code[2:]) - FIRST_ERROR] in kinds
