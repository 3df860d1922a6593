"""Edited policy files: which edits are taken, where problems point, and patches that git takes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from policy_sched.console.trials.edits import (
    checked_edits,
    edited,
    patch,
    path_of_new_file,
    source_texts,
)
from policy_sched.errors import PolicySchedError
from policy_sched.profiles.reload import PolicyFiles
from tests.console.files import put
from tests.profiles.policy_texts import keeping


@pytest.fixture
def files(tmp_path: Path) -> PolicyFiles:
    """A directory with two policies, one of them below a folder."""
    put(tmp_path / "mine" / "a.yaml", keeping("A", 'node.name == "a"'))
    put(tmp_path / "mine" / "deep" / "b.yaml", keeping("B", "true"))
    return PolicyFiles(None, (str(tmp_path / "mine"),))


def test_the_texts_of_a_set_are_those_of_its_files(files: PolicyFiles, tmp_path: Path) -> None:
    """Every file of every path is there once, in order, and what cannot be read says why."""
    (tmp_path / "mine" / "c.yaml").write_bytes(b"\xff\xfe\xff")
    texts = source_texts(files)
    assert [Path(text.path).name for text in texts] == ["a.yaml", "c.yaml", "b.yaml"]
    assert texts[0].text == (tmp_path / "mine" / "a.yaml").read_text()
    assert texts[1].problem == "it is not UTF-8"


def test_a_copy_is_compiled_and_problems_name_the_file_itself(files: PolicyFiles) -> None:
    """The file is not touched, and no temporary path is shown."""
    path = source_texts(files)[0].path
    before = Path(path).read_text()
    with edited(files, {path: before.replace("node.name", "node.nam")}) as copy:
        objects = copy.renamed(copy.files.compile().problems)
        places = list(copy.names)
    assert [(obj.file, obj.severity) for obj in objects] == [(path, "error")]
    assert "policy-sched-" not in "".join(obj.render() for obj in objects)
    assert Path(path).read_text() == before
    assert not any(Path(obj).exists() for obj in places)


def test_a_configuration_is_copied_too(tmp_path: Path) -> None:
    """An edit of the configuration decides which policies are enabled."""
    put(tmp_path / "a.yaml", keeping("A", "true"))
    config = tmp_path / "config.yaml"
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    put(config, head)
    files = PolicyFiles(str(config), (str(tmp_path / "a.yaml"),))
    profile = "profiles:\n- plugins:\n    multiPoint:\n      enabled:\n      - name: A\n"
    with edited(files, {str(config): head + profile}) as copy:
        assert "A" in copy.files.compile().plans[0].policies
    assert "A" not in files.compile().plans[0].policies


def test_a_new_file_comes_to_the_others(files: PolicyFiles, tmp_path: Path) -> None:
    """A policy in a file that is not there yet is enabled with the rest."""
    path = path_of_new_file(files, "new.yaml")
    assert path == str(tmp_path / "mine" / "new.yaml")
    edits = checked_edits(files, {path: keeping("New", "true")})
    with edited(files, edits) as copy:
        assert {"A", "B", "New"} <= copy.files.compile().plans[0].policies.keys()


@pytest.mark.parametrize("path", ["/etc/passwd", "../a.yaml", "x/../../b.yaml", ".hidden.yaml"])
def test_an_edit_stays_among_the_files(files: PolicyFiles, path: str) -> None:
    """A path outside of the set is refused, and so is an odd name."""
    with pytest.raises(PolicySchedError):
        checked_edits(files, {path: "x"})


def test_line_endings_of_a_file_are_kept(tmp_path: Path) -> None:
    """A browser sends line feeds; a file with carriage returns gets them back."""
    path = tmp_path / "a.yaml"
    path.write_bytes(keeping("A", "true").replace("\n", "\r\n").encode())
    files = PolicyFiles(None, (str(path),))
    text = path.read_bytes().decode()
    assert checked_edits(files, {str(path): text.replace("\r\n", "\n")}) == {}
    changed = checked_edits(files, {str(path): text.replace("\r\n", "\n") + "# x\n"})
    assert changed == {str(path): text + "# x\r\n"}


@pytest.mark.parametrize("ends", ["", "\n", "\r\n", "\u2028", "\x0c\n"])
def test_git_takes_the_patch(files: PolicyFiles, tmp_path: Path, ends: str) -> None:
    """A changed file and a new one, whatever the last line ends with."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    path = source_texts(files)[0].path
    put(Path(path), source_texts(files)[0].text + "# a comment" + ends)
    new = path_of_new_file(files, "new.yaml")
    edits = {path: source_texts(files)[0].text.replace('"a"', '"ä"'), new: keeping("N", "true")}
    taken = checked_edits(files, edits)
    (tmp_path / "edit.patch").write_bytes(patch(files, taken).encode())
    subprocess.run(["git", "apply", "edit.patch"], cwd=tmp_path, check=True)
    for file, text in taken.items():
        assert Path(file).read_bytes().decode() == text
