"""The corpus of broken policies and configurations: each has its diagnostics beside it.

Set POLICY_SCHED_UPDATE_GOLDEN=1 to write the diagnostics anew, and read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from policy_sched.profiles.check.check import check_files

BROKEN = Path(__file__).parent / "broken"
FILES = sorted(path.relative_to(BROKEN) for path in BROKEN.rglob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=str)
def test_broken_file_has_its_diagnostics(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken file gives exactly these words, at these places."""
    monkeypatch.chdir(BROKEN)
    found = "".join(f"{problem.render()}\n" for problem in check_files([path.as_posix()]))
    golden = BROKEN / path.with_suffix(".txt")
    if os.environ.get("POLICY_SCHED_UPDATE_GOLDEN"):
        golden.write_text(found, encoding="utf-8")
    assert found
    assert golden.read_text(encoding="utf-8") == found


def test_there_are_enough() -> None:
    """The corpus has at least fifty files, and no diagnostics without one."""
    assert len(FILES) >= 50
    texts = {path.relative_to(BROKEN).with_suffix(".yaml") for path in BROKEN.rglob("*.txt")}
    assert texts == set(FILES)


def test_a_directory_is_checked_as_a_whole() -> None:
    """Every broken file is found in its directory, but for what cannot be recognised as ours."""
    found = {problem.file for problem in check_files([str(BROKEN)])}
    expected = {str(BROKEN / path) for path in FILES}
    assert expected - found == {str(BROKEN / "config" / "not-a-mapping.yaml")}


def test_mistakes_of_people_who_know_another_language_have_a_way_out() -> None:
    """The advice for `node.labels["gen"] > 5` was string(...), which compiles and is wrong.

    `len()`, `.count()`, `every: 1 m`, `str()` and tabs were answered without any advice.
    """
    for name in ("habits-of-other-languages", "tabs"):
        found = check_files([str(BROKEN / "policy" / f"{name}.yaml")])
        assert found
        assert all(problem.hint for problem in found)
