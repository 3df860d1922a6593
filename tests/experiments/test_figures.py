"""Figures and the report: one file without a network, the same bytes every time."""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree as ET
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from policy_sched import __version__
from policy_sched.cli.main import run
from policy_sched.experiments.figures import pareto_front
from policy_sched.profiles.models import Measure
from policy_sched.simulate.page import ORIGIN
from tests.experiments.examples import tiny
from tests.web.reading import Page

GRID: dict[str, Any] = {
    "variants": [],
    "matrix": [
        {"weight": "NodeResourcesFit", "name": "fit", "values": [1, 3]},
        {"weight": "ImageLocality", "name": "images", "values": [1, 2]},
    ],
    "figures": [
        {"kind": "Curve", "measures": ["cpu"], "title": "Cores < all"},
        {"kind": "Bars", "measures": ["cpu"]},
        {"kind": "HeatMap", "measures": ["cpu"], "x": "fit", "y": "images"},
        {"kind": "Pareto", "measures": ["cpu", "unplaced"]},
    ],
}


def test_every_kind_of_figure_is_drawn(tmp_path: Path) -> None:
    """Curves, bars, heat maps and Pareto fronts are SVG and PNG, the same bytes every time."""
    file = tiny(tmp_path, GRID)
    for folder in ("one", "two"):
        options = ["--figures", "svg", "--figures", "png", "-j", "1"]
        assert run(["sweep", file, "--results", str(tmp_path / folder), *options]) == 0
    names = sorted(path.name for path in (tmp_path / "one" / "figures").iterdir())
    assert names == [
        "01-curve-cpu.png", "01-curve-cpu.svg",
        "02-bars-cpu.png", "02-bars-cpu.svg",
        "03-heatmap-cpu.png", "03-heatmap-cpu.svg",
        "04-pareto-cpu-unplaced.png", "04-pareto-cpu-unplaced.svg",
    ]  # fmt: skip
    for name in names:
        first, other = (tmp_path / folder / "figures" / name for folder in ("one", "two"))
        assert first.read_bytes() == other.read_bytes()
    svg = (tmp_path / "one" / "figures" / "01-curve-cpu.svg").read_text(encoding="utf-8")
    assert ET.fromstring(svg).tag.endswith("svg")
    assert "Cores &lt; all" in svg


def test_the_report_needs_no_network(tmp_path: Path) -> None:
    """The HTML file has figures, tables and the experiment, and names no other file."""
    report = tmp_path / "report.html"
    options = ["--report", str(report), "-j", "1", "--results", str(tmp_path / "r")]
    assert run(["sweep", tiny(tmp_path, GRID), *options]) == 0
    page = Page(report.read_text(encoding="utf-8"))
    pictures = [attributes for tag, attributes in page.elements if tag == "img"]
    assert pictures[0]["alt"] == "Cores < all"
    assert len(pictures) == 4
    for picture in pictures:
        kind, _, data = (picture["src"] or "").partition(",")
        assert kind == "data:image/svg+xml;base64"
        assert not re.search(rb"""[ :](?:src|href)\s*=\s*["'](?!#|data:)""", b64decode(data))
    addresses = [a.get("src") or a.get("href") or "" for _, a in page.elements]
    assert not [
        picture
        for picture in addresses
        if picture and not picture.startswith("data:image/svg+xml;")
    ]
    assert "kind: Experiment" in page.text
    assert (2, "Differences from fit=1,images=1") in page.headings


def test_the_report_has_the_numbers_of_the_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Differences, intervals and verdicts are those that are printed, and so are all measures."""
    report = tmp_path / "report.html"
    options = ["--report", str(report), "-j", "1", "--results", str(tmp_path / "r")]
    assert run(["sweep", tiny(tmp_path), *options]) == 0
    text = " ".join(capsys.readouterr().out.split())
    page = Page(report.read_text(encoding="utf-8"))
    differences = page.table("Over equal seeds").rows[1:]
    assert len(differences) == 2
    for variant, measure, _mean, *numbers in differences:
        assert " ".join([variant, measure, *numbers]) in text
    rows = page.table("Over all seeds").rows[1:]
    assert len(rows) == 4
    assert all(" ".join(row) in text for row in rows)


def test_the_report_has_the_experiment_as_it_ran(tmp_path: Path) -> None:
    """The report showed ${cores}, whatever --set said, and neither hashes nor a version."""
    report, results = tmp_path / "report.html", tmp_path / "r"
    changes = {"parameters": {"cores": "8"}, "cluster.generate": ["4*cpu=${cores},memory=32Gi"]}
    options = ["--report", str(report), "-j", "1", "--results", str(results)]
    assert run(["sweep", tiny(tmp_path, changes), "--set", "cores=7", *options]) == 0
    page = Page(report.read_text(encoding="utf-8"))
    experiment, said = page.text.partition("The experiment as it ran")[2].split(ORIGIN)
    assert "4*cpu=7,memory=32Gi" in experiment
    assert "${cores}" not in experiment
    kept = json.loads((results / "experiment.json").read_text())["asRun"]
    assert kept["program"] == __version__
    hashes = [variant[0] for variant in kept["variants"].values()] + list(kept["files"].values())
    assert len({*hashes}) == 3
    for text in (__version__, *(variant[:12] for variant in hashes)):
        assert text in said


@pytest.mark.parametrize(
    ("option", "module"),
    [("--report=a.html", "matplotlib"), ("--figures=svg", "matplotlib"), ("--parquet", "pyarrow")],
)
def test_a_missing_extra_is_named_before_anything_runs(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    option: str,
    module: str,
) -> None:
    """What is not installed is known before the first run, not after the last one."""
    monkeypatch.setitem(sys.modules, module, None)
    results = tmp_path / "r"
    assert run(["sweep", tiny(tmp_path), option, "-j", "1", "--results", str(results)]) == 2
    assert f"{module} is not installed: pip install" in capsys.readouterr().err
    assert not results.exists()


def test_names_are_escaped(tmp_path: Path) -> None:
    """A name with signs of HTML is text."""
    report = tmp_path / "report.html"
    changes = {"variants": [{"name": "<script>x</script>"}]}
    options = ["--report", str(report), "-j", "1", "--results", str(tmp_path / "r")]
    assert run(["sweep", tiny(tmp_path, changes), *options]) == 0
    page = Page(report.read_text(encoding="utf-8"))
    assert "<script>x</script>" in page.column("Over all seeds", "Variant")


@pytest.mark.parametrize(
    ("better", "front"),
    [((None, None), ["a", "b"]), (("Higher", None), ["b"]), (("Higher", "Higher"), ["b", "c"])],
)
def test_the_front_is_what_no_other_beats(better: tuple[Any, Any], front: list[str]) -> None:
    """Lower is better unless a measure says Higher."""
    measures = [
        Measure(name=name, pods="Placed", better=item)
        for name, item in zip("xy", better, strict=True)
    ]
    points = {"a": (1.0, 2.0), "b": (3.0, 1.0), "c": (2.0, 3.0)}
    assert pareto_front(points, measures) == front


def test_tables_are_parquet_too(tmp_path: Path) -> None:
    """--parquet writes the same tables in that form."""
    from pyarrow import parquet  # noqa: PLC0415  100 ms of imports

    options = ["--parquet", "-j", "1", "--results", str(tmp_path / "r")]
    assert run(["sweep", tiny(tmp_path), *options]) == 0
    values = parquet.read_table(tmp_path / "r" / "runs.parquet").to_pylist()
    assert [value["variant"] for value in values] == ["spread", "spread", "packed", "packed"]
    assert all(
        isinstance(value["cpu"], float) and isinstance(value["seed"], int) for value in values
    )
