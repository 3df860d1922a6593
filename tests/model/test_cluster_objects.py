"""Runtime classes: the fields they set in pods, and the pods they reject."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from policy_sched.manifests.load import load
from policy_sched.model import cluster_objects
from policy_sched.model.meta import Toleration
from policy_sched.model.pod import Pod, PodSpec

SANDBOXED = {
    "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "sandboxed"},
    "handler": "runsc", "overhead": {"podFixed": {"cpu": "250m", "memory": "120Mi"}},
    "scheduling": {
        "nodeSelector": {"sandbox": "yes"},
        "tolerations": [{"key": "sandbox", "operator": "Exists", "effect": "NoSchedule"}],
    },
}  # fmt: skip


CONFLICT = (
    "conflict: runtimeClass.scheduling.nodeSelector[sandbox] = yes;"
    " pod.spec.nodeSelector[sandbox] = no"
)


def admitted(spec: dict[str, Any], runtime: dict[str, Any] | None = None) -> PodSpec:
    """Return a pod's specification with a class applied."""
    found = msgspec.convert({**SANDBOXED, **(runtime or {})}, cluster_objects.RuntimeClass)
    read = msgspec.convert({"runtimeClassName": "sandboxed", **spec}, PodSpec)
    cluster_objects.admit(read, found)
    return read


def test_overhead_and_scheduling_are_written_into_the_pod() -> None:
    """Both were accepted in the class and reached no pod."""
    own = {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "a", "operator": "Exists"}]}
    spec = admitted(own)
    assert spec.overhead == {"cpu": "250m", "memory": "120Mi"}
    assert spec.node_selector == {"disk": "ssd", "sandbox": "yes"}
    assert [one.key for one in spec.tolerations] == ["a", "sandbox"]
    again = msgspec.to_builtins(spec)
    assert msgspec.to_builtins(admitted(again)) == again


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"overhead": {"cpu": "1"}},
         "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"),
        ({"nodeSelector": {"sandbox": "no"}},
         CONFLICT),
        ({"tolerations": [{"key": f"k{number}"} for number in range(1000)]},
         "pod rejected: more than 1000 tolerations with those of the RuntimeClass"),
    ],
)  # fmt: skip
def test_pods_that_contradict_their_class_are_refused(spec: dict[str, Any], words: str) -> None:
    """In the words of the admission plugin."""
    with pytest.raises(cluster_objects.RejectedError) as refused:
        admitted(spec)
    assert str(refused.value) == words


def test_equal_amounts_are_no_contradiction() -> None:
    """However they are written."""
    given = {"cpu": 0.25, "memory": str(120 * 2**20)}
    assert admitted({"overhead": given}).overhead == {"cpu": "250m", "memory": "120Mi"}


def test_an_overhead_needs_a_class_that_gives_it() -> None:
    """Only its class can set a pod's overhead."""
    spec = msgspec.convert({"overhead": {"cpu": "1"}}, PodSpec)
    plain = msgspec.convert({**SANDBOXED, "overhead": None}, cluster_objects.RuntimeClass)
    for found in (None, plain):
        with pytest.raises(
            cluster_objects.RejectedError, match="without corresponding RuntimeClass"
        ):
            cluster_objects.check_overhead(spec, found)
    cluster_objects.check_overhead(PodSpec(), None)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([{"key": "a"}, {"key": "a"}], [0]),
        ([{"key": "a", "operator": "Exists", "effect": "NoSchedule"},
          {"key": "a", "operator": "Exists"}], [1]),
        ([{"operator": "Exists"}, {"key": "b", "value": "x", "effect": "NoExecute"}], [0]),
        ([{"key": "a", "value": "x"}, {"key": "a", "value": "y"}], [0, 1]),
        ([{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
          {"key": "a", "operator": "Exists", "effect": "NoExecute"}], [1]),
        ([{"key": "a", "operator": "Gt", "value": "1"}, {"key": "a", "value": "1"}], [0, 1]),
    ],
)  # fmt: skip
def test_tolerations_that_others_include_go(given: list[Any], kept: list[int]) -> None:
    """As MergeTolerations leaves them out."""
    every = msgspec.convert(given, tuple[Toleration, ...])
    assert cluster_objects.merged(every) == tuple(every[place] for place in kept)


def write(folder: Path, *objects: dict[str, Any]) -> str:
    """Write manifests; return the file."""
    file = folder / "all.jsonl"
    file.write_text("\n".join(map(json.dumps, objects)), encoding="utf-8")
    return str(file)


def pod(**spec: Any) -> dict[str, Any]:
    """Return a pod of the class."""
    spec = {"runtimeClassName": "sandboxed", "containers": [{"name": "c"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def test_manifests_with_the_class_have_complete_pods(tmp_path: Path) -> None:
    """Simulated pods equal those of the API server."""
    found = load([write(tmp_path, pod(), SANDBOXED)])
    assert not found.diagnostics
    (one,) = (one for one in found.objects if isinstance(one, Pod))
    assert one.spec.overhead == {"cpu": "250m", "memory": "120Mi"}
    assert one.spec.node_selector == {"sandbox": "yes"}


def test_manifests_without_the_class_stay_as_they_are(tmp_path: Path) -> None:
    """A snapshot of pods alone has the overhead already: the API server admitted them."""
    there = pod(overhead={"cpu": "1"})
    there["metadata"]["uid"] = "1"
    found = load([write(tmp_path, there)])
    assert not found.diagnostics
    (one,) = found.objects
    assert isinstance(one, Pod)
    assert one.spec.overhead == {"cpu": "1"}


def test_a_conflict_is_reported_with_its_place(tmp_path: Path) -> None:
    """File, line and the words of the admission plugin."""
    file = write(tmp_path, SANDBOXED, pod(nodeSelector={"sandbox": "no"}))
    (problem,) = load([file]).diagnostics
    assert (problem.line, problem.code) == (2, "PS707")
    assert "conflict: runtimeClass.scheduling.nodeSelector[sandbox] = yes" in problem.message
