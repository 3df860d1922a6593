"""Proving edited policies and claims: the answers of `prove`, problems, and the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from policy_sched.cli.main import run
from policy_sched.console.pages.policy_editor import proof_sections, sections
from policy_sched.console.trials import ProofQuestion, TrialQuestion, packed
from policy_sched.profiles.reload import PolicyFiles
from policy_sched.web import Source, Table
from tests.console.files import put

POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Gold}
spec: {filter: [{expression: pod.priority >= 100, message: gold}]}
"""
CLAIMS = """\
apiVersion: policysched.dev/v1alpha1
kind: PolicyProof
name: gold
policies: [policy.yaml]
claims:
- name: important pods alone
  always: '!passes || pod.priority >= 100'
"""


@pytest.fixture
def files(tmp_path: Path) -> PolicyFiles:
    """A policy in a directory of its own."""
    put(tmp_path / "gold" / "policy.yaml", POLICY)
    return PolicyFiles(None, (str(tmp_path / "gold"),))


def test_answers_are_those_of_prove(files: PolicyFiles, capsys: pytest.CaptureFixture[str]) -> None:
    """Questions and claims of a new file beside the policies, at the places of the files."""
    (folder,) = files.policies
    edits = {f"{folder}/claims.yaml": CLAIMS}
    proofs = ProofQuestion(files, edits).result()
    put(Path(folder) / "claims.yaml", CLAIMS)
    assert run(["prove", folder, "-o", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)["claims"]
    assert [(found.claim, found.place, found.words) for found in proofs.answers] == [
        (of["claim"], f"{of['file']}:{of['line']}", of["answer"]) for of in printed
    ]
    assert proofs.summary == "3 claims: 3 proven, 0 refuted, 0 unknown"


def test_an_edit_that_breaks_a_claim_is_shown_with_a_pod_and_a_node(files: PolicyFiles) -> None:
    """The claim beside the rule that is edited is refuted, in place."""
    (folder,) = files.policies
    put(Path(folder) / "claims.yaml", CLAIMS)
    edits = {f"{folder}/policy.yaml": POLICY.replace("100", "99")}
    proofs = ProofQuestion(files, edits).result()
    (broken,) = [found for found in proofs.answers if found.answer == "refuted"]
    assert (broken.claim, broken.place) == ("important pods alone", f"{folder}/claims.yaml:7")
    assert "priority: 99" in broken.refutation
    (section,) = proof_sections(proofs, "/policies/edit?file=x")
    kinds = [type(block) for block in section.blocks]
    assert kinds[1:] == [Table, Source]


def test_problems_of_claims_name_the_files(files: PolicyFiles) -> None:
    """Nothing is asked of claims that have errors; their places are those of the files."""
    (folder,) = files.policies
    edits = {f"{folder}/claims.yaml": CLAIMS.replace("passes ||", "pases ||")}
    proofs = ProofQuestion(files, edits).result()
    assert [(d.file, d.line, d.code) for d in proofs.problems] == [
        (f"{folder}/claims.yaml", 7, "PS101")
    ]
    assert proof_sections(proofs, "/policies/edit?file=x")[0].title == "Problems"


def test_a_trial_of_a_rewrite_says_that_no_decision_can_change(files: PolicyFiles) -> None:
    """The words are those of `diff`; the trial was asked for, so it decides."""
    (folder,) = files.policies
    edits = {f"{folder}/policy.yaml": POLICY.replace(">= 100", "> 99")}
    trial = TrialQuestion(files, edits, packed([])).result()
    assert trial.diff is not None
    assert trial.diff.proven == ["Gold"]
    assert trial.diff.placements is not None
    (result, *_) = sections(trial, "/policies/edit?file=x")
    said = "No decision can change (proven: Gold decides as before for every pod and node). 0 pods"
    assert str(result.blocks[0].texts[0]).startswith(said)
