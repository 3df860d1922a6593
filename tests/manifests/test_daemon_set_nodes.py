"""On which nodes a daemon set's pod runs."""

from __future__ import annotations

from policy_sched.manifests.workload_expansion import may_stay, should_run
from policy_sched.testing import make_node, make_pod


def test_labels_names_and_taints_decide() -> None:
    """The node's free resources do not."""
    small = make_node("n", cpu="1m", labels={"disk": "ssd"}, taints=["own=x:NoSchedule"])
    assert not should_run(make_pod(), small)
    bears = [{"key": "own", "operator": "Exists"}]
    assert should_run(make_pod(cpu="64", tolerations=bears), small)
    assert not should_run(make_pod(tolerations=bears, node_selector={"disk": "hdd"}), small)
    assert not should_run(make_pod(tolerations=bears, node_name="other"), small)
    assert should_run(make_pod(), make_node("n", taints=["soft=x:PreferNoSchedule"]))


def test_a_pod_that_runs_is_driven_out_by_no_execute_alone() -> None:
    """A taint NoSchedule comes too late for it."""
    assert may_stay(make_pod(), make_node("n", taints=["own=x:NoSchedule"]))
    assert not may_stay(make_pod(), make_node("n", taints=["own=x:NoExecute"]))
