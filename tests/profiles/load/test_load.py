"""One `load` reads a text for the scheduler, `policy-sched check` and the language server."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from policy_sched.errors import Diagnostic, Severity
from policy_sched.profiles.check import check_files, check_open
from policy_sched.profiles.load.load import Kinds, load, load_file
from policy_sched.profiles.reload.inputs import PolicyFiles
from policy_sched.source import SourceFile
from tests.profiles.policy_texts import config, keeping

BROKEN = Path(__file__).parents[1] / "broken"
TEST = "apiVersion: policysched.dev/v1alpha1\nkind: PolicyTest\nstepz: []\n"
CLAIM = """apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: a}
spec: {selectors: [{cel: {expression: "device.driver == 'x'"}}, {cel: {expression: 1}}]}
"""


def stream(*documents: str) -> SourceFile:
    """A file of several documents."""
    return SourceFile("all.yaml", "---\n".join(documents))


def errors(found: Iterable[Diagnostic]) -> set[tuple[str, str, int, int, str]]:
    """What a person reads of errors: file, code, line, column and message."""
    return {
        (one.file, one.code, one.line, one.column, one.message)
        for one in found
        if one.severity is Severity.ERROR
    }


def test_a_text_becomes_documents_models_and_problems() -> None:
    """Each document has its own models and problems, in the order of the file."""
    file = load(stream(keeping("One", "true"), config({"mine": ["One"]}), TEST, CLAIM))
    assert [one.name for one in file.policies] == ["One"]
    assert [one.model.profiles[0].scheduler_name for one in file.configs] == ["mine"]
    assert [len(one.selectors) for one in file.documents] == [0, 0, 0, 1]
    assert [bool(one.problems) for one in file.documents] == [False, False, True, True]
    assert all(one.recognized for one in file.documents)
    assert not file.problems


def test_kinds_that_are_not_read_are_refused_only_in_a_named_file() -> None:
    """A scheduler passes over other documents of a directory, and refuses them in a named file."""
    source = stream(keeping("One", "true"), config({"mine": ["One"]}), TEST)
    passed = load(source, Kinds.POLICIES)
    assert [one.recognized for one in passed.documents] == [True, False, True]
    assert not passed.all_problems
    refused = load(source, Kinds.POLICIES, named=True)
    assert [one.code for one in refused.all_problems] == ["PS706"]
    assert "'KubeSchedulerConfiguration'" in refused.all_problems[0].message


def test_the_same_text_is_read_once() -> None:
    """An editor that completes a word takes the models of the last check."""
    text = keeping("Once", "true")
    first = load(SourceFile("a.yaml", text))
    assert load(SourceFile("a.yaml", text)) is first


def test_a_file_that_cannot_be_read_has_that_problem(tmp_path: Path) -> None:
    """A missing file has a problem and no documents."""
    found = load_file(tmp_path / "none.yaml")
    assert [one.code for one in found.problems] == ["PS701"]
    assert (found.source, found.documents, found.recognized) == (None, (), True)


ALONE = sorted(path for path in BROKEN.rglob("*.yaml") if path.stem != "params-of-a-policy")
"""Files whose errors do not depend on a policy that stands beside the configuration."""


@pytest.mark.parametrize("path", ALONE, ids=lambda path: path.stem)
def test_all_report_the_same_errors(path: Path) -> None:
    """The scheduler, `check` and an editor report each error of a broken file alike."""
    name, text = str(path), path.read_text(encoding="utf-8")
    policy = path.parent.name == "policy"
    files = PolicyFiles(None, (name,)) if policy else PolicyFiles(name)
    checked = errors(check_files([name]))
    compiled = errors(files.compile().problems)
    assert {one for one in compiled if one[0] == name} == checked
    if path.stem != "not-a-mapping":  # an editor passes over documents without a kind
        assert errors(check_open(name, text)) == checked
