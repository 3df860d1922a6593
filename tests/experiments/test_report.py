"""Results in a folder are read back as the report that the sweep printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from policy_sched.cli.main import run
from policy_sched.errors import PolicySchedError
from policy_sched.experiments import folders_of_results, stored_report, tables
from tests.experiments.examples import tiny


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of the tiny experiment."""
    directory = tmp_path_factory.mktemp("stored")
    run(
        ["sweep", tiny(directory), "-j", "1", "--results", str(directory / "results"), "-o", "json"]
    )
    return directory / "results"


def test_the_report_is_the_one_that_was_printed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Numbers, verdicts and tables come out of the files as they went in."""
    experiment = str(folder.parent / "experiment.yaml")
    run(["sweep", experiment, "-j", "1", "--results", str(folder), "-o", "json"])
    report = stored_report(folder)
    assert json.loads(json.dumps(report.document())) == json.loads(capsys.readouterr().out)
    for table in tables(report.spec, report.results):
        assert table.csv() == (folder / f"{table.name}.csv").read_text()


def test_folders_are_found_one_below(folder: Path, tmp_path: Path) -> None:
    """A folder of results is one, and so are those in a folder."""
    assert folders_of_results(folder) == [folder]
    assert folders_of_results(folder.parent) == [folder]
    assert folders_of_results(tmp_path) == []
    with pytest.raises(PolicySchedError, match="No such file"):
        folders_of_results(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("experiment.json", "[]"),
        ("experiment.json", '{"name": "x", "spec": {}}'),
        ("experiment.json", "[" * 100_000),
        ("experiment.json", '{"asRun": {"program": 1}}'),
        ("runs.csv", "variant,seed,key\nv,1,../../x\n"),
        ("runs.csv", "nothing\n1\n"),
    ],
)
def test_what_is_no_result_is_said(folder: Path, tmp_path: Path, file: str, text: str) -> None:
    """A file that sweep has not written is an error with the folder's name."""
    for name in ("experiment.json", "runs.csv"):
        (tmp_path / name).write_text((folder / name).read_text())
    (tmp_path / file).write_text(text)
    with pytest.raises(PolicySchedError, match="holds no results"):
        stored_report(tmp_path)


def test_runs_whose_files_are_gone_are_failures(folder: Path, tmp_path: Path) -> None:
    """The rest is shown, and the report says which are missing."""
    for name in ("experiment.json", "runs.csv"):
        (tmp_path / name).write_text((folder / name).read_text())
    report = stored_report(tmp_path)
    assert not report.results
    assert len(report.failures) == 4
