"""What a scheduler watches follows from what its profiles read."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.client.kube.cache.informers import POD_GROUPS, READ, selections_of
from policy_sched.model import KINDS
from policy_sched.profiles.build.pipeline import kinds_read, reads_pod_groups
from policy_sched.profiles.models.defaults import DEFAULT_PLUGINS, PLUGIN_READS
from policy_sched.profiles.reload.inputs import PolicyFiles
from tests.profiles.policy_texts import HEAD, gating, write

BARE = {("v1", "Node"), ("v1", "Namespace"), ("v1", "Pod")}


def _read(files: PolicyFiles) -> set[tuple[str, str]]:
    found = files.compile()
    assert not found.problems, found.problems
    return set(kinds_read(found.plans))


def test_the_default_profile_reads_all_but_pod_groups() -> None:
    """It watched PodGroups of the coscheduling plugin, which most clusters do not serve."""
    kinds = _read(PolicyFiles())
    assert kinds == {one.kind for one in READ}
    assert selections_of(kinds) == READ


def test_the_table_names_kinds_and_plugins_that_there_are() -> None:
    """A misspelled kind would never be watched."""
    assert PLUGIN_READS.keys() <= dict(DEFAULT_PLUGINS).keys()
    for kinds in PLUGIN_READS.values():
        assert kinds <= KINDS.keys() & {one.kind for one in READ}


def _profile(*enabled: str) -> dict[str, object]:
    multi = {"enabled": [{"name": name} for name in enabled], "disabled": [{"name": "*"}]}
    sort = {"enabled": [{"name": "PrioritySort"}]}
    binder = {"enabled": [{"name": "DefaultBinder"}]}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": multi, "queueSort": sort, "bind": binder}}],
    }


@pytest.mark.parametrize(
    ("plugin", "kinds"),
    [
        ("NodeName", set()),
        ("VolumeRestrictions", {("v1", "PersistentVolumeClaim")}),
        ("DefaultPreemption", {("policy/v1", "PodDisruptionBudget")}),
        ("NodeResourcesFit", PLUGIN_READS["DynamicResources"]),
    ],
)
def test_a_profile_of_few_plugins_reads_few_kinds(plugin: str, kinds: set[tuple[str, str]]) -> None:
    """NodeResourcesFit reads what devices nodes have, without the plugin that allocates them."""
    assert _read(PolicyFiles(_profile(plugin))) == BARE | kinds


def test_spreading_without_default_constraints_reads_no_workloads() -> None:
    """Services and workloads select the pods of a default constraint only."""
    config = _profile("PodTopologySpread")
    (profile,) = config["profiles"]  # type: ignore[misc]  # a configuration is plain data
    args = {"defaultingType": "List", "defaultConstraints": []}
    profile["pluginConfig"] = [{"name": "PodTopologySpread", "args": args}]
    assert _read(PolicyFiles(config)) == BARE


@pytest.mark.parametrize(
    "policy",
    [
        gating("Gate", "podGroup.members > 1"),
        HEAD.replace("NAME", "Late") + "  postBind: string(podGroup.members)\n",
    ],
)
def test_a_rule_about_groups_reads_both_kinds_of_them(tmp_path: Path, policy: str) -> None:
    """Wherever the rule is."""
    write(tmp_path / "policy.yaml", policy)
    files = PolicyFiles(None, (str(tmp_path),))
    assert _read(files) == {one.kind for one in (*READ, *POD_GROUPS)}
    assert reads_pod_groups(files.compile().plans)
