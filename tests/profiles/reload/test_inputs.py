"""The files of a scheduler: all of their problems are reported at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.profiles.reload.inputs import PolicyFiles

POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Own}
spec:
  filter:
  - {expression: RULE, message: kept away}
"""
CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
"""


def told(*paths: Path, config: Path | None = None) -> list[str]:
    """Return the problems of files: severity, code and message."""
    named = None if config is None else str(config)
    found = PolicyFiles(named, tuple(map(str, paths))).compile()
    return [f"{one.severity.value} {one.code} {one.message}" for one in found.problems]


def test_mistakes_of_form_hide_none_of_meaning(tmp_path: Path) -> None:
    """A reload reports everything that is wrong with a file, as `check` does."""
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY.replace("RULE", "node.nmae == ''").replace("message", "mesage"))
    assert told(file) == [
        "error PS102 Node has no field 'nmae'; did you mean 'name'?",
        'error PS702 unknown field "spec.filter[0].mesage"',
    ]


@pytest.mark.parametrize(
    ("text", "where"),
    [("", "file"), ("# nothing\n", "file"), ("apiVersion: v1\nkind: Pod\n", "directory")],
)
def test_a_path_without_policies_is_a_warning(tmp_path: Path, text: str, where: str) -> None:
    """It decides as if it were not there, which a slip is taken for."""
    (tmp_path / "a.yaml").write_text(text)
    path = tmp_path / "a.yaml" if where == "file" else tmp_path
    assert told(path) == [f"warning PS704 there is no policy in this {where}"]


def test_a_folder_may_be_there_for_its_configuration(tmp_path: Path) -> None:
    """And a folder with a policy for that."""
    (tmp_path / "config.yaml").write_text(CONFIG)
    assert told(tmp_path, config=tmp_path / "config.yaml") == []
    (tmp_path / "policy.yaml").write_text(POLICY.replace("RULE", "node.ready"))
    assert told(tmp_path) == []
