"""One plan per profile: points, weights, arguments and parameters.

Extenders of a configuration: what their clients get, and what the profiles get.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from policy_sched.errors import Severity
from policy_sched.plugins.extenders.http_extender import ExtenderSettings, TlsSettings
from policy_sched.profiles.load import LoadedPolicy, load_policies
from policy_sched.profiles.load.configuration import LoadedConfig, config_from_value, default_config
from policy_sched.profiles.models.defaults import default_policies, policies_directory
from policy_sched.profiles.resolve.plan import ProfilePlan, policy_points, resolve, shipped_policies

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
POLICY = """
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Mine}
spec:
  params: {limit: 0.5, gpu: nvidia.com/gpu}
  filter: [{expression: "true"}]
  score: {expression: "1", matchConditions: ["true"]}
"""


def mine(tmp_path: Path) -> LoadedPolicy:
    """Return the policy above."""
    (tmp_path / "mine.yaml").write_text(POLICY, encoding="utf-8")
    (policy,), problems = load_policies([str(tmp_path / "mine.yaml")])
    assert not problems
    return policy


def defaults() -> tuple[LoadedPolicy, ...]:
    """Return the policies of the default profile."""
    return load_policies([str(default_policies())])[0]


def config(*profiles: dict[str, Any], **fields: Any) -> LoadedConfig:
    """Return a configuration that loads."""
    loaded, problems = config_from_value({**HEAD, "profiles": list(profiles), **fields})
    assert loaded is not None, problems
    return loaded


def test_sections_decide_the_points(tmp_path: Path) -> None:
    """A policy runs at the points that its sections stand for."""
    assert policy_points(mine(tmp_path).model.spec) == {"filter", "preScore", "score"}


def test_a_configuration_that_names_a_shipped_policy_has_it() -> None:
    """A configuration that enabled `NodeMetadata` needed `--policies node-metadata` besides."""
    loaded = config(
        {
            "plugins": {"multiPoint": {"enabled": [{"name": "NodeMetadata"}]}},
            "pluginConfig": [{"name": "NodeMetadata", "args": {"metadataKey": "price"}}],
        }
    )
    (plan,), problems = resolve(loaded, defaults())
    assert not problems
    assert plan.policies["NodeMetadata"].params["metadataKey"] == "price"


WATCHER = {"watcherAddress": "http://127.0.0.1:2020"}
INSTALLED: list[tuple[str, str, dict[str, Any], set[str]]] = [
    # A plugin, the points at which its installations enable it, its arguments, and the points at
    # which the policy does nothing.
    ("CapacityScheduling", "preFilter postFilter* reserve", {}, {"reserve"}),
    (
        "Coscheduling",
        "queueSort* preFilter postFilter permit reserve",
        {"permitWaitingTimeSeconds": 10, "podGroupBackoffSeconds": 5},
        set(),
    ),
    ("LoadVariationRiskBalancing", "score", {"safeVarianceMargin": 1, **WATCHER}, set()),
    ("LowRiskOverCommitment", "score", {"smoothingWindowSize": 5, **WATCHER}, set()),
    (
        "NetworkOverhead",
        "preFilter filter score",
        {"namespaces": ["default"], "networkTopologyName": "net-topology-test"},
        {"preFilter"},
    ),
    ("NodeMetadata", "score", {"metadataKey": "rank", "metadataType": "Number"}, set()),
    (
        "NodeResourceTopologyMatch",
        "filter score",
        {"scoringStrategy": {"type": "MostAllocated"}},
        set(),
    ),
    ("NodeResourcesAllocatable", "score*", {"mode": "Least"}, set()),
    (
        "Peaks",
        "score*",
        {"NodePowerModel": {"a": {"k0": 4, "k1": -9, "k2": -0.1}}, **WATCHER},
        set(),
    ),
    ("PodState", "score", {}, set()),
    ("PreemptionToleration", "postFilter*", {"minCandidateNodesPercentage": 10}, set()),
    ("QOSSort", "queueSort*", {}, set()),
    ("SySched", "score", {"defaultProfileNamespace": "default"}, set()),
    ("TargetLoadPacking", "score", {"targetUtilization": 70, **WATCHER}, set()),
]


@pytest.mark.parametrize(
    ("name", "points", "args", "idle"), INSTALLED, ids=[i[0] for i in INSTALLED]
)
def test_configurations_of_installed_plugins_are_taken(
    name: str, points: str, args: dict[str, Any], idle: set[str]
) -> None:
    """Those of CapacityScheduling and of all that ask a load watcher were refused as they stood."""
    plugins = {
        point.rstrip("*"): {"enabled": [{"name": name}]}
        | ({"disabled": [{"name": "*"}]} if point.endswith("*") else {})
        for point in points.split()
    }
    loaded = config({"plugins": plugins, "pluginConfig": [{"name": name, "args": args}]})
    plans, problems = resolve(loaded, defaults())
    assert {problem.message.split(".")[2] for problem in problems} == idle
    (plan,) = plans
    assert all(
        (name, 0) in plan.points[point] or (name, 1) in plan.points[point]
        for point in plugins.keys() - idle
    )


def test_rules_about_the_pod_hold_in_dry_runs_where_pre_filter_is_enabled() -> None:
    """At preFilter and postFilter, as its documentation says, a quota did not hold back victims."""
    plugins = {
        point: {"enabled": [{"name": "CapacityScheduling"}]}
        for point in ("preFilter", "postFilter")
    }
    (plan,), problems = resolve(config({"plugins": plugins}), defaults())
    assert not problems
    assert ("CapacityScheduling", 0) in plan.points["filter"]


def test_every_shipped_policy_has_its_name() -> None:
    """The names by which configurations find shipped policies are those in the files."""
    folders = [one for one in policies_directory().iterdir() if (one / "policy.yaml").is_file()]
    policies, _ = load_policies([str(one / "policy.yaml") for one in folders])
    others = {policy.name for policy in policies} - {policy.name for policy in defaults()}
    assert shipped_policies().keys() == others


def test_a_given_policy_or_plugin_stands_in_for_a_shipped_one(tmp_path: Path) -> None:
    """A file that is given along, or an installed plugin, has its own way."""
    (tmp_path / "gang.yaml").write_text(POLICY.replace("Mine", "Gang"), encoding="utf-8")
    given, _ = load_policies([str(tmp_path / "gang.yaml")])
    loaded = config({"plugins": {"multiPoint": {"enabled": [{"name": "Gang"}]}}})
    (plan,), _ = resolve(loaded, (*defaults(), *given))
    assert plan.policies["Gang"].params == {"limit": 0.5, "gpu": "nvidia.com/gpu"}
    (plan,), _ = resolve(loaded, defaults(), {"Gang": ["filter"]})
    assert "Gang" not in plan.policies


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "NodeMetadataArgs"}, ""),
        (
            {"apiVersion": "v2"},
            (
                'profiles[0].pluginConfig[0].args.apiVersion: Unsupported value: "v2": supported '
                'values: "kubescheduler.config.k8s.io/v1"'
            ),
        ),
        (
            {"kind": "OtherArgs"},
            (
                "args for plugin NodeMetadata were not of type NodeMetadataArgs."
                "kubescheduler.config.k8s.io, got OtherArgs.kubescheduler.config.k8s.io"
            ),
        ),
    ],
)
def test_arguments_of_a_policy_have_a_head(head: dict[str, str], message: str) -> None:
    """Arguments that a Go plugin took were refused for their apiVersion and kind."""
    loaded = config(
        {
            "plugins": {"multiPoint": {"enabled": [{"name": "NodeMetadata"}]}},
            "pluginConfig": [{"name": "NodeMetadata", "args": head}],
        }
    )
    _, problems = resolve(loaded, defaults())
    assert [problem.message for problem in problems] == ([message] if message else [])


def test_a_policy_is_enabled_like_any_plugin(tmp_path: Path) -> None:
    """multiPoint enables a policy with its weight; pluginConfig sets its params."""
    loaded = config(
        {
            "schedulerName": "a",
            "plugins": {"multiPoint": {"enabled": [{"name": "Mine", "weight": 4}]}},
            "pluginConfig": [{"name": "Mine", "args": {"gpu": "amd.com/gpu", "limit": 1}}],
            "percentageOfNodesToScore": 70,
        },
        {"schedulerName": "b"},
        percentageOfNodesToScore=30,
    )
    (a, b), problems = resolve(loaded, [mine(tmp_path)])
    assert not problems
    assert a.points["score"][-1] == ("Mine", 4)
    assert a.points["filter"][-1] == ("Mine", 0)
    assert a.policies["Mine"].params == {"gpu": "amd.com/gpu", "limit": 1.0}
    assert (a.percentage_of_nodes_to_score, b.percentage_of_nodes_to_score) == (70, 30)
    assert "Mine" not in b.plugins


def test_parameters_that_do_not_fit_are_refused_at_their_place(tmp_path: Path) -> None:
    """Arguments of a policy must look like its params."""
    loaded = config(
        {
            "plugins": {"multiPoint": {"enabled": [{"name": "Mine"}]}},
            "pluginConfig": [{"name": "Mine", "args": {"gpus": "x", "limit": "high"}}],
        }
    )
    plans, problems = resolve(loaded, [mine(tmp_path)])
    assert not plans
    assert [p.message for p in sorted(problems, key=lambda p: p.code)] == [
        'unknown parameter "profiles[0].pluginConfig[0].args.gpus"',
        "profiles[0].pluginConfig[0].args.limit: expected a double, found a string",
    ]


def test_a_policy_stands_in_for_an_in_tree_plugin() -> None:
    """The shipped NodeResourcesFit takes upstream's arguments over its own defaults."""
    policies, _ = load_policies([str(default_policies())])
    args = {"scoringStrategy": {"type": "MostAllocated"}, "ignoredResources": ["example.com/x"]}
    loaded = config({"pluginConfig": [{"name": "NodeResourcesFit", "args": args}]})
    (plan,), problems = resolve(loaded, policies)
    assert not problems
    params = plan.policies["NodeResourcesFit"].params
    assert params["ignoredResources"] == ["example.com/x"]
    strategy = params["scoringStrategy"]
    assert isinstance(strategy, dict)
    assert strategy["type"] == "MostAllocated"
    assert strategy["requestedToCapacityRatio"]["shape"]
    assert plan.args["InterPodAffinity"]["hardPodAffinityWeight"] == 1


def test_python_plugins_declare_their_points() -> None:
    """A plugin that is no policy runs at the points it declares."""
    loaded = config({"plugins": {"multiPoint": {"enabled": [{"name": "Theirs"}]}}})
    (plan,), _ = resolve(loaded, (), {"Theirs": {"filter", "permit"}})
    assert plan.points["permit"] == (("Theirs", 0),)
    assert plan.args["Theirs"] == {}


def test_enabling_an_unknown_plugin_is_an_error(tmp_path: Path) -> None:
    """Enabling or configuring a name that nothing has is an error, disabling it a warning."""
    loaded = config(
        {
            "plugins": {
                "score": {"enabled": [{"name": "Mine2"}]},
                "filter": {"disabled": [{"name": "NodePort"}]},
            },
            "pluginConfig": [{"name": "ImageLocalty", "args": {}}],
        }
    )
    plans, problems = resolve(loaded, [mine(tmp_path)])
    assert not plans
    assert [(p.severity, p.hint) for p in problems] == [
        (Severity.ERROR, "did you mean 'ImageLocality'?"),
        (Severity.WARNING, "did you mean 'NodePorts'?"),
        (Severity.ERROR, "did you mean 'Mine'?"),
    ]


def test_profiles_share_one_queue() -> None:
    """A profile with another queue sort than the first one is refused, however it got it."""
    other = {"multiPoint": {"enabled": [{"name": "Sort"}], "disabled": [{"name": "PrioritySort"}]}}
    loaded = config({"schedulerName": "a"}, {"schedulerName": "b", "plugins": other})
    plans, (problem,) = resolve(loaded, (), {"Sort": {"queueSort"}})
    assert not plans
    assert problem.code == "PS311"


def test_default_configuration_with_policies(tmp_path: Path) -> None:
    """Without a configuration, given policies run after the default plugins with weight 1."""
    (plan,), problems = resolve(default_config(["Mine"]), [mine(tmp_path)])
    assert not problems
    assert plan.scheduler_name == "default-scheduler"
    assert plan.points["score"][-1] == ("Mine", 1)
    assert plan.points["filter"][-1] == ("Mine", 0)


def test_two_queue_sorts_are_answered_with_a_configuration(tmp_path: Path) -> None:
    """A policy with queueSort, without --config, ended in "required, but got 2" and no advice."""
    (tmp_path / "sort.yaml").write_text(
        POLICY.partition("spec:")[0] + "spec: {queueSort: [{expression: pod.priority}]}\n"
    )
    policies, problems = load_policies([str(tmp_path / "sort.yaml")])
    assert not problems
    default = default_config([policy.name for policy in policies])
    shipped, _ = load_policies([str(default_policies())])
    _, (problem,) = resolve(default, [*shipped, *policies])
    assert problem.message.endswith("only one queue sort plugin required, but got 2")
    _, _, written = problem.hint.partition("profiles: ")
    chosen = config(*yaml.safe_load(written))
    (plan,), problems = resolve(chosen, [*shipped, *policies])
    assert not problems
    assert plan.points["queueSort"] == (("Mine", 0),)


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


def test_an_extender_with_an_address_alone_has_the_defaults() -> None:
    """An address alone: no verbs, five seconds, whole nodes, every pod."""
    assert settings() == ExtenderSettings("http://x")
    assert not plan_of().extenders


@pytest.mark.parametrize(("text", "seconds"), [("0s", 5.0), ("50ms", 0.05), ("1m", 60.0)])
def test_timeouts_of_extenders_are_seconds(text: str, seconds: float) -> None:
    """Durations become seconds; zero means the default."""
    assert settings(httpTimeout=text).timeout == seconds


def test_every_field_of_an_extender_reaches_its_client() -> None:
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


JOINING = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: %s}
spec:
  profiles: %s
  weight: 3
  score: {expression: 5}
"""


def joining(folder: Path, name: str, profiles: str) -> LoadedPolicy:
    """Return a policy that names profiles."""
    (folder / f"{name}.yaml").write_text(JOINING % (name, profiles))
    ((policy,), problems) = load_policies([str(folder / f"{name}.yaml")])
    assert not problems
    return policy


def test_a_policy_joins_the_profiles_that_it_names(tmp_path: Path) -> None:
    """After what the profile enables, in order of name, with the weight that it states."""
    policies = [joining(tmp_path, name, "[a]") for name in ("late", "early")]
    plans, problems = resolve(config({"schedulerName": "a"}, {"schedulerName": "b"}), policies)
    assert not problems
    assert [plan.points["score"][-2:] for plan in plans] == [
        (("early", 3), ("late", 3)),
        plans[0].points["score"][-4:-2],
    ]


@pytest.mark.parametrize("how", ["enabled", "disabled"])
def test_a_policy_that_the_configuration_names_joins_no_other_profile(
    tmp_path: Path, how: str
) -> None:
    """What the configuration says of a name counts; its own weight counts where none is stated."""
    policy = joining(tmp_path, "mine", "[b]")
    named = {"schedulerName": "a", "plugins": {"multiPoint": {how: [{"name": "mine"}]}}}
    plans, problems = resolve(config(named, {"schedulerName": "b"}), [policy])
    assert [p.message for p in problems] == []
    weights = [dict(plan.points["score"]).get("mine") for plan in plans]
    assert weights == [3 if how == "enabled" else None, None]


def test_a_profile_that_is_not_there_is_a_warning_in_the_policy(tmp_path: Path) -> None:
    """Another scheduler may have the profile; a typing error is seen."""
    policy = joining(tmp_path, "mine", "[a, default-scheduler]")
    (plan,), (problem,) = resolve(default_config(), [policy])
    assert "mine" in plan.plugins
    assert (problem.severity, problem.line) == (Severity.WARNING, 5)
    assert problem.message == 'spec.profiles[0]: Not found: "a": no profile has this schedulerName'
    (plan,), (one, two) = resolve(
        default_config(), [joining(tmp_path, "m", "[defualt-scheduler, a]")]
    )
    assert one.hint == "did you mean 'default-scheduler'?"
    assert two.hint == "the profiles are default-scheduler"


def test_a_policy_that_sorts_the_queue_joins_no_profile(tmp_path: Path) -> None:
    """The problem is told where it can be mended, not at the profile that sorts already."""
    text = (JOINING % ("mine", "[default-scheduler]")).replace(
        "score: {expression: 5}", "queueSort: [{expression: pod.priority}]"
    )
    (tmp_path / "sort.yaml").write_text(text)
    policies, _ = load_policies([str(tmp_path / "sort.yaml")])
    plans, (problem,) = resolve(default_config(), policies)
    assert not plans
    assert (problem.file, problem.line) == (str(tmp_path / "sort.yaml"), 5)
    assert problem.message.startswith("spec.profiles: Forbidden: the policy sorts the queue")


def test_an_audited_policy_joins_profiles_like_another_one(tmp_path: Path) -> None:
    """`spec.profiles` and `spec.weight` say where a policy counts, not what it does."""
    text = (JOINING % ("mine", "[default-scheduler]")).replace(
        "  weight", "  enforcement: Audit\n  weight"
    )
    (tmp_path / "audit.yaml").write_text(text)
    policies, problems = load_policies([str(tmp_path / "audit.yaml")])
    assert not problems
    (plan,), problems = resolve(default_config(), policies)
    assert not problems
    assert list(plan.audits) == ["mine"]
