"""The verb `fit`: what people and programs read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from policy_sched.cli.main import run

CLUSTER = str(Path(__file__).parents[2] / "policies" / "example-cluster" / "manifests")
POD_FILE = "POD"
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  priority: 10
  containers:
  - {name: c, image: nginx, resources: {requests: {cpu: "4", memory: 4Gi}}}
"""


@pytest.fixture
def pod(tmp_path: Path) -> str:
    """Return the path of a pod."""
    (tmp_path / "pod.yaml").write_text(POD)
    return str(tmp_path / "pod.yaml")


def test_the_text_has_everything_in_its_order(pod: str, capsys: pytest.CaptureFixture[str]) -> None:
    """How many, what runs out, by label, by node, and what would be evicted."""
    arguments = ["--cluster", CLUSTER, "--per", "topology.kubernetes.io/zone"]
    assert run(["fit", pod, *arguments]) == 0
    assert (
        capsys.readouterr().out
        == """\
28 replicas of default/web fit now on 4 of 6 nodes
8 more fit by evicting 4 pods

What runs out first, on 4 nodes that could take a pod:
  4  Insufficient cpu

What keeps every pod from the other 2 nodes:
  2  node(s) had untolerated taint(s)

ZONE    NODES   OPEN   PODS   WITH EVICTIONS   RUNS OUT FIRST
eu-1a       3      2     11                7   Insufficient cpu
eu-1b       3      2     17                1   Insufficient cpu

NODE        PODS   WITH EVICTIONS
gpu-2         16                0
gpu-1         10                6
general-1      1                1
general-2      1                1

EVICTED            PODS   PRIORITY   FROM
research/train-0      1          0   gpu-1
shop/ingress-0        1          0   general-1
shop/search-0         1          0   general-2
shop/web-0            1          0   general-1
"""
    )


def test_json_has_every_node_and_every_victim(pod: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The same numbers for programs, and the same bytes for the same input."""
    arguments = ["fit", pod, "--cluster", CLUSTER, "--output", "json"]
    assert run(arguments) == 0
    text = capsys.readouterr().out
    document = json.loads(text)
    assert (document["replicas"], document["limitReached"]) == (28, False)
    assert document["preempting"]["replicas"] == 8
    assert {victim["pod"] for victim in document["preempting"]["victims"]} >= {"research/train-0"}
    assert document["exhausted"] == {"Insufficient cpu": 4}
    assert run(arguments) == 0
    assert capsys.readouterr().out == text


def test_a_limit_that_is_reached_is_named(pod: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The number is a lower bound then."""
    assert run(["fit", pod, "--cluster", CLUSTER, "--limit", "3"]) == 0
    assert capsys.readouterr().out.startswith(
        "At least 3 replicas of default/web fit now on 1 of 6 nodes\n"
        "Counting stopped at the limit of 3; a higher limit counts on\n"
    )


def test_a_pod_that_fits_nowhere_has_the_schedulers_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No replica is an answer, and no error."""
    path = tmp_path / "pod.yaml"
    path.write_text(POD.replace('"4"', '"400"').replace("priority: 10", "priority: 0"))
    assert run(["fit", str(path), "--cluster", CLUSTER]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "0 replicas of default/web fit now"
    assert lines[1].startswith("  0/6 nodes are available: 2 node(s) had untolerated taint(s), ")


def test_the_clusters_classes_apply(pod: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A class that is nowhere is a problem of the pod's file, with its line."""
    Path(pod).write_text(POD.replace("priority: 10", "priorityClassName: high"))
    assert run(["fit", pod, "--cluster", CLUSTER]) == 1
    problems = capsys.readouterr().err
    assert f"{pod}:5:22: error PS705: there is no PriorityClass 'high'" in problems
    high = Path(pod).with_name("class.yaml")
    high.write_text(
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 10\n"
    )
    assert run(["fit", pod, "--cluster", CLUSTER, "--cluster", str(high)]) == 0
    assert "8 more fit by evicting 4 pods" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-", "--cluster", "-"], "standard input is either the pod or the cluster, not both"),
        (["none.yaml", "--cluster", CLUSTER], "none.yaml: No such file or directory"),
        (
            [POD_FILE, "--cluster", CLUSTER, "--per", "topology.kubernetes.io/zones"],
            '"topology.kubernetes.io/zones"; did you mean topology.kubernetes.io/zone?',
        ),
    ],
)
def test_fit_names_mistakes_of_the_command_line(
    arguments: list[str], message: str, pod: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Mistakes of the command line are named."""
    assert run(["fit", *(pod if argument == POD_FILE else argument for argument in arguments)]) == 2
    assert message in capsys.readouterr().err
