"""Short forms of nodes, pods and namespaces."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from policy_sched.cli.main import run
from policy_sched.errors import Diagnostic, PolicyError
from policy_sched.policytest.reader import FieldPath, Plain, Problems, expand
from policy_sched.policytest.scenario import load_scenarios, scenarios_of
from policy_sched.profiles.load import read_test
from policy_sched.profiles.models import full_name
from policy_sched.source.reading import is_file_of_ours, root_of


def nowhere(path: FieldPath, key: bool) -> Diagnostic:
    """Locate everything at the top of a file, and keep the path as the context."""
    return Diagnostic("tests.yaml", 1, 1, "", "", context=f"{path} {key}")


def expanded(value: object) -> Plain:
    """Return the manifest of a form that has no mistakes."""
    key = "pending" if isinstance(value, str) else "objects"
    test, wrong = read_test({key: [value]}, {})
    assert test is not None
    assert wrong == []
    problems = Problems(nowhere)
    manifest = expand(problems, getattr(test, key)[0], value, ())
    assert problems.noted == []
    return manifest


def messages(value: object) -> list[str]:
    """Return the problems of a form that has mistakes."""
    with pytest.raises(PolicyError) as raised:
        scenarios_of("tests.json", json.dumps({"name": "x", "objects": [value]}))
    return [problem.message for problem in raised.value.diagnostics]


def test_a_node_has_defaults_and_the_labels_of_a_node() -> None:
    """A name is enough: size, hostname label and readiness are those of any node."""
    node = expanded({"node": "n1"})
    assert node["kind"] == "Node"
    assert node["metadata"] == {"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}}
    capacity = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    assert node["status"] == {
        "capacity": capacity,
        "allocatable": capacity,
        "conditions": [{"type": "Ready", "status": "True"}],
    }


def test_a_node_says_what_is_special_about_it() -> None:
    """Sizes, extended resources, taints, images and spec come through."""
    node = expanded(
        {
            "node": "n1",
            "cpu": 8,
            "resources": {"nvidia.com/gpu": 4},
            "taints": ["dedicated=gpu:NoSchedule", "spot:PreferNoSchedule"],
            "images": {"nginx": 1000},
            "unschedulable": True,
            "spec": {"providerID": "x"},
        }
    )
    assert node["spec"] == {
        "unschedulable": True,
        "taints": [
            {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"},
            {"key": "spot", "value": "", "effect": "PreferNoSchedule"},
        ],
        "providerID": "x",
    }
    status = node["status"]
    assert isinstance(status, dict)
    assert status["allocatable"]["nvidia.com/gpu"] == "4"
    assert status["allocatable"]["cpu"] == "8"
    assert status["images"] == [{"names": ["nginx"], "sizeBytes": 1000}]


def test_a_bare_name_is_a_pod_without_requests() -> None:
    """The shortest pod is its name, in the namespace default."""
    pod = expanded("plain")
    assert pod["kind"] == "Pod"
    assert pod["metadata"] == {"name": "plain", "namespace": "default", "uid": "default/plain"}


def test_a_pod_says_what_it_wants() -> None:
    """Requests, tolerations, ports, gates and owner become what Kubernetes calls them."""
    pod = expanded(
        {
            "pod": "team/p",
            "node": "n1",
            "cpu": 2,
            "requests": {"nvidia.com/gpu": 1},
            "tolerations": ["a=b:NoSchedule", "c:NoExecute", "d", "e=f", {"operator": "Exists"}],
            "hostPorts": [80, {"containerPort": 53, "hostPort": 53, "protocol": "UDP"}],
            "gates": ["hold"],
            "owner": "rs-1",
        }
    )
    spec = pod["spec"]
    assert isinstance(spec, dict)
    assert spec["nodeName"] == "n1"
    assert spec["tolerations"] == [
        {"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"},
        {"key": "c", "operator": "Exists", "effect": "NoExecute"},
        {"key": "d", "operator": "Exists"},
        {"key": "e", "operator": "Equal", "value": "f"},
        {"operator": "Exists"},
    ]
    assert spec["schedulingGates"] == [{"name": "hold"}]
    container = spec["containers"][0]
    assert container["resources"] == {"requests": {"cpu": "2", "nvidia.com/gpu": "1"}}
    assert [port["hostPort"] for port in container["ports"]] == [80, 53]


def test_a_manifest_is_taken_as_it_is() -> None:
    """Whatever has a kind is no short form."""
    manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "anything": 1}
    assert expanded(manifest) == manifest


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"node": "n", "memroy": "1Gi"}, 'unknown field "objects[0].memroy"'),
        ({"namespace": "n", "labls": {}}, 'unknown field "objects[0].labls"'),
        ({"pod": "p", "tolerations": ["a=b:Noschedule"]}, 'effect "Noschedule" must be'),
        ({"node": "n", "taints": ["a"]}, 'effect "a" must be NoSchedule, PreferNoSchedule or'),
        ({"cpu": 1}, "objects[0]: this is no object"),
        ({"pod": "p", "hostPorts": ["http"]}, "objects[0].hostPorts[0]: expected an integer"),
        (7, "objects[0]: expected a mapping, found an integer"),
    ],
)
def test_mistakes_are_named(value: object, message: str) -> None:
    """A slip is reported with what stands there and what may stand there."""
    (said,) = messages(value)
    assert said.startswith(message)


def test_a_bare_name_is_in_the_default_namespace() -> None:
    """As kubectl does."""
    assert full_name("a") == "default/a"
    assert full_name("b/a") == "b/a"


POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: P}
spec: {score: {expression: "1"}}
"""
SECRET = "TOKEN=hunter2\nOTHER: [hunter2\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository with a policy, a folder of tests and secrets in and beside it."""
    folder = tmp_path / "repo"
    (folder / "tests").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "policy.yaml").write_text(POLICY)
    for file in (tmp_path / "secret.yaml", folder / ".git/config", folder / "env.yaml"):
        file.write_text(SECRET)
    return folder


def told(repository: Path, names: str, *options: str) -> list[str]:
    """Return what is wrong with a test that names files."""
    test = repository / "tests/tests.yaml"
    test.write_text(f"{{name: x, policies: {names}, pending: []}}\n")
    try:
        load_scenarios(str(test), options)
    except PolicyError as error:
        return [f"{one.column} {one.message}" for one in error.diagnostics]
    return []


@pytest.mark.parametrize("name", ["../policy.yaml", "../tests/../policy.yaml", ".."])
def test_files_of_the_repository(name: str, repository: Path) -> None:
    """Tests in a folder of their own name the policy above it, or a directory of policies."""
    assert told(repository, f"[{name}]") == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing.yaml", "'missing.yaml' is not there"),
        ("/proc/self/environ", "leads out of the directory that tests may read"),
        ("../../secret.yaml", "leads out of the directory that tests may read"),
        ("link.yaml", "leads out of the directory that tests may read"),
        ("folder", "holds a link that leads out: 'ours.yaml'"),
        ("../.git/config", "is neither a policy nor a configuration"),
        ("../env.yaml", "is neither a policy nor a configuration"),
        ("pipe.yaml", "is neither a policy nor a configuration"),
        ('"a\\0b"', "cannot be read: it holds the character NUL"),
        ("x" * 300, "cannot be read: File name too long"),
    ],
)
def test_files_outside_the_directory_are_not_read(
    name: str, words: str, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`policies: [/proc/self/environ]`, or a link to it, printed secrets in a build server."""
    tests = repository / "tests"
    (tests / "link.yaml").symlink_to("../../secret.yaml")
    (tests / "folder").mkdir()
    (repository.parent / "ours.yaml").write_text(POLICY)
    (tests / "folder/ours.yaml").symlink_to(repository.parent / "ours.yaml")
    os.mkfifo(tests / "pipe.yaml")
    (found,) = told(repository, f"[{name}]")
    assert words in found
    assert found.startswith("22 ")
    assert run(["test", str(tests / "tests.yaml")]) == 1
    shown = capsys.readouterr()
    assert "hunter2" not in shown.out + shown.err
    assert "PATH=" not in shown.out + shown.err


def test_a_configuration_is_a_reference(repository: Path) -> None:
    """`config` is held to the same rules as `policies`."""
    test = repository / "tests/tests.yaml"
    test.write_text("{name: x, config: /proc/self/environ, pending: []}\n")
    with pytest.raises(PolicyError, match="leads out of the directory"):
        load_scenarios(str(test))


def test_a_root_allows_more(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where policies are shared by repositories, --root names the directory of both."""
    (repository.parent / "shared.yaml").write_text(POLICY)
    name = "[../../shared.yaml]"
    assert told(repository, name) != []
    assert told(repository, name, str(repository.parent)) == []
    assert (
        run(["test", "--root", str(repository.parent), str(repository / "tests/tests.yaml")]) == 1
    )
    captured = capsys.readouterr()
    assert "the test expects nothing" in captured.err
    assert captured.err.count("error") == 1


def test_the_root_without_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory is the root of tests below it, unless that would be everything."""
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path)
    assert root_of("a/tests.yaml") == tmp_path
    monkeypatch.chdir(tmp_path / "a")
    assert root_of("../tests.yaml") == tmp_path
    monkeypatch.chdir("/")
    assert root_of(tmp_path / "a/tests.yaml") == tmp_path / "a"


def test_links_in_directories(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A link below a checked directory is followed to a policy elsewhere, and to nothing else."""
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "elsewhere.yaml").write_text(POLICY)
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "tests.yaml").symlink_to("../secret")
    (folder / "ours.yaml").symlink_to("../elsewhere.yaml")
    assert run(["check", str(folder)]) == 0
    assert run(["fmt", "--check", str(folder)]) == 0
    assert run(["test", str(folder)]) == 1
    assert run(["simulate", str(folder)]) == 1
    shown = capsys.readouterr()
    assert "hunter2" not in shown.out + shown.err
    assert "there are no tests in this directory" in shown.err
    assert "a symbolic link leads out of the directory, to no manifest" in shown.err


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        (b"kind: Policy\napiVersion: policysched.dev/v1alpha1\n", True),
        (b'{"kind": "Policy", "apiVersion": "policysched.dev/v1alpha1"}', True),
        (b'{"apiVersion": "kubescheduler.config.k8s.io/v1"}', True),
        (b"--- {apiVersion: 'policysched.dev/v1alpha1'}", True),
        (b"a: [\napiVersion: policysched.dev/v1alpha1\n", True),
        (b"# apiVersion: policysched.dev/v1alpha1\n", False),
        (b"apiVersion: v1\n", False),
    ],
)
def test_a_broken_file_is_known_by_its_api_version(text: bytes, ours: bool, tmp_path: Path) -> None:
    """A file is known by its apiVersion, also where it is broken."""
    file = tmp_path / "file.yaml"
    file.write_bytes(text)
    assert is_file_of_ours(file) is ours
