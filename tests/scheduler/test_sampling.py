"""percentageOfNodesToScore in whole schedulers."""

from __future__ import annotations

import numpy as np

from policy_sched.framework.evaluate.views import NOT_ASKED
from policy_sched.model.pod_info import PodInfo
from policy_sched.scheduler.attempt import Bind
from policy_sched.scheduler.scheduler import Scheduler
from policy_sched.scheduler.setup.factory import build
from policy_sched.testing import make_node, make_pod

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
NODES = 300


def scheduler_of(**config: object) -> Scheduler:
    scheduler = build({**HEAD, **config})
    for i in range(NODES):
        scheduler.cache.add_node(make_node(f"n{i}"))
    return scheduler


def looked_at(scheduler: Scheduler, name: str, profile: str = "default-scheduler") -> list[int]:
    """Schedule a pod and return the evaluated rows; its node is one of them."""
    pod = PodInfo.of(make_pod(name, cpu="1", scheduler_name=profile))
    assert scheduler.add_pod(pod) is None
    outcome = scheduler.schedule_one()
    assert outcome is not None
    assert isinstance(outcome.decision, Bind)
    rows = np.flatnonzero(outcome.decision.evaluation.filtering.first != NOT_ASKED).tolist()
    assert outcome.decision.row in rows
    return rows


def test_all_nodes_are_the_default() -> None:
    """Unset, 0 and 100: every node is evaluated."""
    for config in ({}, {"percentageOfNodesToScore": 0}, {"percentageOfNodesToScore": 100}):
        assert looked_at(scheduler_of(**config), "p") == [*range(NODES)]


def test_the_sample_of_300_nodes_is_48_percent() -> None:
    """Adaptive: 48 percent of 300 nodes, then the next 48."""
    scheduler = scheduler_of(percentageOfNodesToScore="adaptive")
    assert looked_at(scheduler, "p") == [*range(144)]
    assert looked_at(scheduler, "q") == [*range(144, 288)]


def test_profiles_share_where_the_search_goes_on() -> None:
    """A profile's own share overrides the global one, and starts where another profile ended."""
    scheduler = scheduler_of(
        percentageOfNodesToScore=40,
        profiles=[
            {"schedulerName": "a"},
            {"schedulerName": "b", "percentageOfNodesToScore": 50},
            {"schedulerName": "c", "percentageOfNodesToScore": 0},
        ],
    )
    assert looked_at(scheduler, "p", "a") == [*range(120)]
    assert looked_at(scheduler, "q", "b") == [*range(120, 270)]
    assert looked_at(scheduler, "r", "c") == [*range(NODES)]
    assert looked_at(scheduler, "s", "a") == [*range(90), *range(270, 300)]


def test_nodes_that_a_pod_names_are_the_whole_cluster_to_it() -> None:
    """If PreFilter names nodes, the share is one of those, and few are all evaluated."""
    scheduler = scheduler_of(percentageOfNodesToScore=1)
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n7"]}]
    terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    scheduler.add_pod(PodInfo.of(make_pod("p", affinity=affinity)))
    outcome = scheduler.schedule_one()
    assert outcome is not None
    assert outcome.node == "n7"
