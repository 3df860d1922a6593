"""Extenders of a configuration: what their clients get, and what the profiles get."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from policy_sched.plugins.extenders.http_extender import ExtenderSettings, TlsSettings
from policy_sched.profiles.load import load_policies
from policy_sched.profiles.load.configuration import LoadedConfig, config_from_value
from policy_sched.profiles.models.defaults import default_policies
from policy_sched.profiles.resolve.plan import ProfilePlan, resolve

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def loaded(**values: object) -> LoadedConfig:
    found, problems = config_from_value({**HEAD, **values})
    assert not problems
    assert found is not None
    return found


def plan_of(**values: object) -> ProfilePlan:
    policies, _ = load_policies([str(default_policies())])
    (plan,), problems = resolve(loaded(**values), policies)
    assert not problems
    return plan


def settings(**values: object) -> ExtenderSettings:
    (found,) = plan_of(extenders=[{"urlPrefix": "http://x", **values}]).extenders
    return found


def test_defaults() -> None:
    """An address alone: no verbs, five seconds, whole nodes, every pod."""
    assert settings() == ExtenderSettings("http://x")
    assert not plan_of().extenders


@pytest.mark.parametrize(("text", "seconds"), [("0s", 5.0), ("50ms", 0.05), ("1m", 60.0)])
def test_time_outs(text: str, seconds: float) -> None:
    """Durations become seconds; zero means the default."""
    assert settings(httpTimeout=text).timeout == seconds


def test_everything_given() -> None:
    """Every field of the configuration reaches the client."""
    pem = base64.b64encode(b"pem").decode()
    found = settings(
        filterVerb="f",
        preemptVerb="p",
        prioritizeVerb="s",
        bindVerb="b",
        weight=7,
        nodeCacheCapable=True,
        managedResources=[{"name": "x.com/a"}, {"name": "x.com/b", "ignoredByScheduler": True}],
        ignorable=True,
        podSelector={"matchLabels": {"team": "ml"}},
        tlsConfig={
            "insecure": True,
            "serverName": "n",
            "certData": pem,
            "keyFile": "k",
            "caFile": "c",
        },
    )
    assert (found.filter_verb, found.preempt_verb) == ("f", "p")
    assert (found.prioritize_verb, found.bind_verb, found.weight) == ("s", "b", 7)
    assert found.node_cache_capable
    assert found.ignorable
    assert found.managed_resources == {"x.com/a", "x.com/b"}
    assert found.pod_selector.matches({"team": "ml"})
    assert not found.pod_selector.matches({})
    assert found.tls == TlsSettings(
        insecure=True, server_name="n", cert_data=b"pem", key_file="k", ca_file="c"
    )


def test_an_empty_selector_selects_every_pod() -> None:
    """As everywhere in Kubernetes."""
    assert settings(podSelector={}).pod_selector.matches({})


def test_ignorable_extenders_come_last() -> None:
    """Otherwise the order is that of the file."""
    entries = [
        {"urlPrefix": f"http://{name}", "ignorable": ignorable}
        for name, ignorable in (("a", True), ("b", False), ("c", True), ("d", False))
    ]
    found = [one.url_prefix[-1] for one in plan_of(extenders=entries).extenders]
    assert found == ["b", "d", "a", "c"]


def test_resources_that_the_scheduler_ignores_replace_those_of_the_arguments() -> None:
    """NodeResourcesFit ignores what extenders look after, in every profile, as upstream has it."""
    managed = [{"name": "x.com/a", "ignoredByScheduler": True}, {"name": "x.com/b"}]
    profile: dict[str, Any] = {
        "pluginConfig": [{"name": "NodeResourcesFit", "args": {"ignoredResources": ["y.com/c"]}}]
    }
    entry: dict[str, Any] = {"urlPrefix": "http://x", "managedResources": managed}
    plan = plan_of(profiles=[profile], extenders=[entry])
    assert plan.policies["NodeResourcesFit"].params["ignoredResources"] == ["x.com/a"]
    entry["managedResources"] = managed[1:]
    plan = plan_of(profiles=[profile], extenders=[entry])
    assert plan.policies["NodeResourcesFit"].params["ignoredResources"] == ["y.com/c"]


@pytest.mark.parametrize(
    ("whole", "own", "effective"),
    [
        (None, None, 0),
        (30, None, 30),
        (30, 70, 70),
        (30, 0, 0),
        ("adaptive", None, "adaptive"),
        (0, "adaptive", "adaptive"),
    ],
)
def test_the_percentage_of_a_profile_comes_first(
    whole: object, own: object, effective: object
) -> None:
    """A profile's own value overrides the global one, zero included."""
    profile = {} if own is None else {"percentageOfNodesToScore": own}
    more = {} if whole is None else {"percentageOfNodesToScore": whole}
    assert plan_of(profiles=[profile], **more).percentage_of_nodes_to_score == effective
