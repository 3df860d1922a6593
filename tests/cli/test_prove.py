"""The verb `prove`: what people and build servers read, and what becomes of counterexamples."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from policy_sched.cli.main import run
from policy_sched.prove import ProofReport, Verdict, parts_of, prove

POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Tiers}
spec:
  filter:
  - expression: int(node.labels["rank"]) < 1000
    message: rank
  - expression: pod.priority >= 100 || node.labels[?"tier"].orValue("") != "gold"
    message: gold
  - expression: pod.priority >= 50 || node.labels[?"tier"].orValue("") != "gold"
    message: gold again
  score: {expression: 'percent(node.podCount, 110)'}
"""
TEXT = """\
{file}
  6: Tiers: filter[0] never fails: refuted: it fails
      objects:
      - apiVersion: v1
        kind: Node
        metadata:
          name: node-1
      pending:
      - apiVersion: v1
        kind: Pod
        metadata:
          name: pod-1
          namespace: default
        spec:
          containers:
          - name: main
            image: registry.example/app:1
      expect:
      - pod: default/pod-1
        chosen: null
        rejected:
          node-1:
            code: UnschedulableAndUnresolvable
            plugin: Tiers
            reasons:
            - 'rule Tiers.filter[0]: no such key ''rank'''
  6: Tiers: filter[0] rejects some node: proven
  8: Tiers: filter[1] rejects some node: proven
  10: Tiers: filter[2] rejects some node: refuted: it rejects no node that the rules before it and \
matchConditions let pass
  6: Tiers: some node passes: proven
  12: Tiers: score is within 0..100: proven
  12: Tiers: score is not the same for all nodes: proven
7 claims: 5 proven, 2 refuted, 0 unknown
"""


@pytest.fixture
def policy(tmp_path: Path) -> str:
    """Return the path of a policy with a rule that can fail, and one that never rejects."""
    (tmp_path / "policy.yaml").write_text(POLICY)
    return str(tmp_path / "policy.yaml")


def test_the_text_says_each_answer_and_shows_what_refutes(
    policy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line for each claim; the smallest pod and node that refute it; the numbers at the end."""
    assert run(["prove", policy]) == 1
    assert capsys.readouterr().out == TEXT.replace("{file}", policy)


def test_counterexamples_are_tests(policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is written runs as a test of the policy, and is as expected."""
    tests = Path(policy).parent / "more" / "tests.yaml"
    assert run(["prove", policy, "--write", str(tests), "-j", "1"]) == 1
    assert "- ../policy.yaml" in tests.read_text()
    capsys.readouterr()
    assert run(["test", str(tests), "--root", str(tests.parents[1])]) == 0
    assert "1 of 1 steps as expected" in capsys.readouterr().out


def test_every_form_names_the_refuted_claims(
    policy: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """JSON, JUnit, SARIF, GitHub, GitLab and Markdown have the same two refuted claims."""
    verdicts = prove(parts_of([policy], (), 3, 10.0), 1, lambda _done: None)
    monkeypatch.setattr("policy_sched.prove.prove", lambda *_: verdicts)  # once for all forms
    for form, count in (
        ("json", '"answer": "refuted"'),
        ("junit", "<failure "),
        ("sarif", '"ruleId": "PS901"'),
        ("github", "title=PS901::"),
        ("gitlab", '"check_name": "PS901"'),
        ("markdown", "| refuted: "),
    ):
        assert run(["prove", policy, "-o", form]) == 1
        out = capsys.readouterr().out
        assert out.count(count) == 2, (form, out)
        if form in ("json", "sarif", "gitlab"):
            json.loads(out)


def test_problems_of_a_policy_come_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A policy that check refuses is not proved; its problems are reported at their places."""
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY.replace("node.podCount", "node.podCont").replace("int(", "itn("))
    assert run(["prove", str(file)]) == 1
    shown = capsys.readouterr().err
    assert f"{file}:6:17: error PS101" in shown
    assert f"{file}:12:" in shown


@pytest.fixture(scope="module")
def unknown(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[Verdict]]:
    """Return the path of a policy without an exact encoding, and the verdicts.

    All small clusters in which an example may be would take 3 s.
    """
    file = written(tmp_path_factory.mktemp("unknown"), """'node.name.lowerAscii() != "A"'""")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("policy_sched.prove.examples._CLUSTERS", 20)
        return file, prove(parts_of([file], (), 3, 10.0), 1, lambda _done: None)


def test_what_cannot_be_encoded_is_named_with_its_line(
    unknown: tuple[str, list[Verdict]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An answer that depends on a function without a term is unknown, which is no failure."""
    file, verdicts = unknown
    monkeypatch.setattr("policy_sched.prove.prove", lambda *_: verdicts)
    assert run(["prove", file]) == 0
    out = capsys.readouterr().out
    reason = "unknown: no example was confirmed; there is no exact encoding of lowerAscii (line 4)"
    assert f"Tiers: filter[0] rejects some node: {reason}" in out
    assert "Tiers: some node passes: proven" in out


def written(folder: Path, rule: str) -> str:
    """Write a policy with one filter rule; return its path."""
    file = folder / "policy.yaml"
    rules = f"spec: {{filter: [{{expression: {rule}, message: m}}]}}\n"
    file.write_text(POLICY.partition("spec:")[0] + rules)
    return str(file)


def problems(folder: Path, rule: str) -> list[str]:
    """Return the problems of claims about a policy with one filter rule."""
    file = written(folder, rule)
    return rendered(file, prove(parts_of([file], (), 3, 10.0), 1, lambda _done: None))


def rendered(file: str, verdicts: list[Verdict]) -> list[str]:
    """Return the problems that verdicts are."""
    texts = [problem.render() for problem in ProofReport(verdicts).diagnostics()]
    return [text.replace(file, "policy.yaml") for text in texts]


def test_ps901_a_claim_that_is_refuted(tmp_path: Path) -> None:
    """At the rule; a rule that cannot fail has no problem."""
    (said,) = problems(tmp_path, """'int(node.labels["rank"]) < 9'""")
    assert said.startswith("policy.yaml:4:31: error PS901: Tiers: filter[0] never fails: refuted")
    assert not problems(tmp_path, """'node.labels[?"rank"].orValue("") != "9"'""")


def test_ps902_a_claim_of_which_nothing_is_known(
    tmp_path: Path, unknown: tuple[str, list[Verdict]]
) -> None:
    """A warning; what has an exact encoding has no problem."""
    said = rendered(*unknown)
    assert all(one.startswith("policy.yaml:4:") and "warning PS902: Tiers" in one for one in said)
    assert said
    assert not problems(tmp_path, "node.name == pod.name")


def test_what_is_asked_beside_a_policy_changes_no_answer(tmp_path: Path) -> None:
    """It was asked over one model of all policies, with the tests beside the first one alone.

    What both are shown by are tests beside them, in a directory that is named, too.
    """
    shipped = Path(__file__).parents[2] / "policies"
    names = ("data-locality", "device-locality")
    for name in names:
        shutil.copytree(shipped / name, tmp_path / name)
        (tmp_path / name / "claims.yaml").unlink()

    def answers(*paths: Path) -> list[tuple[str, str, str]]:
        verdicts = prove(parts_of([*map(str, paths)], (), 3, 10.0), 1, lambda _done: None)
        return [(verdict.claim, verdict.answer, verdict.reason) for verdict in verdicts]

    alone = [answer for name in names for answer in answers(tmp_path / name / "policy.yaml")]
    assert {answer for _, answer, _ in alone} == {"proven"}
    assert any("as the test" in reason for _, _, reason in alone)
    assert answers(tmp_path) == alone


def test_two_policies_that_reject_every_node_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Policies that leave nothing over are told, although each lets nodes pass."""
    for name, rule in (("A", "node.podCount > 10"), ("B", "node.podCount < 10")):
        head = f"apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {{name: {name}}}\n"
        filters = f"spec: {{filter: [{{expression: {rule}, message: full}}]}}\n"
        (tmp_path / f"{name}.yaml").write_text(head + filters)
    assert run(["prove", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "A and B: some node passes both: refuted: together they reject every node" in out
    assert "5 claims: 4 proven, 1 refuted, 0 unknown" in out


def test_a_rewrite_that_decides_alike_is_proven(
    policy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A clause turned around and a score written anew change no decision, and are told so."""
    new = Path(policy).with_name("new.yaml")
    text = POLICY.replace(
        'pod.priority >= 50 || node.labels[?"tier"].orValue("") != "gold"',
        'true && !(pod.priority < 50 && "tier" in node.labels && node.labels["tier"] == "gold")',
    )
    new.write_text(text.replace("percent(node.podCount, 110)", "percent(2 * node.podCount, 220)"))
    assert run(["prove", "--diff", policy, str(new), "--timeout", "60"]) == 0
    out = capsys.readouterr().out
    assert "Tiers: the same nodes pass: proven\n" in out
    assert "Tiers: the reasons are the same: proven\n" in out


def test_a_difference_is_shown_with_both_outcomes(
    policy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The smallest node on which two versions differ, and what each of them says of it."""
    new = Path(policy).with_name("new.yaml")
    new.write_text(POLICY.replace("< 1000", "<= 1000").replace("message: rank", "message: order"))
    assert run(["prove", "--diff", policy, str(new)]) == 1
    out = capsys.readouterr().out
    said = "it is rejected (rank) before, it passes now"
    assert f"the same nodes pass: refuted: a node passes one and not the other: {said}" in out
    said = "it is rejected (rank) before, it is rejected (order) now"
    assert f"the reasons are the same: refuted: another reason is given: {said}" in out
    assert "Tiers: the raw scores are the same: proven" in out


def test_assumptions_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """What is taken for granted of pods and nodes, one line each."""
    assert run(["prove", "--assumptions"]) == 0
    assert "free: What is free of a resource is what is allocatable" in capsys.readouterr().out


def test_without_policies_there_is_nothing_to_prove(capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong usage, said in one line."""
    assert run(["prove"]) == 2
    assert "name policies, or two sets with --diff OLD NEW" in capsys.readouterr().err


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    """No traceback where z3 is not installed."""
    (tmp_path / "z3.py").write_text("raise ModuleNotFoundError('no z3', name='z3')\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from policy_sched.cli.main import run\n"
        "sys.exit(run(['prove', '--assumptions']))\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert found.returncode == 2
    assert "prove needs z3-solver: pip install 'z3-solver>=4.13'" in found.stderr
