"""Workloads expanded: names, labels, owners and claims of the objects of their controllers.

On which nodes a daemon set's pod runs.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from policy_sched.manifests import workload_expansion as expansion
from policy_sched.manifests.workload_expansion import Owner, may_stay, should_run
from policy_sched.testing import make_node, make_pod


def workload(kind: str, **spec: Any) -> dict[str, Any]:
    """Return a workload called web."""
    meta = {"labels": {"app": "web"}, "annotations": {"note": "n"}}
    template = {"metadata": meta, "spec": {"containers": [{"name": "c"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web", "namespace": "team", "uid": "u"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {**template, **spec.pop("template", {})},
            **spec,
        },
    }


@given(st.text(max_size=20), st.text(alphabet="abc-", min_size=1, max_size=80))
def test_generated_names_are_short_and_of_safe_letters(seed: str, base: str) -> None:
    """At most 63 characters; the same seed gives the same name."""
    name = expansion.generated_name(base, seed)
    assert len(name) <= 63
    assert set(name[-5:]) <= set(expansion.ALPHABET)
    assert name == expansion.generated_name(base, seed)


def test_a_replica_set_carries_the_hash_of_its_template() -> None:
    """In its name, its labels, its selector and its pods' labels; another template, another."""
    made = expansion.replica_set_of(workload("Deployment", replicas=3))
    found = made["metadata"]["labels"][expansion.TEMPLATE_HASH]
    assert made["metadata"]["name"] == f"web-{found}"
    assert made["spec"]["replicas"] == 3
    wanted = {"app": "web", expansion.TEMPLATE_HASH: found}
    assert made["spec"]["selector"]["matchLabels"] == wanted
    assert made["spec"]["template"]["metadata"]["labels"] == wanted
    changed = workload("Deployment", template={"spec": {"containers": []}})
    assert expansion.replica_set_of(changed)["metadata"]["name"] != made["metadata"]["name"]


def test_a_replica_is_its_template_and_names_its_owner() -> None:
    """Nothing of the template is shared with it."""
    given_set = workload("ReplicaSet")
    template = expansion.template_of(given_set)
    pod = expansion.replica(Owner.of(given_set), template, "seed")
    assert pod["metadata"]["namespace"] == "team"
    assert pod["metadata"]["annotations"] == {"note": "n"}
    (owner,) = pod["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("ReplicaSet", "u", True)
    pod["spec"]["containers"][0]["name"] = "other"
    assert template["spec"]["containers"][0]["name"] == "c"


def test_a_stateful_pod_has_its_number_and_its_claims() -> None:
    """A claim's volume replaces one of the same name in the template."""
    claim = {"metadata": {"name": "data", "labels": {"x": "y"}}, "spec": {"accessModes": []}}
    given_set = workload(
        "StatefulSet",
        serviceName="svc",
        volumeClaimTemplates=[claim],
        template={"spec": {"containers": [], "volumes": [{"name": "data"}, {"name": "tmp"}]}},
    )
    pod = expansion.stateful_pod(given_set, 2)
    assert pod["metadata"]["name"] == "web-2"
    assert pod["metadata"]["labels"][expansion.POD_INDEX] == "2"
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("web-2", "svc")
    assert pod["spec"]["volumes"] == [
        {"name": "tmp"},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-2"}},
    ]
    (made,) = expansion.stateful_claims(given_set, 2)
    assert made["metadata"]["name"] == "data-web-2"
    assert made["metadata"]["labels"] == {"x": "y", "app": "web"}


def test_a_job_pod_knows_its_job_and_its_index() -> None:
    """Index, name and host name belong together."""
    pod = expansion.job_pod(workload("Job"), "seed", 3)
    assert pod["metadata"]["name"].startswith("web-3-")
    assert pod["metadata"]["labels"][expansion.JOB_INDEX] == "3"
    assert pod["metadata"]["annotations"][expansion.JOB_INDEX] == "3"
    assert pod["spec"]["hostname"] == "web-3"
    plain = expansion.job_pod(workload("Job"), "seed")
    assert plain["metadata"]["labels"]["job-name"] == "web"
    assert expansion.JOB_INDEX not in plain["metadata"]["labels"]


def test_a_daemon_pod_is_for_one_node_and_bears_what_ails_nodes() -> None:
    """The template's own node affinity was checked earlier, and is replaced."""
    pod = expansion.daemon_pod(workload("DaemonSet"), "n1")
    required = pod["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    (term,) = required["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    assert len(pod["spec"]["tolerations"]) == 6
    host = workload("DaemonSet", template={"spec": {"hostNetwork": True}})
    assert len(expansion.daemon_pod(host, "n1")["spec"]["tolerations"]) == 7


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
