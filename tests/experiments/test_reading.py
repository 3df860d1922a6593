"""What is wrong with an experiment is said before anything runs, all of it, with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from policy_sched.errors import Diagnostic
from policy_sched.experiments import read_sweep
from tests.experiments.examples import TINY, tiny


def problems(folder: Path, changes: dict[str, Any]) -> list[Diagnostic]:
    """Return the problems of the tiny experiment with changes."""
    return read_sweep(tiny(folder, changes))[1]


def test_a_sound_experiment_has_no_problems(tmp_path: Path) -> None:
    """The example of the other tests is read without a word, and has a run for each seed."""
    sweep, diagnostics = read_sweep(tiny(tmp_path))
    assert diagnostics == []
    assert sweep is not None
    assert [(task.variant, task.seed) for task in sweep.tasks] == [
        ("spread", 1), ("spread", 2), ("packed", 1), ("packed", 2),
    ]  # fmt: skip


WRONG = {
    "misspelt": ({"mesures": []}, "spec.mesures", "did you mean 'measures'?"),
    "no seeds": ({"seeds": []}, "at least one seed", "seeds: {count: 10}"),
    "missing seeds": ({"seeds": None}, "spec.seeds: Required value", ""),
    "no measure": ({"measures": []}, "at least one measure", ""),
    "two at once": ({"curve": {"pods": True, "time": True}}, "there is pods already", "one of"),
    "no time": ({"curve": {"time": True}}, "no time passes", "arrivals.every"),
    "resource of time": (
        {"measures": [{"name": "w", "time": "Waiting"}]}, "no time passes", "arrivals.every",
    ),
    "no file": ({"workload.rows.file": "none.csv"}, "none.csv: No such file", "relative to"),
    "no column": ({"workload.rows.submit": "when"}, "no column when", "columns: name, cpu"),
    "unknown field": (
        {"workload.rows.pod.spec.nodeSelectr": {"zone": "a"}},
        "unknown field 'spec.nodeSelectr'",
        "did you mean 'nodeSelector'?",
    ),
    "no nodes": ({"cluster": {}}, "there are no nodes", "generate"),
    "no pods": ({"workload": {}}, "there are no pods", "rows of a table"),
    "bad nodes": ({"cluster.generate": ["four"]}, '"four": write a number', ""),
    "no plugin": ({"base": {"weights": {"NodeResourceFit": 2}}}, "does not exist", "did you mean"),
    "bad argument": (
        {"base": {"params": {"NodeResourcesFit": {"scoringStrategy": {"type": "Most"}}}}},
        "Unsupported value",
        "",
    ),
    "negative weight": ({"base": {"weights": {"NodeResourcesFit": -1}}}, "weight", "not negative"),
    "rule": ({"measures": [{"name": "m", "nodes": "node.cpu"}]}, "cpu", ""),
    "rule of a pod": ({"measures": [{"name": "m", "nodes": "pod.priority"}]}, "pod", ""),
    "no policy": (
        {"measures": [{"name": "m", "nodes": "1", "policy": "Fit"}]}, "has no policy Fit", "",
    ),
    "same names": (
        {"measures": [{"name": "m", "pods": "Placed"}] * 2}, "Duplicate value: m", "another",
    ),
    "axis": ({"matrix": [{"weight": "NodeResourcesFit"}]}, "at least one value", ""),
    "figure": ({"figures": [{"kind": "Bars", "measures": ["cpus"]}]}, "no measure cpus", "'cpu'"),
    "negative nodes": ({"cluster.generate": ["4*cpu=-8"]}, "'cpu=-8' is negative", ""),
    "equal pods": (
        {"workload.rows.pod": {"metadata": {"name": "one"}}}, "16 pods are called", "row.number",
    ),
    "a part of a device": (
        {"cluster.devices": {"resource": "cpu", "size": 3000}}, "node-0001 has 8 of cpu", "3000",
    ),
    "no policy of devices": (
        {"cluster.devices": {"resource": "cpu", "size": 1000}}, "which devices", "none has",
    ),
    "no unit": ({"workload.arrivals": {"every": 5}}, "every: expected a string", ""),
    "column of no table": ({"workload.arrivals": {"column": "a"}}, "there is no table", "file"),
    "column of no ranks": ({"tieBreak": {"column": "a"}}, "there is no table", "file"),
    "retry": ({"workload.retry": "AtOnce"}, "no time passes", "arrivals.every"),
    "nothing inflated": (
        {"workload.arrivals": {"inflate": {"resource": "cpu", "percent": 0}}}, "greater than 0", "",
    ),
    "endless inflation": (
        {"workload.arrivals": {"inflate": {"resource": "cpu", "percent": float("inf")}}},
        "at most 100,000",
        "percent: 130",
    ),
    "inflation without requests": (
        {"workload.arrivals": {"inflate": {"resource": "memory", "percent": 50}}},
        "no pod requests memory",
        "",
    ),
    "allocation of nothing": (
        {"measures": [{"name": "m", "allocation": "cpus"}]}, "no node has cpus", "'cpu'",
    ),
    "arrived nothing": ({"curve": {"arrived": "gpus"}}, "no node has gpus", "resources: cpu"),
    "step": ({"curve": {"pods": True, "step": float("nan")}}, "greater than 0", "step: 1"),
    "small step": ({"curve": {"pods": True, "step": 1e-9}}, "at least 0.001", "step: 1"),
    "column of tables": (
        {"measures": [{"name": "x", "pods": "Placed"}]}, "has a column of this name", "another",
    ),
    "axis like a column": (
        {"matrix": [{"name": "seed", "weight": "NodeResourcesFit", "values": [1]}]},
        "has a column of this name",
        "another",
    ),
    "axis of no plugin": (
        {"matrix": [{"weight": "NodeResourcFit", "values": [1]}]}, "matrix[0].weight", "Fit'?",
    ),
    "axis of no parameter": (
        {"matrix": [{"param": "NodeResourcesFit.typ", "values": [1]}]},
        'matrix[0].param: unknown field "typ"',
        "known fields",
    ),
    "no weight": (
        {"matrix": [{"weight": "NodeResourcesFit", "values": [1, 1.5]}]}, "values[1]", "whole",
    ),
    "search of no plugin": (
        {"search": [{"weight": "Nope", "least": 1, "most": 3}]}, "search[0].weight: plugin", "",
    ),
    "search of no value": (
        {"search": [{"param": "NodeResourcesFit.scoringStrategy.type", "values": ["Leest"]}]},
        "search[0].values[0]: scoringStrategy.type: Unsupported value",
        "",
    ),
    "search of no weight": (
        {"search": [{"weight": "NodeResourcesFit", "least": -1, "most": 3}]}, "no weight", "",
    ),
    "search by no step": (
        {"search": [{"weight": "NodeResourcesFit", "least": 1, "most": 3, "step": 0}]},
        "greater than 0",
        "step: 1",
    ),
    "search twice": (
        {"search": [{"weight": "NodeResourcesFit", "values": [1], "most": 3}]},
        "there are values already",
        "leave out",
    ),
    "argument": (
        {"base": {"params": {"NodeResourcesFit": {"scoringStrategi": {}}}}},
        'params.NodeResourcesFit.scoringStrategi: unknown field "scoringStrategi"',
        "did you mean",
    ),
    "computed for nothing": (
        {"computed": [{"policy": "P", "param": "p", "file": "pods.csv", "by": []}]},
        "at least one column",
        "name the columns",
    ),
    "computed of nothing": (
        {"computed": [{"policy": "P", "param": "p", "file": "pods.csv", "by": "cpu", "cover": 0}]},
        "greater than 0 and at most 100",
        "",
    ),
    "negative seed": ({"seeds": {"first": -1, "count": 2}}, "-1 is less than the minimum", ""),
    "taken": ({"parameters": {"seed": 1}}, "${seed} stands for something else", "of a run"),
    "named base": ({"base": {"name": "b"}}, "the base is no variant", "name the variants"),
    "no name": ({"variants": [{"name": ""}]}, "a variant has a name", "name: packed"),
    "no such policy": ({"base": {"policies": ["gangs"]}}, "shipped policy gangs", "'gang'"),
    "a file for each seed": (
        {"workload.arrivals": {"file": "order-${seed}.csv"}}, "No such file", "picks a column",
    ),
    "curve of times": (
        {
            "workload.arrivals": None,
            "measures": [{"name": "w", "time": "Waiting"}],
            "figures": [{"kind": "Curve", "measures": ["w"]}],
        },
        "w has one value for a run",
        "Bars",
    ),
    "rounded times": (
        {"workload.arrivals": None, "measures": [{"name": "w", "time": "Waiting", "decimals": 1}]},
        "it is for values at events",
        "leave it out",
    ),
    "standard input": ({"workload.rows.file": "-"}, "could not be repeated", "standard input"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_has_a_place_and_a_fix(name: str, tmp_path: Path) -> None:
    """Each mistake is reported in the experiment's file, at a line, with what would mend it."""
    changes, message, hint = WRONG[name]
    diagnostics = problems(tmp_path, changes)
    assert diagnostics, "a mistake"
    hits = [
        diagnostic
        for diagnostic in diagnostics
        if message in diagnostic.message and hint in diagnostic.hint
    ]
    assert hits, [diagnostic.render() for diagnostic in diagnostics]
    assert hits[0].file == str(tmp_path / "experiment.yaml")
    assert hits[0].line > 1 or name == "missing seeds"


TABLES = {
    "ragged": ("n,1,2\n0,1\n", 2, "2 cells, where the header has 3"),
    "empty column": ("n,1,2\n0,1,\n", 1, "column 2 is empty"),
    "number of no pod": ("n,1,2\n0,1,1\n1,16,2\n", 3, '"16" is not a whole number below 16'),
    "equal columns": ("1,1,2\n0,0,0\n", 1, "two columns are called 1"),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_mistake_in_a_table_has_its_line(name: str, tmp_path: Path) -> None:
    """What is wrong with a table of arrivals is reported at its line, with what would mend it."""
    text, line, message = TABLES[name]
    (tmp_path / "order.csv").write_text(text, encoding="utf-8")
    (problem,) = problems(tmp_path, {"workload.arrivals": {"file": "order.csv"}})
    assert message in problem.message
    assert (problem.file, problem.line) == (str(tmp_path / "order.csv"), line)
    assert problem.hint


def test_missing_columns_of_seeds_are_one_mistake(tmp_path: Path) -> None:
    """A table without columns for some of the seeds is named once, with all of them."""
    (tmp_path / "order.csv").write_text("n,1\n0,1\n", encoding="utf-8")
    changes = {"workload.arrivals": {"file": "order.csv"}, "seeds": [1, 2, 3]}
    (problem,) = problems(tmp_path, changes)
    assert "order.csv has no columns 2, 3" in problem.message
    assert problem.hint == "its columns: n, 1"


def test_mistakes_beside_one_of_shape_are_reported(tmp_path: Path) -> None:
    """An unknown key hides no other mistake, and nothing is reported twice because of it."""
    changes: dict[str, Any] = {"mesures": [], "seeds": [1, 1], "measures": None}
    diagnostics = problems(tmp_path, {**changes, "curve": {"pods": True, "step": 0}})
    texts = sorted(diagnostic.message for diagnostic in diagnostics)
    assert [text.partition(":")[0] for text in texts if text.startswith("spec.")] == [
        "spec.curve.step", "spec.measures", "spec.seeds[1]",
    ]  # fmt: skip
    assert any("spec.mesures" in text for text in texts)
    assert len(texts) == 4


def test_a_number_may_be_a_name(tmp_path: Path) -> None:
    """A parameter that looks like a number is a text where the experiment needs one."""
    (tmp_path / "1e3").write_text("name,cpu\na,1\n", encoding="utf-8")
    changes = {"parameters": {"pods": 7}, "workload.rows.file": "${pods}"}
    file = tiny(tmp_path, changes)
    (problem,) = read_sweep(file)[1]
    assert "7: No such file" in problem.message
    assert read_sweep(file, {"pods": str(tmp_path / "1e3")})[1] == []


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    """A file with mistakes of several kinds shows all of them."""
    diagnostics = problems(
        tmp_path,
        {
            "measures": [{"name": "m", "nodes": "node.cpu"}, {"name": "n", "pods": "Placed"}],
            "base": {"weights": {"Nothing": 2}},
            "workload.rows.file": "none.csv",
        },
    )
    text = "\n".join(diagnostic.render() for diagnostic in diagnostics)
    assert all(word in text for word in ("none.csv", "Nothing", "m"))
    assert len(diagnostics) >= 2


def test_a_rule_is_underlined_where_it_is_wrong(tmp_path: Path) -> None:
    """A mistake inside of a rule has the column of the name in the rule."""
    text = TINY.replace(
        "{name: cpu, allocation: cpu, better: Higher}", "{name: c, nodes: node.cpus}"
    )
    file = Path(tiny(tmp_path))
    file.write_text(text, encoding="utf-8")
    _, (problem,) = read_sweep(str(file))
    line = text.splitlines()[problem.line - 1]
    assert line[problem.column - 1 :].startswith(("node.cpus", "cpus"))


def test_ps714_an_extender_is_refused(tmp_path: Path) -> None:
    """What an HTTP extender answers is not known the next time."""
    (tmp_path / "config.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "extenders:\n- {urlPrefix: 'http://127.0.0.1:1', filterVerb: filter}\n",
        encoding="utf-8",
    )
    diagnostics = problems(tmp_path, {"variants": [{"name": "asks", "config": "config.yaml"}]})
    assert " error PS714: " in diagnostics[0].render()
    assert "extender" in diagnostics[0].message
    assert len(diagnostics) == 1


def test_parameters_are_put_into_texts(tmp_path: Path) -> None:
    """--set says which file is read, and a parameter without a value has its default."""
    changes = {"parameters": {"pods": "pods.csv"}, "workload.rows.file": "${pods}"}
    file = tiny(tmp_path, changes)
    assert read_sweep(file)[1] == []
    (problem,) = read_sweep(file, {"pods": "other.csv"})[1]
    assert "other.csv" in problem.message
    assert "--set" in problem.hint
    (problem,) = read_sweep(file, {"pod": "other.csv"})[1]
    assert 'no parameter "pod"' in problem.message
    assert problem.hint == "did you mean 'pods'?"


def test_the_default_of_a_parameter_may_name_those_before_it(tmp_path: Path) -> None:
    """--set trace=NAME picks a file; naming the file itself still works."""
    parameters = {"trace": "pods", "rows": "${trace}.csv"}
    file = tiny(tmp_path, {"parameters": parameters, "workload.rows.file": "${rows}"})
    assert read_sweep(file)[1] == []
    (problem,) = read_sweep(file, {"trace": "other"})[1]
    assert "other.csv" in problem.message
    assert read_sweep(file, {"trace": "other", "rows": str(tmp_path / "pods.csv")})[1] == []
    backwards = {"rows": "${trace}.csv", "trace": "pods"}
    problem = problems(tmp_path, {"parameters": backwards, "workload.rows.file": "${rows}"})[0]
    assert "spec.parameters.rows: there is no parameter ${trace}" in problem.message


def test_an_unknown_parameter_is_a_mistake(tmp_path: Path) -> None:
    """A text with ${NAME} needs an entry of parameters."""
    (problem,) = problems(tmp_path, {"workload.rows.file": "${pods}"})
    assert "there is no parameter ${pods}" in problem.message


def test_a_path_that_is_typed_begins_where_it_is_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--set names a file of the current directory, even one that the experiment's folder has, too;
    it may also begin a path, or a parameter behind it. Without one there the folder's counts."""
    parameters = {"pods": "pods.csv", "rows": "${pods}", "dir": "."}
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    (here / "pods.csv").write_text("name,cpu\na,1\n", encoding="utf-8")
    (here / "few.csv").write_text("name,cpu\na,1\nb,2\n", encoding="utf-8")
    (tmp_path / "there" / "own").mkdir(parents=True)
    (tmp_path / "there" / "own" / "pods.csv").write_text("name,cpu\n", encoding="utf-8")
    for text in ("${rows}", "${dir}/pods.csv"):
        changes = {"parameters": parameters, "workload.rows.file": text}
        file = tiny(tmp_path / "there", changes)
        key = "dir" if "dir" in text else "pods"
        value = "." if key == "dir" else "pods.csv"
        counts = [
            len(sweep.inputs.pods) if (sweep := read_sweep(file, given)[0]) is not None else 0
            for given in ({}, {key: value}, {key: f"../here/{value}"}, {key: str(here / value)})
        ]
        assert counts == [16, 1, 1, 1]
    file = tiny(tmp_path / "there", {"parameters": parameters, "workload.rows.file": "${rows}"})
    sweep = read_sweep(file, {"rows": "few.csv"})[0]
    assert sweep is not None
    assert len(sweep.inputs.pods) == 2
    (problem,) = read_sweep(file, {"rows": "own/pods.csv"})[1]
    assert "no pod waits" in problem.message  # that of the folder, as there is no other


def test_the_places_of_a_missing_file_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A typed path that leads nowhere comes with both places in which it was looked for."""
    monkeypatch.chdir(tmp_path)
    parameters = {"pods": "pods.csv"}
    changes = {"parameters": parameters, "workload.rows.file": "${pods}"}
    file = tiny(tmp_path / "there", changes)
    (problem,) = read_sweep(file, {"pods": "none.csv"})[1]
    assert problem.message == "spec.workload.rows.file: none.csv: No such file or directory"
    assert problem.hint == f"--set: looked for none.csv, then for {tmp_path / 'there' / 'none.csv'}"
    (problem,) = read_sweep(file, {"pods": "/none.csv"})[1]
    assert problem.hint == "name a file that can be read"


def test_a_path_in_the_experiment_begins_at_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path that the experiment writes, with a name from --set in it, is no typed path."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "few.csv").write_text("name,cpu\na,1\n", encoding="utf-8")
    changes = {"parameters": {"trace": "pods"}, "workload.rows.file": "${trace}.csv"}
    file = tiny(tmp_path / "there", changes)
    (problem,) = read_sweep(file, {"trace": "few"})[1]
    assert "few.csv: No such file" in problem.message
    assert "sweep --set NAME=VALUE says another" in problem.hint


def test_the_same_tables_have_the_same_keys_wherever_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys of runs are made of contents: a typed table counts, the directory does not."""
    monkeypatch.chdir(tmp_path)
    parameters = {"pods": "pods.csv", "order": "order.csv"}
    changes: dict[str, Any] = {
        "parameters": parameters,
        "workload.rows.file": "${pods}",
        "workload.arrivals": {"file": "${order}"},
    }
    file = tiny(tmp_path / "there", changes)
    for folder, order in ((tmp_path, "0,1\n1,0\n"), (tmp_path / "there", "1,0\n0,1\n")):
        (folder / "order.csv").write_text(f"1,2\n{order}", encoding="utf-8")

    def keys(given: dict[str, str]) -> list[str]:
        sweep = read_sweep(file, given)[0]
        assert sweep is not None
        return [task.key for task in sweep.tasks]

    assert keys({"order": "order.csv"}) != keys({})
    assert keys({"order": "there/order.csv"}) == keys({})
    assert keys({"order": "order.csv"}) == keys({"order": str(tmp_path / "order.csv")})


def test_pods_are_admitted_with_the_classes_of_the_cluster(tmp_path: Path) -> None:
    """Pods of rows with a priority class of the cluster's files had priority 0."""
    (tmp_path / "classes.yaml").write_text(
        "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 7}",
        encoding="utf-8",
    )
    limits = {"limits": {"cpu": "${row.cpu}"}}
    spec = {"priorityClassName": "high", "containers": [{"name": "c", "resources": limits}]}
    changes = {
        "cluster.files": ["classes.yaml"],
        "workload.rows.pod": {"metadata": {"name": "${row.name}"}, "spec": spec},
    }
    sweep, diagnostics = read_sweep(tiny(tmp_path, changes))
    assert sweep is not None, diagnostics
    pods = sweep.inputs.pods
    assert {pod.spec.priority for pod in pods} == {7}
    assert pods[1].spec.containers[0].resources.requests == {"cpu": "2"}
    spec["priorityClassName"] = "hihg"
    assert "there is no PriorityClass 'hihg'" in problems(tmp_path, changes)[0].message
