"""Pods that a workload has already."""

from __future__ import annotations

import msgspec
import pytest

from policy_sched.manifests.workload_expansion import TEMPLATE_HASH
from policy_sched.model.pod import Pod, PodTemplate
from policy_sched.simulate.workloads_owned import active, daemon_nodes, same_template


@pytest.mark.parametrize(
    ("phase", "deleted", "counts"),
    [
        ("", None, True),
        ("Running", None, True),
        ("Succeeded", None, False),
        ("Failed", None, False),
        ("Running", "2026-01-01T00:00:00Z", False),
    ],
)
def test_a_pod_counts_until_it_has_ended_or_leaves(
    phase: str, deleted: str | None, *, counts: bool
) -> None:
    """One that is being deleted is replaced at once."""
    metadata = {"name": "p", "deletionTimestamp": deleted}
    pod = msgspec.convert({"metadata": metadata, "status": {"phase": phase}}, Pod)
    assert active(pod) is counts


def test_a_daemon_is_for_the_node_that_it_runs_on_or_was_made_for() -> None:
    """The node's name, or the one that its affinity requires; else nobody's."""
    field = {"key": "metadata.name", "operator": "In", "values": ["n2"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    for spec, nodes in (
        ({"nodeName": "n1"}, {"n1"}),
        ({"affinity": affinity}, {"n2"}),
        ({}, set()),
    ):
        pod = msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, Pod)
        assert daemon_nodes(pod) == nodes


def test_templates_are_the_same_but_for_the_hash() -> None:
    """The label that the controller adds does not count; any other does."""
    plain, hashed, other = (
        msgspec.convert({"metadata": {"labels": labels}}, PodTemplate)
        for labels in ({"a": "1"}, {"a": "1", TEMPLATE_HASH: "x"}, {"a": "2"})
    )
    assert same_template(plain, hashed)
    assert not same_template(plain, other)
