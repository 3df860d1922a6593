"""Scenario files: two forms of one thing, and the problems of mistakes in them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from policy_sched.errors import PolicyError
from policy_sched.model.cluster_objects import Node
from policy_sched.model.pod import Pod
from policy_sched.model.quantity import FORMAT_WRONG
from policy_sched.policytest.expectations import ExpectedEviction, ExpectedScore, PluginOutcome
from policy_sched.policytest.runner import run_files
from policy_sched.policytest.scenario import Scenario, load_scenarios
from policy_sched.profiles.check.check import check_files

CONFORMANCE = Path(__file__).parents[1] / "conformance"

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "default"}}
STEP = {
    "pod": "default/a",
    "rejected": {"n2": {"code": "Unschedulable", "plugin": "Fit", "reasons": ["full"]}},
    "feasible": ["n1"],
    "scores": {"n1": {"total": 7, "plugins": {"Fit": 7}}},
    "best": ["n1"],
    "chosen": "n1",
}
CODES = (
    'Unsupported value: "Nope": supported values: "Success", "Error", "Unschedulable", '
    '"UnschedulableAndUnresolvable", "Wait", "Skip", "Pending"'
)
RECORD = {"name": "one", "objects": [NODE], "pending": [POD], "expect": [STEP]}


def written(folder: Path, name: str, text: str) -> str:
    """Write a file and return its path."""
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return str(file)


def yaml(folder: Path, text: str) -> Scenario:
    """Return the one scenario of a YAML text."""
    (scenario,) = load_scenarios(written(folder, "tests.yaml", text))
    return scenario


def problems(path: str) -> list[str]:
    """Return position, code and message of what is wrong with a file."""
    with pytest.raises(PolicyError) as raised:
        load_scenarios(path)
    return [f"{d.line}:{d.column} {d.code} {d.message}" for d in raised.value.diagnostics]


class TestRecords:
    """The machine's form."""

    def test_a_line_is_a_complete_scenario(self, tmp_path: Path) -> None:
        """Objects, pending pods and every part of a step come through."""
        path = written(tmp_path, "a.jsonl", json.dumps(RECORD) + "\n\n" + json.dumps(RECORD))
        first, second = load_scenarios(path)
        assert first == second
        assert first.complete
        assert first.name == "one"
        assert isinstance(first.objects[0], Node)
        assert isinstance(first.pending[0], Pod)
        step = first.expect["default/a"]
        assert step.rejected == {"n2": PluginOutcome("Unschedulable", "Fit", ("full",))}
        assert step.scores == {"n1": ExpectedScore(7, {"Fit": 7})}
        assert (step.feasible, step.best, step.chosen) == (("n1",), ("n1",), "n1")

    def test_gz_and_plain_are_the_same(self, tmp_path: Path) -> None:
        """A file that ends in .gz is unpacked."""
        plain = written(tmp_path, "a.jsonl", json.dumps(RECORD))
        packed = tmp_path / "a.jsonl.gz"
        packed.write_bytes(gzip.compress(Path(plain).read_bytes()))
        (left,), (right,) = load_scenarios(plain), load_scenarios(str(packed))
        assert left.expect == right.expect

    def test_one_document_over_many_lines(self, tmp_path: Path) -> None:
        """A .json file holds one scenario, however it is laid out."""
        (scenario,) = load_scenarios(written(tmp_path, "a.json", json.dumps(RECORD, indent=1)))
        assert scenario.name == "one"

    def test_mistakes_have_line_and_column(self, tmp_path: Path) -> None:
        """A line in the middle of a file is found, and the place in it."""
        wrong = {**RECORD, "expekt": []}
        text = "\n".join([json.dumps(RECORD), json.dumps(wrong), "{", json.dumps(RECORD)])
        found = problems(written(tmp_path, "a.jsonl", text))
        column = json.dumps(wrong).index('"expekt"') + 1
        assert found[0] == f'2:{column} PS702 unknown field "expekt"'
        assert found[1] == "3:2 PS703 not JSON: the text ends too early"
        assert len(found) == 2

    def test_json_that_is_nested_too_deep_has_a_place(self, tmp_path: Path) -> None:
        """Python's words for its stack were told, with the beginning of the line."""
        for form, keys in (("scenario", '"pending"'), ("sequence", '"ops"')):
            text = f'{{"name": "a", {keys}: {"[" * 5000}{"]" * 5000}}}\n'
            (found,) = problems(written(tmp_path, f"{form}.jsonl", text))
            column = text.index("[") + 100
            assert found == f"1:{column} PS703 values are nested more than 100 deep"

    def test_a_broken_archive_is_a_problem_of_the_file(self, tmp_path: Path) -> None:
        """What is called .gz and is none is reported."""
        (found,) = problems(written(tmp_path, "a.jsonl.gz", "plain"))
        assert found.startswith("1:1 PS701 the file cannot be unpacked: Not a gzipped file")

    def test_the_conformance_data_is_read(self) -> None:
        """Every recorded scenario decodes, with a step for each decision."""
        scenarios = load_scenarios(str(CONFORMANCE / "config.jsonl.gz"))
        assert len(scenarios) >= 30
        assert all(len(s.expect) == sum(not op.delete for op in s.ops) for s in scenarios)


class TestTests:
    """The form that a person writes."""

    def test_what_is_there_twice_is_reported(self, tmp_path: Path) -> None:
        """A node, or a pending pod; objects of two kinds or two namespaces may be namesakes."""
        text = (
            "name: x\n"
            "objects: [{node: a}, {node: a}, {pod: a, node: a}, {pod: b/a, node: a}]\n"
            "pending: [p, q/p, p]\n"
        )
        assert problems(written(tmp_path, "a.yaml", text)) == [
            "2:22 PS708 Node a is there twice",
            "3:19 PS708 Pod p is there twice",
        ]

    @pytest.mark.parametrize("name", ["a.yaml", "a.jsonl"])
    def test_a_file_without_a_test_is_reported(self, name: str, tmp_path: Path) -> None:
        """A file without a test is a mistake."""
        assert problems(written(tmp_path, name, "\n")) == [
            "1:1 PS704 there is no test in this file"
        ]

    def test_what_is_not_written_is_not_expected(self, tmp_path: Path) -> None:
        """Every field of an expectation may be left out."""
        scenario = yaml(
            tmp_path,
            """\
            name: short
            objects: [{node: n1}]
            pending: [a, b, c]
            expect:
            - {pod: a, chosen: n1, scores: {n1: 5}, rejected: {n2: full, n3: [x, y]}}
            - {pod: b, chosen: null, message: none}
            """,
        )
        assert not scenario.complete
        first, second = scenario.expect["default/a"], scenario.expect["default/b"]
        assert first.chosen == "n1"
        assert first.scores == {"n1": ExpectedScore(5)}
        assert first.rejected == {
            "n2": PluginOutcome(reasons=("full",)),
            "n3": PluginOutcome(reasons=("x", "y")),
        }
        assert first.feasible is first.best is first.message is first.placed is None
        assert second.placed is False
        assert second.message == "none"
        assert "default/c" not in scenario.expect

    def test_paths_are_relative_to_the_file(self, tmp_path: Path) -> None:
        """Policies and configuration are found beside the test, wherever it is run from."""
        folder = tmp_path / "tests"
        folder.mkdir()
        (tmp_path / ".git").mkdir()
        for file in (folder / "policy.yaml", tmp_path / "c.yaml"):
            file.write_text("apiVersion: policysched.dev/v1alpha1", encoding="utf-8")
        scenario = yaml(
            folder, "{name: x, policies: [policy.yaml], config: ../c.yaml, pending: []}"
        )
        assert scenario.policies == (str(folder / "policy.yaml"),)
        assert scenario.config == str(folder / "../c.yaml")

    def test_a_configuration_may_stand_inside(self, tmp_path: Path) -> None:
        """An inline configuration is handed on as it is."""
        head = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
        }
        config = {**head, "profiles": [{"schedulerName": "a"}]}
        scenario = yaml(tmp_path, json.dumps({"name": "x", "config": config}))
        assert scenario.config == config

    def test_preemption_is_a_list_of_acceptable_evictions(self, tmp_path: Path) -> None:
        """Each names a node and the pods that leave it."""
        scenario = yaml(
            tmp_path,
            "{name: x, pending: [a], expect: [{pod: a, postFilter: {code: Success}, "
            "preemption: [{node: n1, victims: [default/b]}, {node: n2}]}]}",
        )
        step = scenario.expect["default/a"]
        assert step.preemption == (
            ExpectedEviction("n1", ("default/b",)),
            ExpectedEviction("n2", ()),
        )
        assert step.post_filter == PluginOutcome("Success")

    def test_all_mistakes_are_reported_at_once(self, tmp_path: Path) -> None:
        """Each with its place, also inside short forms and manifests."""
        text = """\
apiVersion: policysched.dev/v2
kind: PolicyTest
objects:
- {node: n1, cpu: abc}
- {apiVersion: v1, kind: Nod, metadata: {name: x}}
pending:
- {apiVersion: v1, kind: Node, metadata: {name: n2}}
expect:
- {pod: c, best: 5}
- {chosen: x}
- {pod: c, preFilter: {code: Nope}}
"""
        assert problems(written(tmp_path, "tests.yaml", text)) == [
            '1:1 PS704 "name" is missing',
            '1:13 PS706 unknown apiVersion "policysched.dev/v2"',
            f"4:19 PS707 the text 'abc' is not a quantity: {FORMAT_WRONG}",
            "5:26 PS706 unknown kind 'Nod' of 'v1'",
            "7:3 PS705 only pods can be pending",
            "9:9 PS705 default/c is not pending",
            "9:18 PS703 expect[0].best: expected a list, found an integer",
            "10:3 PS704 expect[1].pod: Required value",
            "11:9 PS705 default/c is expected twice",
            f"11:30 PS707 expect[2].preFilter.code: {CODES}",
        ]

    def test_a_document_of_another_kind_is_reported(self, tmp_path: Path) -> None:
        """One sentence, and nothing about keys that this kind would not have."""
        text = "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nspec: {}\n---\n- 1\n"
        assert problems(written(tmp_path, "tests.yaml", text)) == [
            '2:7 PS705 a scenario has kind PolicyTest, not "Policy"',
            "5:1 PS703 a test must be a mapping",
        ]

    def test_other_files_are_not_scenarios(self, tmp_path: Path) -> None:
        """The ending decides; a file with another one is refused, not guessed."""
        assert problems(written(tmp_path, "a.txt", "")) == ["1:1 PS705 not a scenario file"]


def test_a_yaml_file_of_more_than_a_mebibyte_is_refused(tmp_path: Path) -> None:
    """Places of all that is in it take time and memory: 8 MiB took 12 s and 600 MB."""
    text = "kind: PolicyTest\nname: x\nx: [" + "1, " * 400_000 + "]\n"
    with pytest.raises(OSError, match=r"more than 1048576; split it, or write .* a \.jsonl file"):
        load_scenarios(written(tmp_path, "tests.yaml", text))


def test_a_mistake_in_a_long_line_is_reported_with_the_line(tmp_path: Path) -> None:
    """A line of JSON of many megabytes was read again as YAML, only to find the column."""
    long = {**RECORD, "pending": 1, "objects": [NODE] * 20_000}
    path = written(tmp_path, "a.jsonl", json.dumps(RECORD) + "\n" + json.dumps(long))
    assert problems(path)[0].startswith("2:1 ")


CONFIGURED = """\
apiVersion: policysched.dev/v1alpha1
kind: PolicyTest
name: x
config:
  apiVersion: kubescheduler.config.k8s.io/v1
  kind: KubeSchedulerConfiguration
  profiles:
  - pluginz: {}
objects: []
pending: []
expect: []
"""


def test_a_mistake_in_a_configuration_of_the_test_is_reported_with_its_place(
    tmp_path: Path,
) -> None:
    """`test` reported <configuration>:1:1 and named no file, `check` found no problem."""
    path = written(tmp_path, "tests.yaml", CONFIGURED)
    (problem,) = problems(path)
    assert problem == '8:5 PS702 unknown field "profiles[0].pluginz"'
    (checked,) = check_files([path])
    assert checked.render().startswith(f"{path}:8:5: error PS702: ")


LIMIT = "policies: Too many: 101: must have at most 100 items"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("policies: [" + "p.yaml, " * 101 + "]\n", LIMIT),
        (
            "objects:\n" + "".join(f"- {{node: n{i}}}\n" for i in range(1100))
            + "pending:\n" + "".join(f"- {{pod: p{i}}}\n" for i in range(1000)),
            "1000 steps on 1100 nodes; the limit is 1000000 of both multiplied",
        ),
    ],
    ids=["policies", "steps times nodes"],
)  # fmt: skip
def test_a_test_has_bounds(text: str, words: str, tmp_path: Path) -> None:
    """A test of 3,000 pods and 12,000 nodes took minutes and gigabytes; 40,000 files took 11 s."""
    file = tmp_path / "tests.yaml"
    file.write_text(
        f"apiVersion: policysched.dev/v1alpha1\nkind: PolicyTest\nname: large\n{text}",
        encoding="utf-8",
    )
    with pytest.raises(PolicyError) as error:
        load_scenarios(str(file))
    assert [one.message for one in error.value.diagnostics if one.code == "PS501"] == [words]


REFERENCES = """\
kind: PolicyTest
name: references
policies: [nix.yaml]
config: CONFIG
objects: [{node: n}]
pending: [p]
expect: [{pod: p, chosen: n}]
"""


def test_what_a_test_names_has_its_place_in_the_test(tmp_path: Path) -> None:
    """What is not there was told of its own line 1, and an empty text was the test's folder."""
    path = written(tmp_path, "tests.yaml", REFERENCES.replace("CONFIG", "a/b.yaml"))
    assert problems(path) == [
        "3:12 PS705 'nix.yaml' is not there",
        "4:9 PS705 'a/b.yaml' is not there",
    ]
    path = written(tmp_path, "tests.yaml", REFERENCES.replace("CONFIG", '""'))
    (_, problem) = problems(path)
    assert problem == '4:9 PS707 config: Invalid value: "": must name a file or a directory'


def test_a_plugin_of_the_tests_configuration_has_its_place(tmp_path: Path) -> None:
    """A plugin that does not exist was told of <configuration>:1:1."""
    profile = "{plugins: {multiPoint: {enabled: [{name: Nix}]}}}"
    config = "kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration"
    text = REFERENCES.replace("policies: [nix.yaml]\n", "").replace(
        "CONFIG", f"{{apiVersion: {config}, profiles: [{profile}]}}"
    )
    (problem,) = run_files([written(tmp_path, "tests.yaml", text)]).problems
    assert (problem.line, problem.column) == (3, 1 + text.splitlines()[2].index("Nix"))
    assert problem.message.endswith('plugin "Nix" does not exist')
