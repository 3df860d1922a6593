"""Pod groups: their objects of both APIs, and the references of pods."""

from __future__ import annotations

from pathlib import Path

from policy_sched.manifests.load import load
from policy_sched.model.pod import SchedulingGroup
from policy_sched.model.pod_group import POD_GROUP_LABEL, CoschedulingGroup, PodGroup
from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import make_pod

MANIFESTS = """
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: ring, namespace: team}
spec: {minMember: 3, scheduleTimeoutSeconds: 10}
---
apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata: {name: star}
spec:
  schedulingPolicy: {gang: {minCount: 4}}
  schedulingConstraints: {topology: [{key: example.com/rack}]}
---
apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata: {name: each-for-itself}
spec: {schedulingPolicy: {basic: {}}}
---
apiVersion: scheduling.k8s.io/v1alpha2
kind: Workload
metadata: {name: job}
spec: {podGroupTemplates: []}
"""


def test_groups_of_both_kinds_are_read(tmp_path: Path) -> None:
    """Each has the number of pods that must run together; a workload is skipped."""
    path = tmp_path / "groups.yaml"
    path.write_text(MANIFESTS)
    found = load([str(path)])
    assert not found.diagnostics
    ring, star, basic = found.objects
    assert isinstance(ring, CoschedulingGroup)
    assert isinstance(star, PodGroup)
    assert isinstance(basic, PodGroup)
    assert (ring.min_count, star.min_count, basic.min_count) == (3, 4, 0)
    assert [one.topology_key for one in (ring, star, basic)] == ["", "example.com/rack", ""]
    assert [one.schedule_timeout for one in (ring, star, basic)] == [10_000_000_000, None, None]
    assert CoschedulingGroup(metadata=ring.metadata).schedule_timeout is None


def test_a_pod_names_its_group_in_its_spec_or_in_a_label() -> None:
    """The spec comes first; a pod that names none has an empty name."""
    group = SchedulingGroup(pod_group_name="star")
    labels = {POD_GROUP_LABEL: "ring"}
    assert PodInfo.of(make_pod("a", labels=labels)).pod_group == "ring"
    assert PodInfo.of(make_pod("a", scheduling_group=group)).pod_group == "star"
    both = make_pod("a", labels=labels, scheduling_group=group)
    assert PodInfo.of(both).pod_group == "star"
    assert PodInfo.of(make_pod("a")).pod_group == ""
