"""Trying edited policies: the numbers of `diff` and `simulate`, problems, and limits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from policy_sched.cli.main import run
from policy_sched.console.trials.edits import source_texts
from policy_sched.console.trials.questions import Question, QuestionProcess
from policy_sched.console.trials.trial import (
    HitsQuestion,
    PolicyTrial,
    TimelineQuestion,
    TrialQuestion,
    packed,
)
from policy_sched.errors import PolicyError, PolicySchedError
from policy_sched.manifests import load, with_claims
from policy_sched.profiles.reload import PolicyFiles, ProcessLimits
from policy_sched.simulate import expand
from tests.console.files import put
from tests.profiles.policy_texts import keeping
from tests.shown import ROOT

CLUSTER = str(ROOT / "policies" / "example-cluster" / "manifests")


def cluster() -> bytes:
    """Return the example cluster as a question carries it."""
    return packed(with_claims(expand(load([CLUSTER], None).objects)))


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    """Return what a command prints as JSON."""
    run([*words, "-o", "json"])
    document: dict[str, object] = json.loads(capsys.readouterr().out)
    return document


@pytest.fixture
def files(tmp_path: Path) -> PolicyFiles:
    """One policy in a directory of its own."""
    text = (ROOT / "policies" / "gpu-bin-packing" / "policy.yaml").read_text()
    put(tmp_path / "old" / "policy.yaml", text)
    return PolicyFiles(None, (str(tmp_path / "old"),))


def stricter(files: PolicyFiles) -> dict[str, str]:
    """Return an edit after which nodes with GPUs are closed to other pods."""
    (text,) = source_texts(files)
    return {text.path: text.text.replace("podsWithoutGpu: Avoid", "podsWithoutGpu: Forbid")}


@pytest.mark.parametrize("seeds", [(0,), (3,), (0, 1, 2)])
def test_a_trial_is_what_diff_prints(
    files: PolicyFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str], seeds: tuple[int, ...]
) -> None:
    """Moves, causes, counts and measures are those of `policy-sched diff` over two directories."""
    edits = stricter(files)
    put(tmp_path / "new" / "policy.yaml", *edits.values())
    words = ["diff", str(tmp_path / "old"), str(tmp_path / "new"), "--cluster", CLUSTER]
    words += ["--seed", str(seeds[0]), "--seeds", str(len(seeds)), "--workers", "1"]
    trial = TrialQuestion(files, edits, cluster(), seeds=seeds).result()
    assert trial.diff is not None
    assert json.loads(json.dumps(trial.diff.document())) == printed(capsys, *words)
    assert trial.problems == ()


def test_hits_are_what_simulate_counts(
    files: PolicyFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    """Matched pods and rejected nodes are those of `simulate`; rules come in their order."""
    hits = HitsQuestion(files.compile().plans, cluster()).result()
    (policy,) = hits.policies
    summary = printed(capsys, "simulate", CLUSTER, "--policies", str(files.policies[0]))["summary"]
    assert isinstance(summary, dict)
    (shown,) = summary["policies"]
    assert (policy.policy, policy.matched, policy.pods) == (
        shown["policy"],
        shown["matched"],
        shown["pods"],
    )
    assert (policy.rejected, policy.scored) == (shown["rejected"], shown["scored"])
    assert [(rule.pods, rule.nodes) for rule in policy.rules] == [(0, 0)]
    assert (hits.pods, hits.nodes) == (summary["pods"], summary["nodes"])


def test_each_rule_is_counted_as_if_it_were_alone(tmp_path: Path) -> None:
    """A rule that another one hides has its own numbers."""
    path = tmp_path / "policy.yaml"
    text = keeping("Mine", 'node.name == "nowhere"')
    put(path, text.replace("  filter:\n", "  filter:\n  - expression: 'false'\n"))
    hits = HitsQuestion(PolicyFiles(None, (str(path),)).compile().plans, cluster()).result()
    (policy,) = hits.policies
    assert [(rule.pods, rule.nodes) for rule in policy.rules] == 2 * [(policy.pods, policy.nodes)]


def test_a_timeline_is_what_simulate_plays(
    files: PolicyFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    """The result is that of `simulate --timeline`."""
    result = TimelineQuestion(files.compile().plans, cluster(), seed=2).result()
    words = ["simulate", CLUSTER, "--policies", str(files.policies[0]), "--timeline", "--seed", "2"]
    assert json.loads(json.dumps(result.document())) == printed(capsys, *words)


def test_problems_of_an_edit_are_those_of_check(files: PolicyFiles) -> None:
    """A broken policy is not decided; its problems have line, column and source."""
    (text,) = source_texts(files)
    broken = text.text.replace("variables.wanted.size()", "variables.wantd.size()")
    trial = TrialQuestion(files, {text.path: broken}, cluster()).result()
    assert trial.diff is None
    assert {problem.file for problem in trial.problems} == {text.path}
    assert all(problem.source_line and problem.line > 1 for problem in trial.problems)


def test_a_broken_file_on_disk_is_compared_with_the_set_in_force(files: PolicyFiles) -> None:
    """After a refused reload an edit is tried against what decides, not against the file."""
    plans, edits = files.compile().plans, stricter(files)
    (path,) = edits
    expected = TrialQuestion(files, edits, cluster()).result()
    put(Path(path), keeping("Mine", "nod"))
    trial = TrialQuestion(files, edits, cluster(), plans).result()
    assert trial.diff is not None
    assert expected.diff is not None
    assert trial.diff.document() == expected.diff.document()
    with pytest.raises(PolicyError):
        TrialQuestion(files, edits, cluster()).result()


@dataclass(frozen=True)
class Endless(Question[PolicyTrial]):
    """A question whose result never comes."""

    def result(self) -> PolicyTrial:
        """Go on for ever."""
        while True:
            pass


@dataclass(frozen=True)
class Huge(Question[PolicyTrial]):
    """A question whose result needs too much memory."""

    def result(self) -> PolicyTrial:
        """Ask for a terabyte."""
        bytes(1 << 40)
        return PolicyTrial(())


@pytest.fixture(scope="module")
def process() -> Iterator[QuestionProcess]:
    """A process with narrow limits."""
    started = QuestionProcess(ProcessLimits(3, 2**30))
    yield started
    started.close()


def test_another_process_gives_the_same_result(
    files: PolicyFiles, process: QuestionProcess
) -> None:
    """A trial in the process has every number of one in this process, and refusals come back."""
    question = TrialQuestion(files, stricter(files), cluster())
    here, there = question.result(), asyncio.run(process.ask(question))
    assert here.diff is not None
    assert there.diff is not None
    assert there.diff.document() == here.diff.document()
    put(Path(source_texts(files)[0].path), keeping("Mine", "nod"))
    with pytest.raises(PolicyError, match="nod"):
        process.wait_for(question)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (Endless(), "more than 3 seconds of processor time"),
        (Huge(), "more than 1024 MiB of memory"),
    ],
)
def test_what_goes_beyond_a_limit_is_said_and_the_next_question_has_a_result(
    files: PolicyFiles, process: QuestionProcess, question: Question[PolicyTrial], words: str
) -> None:
    """Hostile text ends at most the process that reads it."""
    with pytest.raises(PolicySchedError, match=words):
        process.wait_for(question)
    trial = process.wait_for(TrialQuestion(files, {}, cluster()))
    assert trial.diff is not None
    assert not trial.diff.differences
