"""Refusals: a pod that an unbuilt plugin would decide is refused, every other one is not."""

from __future__ import annotations

from policy_sched.model.pod_info import PodInfo
from policy_sched.plugins.unsupported import UNSUPPORTED, UnsupportedFeatures
from policy_sched.testing import make_pod


def test_a_plain_pod_is_decided() -> None:
    """Nothing is refused that the built plugins decide, spread and affinity included."""
    pod = make_pod(
        topology_spread_constraints=[{"maxSkew": 1, "topologyKey": "zone"}],
        affinity={"podAffinity": {}},
    )
    assert UnsupportedFeatures(UNSUPPORTED).reason(PodInfo.of(pod)) == ""


def test_a_disabled_plugin_refuses_nothing() -> None:
    """A profile without the plugin does not ask for what it decides."""
    pod = PodInfo.of(make_pod(resource_claims=[{"name": "gpu"}]))
    assert UnsupportedFeatures(["NodeDeclaredFeatures"]).reason(pod) == ""
    assert "which plugin DynamicResources decides" in UnsupportedFeatures(
        ["DynamicResources"]
    ).reason(pod)


def test_a_refusal_names_the_plugin_and_the_pods_field() -> None:
    """It names the pod and the plugin, and says that nothing was guessed."""
    rules = [{"action": "RestartAllContainers"}]
    containers = [{"name": "c", "restartPolicyRules": rules}]
    pod = PodInfo.of(make_pod(containers=containers))
    assert UnsupportedFeatures(UNSUPPORTED).reason(pod) == (
        "container 'c' restarts all containers when it exits, which plugin NodeDeclaredFeatures "
        "decides (features that nodes declare); this version does not have it yet, and does not "
        "guess"
    )
