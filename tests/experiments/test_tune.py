"""The search for the best variant: a planted optimum is found, and evidence says how good it is."""

from __future__ import annotations

import csv
import subprocess
from pathlib import Path
from typing import Any

import pytest

from policy_sched.cli.main import run
from policy_sched.errors import PolicyError
from policy_sched.experiments.tune import NEW_FILE, Objective
from tests.experiments.examples import tiny

POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Hill}
spec:
  params:
    x: 0.0  # the place on the hill
    y: 1
  score: {expression: '1'}
  measures:
  - name: height
    expression: |-
      -(params.x - 3.0) * (params.x - 3.0) - double((params.y - 7) * (params.y - 7))
"""

HILL: dict[str, Any] = {
    "base": {"policies": ["policy.yaml"]},
    "variants": [],
    "seeds": {"count": 4},
    "cluster.generate": ["1*cpu=8,memory=32Gi"],
    "curve": None,
    "stop": {"arrived": 2},
    "measures": [
        {"name": "height", "policy": "Hill", "measure": "height"},
        {"name": "cpu", "allocation": "cpu"},
    ],
    "search": [
        {"param": "Hill.x", "least": -10, "most": 10},
        {"param": "Hill.y", "least": 0, "most": 20},
    ],
}

STATES = ("complete", "pruned")


def hill(folder: Path, changes: dict[str, Any] | None = None) -> str:
    """Write an experiment with a hill whose top is at x = 3 and y = 7."""
    (folder / "policy.yaml").write_text(POLICY, encoding="utf-8")
    return tiny(folder, {**HILL, **(changes or {})})


def tuned(folder: Path, file: str, *options: str) -> int:
    """Run the verb with results in a folder."""
    return run(["tune", file, "-j", "1", "--results", str(folder), *options])


def trials(folder: Path) -> list[dict[str, str]]:
    """Return the rows of the trials' table."""
    with (folder / "trials.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_planted_optimum_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The top of the hill is found within the budget, and the patch sets it in the policy."""
    monkeypatch.chdir(tmp_path)
    file = hill(tmp_path)
    assert tuned(tmp_path / "r", file, "--objective", "height", "--budget", "60") == 0
    out = capsys.readouterr().out
    assert "better" in out
    best = max(trials(tmp_path / "r"), key=lambda trial: float(trial["height"] or "-inf"))
    assert abs(float(best["Hill.x"]) - 3) < 1.5
    assert abs(int(best["Hill.y"]) - 7) <= 2
    patch = tmp_path / "r" / "best.patch"
    subprocess.run(["patch", "-p1", "-i", str(patch)], check=True, cwd=tmp_path)
    text = (tmp_path / "policy.yaml").read_text(encoding="utf-8")
    assert f"x: {best['Hill.x']}  # the place on the hill" in text
    assert f"y: {best['Hill.y']}\n" in text
    evidence = (tmp_path / "r" / "evidence.txt").read_text(encoding="utf-8")
    assert "held back" in evidence


def test_the_search_is_the_same_every_time(tmp_path: Path) -> None:
    """Two searches try the same variants; another seed tries others."""
    file = hill(tmp_path)
    options = ["--objective", "height", "--budget", "6"]
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        tuned(tmp_path / name, file, *options, "--seed", seed)
    a, b, c = (trials(tmp_path / name) for name in "abc")
    assert a == b
    assert a != c


def test_variants_that_fall_behind_are_given_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With one objective, trials below the median after the first seeds are not run with the rest,
    and the best of all trials is none of them."""
    file = hill(tmp_path, {"seeds": {"count": 12}})
    assert tuned(tmp_path / "r", file, "--objective", "height", "--budget", "16") == 0
    runs = trials(tmp_path / "r")
    seeds = {state: {item["seeds"] for item in runs if item["state"] == state} for state in STATES}
    assert seeds == {"complete": {"6"}, "pruned": {"2"}}
    best = max(runs, key=lambda item: float(item["height"]))
    assert best["state"] == "complete"
    count = sum(item["state"] == "pruned" for item in runs)
    assert f"16 variants tried: {16 - count} complete, {count} pruned" in capsys.readouterr().out


def test_what_is_no_better_is_said_to_be_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If no variant is better than the experiment's own, the report says it; exit code 1."""
    changes = {"search": [{"weight": "ImageLocality", "least": 1, "most": 9}]}
    file = hill(tmp_path, changes)
    assert tuned(tmp_path / "r", file, "--objective", "cpu", "--budget", "3") == 1
    assert "none is better" in capsys.readouterr().out
    assert not (tmp_path / "r" / "best.patch").exists()


def test_several_objectives_give_a_front(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With two objectives there is a patch for each variant that no other one beats."""
    monkeypatch.chdir(tmp_path)
    changes = {"search": [{"param": "Hill.x", "values": [0.0, 3.0, 6.0]}]}
    file = hill(tmp_path, changes)
    objectives = ["--objective", "height", "--objective", "-height"]
    tuned(tmp_path / "r", file, *objectives, "--budget", "8")
    assert len(list((tmp_path / "r").glob("best-*.patch"))) >= 2


def test_a_weight_without_a_configuration_becomes_a_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A patch adds a configuration where there was none."""
    monkeypatch.chdir(tmp_path)
    weight = {"weight": "Hill", "least": 2, "most": 3}
    file = hill(tmp_path, {"search": [weight, {"param": "Hill.x", "values": [3.0]}]})
    assert tuned(tmp_path / "r", file, "--objective", "height", "--budget", "1") == 0
    patch = tmp_path / "r" / "best.patch"
    subprocess.run(["patch", "-p1", "-i", str(patch)], check=True, cwd=tmp_path)
    assert run(["check", str(tmp_path / NEW_FILE), str(tmp_path / "policy.yaml")]) == 0


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [("cpus + 1.0", "cpus", 1), ("1.0 + heigth", "heigth", 7), ('"cpu"', "is a number", 1)],
)
def test_a_mistake_in_an_objective_has_a_place(text: str, message: str, column: int) -> None:
    """A name that is no measure, or a value that is no number, is refused with its column."""
    with pytest.raises(PolicyError) as caught:
        Objective(text, ["cpu", "height"])
    diagnostics = caught.value.diagnostics[0]
    assert message in diagnostics.message
    assert (diagnostics.file, diagnostics.line, diagnostics.column) == ("--objective", 1, column)


def test_an_objective_is_computed_from_measures() -> None:
    """Names of measures are their values; a measure without a value gives none."""
    objective = Objective("cpu - 2.0 * height", ["cpu", "height", "waiting"])
    assert objective({"cpu": 10.0, "height": 3.0, "waiting": None}) == 4.0
    assert objective({"cpu": 10.0, "height": None}) is None
    assert Objective("cpu / height", ["cpu", "height"])({"cpu": 1.0, "height": 0.0}) is None
