"""The verb `simulate`, as a person and as a program use it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from policy_sched.cli.main import run

ROOT = Path(__file__).parents[2]
MANIFESTS = str(ROOT / "policies" / "example-cluster" / "manifests")

CLUSTER = """\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "1", memory: 1Gi, pods: "10"}}
---
apiVersion: v1
kind: Pod
metadata: {name: fits}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 600m}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: does-not}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 600m}}}]}
"""
SECRET = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Nowhere}
spec:
  filter:
  - {expression: node.name == "", message: node(s) were not wanted}
"""


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    """Return the path of a cluster with one node and two pods of which one fits."""
    return written(tmp_path / "cluster.yaml", CLUSTER)


def written(file: Path, text: str) -> str:
    """Write a file and return its path."""
    file.write_text(text, encoding="utf-8")
    return str(file)


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    """Return the JSON lines of standard output."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_jsonl_is_one_line_per_pending_pod(
    cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pod, node or null, and kube-scheduler's message."""
    assert run(["simulate", cluster, "-o", "jsonl"]) == 0
    fits, does_not = lines_of(capsys)
    assert fits == {"pod": "default/fits", "node": "n1", "message": ""}
    assert does_not["node"] is None
    assert str(does_not["message"]).startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_an_unschedulable_pod_fails_only_on_request(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1 with --fail-on unschedulable and an unschedulable pod, else 0."""
    only_node = written(tmp_path / "node.yaml", CLUSTER.partition("---")[0])
    assert run(["simulate", cluster]) == 0
    assert run(["simulate", cluster, "--fail-on", "unschedulable"]) == 1
    assert run(["simulate", only_node, "--fail-on", "unschedulable"]) == 0
    assert "1 of 2 pods placed on 1 node" in capsys.readouterr().out


def test_standard_input_is_a_manifest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`-` reads manifests from standard input."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(CLUSTER))
    assert run(["simulate", "-", "-o", "jsonl"]) == 0
    assert [line["node"] for line in lines_of(capsys)] == ["n1", None]


def test_objects_that_scheduling_does_not_read_are_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A directory of a real deployment has more than pods and nodes."""
    written(tmp_path / "a.yaml", CLUSTER)
    written(tmp_path / "b.yaml", SECRET)
    assert run(["simulate", str(tmp_path), "-o", "jsonl"]) == 0
    assert len(lines_of(capsys)) == 2


def test_a_policy_takes_part_without_a_configuration(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--policies alone enables them after the default plugins."""
    policy = written(tmp_path / "policy.yaml", POLICY)
    assert run(["simulate", cluster, "--policies", policy, "-o", "jsonl"]) == 0
    messages = [str(line["message"]) for line in lines_of(capsys)]
    assert messages[0].startswith("0/1 nodes are available: 1 node(s) were not wanted.")


def test_with_a_configuration_only_what_it_enables_takes_part(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A policy that is merely there does nothing."""
    policy = written(tmp_path / "policy.yaml", POLICY)
    config = written(
        tmp_path / "config.yaml",
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n",
    )
    arguments = ["simulate", cluster, "--policies", policy, "--config", config, "-o", "jsonl"]
    assert run(arguments) == 0
    assert lines_of(capsys)[0]["node"] == "n1"


def test_objects_of_a_shipped_policy_that_the_configuration_names_are_read(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Quotas were an unknown kind (PS706) unless --policies named the policy besides."""
    config = written(
        tmp_path / "config.yaml",
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {multiPoint: {enabled: [{name: CapacityScheduling}]}}}]\n",
    )
    with Path(cluster).open("a", encoding="utf-8") as file:
        file.write(
            "---\napiVersion: scheduling.x-k8s.io/v1alpha1\nkind: ElasticQuota\n"
            "metadata: {name: q, namespace: default}\nspec: {min: {cpu: 1}, max: {cpu: 500m}}\n"
        )
    assert run(["simulate", cluster, "--config", config, "-o", "jsonl"]) == 0
    assert "ElasticQuota default is more than Max" in str(lines_of(capsys)[0]["message"])


def test_a_broken_policy_stops_everything(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is decided with half a policy: the place of the mistake, and exit code 1."""
    policy = written(tmp_path / "policy.yaml", POLICY.replace("node.name", "node.nane"))
    assert run(["simulate", cluster, "--policies", policy]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"{policy}:6:" in captured.err
    assert "name" in captured.err


EVERY_FORMAT = """
import sys
from policy_sched.cli.main import run
for output in ("json", "jsonl", "yaml"):
    assert run(["simulate", sys.argv[1], "-o", output]) == 0
    print("end of", output)
"""


def test_machine_formats_are_the_same_bytes_every_time() -> None:
    """Neither hash seeds nor time leave a trace."""
    first, second = (
        subprocess.run(
            [sys.executable, "-c", EVERY_FORMAT, MANIFESTS],
            env={**os.environ, "PYTHONHASHSEED": seed, "POLICY_SCHED_CACHE": ""},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    )
    assert first == second
    begin, *_ = parts = first.split(b"end of ")
    assert len(parts) == 4
    assert begin.startswith(b"{")


def test_times_are_for_people(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Decisions per second are on standard error, whatever the format."""
    for output in ("table", "wide", "json", "jsonl", "yaml"):
        run(["simulate", cluster, "-o", output])
        captured = capsys.readouterr()
        assert "decisions/s" in captured.err
        assert "decisions/s" not in captured.out


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        """Say yes."""
        return True


def test_progress_is_for_terminals(
    cluster: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a terminal, standard output holds the same bytes as elsewhere; a bar is never in it."""
    run(["simulate", cluster, "-o", "jsonl"])
    quiet = capsys.readouterr()
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    run(["simulate", cluster, "-o", "jsonl"])
    assert "deciding" not in quiet.err
    assert capsys.readouterr().out == quiet.out


TIMED = """\
apiVersion: v1
kind: Pod
metadata:
  name: NAME
  creationTimestamp: "2026-03-01T00:00:0SECOND.5Z"
  annotations: {policysched.dev/duration: 1m30s}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 600m}}}]}
---
"""


@pytest.fixture
def timed(tmp_path: Path) -> str:
    """Return the path of a cluster with a node for one of two pods that run 90 seconds."""
    pods = [TIMED.replace("NAME", name).replace("SECOND", name[-1]) for name in ("p1", "p3")]
    return written(tmp_path / "timed.yaml", "".join(pods) + CLUSTER.partition("---")[0])


def test_a_timeline_tells_what_became_of_each_pod(
    timed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line per pod: when it came, was bound and ended, in seconds since the first one came."""
    assert run(["simulate", "--timeline", timed, "-o", "jsonl"]) == 0
    first, second = lines_of(capsys)
    assert (first["bound"], first["ended"], first["waited"]) == (0.0, 90.0, 0.0)
    assert (second["created"], second["bound"], second["waited"]) == (2.0, 90.0, 88.0)
    assert (second["ended"], second["attempts"]) == (180.0, 2)


def test_a_timeline_is_the_same_bytes_every_time(
    timed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """How long it took is on standard error."""
    outputs = []
    for _ in range(2):
        assert run(["simulate", "--timeline", timed, "-o", "json", "--bucket", "1m"]) == 0
        captured = capsys.readouterr()
        outputs.append(captured.out)
        assert captured.err.startswith("3m00s played in ")
    assert outputs[0] == outputs[1]
    document = json.loads(outputs[0])
    assert [bucket["queue"] for bucket in document["buckets"]] == [1, 1, 0]
    assert document["buckets"][0]["resources"]["cpu"]["percent"] == 60.0
    assert document["waiting"]["all"]["max"] == 88.0


def test_a_timeline_fails_on_request(
    cluster: str, timed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1 with --fail-on unschedulable if a pod never had a node."""
    wanted = ["--timeline", "--fail-on", "unschedulable"]
    assert run(["simulate", timed, *wanted]) == 0
    assert run(["simulate", cluster, *wanted]) == 1
    assert "Never placed:\n  default/does-not  0/1 nodes" in capsys.readouterr().out


def test_a_timeline_may_be_broken_off(timed: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What has not happened by then does not happen."""
    assert run(["simulate", "--timeline", timed, "--until", "1m", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["summary"]["makespan"] == 60.0
    assert (document["summary"]["placed"], document["summary"]["ended"]) == (1, 0)


def test_a_timeline_is_a_table_for_people(timed: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Summary, waiting times, stretches of time."""
    assert run(["simulate", "--timeline", timed]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "2 of 2 pods placed on 1 node"
    assert lines[1] == "  makespan      3m00s"
    assert any(line.startswith("priority 0 ") for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bucket", "1h"], "--bucket goes with --timeline"),
        (["--until", "1h"], "--until goes with --timeline"),
        (["--timeline", "--bucket", "soon"], "'soon' is not a duration"),
        (["--timeline", "--bucket", "0"], "a stretch of time cannot be empty"),
        (["--timeline", "-o", "yaml"], "--timeline prints table, json or jsonl, not yaml"),
        (["--nodes", "three"], '--nodes "three": write a number'),
        (["--nodes", "2*cpu=1,cpu=2"], '--nodes "2*cpu=1,cpu=2": cpu is stated twice'),
        (["--seed", "1.5"], 'invalid value for --seed: unable to convert "1.5" into int'),
    ],
)
def test_options_that_make_no_sense_are_refused(
    timed: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wrong usage, with the reason."""
    assert run(["simulate", timed, *arguments]) == 2
    assert message in capsys.readouterr().err


def test_traces_and_generated_nodes_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also without a timeline: all pods of a trace at once."""
    jobs = written(tmp_path / "jobs.csv", "submit_s,duration_s,num_gpus,vc\n0,60,8,a\n5,60,8,a\n")
    node = ["--nodes", "1*nvidia.com/gpu=8"]
    assert run(["simulate", jobs, *node, "-o", "jsonl"]) == 0
    assert [line["node"] for line in lines_of(capsys)] == ["node-0001", None]
    assert run(["simulate", "--timeline", jobs, *node, "-o", "jsonl"]) == 0
    assert [line["bound"] for line in lines_of(capsys)] == [0.0, 60.0]


def test_mistakes_in_traces_and_manifests_come_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With file, line and column, and nothing is decided."""
    jobs = written(tmp_path / "jobs.csv", "submit_s,duration_s,num_gpus,vc\n0,soon,8,a\n")
    pod = written(tmp_path / "pod.yaml", TIMED.replace("1m30s", "soon").replace("SECOND", "0"))
    assert run(["simulate", "--timeline", jobs, pod]) == 1
    text = capsys.readouterr().err
    assert f"{jobs}:2:3: error PS707: duration_s: 'soon' is not a whole number" in text
    assert f"{pod}:6:43: error PS707: 'soon' is not a duration" in text


def test_a_policy_that_matches_nothing_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """A slip in a matchCondition looked like a policy that has nothing to say."""
    folder = Path(__file__).parents[2] / "policies"
    manifests = str(folder / "example-cluster" / "manifests")
    named = ("driver-version", "spot-nodes", "gang")
    policies = [word for name in named for word in ("--policies", str(folder / name))]
    assert run(["simulate", manifests, *policies]) == 0
    shown = capsys.readouterr().out
    assert "  DriverVersion  matched 0 of 8 pods, rejected 0 of 6 nodes\n" in shown
    assert "  Gang           matched 0 of 8 pods\n" in shown
    assert "  SpotNodes      matched 8 of 8 pods, rejected 0 of 6 nodes, scored 1 of 6" in shown
    assert run(["simulate", manifests, *policies, "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)["summary"]["policies"]
    assert {message["policy"]: message["matched"] for message in told} == {
        "DriverVersion": 0,
        "Gang": 0,
        "SpotNodes": 8,
    }


def test_a_timeline_tells_what_policies_match(capsys: pytest.CaptureFixture[str]) -> None:
    """Pods that are tried again count once."""
    folder = Path(__file__).parents[2] / "policies"
    manifests = str(folder / "example-cluster" / "manifests")
    policies = ["--policies", str(folder / "gang"), "--policies", str(folder / "spot-nodes")]
    assert run(["simulate", manifests, "--timeline", *policies]) == 0
    shown = capsys.readouterr().out
    assert "  Gang       matched 0 of 8 pods\n" in shown
    assert "  SpotNodes  matched 8 of 8 pods, rejected 0 of 6 nodes, scored 1 of 6" in shown
    assert run(["simulate", manifests, "--timeline", *policies, "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)["summary"]["policies"]
    assert [message["matched"] for message in told] == [0, 8]


@pytest.mark.parametrize("manifests", ["", "kind: Node\napiVersion: v1\nmetadata: {name: a}\n"])
def test_a_cluster_without_pending_pods_is_reported(
    manifests: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A snapshot of the wrong thing looks like success; a line on standard error reports it."""
    file = written(tmp_path / "objects.yaml", manifests)
    assert run(["simulate", file]) == 0
    assert "there are no pending pods" in capsys.readouterr().err
    assert run(["diff", "default", "gang", "--cluster", file]) == 0
    out, err = capsys.readouterr()
    assert "the cluster has no pending pods" in err
    assert "mean score of the chosen nodes    -    -\n" in out


MISTAKES = """\
apiVersion: v1
kind: LimitRange
metadata: {name: l}
spec: {limits: [{type: Container, defaultRequest: {cpu: "1"}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: typed}
spec:
  nodeSelectr: {zone: a}
  containers: [{name: c, image: i, resource: {requests: {cpu: "1"}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: read, uid: of-a-cluster}
spec: {newer: true, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: q, namespace: elsewhere}
"""


def test_ps719_what_a_cluster_would_add_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A misspelt field and a LimitRange were passed over: the pods asked for nothing, in silence.

    An object with a UID has been admitted, and a quota of another namespace concerns no pod.
    """
    path = written(tmp_path / "mistakes.yaml", MISTAKES)
    assert run(["simulate", path]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith(path)]
    unread = ", which is not read"
    limits = "the LimitRange is not applied: pods have the requests and limits that they state"
    assert told == [
        f"{path}:2:1: warning PS719: {limits}",
        f"{path}:10:3: warning PS702: unknown field 'spec.nodeSelectr'{unread}",
        f"{path}:11:36: warning PS702: unknown field 'spec.containers[0].resource'{unread}",
    ]


DEVICE_CLASS = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec:
  selectors: [{cel: {expression: 'device.drivr == "gpu.example.com"'}}]
"""


@pytest.mark.parametrize("verb", ["simulate", "explain", "fit", "diff", "eval", "check"])
def test_selectors_over_devices_are_checked_by_all_that_read_them(
    verb: str, tmp_path: Path, cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`check` alone refused a selector that no cluster takes; others decided without devices."""
    path = written(tmp_path / "class.yaml", DEVICE_CLASS)
    words = {
        "simulate": [cluster, path],
        "explain": ["fits", "--cluster", cluster, "--cluster", path],
        "fit": [path, "--cluster", cluster],
        "diff": ["default", "default", "--cluster", cluster, "--cluster", path],
        "eval": ["1", "--cluster", cluster, "--cluster", path],
        "check": [path],
    }
    assert run([verb, *words[verb]]) == 1
    said = "".join(capsys.readouterr())
    assert f"{path}:5:42: error PS102: Device has no field 'drivr'; did you mean" in said
