"""Devices that are counted one by one: what a bound pod gets, and when it is free again."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st

from policy_sched.cli.main import run
from policy_sched.cluster import Cache
from policy_sched.experiments.inputs import NO_CYCLE, RuleValues
from policy_sched.language import Expression
from policy_sched.model import PodInfo
from policy_sched.testing import make_node, make_pod
from tests.language.harness import checked, compiled

POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Halves}
spec:
  variables:
  - {name: wants, expression: 'pod.requests["example.com/gpu"].units()'}
  - name: free
    expression: '[node.free["example.com/gpu-0"].units(), node.free["example.com/gpu-1"].units()]'
  - name: devices # the first one with room
    expression: >-
      variables.free.map(g, g >= variables.wants ? 1 : 0).indexOf(1) == 0
      ? [variables.wants, 0] : [0, variables.wants]
  filter:
  - {expression: variables.free.max() >= variables.wants, message: no device}
"""
EXPERIMENT = """\
apiVersion: policysched.dev/v1alpha1
kind: Experiment
metadata: {name: devices}
spec:
  cluster:
    generate: ["1*cpu=8,example.com/gpu=20"]
    devices: {resource: example.com/gpu, size: 10}
  workload:
    rows:
      file: pods.csv
      submit: submit
      duration: runs
      pod:
        metadata: {name: "${row.name}"}
        spec: {containers: [{name: c, resources: {requests: {example.com/gpu: "${row.gpu}"}}}]}
    retry: AtOnce
  variants:
  - {name: halves, policies: [policy.yaml], devices: Halves}
  seeds: [1]
  measures: [{name: used, allocation: example.com/gpu-1}]
  record: [Pods]
"""
PODS = "name,gpu,submit,runs\na,6,0,5\nb,6,0,9\nc,5,1,5\nd,4,2,1\n"


def written(folder: Path, pods: str = PODS, **changes: Any) -> str:
    """Write the experiment, with other values in its spec; None takes one out."""
    document = yaml.safe_load(EXPERIMENT)
    for key, value in changes.items():
        *path, last = key.split("__")
        inside = document["spec"]
        for step in path:
            inside = inside[int(step) if step.isdigit() else step]
        inside[last] = value
        if value is None:
            del inside[last]
    (folder / "policy.yaml").write_text(POLICY)
    (folder / "pods.csv").write_text(pods)
    (folder / "experiment.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    return str(folder / "experiment.yaml")


def pods_of(folder: Path, **changes: Any) -> list[tuple[str, str, str]]:
    """Return name, devices and second of binding of each pod."""
    path = written(folder, **changes)
    assert run(["sweep", path, "--jobs", "1", "--results", str(folder / "found")]) == 0
    with (folder / "found" / "pods.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [(row["pod"], row["devices"], row.get("bound", "")) for row in rows]


def test_a_device_is_free_again_when_its_pod_has_left(tmp_path: Path) -> None:
    """The third pod fits on no device until the first has left, though enough is free in all."""
    assert pods_of(tmp_path) == [
        ("default/a", "0", "0.0"),
        ("default/b", "1", "0.0"),
        ("default/c", "0", "5.0"),
        ("default/d", "0", "2.0"),
    ]


def test_pods_with_one_attempt_get_devices(tmp_path: Path) -> None:
    """Without time, a pod that fits on no device is gone."""
    changes = {"workload__arrivals": {}, "workload__retry": "Backoff"}
    assert pods_of(tmp_path, **changes) == [
        ("default/a", "0", ""),
        ("default/b", "1", ""),
        ("default/c", "", ""),
        ("default/d", "0", ""),
    ]


STEP = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Step}
spec:
  reserve: {expression: "true"}
"""


def test_devices_are_the_same_when_a_plugin_may_reject_a_pod_later(tmp_path: Path) -> None:
    """Pods get what they get where a chosen node is final, also equal pods and those that fail."""
    pods = ["name,gpu,submit,runs", *(f"p{i},{(3, 5, 3, 6, 1)[i % 5]},0,9" for i in range(8))]
    items = []
    for number, policies in enumerate((["policy.yaml"], ["policy.yaml", "step.yaml"])):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "step.yaml").write_text(STEP)
        changes: dict[str, Any] = {"workload__arrivals": {}, "workload__retry": "Backoff"}
        changes["variants__0__policies"] = policies
        items.append(pods_of(folder, pods="\n".join(pods), **changes))
    assert items[0] == items[1]
    assert [item[1] for item in items[0]] == ["0", "0", "1", "1", "0", "", "", ""]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cluster__devices": None}, "no devices are counted"),
        ({"variants__0__devices": None}, "nothing says which devices pods of halves get"),
        ({"variants__0__devices": "Halfs"}, "variant halves has no policy Halfs"),
        ({"variants__0__devices": "NodeName"}, "variables.devices"),
        ({"cluster__devices__size": 7}, "node node-0001 has 20 of example.com/gpu"),
    ],
    ids=["not counted", "not said", "unknown", "no variable", "odd size"],
)
def test_mistakes_are_found_before_anything_runs(
    changes: dict[str, Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the file and the line."""
    assert run(["sweep", written(tmp_path, **changes), "--jobs", "1"]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert "experiment.yaml:" in error


def test_a_rule_that_fails_ends_its_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The pod, the node and what failed are named, and the exit code is 1."""
    path = written(tmp_path)
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY.replace("? [variables.wants, 0]", "? [0 - variables.wants, 0]"))
    assert run(["sweep", path, "--jobs", "1", "--results", str(tmp_path / "found")]) == 1
    assert "no devices for pod default/a on node node-0001" in "".join(capsys.readouterr())


# Values of rules.

FOLLOWS = (
    'node.free["cpu"].units() + int(pod.annotations["n"]) * node.labels[?"a"].orValue("").size()'
)
MORE = "node.pods.map(p, p.name.size()).sum()"


def rule(text: str) -> Expression:
    """Return a compiled rule."""
    tree, problems = checked(text)
    assert tree is not None, problems
    policies = compiled(tree)
    assert policies is not None
    return policies


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (FOLLOWS, True),
        (MORE, False),
        ('node.labels[pod.name] == "a"', False),
        ("cluster.podCount > 1", False),
        ('namespaceObject.labels[?"a"].orValue("") == node.name', False),
        ("pod.requests.fitsIn(node.free)", False),
    ],
)
def test_what_a_value_follows_from(text: str, kept: bool) -> None:
    """Values are kept where they follow from the pod and columns of the row alone."""
    assert (rule(text).columns is not None) is kept


@given(
    events=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 2), st.sampled_from(["1", "2", "x"])),
        max_size=12,
    )
)
@pytest.mark.parametrize("text", [FOLLOWS, MORE])
def test_kept_values_are_the_rules(text: str, events: list[tuple[int, int, str]]) -> None:
    """Whatever comes to the nodes, a kept value is the one that the rule has now."""
    cache = Cache()
    for number in range(4):
        cache.add_node(make_node(f"n{number}", cpu=9, labels={"a": "xy"[: number % 2]}))
    score = rule(text)
    values = RuleValues(score, cache.nodes, cache.pods)
    plain = score.bind(cache.nodes, cache.pods).scalar
    for number, (row, cpu, text_of) in enumerate(events):
        pod = PodInfo.of(make_pod(f"p{number}", requests={"cpu": cpu}, annotations={"n": text_of}))
        for each in range(4):
            assert values(pod, each) == plain(pod, NO_CYCLE, each)
        cache.add_pod(pod.on(f"n{row}"))
