"""The page of experiments: what the sweep printed, with curves, and noise said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from policy_sched.cli.main import run
from policy_sched.console.pages.experiments import sections, view
from policy_sched.console.pages.page import Missing, Query, Results
from policy_sched.experiments import stored_report, tables
from policy_sched.web import Chart, Table
from tests.console.browsing import Browser, browsing
from tests.experiments.examples import tiny


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a tiny experiment with eight seeds."""
    path = tmp_path_factory.mktemp("experiments")
    experiment = tiny(path, {"seeds": list(range(1, 9))})
    run(["sweep", experiment, "-j", "1", "--results", str(path / "results"), "-o", "json"])
    return path / "results"


def test_differences_and_verdicts_are_those_of_sweep(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each comparison is a row with the words of the sweep's report."""
    report = stored_report(folder)
    experiment = str(folder.parent / "experiment.yaml")
    run(["sweep", experiment, "-j", "1", "--results", str(folder)])
    printed = capsys.readouterr().out
    report_sections = sections(report)
    (table,) = next(
        section for section in report_sections if section.title.startswith("Differences from")
    ).blocks
    assert isinstance(table, Table)
    document = report.document()["comparison"]
    assert len(table.rows) == len(document)
    for row in table.rows:
        assert row[-1].text in printed  # type: ignore[union-attr]
        assert str(row[3]) in printed


def test_curves_have_the_bands_of_the_tables(folder: Path) -> None:
    """Median and quartiles at each point are those of bands.csv."""
    report = stored_report(folder)
    (chart,) = (
        block
        for section in sections(report)
        for block in section.blocks
        if isinstance(block, Chart) and block.name == "curve-cpu"
    )
    bands = next(block for block in tables(report.spec, report.results) if block.name == "bands")
    rows = [row for row in bands.rows if row[1] == "cpu"]
    drawn = [
        (series.name, "cpu", x, middle, low, high)
        for series in chart.series
        for x, middle, low, high in zip(
            chart.x, series.values, series.low, series.high, strict=True
        )
        if middle is not None
    ]
    assert drawn == [(row[0], row[1], row[2], row[5], row[6], row[7]) for row in rows]
    assert chart.band(chart.series[0]).startswith("M")


def test_the_page_says_what_ran(folder: Path) -> None:
    """The experiment as it ran, and the hashes of what decided, are on the page, too."""
    page = served(folder, "/experiments")
    kept = json.loads((folder / "experiment.json").read_text())["asRun"]
    assert "The experiment as it ran" in page
    assert all(digest[:12] in page for digest, _ in kept["variants"].values())
    assert "more than noise" in page


def test_too_few_seeds_are_told(tmp_path: Path) -> None:
    """The page said that 0 of the differences were more than noise, with two seeds."""
    run(["sweep", tiny(tmp_path), "-j", "1", "--results", str(tmp_path / "results"), "-o", "json"])
    page = served(tmp_path / "results", "/experiments")
    assert "2 seeds are too few to tell any of 2 differences from spread" in page


def test_a_difference_within_its_interval_is_called_noise(tmp_path: Path) -> None:
    """A difference whose interval contains 0 is called noise on the page."""
    variants = [{"name": "a"}, {"name": "b", "weights": {"NodeResourcesFit": 2}}]
    experiment = tiny(tmp_path, {"seeds": list(range(1, 9)), "variants": variants})
    run(["sweep", experiment, "-j", "1", "--results", str(tmp_path / "results"), "-o", "json"])
    page = served(tmp_path / "results", "/experiments")
    assert "noise: other seeds may change the sign" in page or "equal in every pair" in page


def served(folder: Path, path: str) -> str:
    """Return a page of a console over results alone."""

    async def act(browser: Browser) -> str:
        await browser.opened()
        status, text, _ = await browser.get(path)
        assert status == 200, text
        return text

    return browsing(None, act, [str(folder)])


def test_one_experiment_is_shown_at_once_and_several_are_listed(folder: Path) -> None:
    """The list leads to each; an address that names none of them is 404."""
    assert "tiny" in served(folder, "/experiments")
    document = json.loads((folder / "experiment.json").read_text())
    both = Results((str(folder), str(folder.parent)))
    listed = view(None, Query("/experiments", {}), both)
    (table,) = listed["sections"][0].blocks
    assert isinstance(table, Table)
    assert [str(row[0].text) for row in table.rows] == 2 * [document["name"]]  # type: ignore[union-attr]
    with pytest.raises(Missing):
        view(None, Query("/experiments", {"of": "/etc"}), both)


def test_broken_results_are_a_problem_of_the_page(tmp_path: Path) -> None:
    """What cannot be read is said, and the rest is shown."""
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "experiment.json").write_text("{}")
    assert "holds no results" in served(tmp_path, "/experiments")
    shown = view(None, Query("/experiments", {}), Results((str(tmp_path / "nowhere"),)))
    assert "No such file" in shown["problems"][0]
