"""The verb `explain`: explanations of pods of the shipped cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from policy_sched.cli.main import run

POLICIES = Path(__file__).parents[2] / "policies"
CLUSTER = str(POLICIES / "example-cluster" / "manifests")
PREFIX = "kube-scheduler-simulator.sigs.k8s.io/"


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return what explain prints; it must succeed."""
    assert run(["explain", *arguments, "--cluster", CLUSTER]) == 0
    return capsys.readouterr().out


def test_a_pod_that_fits_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    """Each filter's part in it, and what would help."""
    assert (
        told(capsys, "shop/report")
        == """\
shop/report fits on none of 6 nodes
  0/6 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s), \
3 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, \
preemption: 0/6 nodes are available: 6 Preemption is not helpful for scheduling.
  7 pods are ahead of it in the queue; --after-queue decides them first

FILTER                  REMOVES  ALONE  LEFT  REASONS
TaintToleration               2      2     4  2 node(s) had untolerated taint(s)
NodeAffinity.filter[1]        3      5     1  3 node(s) didn't match Pod's node affinity/selector
NodeResourcesFit              1      3     0  1 Insufficient cpu
3 other filters would let every node pass

What would change that:
  without NodeAffinity.filter[1] it would fit on 2 nodes: the best of them gpu-2
  without NodeResourcesFit it would fit on 1 node: general-1
  with 6500m less cpu it would fit on 1 node: general-1
"""
    )


def test_a_pod_that_lands(capsys: pytest.CaptureFixture[str]) -> None:
    """The score table, what decided, and what would have decided otherwise."""
    policy = str(POLICIES / "gpu-bin-packing")
    assert (
        told(capsys, "shop/database-0", "--policies", policy)
        == """\
shop/database-0 goes to general-2: the best of 2 feasible, 6 nodes in all

FILTER                  REMOVES  ALONE  LEFT  REASONS
TaintToleration               2      2     4  2 node(s) had untolerated taint(s)
NodeAffinity.filter[1]        2      3     2  2 node(s) didn't match Pod's node affinity/selector
5 other filters would let every node pass

SCORE                         general-2  gpu-2
NodeResourcesFit                     37     96
ImageLocality                         4      0
GpuBinPacking                       100      0
the same for each: 2 plugins        375    375
total                               516    471

general-2 beats gpu-2 by 45: GpuBinPacking +100, NodeResourcesFit -59, ImageLocality +4

What would change that:
  without TaintToleration, spot-1 would win
  without NodeAffinity.filter[1], general-1 would win
  without the score of GpuBinPacking, gpu-2 would win
"""
    )


def test_explain_has_the_same_facts_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """The same facts under stable names."""
    document = json.loads(told(capsys, "shop/database-0", "-o", "json"))
    assert {"pod", "profile", "contentHash", "filters", "scores", "best"} <= set(document)
    assert document["filters"][0].keys() == {
        "plugin",
        "name",
        "removed",
        "alone",
        "left",
        "reasons",
    }
    assert document["rejections"]["spot-1"] == [
        "TaintToleration",
        ["node(s) had untolerated taint(s)"],
    ]


def test_annotations_are_those_of_the_simulator(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON in JSON: by node and plugin."""
    document = json.loads(told(capsys, "shop/database-0", "-o", "annotations"))
    assert all(key.startswith(PREFIX) for key in document)
    filters = json.loads(document[f"{PREFIX}filter-result"])
    assert filters["spot-1"]["TaintToleration"] == "node(s) had untolerated taint(s)"
    assert filters["spot-1"]["NodeUnschedulable"] == "passed"
    final = json.loads(document[f"{PREFIX}finalscore-result"])
    raw = json.loads(document[f"{PREFIX}score-result"])
    assert document[f"{PREFIX}selected-node"] in final
    assert {node: set(plugins) for node, plugins in raw.items()} == {
        node: set(plugins) for node, plugins in final.items()
    }
    # weight 3, and reversed: a node without taints that the pod would rather not have is the best
    taints = {(raw[node]["TaintToleration"], final[node]["TaintToleration"]) for node in raw}
    assert taints == {("0", "300")}


def test_a_pod_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    """The namespace is easily forgotten."""
    assert run(["explain", "web-1", "--cluster", CLUSTER]) == 2
    message = 'policy-sched: there is no pod "default/web-1"; did you mean shop/web-1?\n'
    assert capsys.readouterr().err == message
    assert run(["explain", "shop/wbe-1", "--cluster", CLUSTER]) == 2
    assert 'there is no pod "shop/wbe-1"; did you mean shop/web-1?' in capsys.readouterr().err


def test_a_cluster_without_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The pod's own manifest is easily forgotten."""
    (tmp_path / "nodes.yaml").write_text("{apiVersion: v1, kind: Node, metadata: {name: a}}")
    assert run(["explain", "web-1", "--cluster", str(tmp_path)]) == 2
    message = 'there is no pod "default/web-1": the cluster has no pods'
    assert message in capsys.readouterr().err


NODE = (
    "{{apiVersion: v1, kind: Node, metadata: {{name: {0}, labels: {{{1}: {2}}}}}, status: {3}}}\n"
)
POD = "{{apiVersion: v1, kind: Pod, metadata: {{name: {0}, labels: {{{1}: ring}}}}, spec: {2}}}\n"
RACK = "topology.example.com/rack"
GROUP = "scheduling.x-k8s.io/pod-group"


def racks(folder: Path, needed: int) -> str:
    """Write a cluster of two racks, and a gang of two pods of one cpu."""
    room = "{allocatable: {cpu: %d, memory: 8Gi, pods: 110}}"
    spec = "{containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}"
    group = (
        "{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup,"
        f" metadata: {{name: ring, namespace: default}}, spec: {{minMember: {needed}}}}}\n"
    )
    documents = [
        NODE.format("n1", RACK, "a", room % 1),
        NODE.format("n2", RACK, "b", room % 4),
        group,
        POD.format("x", GROUP, spec),
        POD.format("y", GROUP, spec),
    ]
    path = folder / "cluster.yaml"
    path.write_text("---\n".join(documents))
    return str(path)


def test_a_gang_that_goes_to_one_rack(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every rack that was tried, and the nodes that the others have."""
    policy = str(POLICIES / "rack-gang")
    assert run(["explain", "y", "--cluster", racks(tmp_path, 2), "--policies", policy]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:10] == [
        "default/y goes to n2: the best of 1 feasible, 2 nodes in all",
        "  its group goes to placement b",
        "",
        "PLACEMENT  NODES  PODS PLACED       SCORE",
        "a              1       1 of 2  infeasible",
        "b              1       2 of 2          50",
        "",
        "FILTER                 REMOVES  ALONE  LEFT  REASONS",
        "placement by RackGang        1      1     1",
        "5 other filters would let every node pass",
    ]


def test_a_gang_that_goes_nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is gated, or no rack will do."""
    policy = str(POLICIES / "rack-gang")
    cluster = racks(tmp_path, 2).replace("cluster.yaml", "small.yaml")
    text = Path(racks(tmp_path, 2)).read_text()
    Path(cluster).write_text(text.replace("cpu: 4", "cpu: 1"))
    assert run(["explain", "x", "--cluster", cluster, "--policies", policy]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == [
        "default/x fits nowhere: its group fits in none of 2 placements",
        "  0/2 placements are available, first placement status: pod group is unschedulable",
    ]
    assert run(["explain", "x", "--cluster", racks(tmp_path, 3), "--policies", policy]) == 0
    assert "does not enter the queue: RackGang keeps it out" in capsys.readouterr().out


def test_a_pod_of_another_scheduler(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It printed "fits on none of 0 nodes" on a cluster of two nodes."""
    spec = "{schedulerName: other, containers: [{name: c, image: i}]}"
    path = Path(racks(tmp_path, 2))
    path.write_text(f"{path.read_text()}---\n{POD.format('z', GROUP, spec)}")
    assert run(["explain", "z", "--cluster", str(path)]) == 0
    assert capsys.readouterr().out == (
        'default/z is not scheduled here\n  no profile has schedulerName "other"\n'
    )
    assert run(["explain", "z", "--cluster", str(path), "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["ignored"] is True
    assert document["nodes"] == 2


def test_a_cluster_without_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """ "None of 0 nodes" is no news; there are none."""
    path = tmp_path / "pod.yaml"
    path.write_text(POD.format("x", GROUP, "{containers: [{name: c, image: i}]}"))
    assert run(["explain", "x", "--cluster", str(path)]) == 0
    assert capsys.readouterr().out == (
        "default/x fits nowhere: there are no nodes\n  no nodes available to schedule pods\n"
    )


def test_a_pod_after_the_queue(capsys: pytest.CaptureFixture[str]) -> None:
    """`explain` printed "goes to gpu-2" of a pod that `simulate` leaves without a node."""
    lines = told(capsys, "research/train-large").splitlines()
    assert lines[:2] == [
        "research/train-large goes to gpu-2: the best of 1 feasible, 6 nodes in all",
        "  6 pods are ahead of it in the queue; --after-queue decides them first",
    ]
    lines = told(capsys, "research/train-large", "--after-queue").splitlines()
    assert lines[0] == "research/train-large fits on none of 6 nodes"
    assert lines[2] == "  decided after the 6 pods ahead of it in the queue, as simulate does"
    document = json.loads(told(capsys, "shop/web-1", "--after-queue", "-o", "json"))
    assert (document["afterQueue"], document["ahead"], document["node"]) == (True, 1, "gpu-2")


def test_a_policy_that_does_not_apply_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Its matchConditions are false for the pod, so that it has no part in the decision."""
    gang = str(POLICIES / "gang")
    lines = told(capsys, "shop/web-1", "--policies", gang).splitlines()
    assert lines[2] == "  Gang does not apply to it: a matchCondition is false"
    document = json.loads(told(capsys, "shop/web-1", "--policies", gang, "-o", "json"))
    assert document["unmatched"] == ["Gang"]


STRICT = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: PrioritySort}
spec:
  queueOrder: {by: pod.namespace, keys: [{expression: head.queue}], strict: true}
  queueSort: [{expression: pod.name}]
"""
TEAMS = """\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "4", pods: "110"}}
"""
TEAM_POD = """\
---
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "%s"}}}]}
"""


@pytest.fixture
def teams(tmp_path: Path) -> list[str]:
    """Two teams with a strict queue each; the first pod of team a fits nowhere."""
    pods = [("a1", "a", 9), ("a2", "a", 1), ("a3", "a", 1), ("b1", "b", 1)]
    (tmp_path / "cluster.yaml").write_text(TEAMS + "".join(TEAM_POD % pod for pod in pods))
    (tmp_path / "strict.yaml").write_text(STRICT)
    return [
        "--cluster",
        str(tmp_path / "cluster.yaml"),
        "--policies",
        str(tmp_path / "strict.yaml"),
    ]


def test_a_pod_of_one_of_several_queues(
    teams: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """How many pods are ahead of it in all queues said nothing of its turn."""
    assert run(["explain", "a/a3", *teams]) == 0
    assert capsys.readouterr().out.splitlines()[:3] == [
        "a/a3 goes to n1: the best of 1 feasible, 1 node in all",
        "  2 pods are ahead of it in the queue; --after-queue decides them first",
        '  it waits in the queue "a" behind 2 pods, the first of which is a/a1',
    ]
    assert run(["explain", "b/b1", *teams]) == 0
    assert '  it is the first of the queue "b"' in capsys.readouterr().out.splitlines()
    assert run(["explain", "a/a3", *teams, "-o", "json"]) == 0
    queue = json.loads(capsys.readouterr().out)["queue"]
    assert queue == {"name": "a", "ahead": 2, "head": "a/a1", "heldBy": ""}


def test_a_pod_that_a_strict_queue_holds(
    teams: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """`simulate` and `explain --after-queue` ended with an error for a pod that is never tried."""
    held = 'a/a1 was tried in vain and holds it in the strict queue "a"'
    assert run(["explain", "a/a3", *teams, "--after-queue"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == [
        "a/a3 is not placed, though 1 of 1 node is feasible",
        f"  {held}",
    ]
    assert run(["explain", "a/a3", *teams, "--after-queue", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["queue"]["heldBy"] == "a/a1"
    cluster, policies = teams[1], teams[2:]
    assert run(["simulate", cluster, *policies, "-o", "json"]) == 0
    pods = {pod["pod"]: pod for pod in json.loads(capsys.readouterr().out)["placements"]}
    assert [pods[f"a/a{i}"]["message"] == held for i in (1, 2, 3)] == [False, True, True]
    assert pods["b/b1"]["node"] == "n1"
    assert run(["simulate", cluster, *policies, "--timeline", "-o", "json"]) == 0
    lost = {
        pod["pod"]: pod["message"] for pod in json.loads(capsys.readouterr().out)["neverPlaced"]
    }
    assert [lost[f"a/a{i}"] == held for i in (1, 2, 3)] == [False, True, True]


def test_a_policy_whose_url_is_not_asked_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The policy scored all nodes alike, and the page said nothing of it."""
    (tmp_path / "cluster.yaml").write_text(TEAMS + TEAM_POD % ("p", "default", 1))
    policy = str(POLICIES / "target-load-packing")
    cluster = str(tmp_path / "cluster.yaml")
    assert run(["explain", "p", "--cluster", cluster, "--policies", policy]) == 0
    url = "http://load-watcher.kube-system:2020/watcher"
    said = "which is not asked here: its rules count as without an answer"
    out = capsys.readouterr().out.splitlines()
    assert f"  TargetLoadPacking asks {url}, {said}" in out
