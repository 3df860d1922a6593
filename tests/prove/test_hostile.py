"""Promises about what is made to take long: it ends within limits, and says so."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from pathlib import Path

import pytest

from policy_sched.cli.main import run
from policy_sched.errors import PolicyError
from policy_sched.profiles.reload import ProcessLimits
from policy_sched.prove import Verdict, parts_of, prove

POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Gold}
spec: {filter: [{expression: pod.priority >= 100, message: gold}]}
"""
HEAD = """\
apiVersion: policysched.dev/v1alpha1
kind: PolicyProof
name: gold
policies: [policy.yaml]
claims:
"""


def stated(folder: Path, *claims: str) -> str:
    """Return the path of a document with claims about a policy."""
    (folder / "policy.yaml").write_text(POLICY)
    file = folder / "claims.yaml"
    lines = [f"- name: claim {i}\n  always: '{rule}'\n" for i, rule in enumerate(claims)]
    file.write_text(HEAD + "".join(lines))
    return str(file)


def verdicts(file: str, timeout: float = 2.0, limits: ProcessLimits | None = None) -> list[Verdict]:
    """Return the verdicts on the claims of a file."""
    return prove(parts_of([file], (), 8, timeout), 1, lambda _done: None, limits)


def test_nested_quantifiers_end(tmp_path: Path) -> None:
    """Three loops over eight pods each are unrolled and answered; more are refused as in rules."""
    rule = "a.uid != b.uid || b.uid != c.uid || a.uid == c.uid"
    for name in "cba":
        rule = f"node.pods.all({name}, {rule})"
    (verdict,) = verdicts(stated(tmp_path, rule))
    assert verdict.answer == "proven up to"
    with pytest.raises(PolicyError, match="macros are nested more than 3 deep"):
        verdicts(stated(tmp_path, f"node.pods.all(d, {rule})"))


@pytest.mark.usefixtures("few_clusters")
def test_loops_that_functions_nest_deeper_prove_nothing(tmp_path: Path) -> None:
    """Of any four taints two have one key, as long as there are three."""
    pairs = "a.key == b.key || a.key == c || a.key == d || b.key == c || b.key == d || c == d"
    rule = f"node.taints.all(a, node.taints.all(b, {pairs}))"
    function = f'{{name: four, params: {{c: string, d: string}}, expression: "{rule}"}}'
    whole = '"node.taints.all(c, node.taints.all(d, four(c.key, d.key)))"'
    file = stated(tmp_path, "passes")
    text = POLICY.replace("spec: {", f"spec: {{functions: [{function}], ")
    (tmp_path / "policy.yaml").write_text(text.replace("pod.priority >= 100", whole))
    (verdict,) = prove(parts_of([file], (), 3, 2.0), 1, lambda _done: None)
    assert verdict.answer == "unknown"


@pytest.mark.usefixtures("few_clusters")
def test_what_the_solver_cannot_do_is_told(tmp_path: Path) -> None:
    """Its budget is in steps: the answer is the same on a busy machine."""
    a, b, c = (f'node.capacity["{name}"].units() % 1000000' for name in ("a", "b", "c"))
    rule = f"({a}) * ({a}) * ({a}) + ({b}) * ({b}) * ({b}) != ({c}) * ({c}) * ({c}) + 114"
    (verdict,) = verdicts(stated(tmp_path, rule), 0.2)
    assert (verdict.answer, verdict.reason) == ("unknown", "the solver needs more time")


def pigeons(count: int) -> str:
    """Return the rule that so many labels do not all differ with one value less to have."""
    labels = [f'node.labels[?"p{i}"].orValue("")' for i in range(count)]
    holes = "[" + ", ".join(f'"h{i}"' for i in range(count - 1)) + "]"
    housed = [f"{label} in {holes}" for label in labels]
    apart = [f"{a} != {b}" for i, a in enumerate(labels) for b in labels[:i]]
    return f"!({' && '.join((*housed, *apart))})"


@pytest.mark.usefixtures("few_clusters")
def test_exponential_conditions_are_told(tmp_path: Path) -> None:
    """More pigeons than holes are proven while they are few; then the answer is its cost."""
    assert verdicts(stated(tmp_path, pigeons(5)))[0].answer == "proven"
    (verdict,) = verdicts(stated(tmp_path, pigeons(12)), 0.3)
    assert (verdict.answer, verdict.reason) == ("unknown", "the solver needs more time")


def test_conditions_that_double_are_refused_by_their_length(tmp_path: Path) -> None:
    """Each choice has the one before it twice: what fits into a rule has an answer."""
    rule = "pod.priority"
    for i in range(7):
        rule = f"({rule} > {i} ? {rule} : {i})"
    assert verdicts(stated(tmp_path, f"{rule} >= 6"))[0].answer == "proven"
    for i in range(3):
        rule = f"({rule} > {i} ? {rule} : {i})"
    with pytest.raises(PolicyError, match=r"the expression has \d+ bytes; the limit is 10240"):
        verdicts(stated(tmp_path, f"{rule} >= 6"))


def test_too_many_claims_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A document of 600 claims is a problem at its key, one of 10,000 at its first value beyond."""
    for count, problem in (
        (600, "must have at most 500 claims"),
        (10_000, "more than 50000 values"),
    ):
        file = stated(tmp_path, *["passes"] * count)
        assert run(["check", file]) == 1
        assert problem in capsys.readouterr().out
        with pytest.raises(PolicyError, match=problem):
            parts_of([file], (), 3, 1.0)


def test_a_solver_process_that_is_killed_is_replaced(tmp_path: Path) -> None:
    """The claim that it was at has no answer; those after it do."""
    file = stated(tmp_path, *["passes || pod.priority < 100"] * 3)

    def killing(_done: int) -> None:
        for process in multiprocessing.active_children():
            process.kill()

    found = prove(parts_of([file], (), 3, 2.0), 1, killing)
    assert [verdict.answer for verdict in found].count("proven") >= 1
    assert {verdict.reason for verdict in found} <= {"", "the process ended with SIGKILL"}


def test_without_the_extra_nothing_of_it_is_imported() -> None:
    """The command line, check and a scheduler know the verb, and load neither it nor the solver."""
    code = (
        "import sys\n"
        "from policy_sched.cli.main import run\n"
        "import policy_sched.console, policy_sched.lsp, policy_sched.instance\n"
        "run(['check', 'policies/spot-nodes'])\n"
        "print([name for name in sys.modules if name == 'z3' or 'policy_sched.prove' in name])\n"
    )
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", code]
    shown = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[-1] == "[]"
