"""Third-party plugins: installed through an entry point, equal to rules that say the same."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CONFORMANCE = HERE.parent / "conformance"
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "plugins": {
                # In TaintToleration's place, so that the first reason of a node stays the first.
                "filter": {
                    "disabled": [{"name": "*"}],
                    "enabled": [
                        {"name": "NodeUnschedulable"},
                        {"name": "NodeName"},
                        {"name": "TaintsInPython"},
                        {"name": "NodeAffinity"},
                        {"name": "NodePorts"},
                        {"name": "NodeResourcesFit"},
                    ],
                },
                "preScore": {"disabled": [{"name": "TaintToleration"}]},
                "score": {
                    "disabled": [{"name": "TaintToleration"}],
                    "enabled": [{"name": "TaintsInPython", "weight": 3}],
                },
            },
        }
    ],
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory into which pip installed the plugin's wheel."""
    folder = tmp_path_factory.mktemp("third-party")
    wheel = build_wheel(folder)
    target = folder / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*command, "--target", str(target), str(wheel)], check=True)
    return target


def build_wheel(folder: Path) -> Path:
    """Write the plugin as a wheel: its module, and the entry point that names it."""
    info = "taints_in_python-1.0.dist-info"
    files = {
        "taints_in_python.py": (HERE / "third_party" / "taints_in_python.py").read_text(),
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: taints-in-python\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
        f"{info}/entry_points.txt": "[policy_sched.plugins]\n"
        "TaintsInPython = taints_in_python:TaintsInPython\n",
    }
    record = "".join(f"{name},sha256={_digest(text)},{len(text)}\n" for name, text in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    wheel = folder / "taints_in_python-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return wheel


def _digest(text: str) -> str:
    raw = hashlib.sha256(text.encode()).digest()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def renamed(line: str) -> str:
    """Return a scenario of the taints family in which the Python plugin decides, by its name."""
    scenario = json.loads(line)
    assert "config" not in scenario, "this family runs the default profile"
    text = json.dumps(scenario["expect"]).replace("TaintToleration", "TaintsInPython")
    return json.dumps({**scenario, "config": CONFIG, "expect": json.loads(text)})


def run(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run policy-sched with the installed plugin on its path."""
    code = "from policy_sched.cli.main import main; sys.exit(main())"
    prelude = f"import sys; sys.path.insert(0, {str(site)!r}); "
    command = [sys.executable, "-c", prelude + code, *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_the_installed_plugin_decides_as_the_rules_do(site: Path, tmp_path: Path) -> None:
    """On every scenario of the taints family it decides as kube-scheduler does, to the letter.

    That the rules do is in the tests of the recordings.
    """
    source = CONFORMANCE / "taints.jsonl.gz"
    with gzip.open(source, "rt") as lines:
        scenarios = [renamed(line) for line in lines]
    python = tmp_path / "python.jsonl"
    python.write_text("\n".join(scenarios))
    answer = run(site, "test", str(python))
    assert answer.stdout.splitlines()[-1] == "480 of 480 steps as expected"
    assert answer.returncode == 0


@pytest.fixture(scope="module")
def broken_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with plugins that have mistakes, as if pip had installed them."""
    folder = tmp_path_factory.mktemp("broken")
    source = HERE / "third_party" / "broken_plugins.py"
    (folder / source.name).write_text(source.read_text())
    info = folder / "broken_plugins-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-plugins\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[policy_sched.plugins]\n"
        "Absent = no_such_module:Absent\n"
        "Evicts = broken_plugins:Evicts\n"
        "Misfit = broken_plugins:Misfit\n"
        "Number = broken_plugins:__name__\n"
        "Quits = broken_plugins:Quits\n"
        "Refuses = broken_plugins:Refuses\n"
        "Wrong = broken_plugins:Wrong\n"
    )
    return folder


def enabling(folder: Path, *plugins: str) -> str:
    """Write a configuration with plugins, and return its path."""
    config = folder / "config.yaml"
    enabled = ", ".join(f"{{name: {plugin}}}" for plugin in plugins)
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "profiles:\n"
        "- schedulerName: default-scheduler\n"
        f"  plugins: {{multiPoint: {{enabled: [{enabled}]}}}}\n"
        "  pluginConfig:\n"
        + "".join(f"  - {{name: {plugin}, args: {{shape: round}}}}\n" for plugin in plugins)
    )
    return str(config)


BROKEN = {
    "Absent": (
        'plugin "Absent" (no_such_module:Absent) cannot be loaded: '
        "ModuleNotFoundError: No module named 'no_such_module'"
    ),
    "Evicts": 'plugin "Evicts": evictions returned 60; Evictions or None is expected',
    "Misfit": "plugin \"Misfit\" does not fit the hooks: Plugin 'Misfit' for hook 'score'",
    "Number": 'plugin "Number" (broken_plugins:__name__) is no class',
    "Quits": 'plugin "Quits" cannot be made: SystemExit: no licence',
    "Refuses": "plugin \"Refuses\" cannot be made: KeyError: 'colour'",
}
"""What is told of plugins that cannot be enabled."""


def test_each_broken_plugin_is_named_where_it_is_enabled(broken_site: Path, tmp_path: Path) -> None:
    """One such package ended every command, also those that had nothing to do with it.

    A misspelled argument was that of "plugin 'plugin'", and the plugin that cannot be made passed.
    """
    config = enabling(tmp_path, *BROKEN)
    answer = run(broken_site, "check", config)
    assert answer.returncode == 1
    for words in BROKEN.values():
        assert f"error PS711: {words}" in answer.stdout


def test_a_plugin_that_cannot_be_made_ends_simulate(broken_site: Path, tmp_path: Path) -> None:
    """`run` ended with "this is a mistake of policy-sched itself"."""
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("{apiVersion: v1, kind: Node, metadata: {name: n1}}\n")
    config = enabling(tmp_path, "Refuses")
    answer = run(broken_site, "simulate", str(cluster), "--config", config)
    assert answer.returncode == 2
    assert answer.stderr.endswith(f"policy-sched: {BROKEN['Refuses']}\n")


MISTAKES = {
    "list": "score returned a list of 2 elements; an int64 array of shape (2,) is expected",
    "long": (
        "score returned an int64 array of shape (3,); an int64 array of shape (2,) is expected"
    ),
    "no-result": "filter returned None; a FilterResult is expected",
    "no-status": "the describe of filter raised IndexError: tuple index out of range",
    "reserve": "reserve returned None; a Status is expected",
}
PANIC = 'running "Wrong" filter plugin: Panic: index out of bounds'


def test_a_wrong_result_fails_its_pod_and_no_other(broken_site: Path, tmp_path: Path) -> None:
    """The first such pod ended the scheduler, and the API server that ran beside it."""
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name},
            "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "99"}},
        }
        for name in ("n1", "n2")
    ]
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{label}-{i}", "labels": {"mistake": label}},
            "spec": {"containers": [{"name": "c"}]},
        }
        for i in (1, 2)
        for label in (*MISTAKES, "panic", "none")
    ]
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes + pods}))
    config = enabling(tmp_path, "Wrong")
    options = (str(cluster), "--config", config, "-o", "json")
    found = json.loads(run(broken_site, "simulate", *options).stdout)["placements"]
    placed = {one["pod"] for one in found if one["node"]}
    assert placed == {"default/none-1", "default/none-2"}
    reasons = {one["pod"]: one["message"] for one in found}
    for label, words in MISTAKES.items():
        for i in (1, 2):
            assert f'plugin "Wrong": {words}' in reasons[f"default/{label}-{i}"]
    assert reasons["default/panic-1"] == reasons["default/panic-2"] == PANIC


def test_parts_that_cannot_be_told_end_an_explanation_in_words(
    broken_site: Path, tmp_path: Path
) -> None:
    """`explain` printed a traceback for a filter that is wrong about its parts."""
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(
        "{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {pods: 9}}}\n"
        "---\n{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {mistake: parts}}, "
        "spec: {containers: [{name: c}]}}\n"
    )
    config = enabling(tmp_path, "Wrong")
    answer = run(broken_site, "explain", "p", "--cluster", str(cluster), "--config", config)
    words = 'policy-sched: running "Wrong" filter plugin: division by zero\n'
    assert (answer.returncode, answer.stderr) == (2, words)
