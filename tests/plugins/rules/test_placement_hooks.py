"""A policy's placement section as a plugin: siblings, conditions and events."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import pytest

from policy_sched.framework.cycle_state import CycleState
from policy_sched.framework.results import Placement
from policy_sched.model.cluster_event import ActionType, ClusterEventWithHint, EventResource
from policy_sched.model.pod_group import POD_GROUP_LABEL
from policy_sched.model.pod_info import PodInfo
from policy_sched.scheduler.placement_search import domains, placement_scores
from policy_sched.scheduler.scheduler import Scheduler
from policy_sched.scheduler.setup.factory import build
from policy_sched.testing import make_node, make_pod

TEXT = """
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Rules}
spec:
  matchConditions: ['pod.podGroup != "free"']
  placement:
    domain: node.labels["rack"]
    score: clamp(10 * placement.assigned.size(), 0, 100)
"""


@pytest.fixture(name="scheduler")
def _scheduler(tmp_path: Path) -> Scheduler:
    """Return a scheduler with the policy and nodes a0, a1, b0."""
    path = tmp_path / "policy.yaml"
    path.write_text(TEXT)
    scheduler = build(None, [str(path)])
    for name in ("a0", "a1", "b0", "c0"):
        scheduler.cache.add_node(make_node(name, labels={"rack": name[0]}))
    return scheduler


def member(name: str, of: str = "ring", **spec: str) -> PodInfo:
    """Return a pod of a group."""
    return PodInfo.of(make_pod(name, labels={POD_GROUP_LABEL: of}, **spec))  # type: ignore[arg-type]  # its keywords


def parted(scheduler: Scheduler, pod: PodInfo) -> list[str] | None:
    """Return the names of the domains that a pod's group may go to."""
    runner = scheduler.profiles["default-scheduler"].runner
    found = domains(runner, CycleState(), [pod], scheduler.handle.nodes)
    return None if found is None else list(found.rows)


class TestDomains:
    """Where a group may go."""

    def test_every_domain_is_offered_before_a_member_runs(self, scheduler: Scheduler) -> None:
        """A group whose conditions do not hold has no domains."""
        assert parted(scheduler, member("x")) == ["a", "b", "c"]
        assert parted(scheduler, member("x", of="free")) is None

    def test_siblings_decide(self, scheduler: Scheduler) -> None:
        """Their domains; a sibling on a node without a domain does not count."""
        scheduler.cache.add_node(make_node("loose"))
        scheduler.cache.add_pod(member("w", node_name="loose"))
        assert parted(scheduler, member("x")) == ["a", "b", "c"]
        scheduler.cache.add_pod(member("y", node_name="b0"))
        scheduler.cache.add_pod(member("other", of="else", node_name="c0"))
        assert parted(scheduler, member("x")) == ["b"]
        scheduler.cache.add_pod(member("z", node_name="a1"))
        assert parted(scheduler, member("x")) == ["a", "b"]


class TestScore:
    """The variables of the score."""

    def test_all_of_the_group_that_are_in_the_domain(self, scheduler: Scheduler) -> None:
        """Those that run there and those that would; each once, and no others."""
        scheduler.cache.add_pod(member("old", node_name="a0"))
        scheduler.cache.add_pod(member("far", node_name="b0"))
        new = member("new")
        scheduler.cache.assume(new, "a1")
        runner = scheduler.profiles["default-scheduler"].runner
        placement = Placement("a", np.array([0, 1], np.intp), ((new, "a1"),))
        assert placement_scores(runner, CycleState(), [new], placement) == {"Rules": 20}
        free = member("x", of="free")
        assert placement_scores(runner, CycleState(), [free], placement) == {"Rules": 0}


def events(scheduler: Scheduler) -> dict[EventResource, ActionType]:
    """Return what the policy registers for, by kind of object."""
    pipeline = scheduler.profiles["default-scheduler"].pipeline
    (hook,) = (h for h in pipeline.at("events_to_register") if h.plugin == "Rules")
    found: dict[EventResource, ActionType] = {}
    for one in cast("tuple[ClusterEventWithHint, ...]", hook.function()):
        kind = one.event.resource
        found[kind] = found.get(kind, ActionType(0)) | one.event.action
    return found


def test_events_that_may_give_a_group_a_domain(scheduler: Scheduler) -> None:
    """Nodes added or relabelled, the group's pods and object; free resources are not among them."""
    found = events(scheduler)
    assert ActionType.ADD in found[EventResource.NODE]
    assert ActionType.UPDATE_NODE_LABEL in found[EventResource.NODE]
    assert ActionType.UPDATE_NODE_ALLOCATABLE not in found[EventResource.NODE]
    assert EventResource.ASSIGNED_POD not in found
    assert EventResource.POD_GROUP in found


def test_a_domain_that_depends_on_what_runs(tmp_path: Path) -> None:
    """Then added and deleted pods change the domains."""
    path = tmp_path / "policy.yaml"
    text = TEXT.replace('node.labels["rack"]', "'string(node.podCount > 3)'")
    path.write_text(text)
    found = events(build(None, [str(path)]))
    assert ActionType.DELETE in found[EventResource.ASSIGNED_POD]
