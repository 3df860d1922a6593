"""The verb `check`: formats and exit codes; problems themselves are tested where they are found."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest

from policy_sched.cli.main import run

POLICIES = Path(__file__).parents[2] / "policies"
BROKEN = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Broken}
spec:
  filtr: []
  score: {expression: node.nane}
"""


def test_the_shipped_policies_are_sound(capsys: pytest.CaptureFixture[str]) -> None:
    """No problem in what we ship."""
    assert run(["check", str(POLICIES)]) == 0
    assert capsys.readouterr().out == "no problems found\n"


def test_problems_are_exit_code_1_in_every_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Text has positions and carets, json has fields, github has annotations."""
    file = tmp_path / "policy.yaml"
    file.write_text(BROKEN, encoding="utf-8")
    assert run(["check", str(file)]) == 1
    text = capsys.readouterr().out
    assert f"{file}:5:3: error PS702:" in text
    assert "^~~~~" in text
    assert run(["check", str(file), "-o", "json"]) == 1
    diagnostics = json.loads(capsys.readouterr().out)["diagnostics"]
    assert {"line": 5, "column": 3, "code": "PS702"}.items() <= diagnostics[0].items()
    assert run(["check", str(file), "-o", "github"]) == 1
    assert f"::error file={file},line=5,col=3," in capsys.readouterr().out


def test_a_snapshot_is_another_place_to_be_wrong_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Warnings are about the policy; errors of the snapshot's files come beside them."""
    policy, cluster = tmp_path / "policy.yaml", tmp_path / "cluster.yaml"
    rule = "  filter: [{expression: 'node.labels[?\"teir\"].hasValue()', onError: Reject}]\n"
    policy.write_text(BROKEN.partition("  filtr")[0] + rule, encoding="utf-8")
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: n1, labels: {tier: gold}}\n"
    cluster.write_text(node, encoding="utf-8")
    arguments = ["check", str(policy), "--snapshot", str(cluster)]
    assert run(arguments) == 0
    assert capsys.readouterr().out == SNAPSHOT_WARNINGS.format(policy)
    assert run([*arguments, "--strict"]) == 1
    capsys.readouterr()
    cluster.write_text(node + "---\n" + node.replace("Node", "Nod"), encoding="utf-8")
    assert run(arguments) == 1
    assert f"{cluster}:6:7: error PS706:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "code"),
    [([], 0), (["--strict"], 1), (["--fail-on-warn"], 1), (["--lint-fatal"], 3)],
    ids=str,
)
def test_exit_codes_of_warnings(flags: list[str], code: int, tmp_path: Path) -> None:
    """Warnings alone pass, fail, or have a code of their own; an error is always 1."""
    file = tmp_path / "policy.yaml"
    always = BROKEN.partition("  filtr")[0] + "  filter: [{expression: 'true', message: m}]\n"
    file.write_text(always, encoding="utf-8")
    assert run(["check", str(file), *flags]) == code
    file.write_text(BROKEN, encoding="utf-8")
    assert run(["check", str(file), *flags]) == 1


def test_standard_input_is_a_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`-`, as in a pipe behind helm or kustomize; what is no text is reported."""
    monkeypatch.setattr("sys.stdin", io.StringIO(BROKEN))
    assert run(["check", "-"]) == 1
    assert "-:5:3: error PS702:" in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff"), encoding="utf-8"))
    assert run(["check", "-"]) == 1
    assert capsys.readouterr().out == "-:1:1: error PS701: what comes in is not UTF-8\n"


def test_a_path_without_policies_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipeline that looks in the wrong place must not be green."""
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("folder/cm.yaml").write_text("kind: ConfigMap\napiVersion: v1\n", encoding="utf-8")
    Path("empty.yaml").touch()
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert run(["check", "folder", "empty.yaml", "-"]) == 1
    what = "error PS704: there is no policy, configuration, test, experiment or selector in this"
    assert capsys.readouterr().out == (
        f"-:1:1: {what} file\n"
        f"empty.yaml:1:1: {what} file\n"
        f"folder:1:1: {what} directory\n"
        "   = files that are read in a directory: .yaml, .yml, .json\n"
    )


def test_a_file_that_is_named_twice_is_read_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself and by its folder: no policy is defined twice by that."""
    shutil.copytree(POLICIES / "gang", tmp_path / "gang")
    monkeypatch.chdir(tmp_path)
    assert run(["check", "gang", "gang/policy.yaml", "./gang", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "no problems found\n"


def test_tests_of_policies_are_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The shape of a PolicyTest; what it expects is for `test`."""
    file = tmp_path / "tests.yaml"
    text = (POLICIES / "gang" / "tests.yaml").read_text(encoding="utf-8")
    file.write_text(text.replace("pending:", "pendign:"), encoding="utf-8")
    assert run(["check", str(file)]) == 1
    assert "did you mean 'pending'?" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["check", "fmt", "test"])
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"kind: Policy\nname: \xe9\n", ":2:7: error PS701: the byte 0xe9 is not UTF-8\n"),
        ("kind: Policy\n".encode("utf-16"), "looks like UTF-16: save it as UTF-8"),
    ],
)
def test_a_file_that_is_no_text_is_reported_with_its_first_byte(
    verb: str, data: bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Latin-1, UTF-16, or a binary file by mistake: all verbs say the same."""
    file = tmp_path / "policy.yaml"
    file.write_bytes(data)
    assert run([verb, str(file)]) == 1
    told = capsys.readouterr()
    assert words in told.out + told.err


SNAPSHOT_WARNINGS = """\
{0}:5:26: warning PS411: this rule rejects every node of the snapshot
    5 |   filter: [{{expression: 'node.labels[?"teir"].hasValue()', onError: Reject}}]
      |                          ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
   = policy Broken, filter[0].expression
{0}:5:39: warning PS410: no node of the snapshot has the label 'teir'; did you mean 'tier'?
    5 |   filter: [{{expression: 'node.labels[?"teir"].hasValue()', onError: Reject}}]
      |                                       ^~~~~~
   = policy Broken, filter[0].expression
"""


def test_selectors_of_a_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Device classes and claims of a cluster's manifests are checked as files that are named."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: P}\n"
        "spec: {filter: [{expression: node.ready, message: not ready}]}\n",
        encoding="utf-8",
    )
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {"selectors": [{"cel": {"expression": 'device.drivr == "a"'}}]},
    }
    cluster = tmp_path / "cluster.json"
    items = json.dumps({"apiVersion": "v1", "kind": "List", "items": [claim]}, indent=1)
    cluster.write_text(items, encoding="utf-8")
    assert run(["check", str(policy), "--snapshot", str(cluster)]) == 1
    told = capsys.readouterr().out
    assert "cluster.json:15:30: error PS102: Device has no field 'drivr'" in told
    assert "DeviceClass gpu, spec.selectors[0].cel.expression" in told


def test_attributes_that_no_device_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Held against a snapshot, a misspelt attribute, capacity or domain is a warning."""
    monkeypatch.chdir(tmp_path)
    Path("class.yaml").write_text(
        "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: gpu}\nspec:\n"
        "  selectors:\n"
        '  - cel: {expression: \'device.attributes["gpu.example.com"].modl == "a"\'}\n'
        '  - cel: {expression: \'"memroy" in device.capacity["gpu.example.com"]\'}\n'
        '  - cel: {expression: \'device.attributes["gpu.exampel.com"].model == "a"\'}\n'
        '  - cel: {expression: \'device.attributes["gpu.example.com"].model == "a"\'}\n',
        encoding="utf-8",
    )
    spec = {
        "driver": "gpu.example.com",
        "nodeName": "n",
        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
        "devices": [
            {
                "name": "a",
                "attributes": {"model": {"string": "a"}, "other.com/x": {"int": 1}},
                "capacity": {"memory": {"value": "1Gi"}},
            }
        ],
    }
    head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}}
    Path("slices.json").write_text(json.dumps({**head, "spec": spec}), encoding="utf-8")
    assert run(["check", "class.yaml", "--snapshot", "slices.json"]) == 0
    out = capsys.readouterr().out
    told = "warning PS410: no device of the snapshot has"
    for position, words in (
        ("class.yaml:6:61", "the attribute 'modl'; did you mean 'model'?"),
        ("class.yaml:7:24", "the capacity 'memroy'; did you mean 'memory'?"),
        ("class.yaml:8:42", "attribute names of the domain 'gpu.exampel.com'; did you mean"),
    ):
        assert f"{position}: {told} {words}" in out
    assert out.count("PS410") == 3
