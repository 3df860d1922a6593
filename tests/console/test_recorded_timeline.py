"""The console on a recording: the cluster at its beginning, and its traffic over time."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from policy_sched.bench.recording import BEGAN
from policy_sched.cli.console import _at_beginning
from policy_sched.cli.main import run
from policy_sched.console.trials import TimelineQuestion
from policy_sched.model import SECOND, Node, ObjectMeta, Pod
from policy_sched.profiles.build import decoded_kinds
from policy_sched.profiles.reload import PolicyFiles
from policy_sched.recording import Recorder
from policy_sched.replay import compiled
from tests.replay.recorded import Load, write
from tests.replay.test_decisions import plans_of


def test_the_timeline_decides_recorded_traffic_again(tmp_path: Path) -> None:
    """All pods that came, up to the end of the recording; and the nodes that were there first."""
    load = Load(6, 1.0, 3)
    write(load.play(40), tmp_path / "traffic", load.clock.ns)
    folder = str(tmp_path / "traffic")
    cluster = _at_beginning(folder, PolicyFiles())
    assert sum(isinstance(thing, Node) for thing in cluster.objects) == 6
    result = TimelineQuestion(plans_of(), b"", recording=folder).result()
    assert result.end - result.start == 40 * SECOND + 1
    assert len(result.lives) > 30
    half = TimelineQuestion(plans_of(), b"", until=20 * SECOND, recording=folder).result()
    assert half.end - half.start == 20 * SECOND
    assert 0 < len(half.lives) < len(result.lives)


def test_a_recording_is_not_looked_at_with_a_cluster(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It has a cluster and a time of its own."""
    assert run(["console", "--recording", "traffic", "--now", "2026-01-01T00:00:00Z"]) != 0
    assert "--recording does not go together with --now" in capsys.readouterr().err


def test_the_timeline_has_what_rules_read_of_objects(tmp_path: Path) -> None:
    """A rule reads a field of recorded nodes that scheduling does not."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Range}
spec:
  filter:
  - expression: node.object.spec.podCIDR == "10.0.1.0/24"
    message: another range
"""
    )
    plans = compiled(PolicyFiles(policies=(str(policy),))).plans
    of_rules = decoded_kinds(plans)["v1", "Node"]
    nodes = [
        msgspec.convert(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": f"n{i}", "uid": f"n{i}"},
                "spec": {"podCIDR": f"10.0.{i}.0/24"},
                "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
            },
            of_rules,
        )
        for i in range(3)
    ]
    recorder = Recorder(tmp_path / "traffic")
    recorder.begin(BEGAN, nodes)
    recorder.put(BEGAN + SECOND, Pod(metadata=ObjectMeta(name="web", namespace="default", uid="1")))
    recorder.close(BEGAN + 2 * SECOND)
    result = TimelineQuestion(plans, b"", recording=str(tmp_path / "traffic")).result()
    assert [life.node for life in result.lives] == ["n1"]
