"""The printed manifests: valid, safe, following their ConfigMaps, and the same every time.

Alerts and dashboard: every name in them is one that a scheduler's /metrics has.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from base64 import b64decode
from importlib.resources import files
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from kubernetes import client

from policy_sched import __version__
from policy_sched.cli.main import run
from policy_sched.deploy.manifests import Options, alert_rules, dashboard
from policy_sched.manifests import load
from policy_sched.profiles.models import CUSTOM_RESOURCES
from policy_sched.profiles.reload.inputs import PolicyFiles
from tests.instance.app import test_published_quotas
from tests.instance.app.test_inputs import definition
from tests.shown import page

Plain = dict[str, Any]
POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: %s}
spec:
  filter:
  - expression: node.name != "a"   # a comment stays
    message: not there
"""
CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {resourceName: mine, resourceNamespace: here}
profiles: [{schedulerName: x}]
"""


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    """Two policies, and a test that stays at home."""
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "one.yaml").write_text(POLICY % "One")
    (folder / "two.yaml").write_text(POLICY % "TaintToleration")
    (folder / "tests.yaml").write_text("name: x\npending: [{pod: p}]\nexpect: [{pod: p}]\n")
    return folder


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run the verb and return what it prints."""
    assert run(["manifests", *arguments]) == 0
    return capsys.readouterr().out


def documents(text: str) -> dict[tuple[str, str], Plain]:
    """Return the objects by kind and name."""
    items = [item for item in yaml.load_all(text, yaml.CSafeLoader) if item]
    named = {(item["kind"], item["metadata"]["name"]): item for item in items}
    assert len(named) == len(items)
    return named


def test_the_objects_are_there_in_an_order_in_which_they_can_be_made(
    capsys: pytest.CaptureFixture[str], policies: Path
) -> None:
    """A namespace before what is in it, an account before what uses it."""
    monitored = ("--service-monitor", "--alerts", "--dashboard")
    text = printed(capsys, "--policies", str(policies), "--namespace", "s", *monitored)
    assert list(documents(text)) == [
        ("Namespace", "s"),
        ("ServiceAccount", "policy-sched"),
        ("ClusterRole", "policy-sched"),
        ("ClusterRoleBinding", "policy-sched"),
        ("ClusterRoleBinding", "policy-sched:auth-delegator"),
        ("Role", "policy-sched:leader-election"),
        ("RoleBinding", "policy-sched:leader-election"),
        ("FlowSchema", "policy-sched-leader-election"),
        ("FlowSchema", "policy-sched"),
        ("ConfigMap", "policy-sched-config"),
        ("ConfigMap", "policy-sched-policies"),
        ("Deployment", "policy-sched"),
        ("PodDisruptionBudget", "policy-sched"),
        ("Service", "policy-sched"),
        ("ServiceMonitor", "policy-sched"),
        ("PrometheusRule", "policy-sched"),
        ("ConfigMap", "policy-sched-dashboard"),
    ]
    again = printed(capsys, "--policies", str(policies), "--namespace", "s", *monitored)
    assert again == text


def test_json_says_the_same(capsys: pytest.CaptureFixture[str], policies: Path) -> None:
    """A List of the same objects."""
    arguments = ("--policies", str(policies))
    as_yaml = [
        item for item in yaml.load_all(printed(capsys, *arguments), yaml.CSafeLoader) if item
    ]
    as_json = json.loads(printed(capsys, *arguments, "-o", "json"))
    assert as_json == {"apiVersion": "v1", "kind": "List", "items": as_yaml}


def test_our_own_model_reads_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], policies: Path
) -> None:
    """Kinds, shapes and quantities are as Kubernetes has them."""
    path = tmp_path / "all.yaml"
    path.write_text(printed(capsys, "--policies", str(policies)))
    document = load([str(path)])
    assert document.diagnostics == []


def test_kubernetes_own_models_know_every_field(
    capsys: pytest.CaptureFixture[str], policies: Path
) -> None:
    """Read and written again by the official client, which drops what it does not know."""
    text = printed(capsys, "--policies", str(policies), "--namespace", "s", "--service-monitor")
    for (kind, _), document in documents(text).items():
        if kind == "ServiceMonitor":
            continue  # it is the Prometheus operator's
        model = getattr(client, f"V1{kind}").from_dict(document)
        assert client.ApiClient().sanitize_for_serialization(model) == document


def test_the_files_go_in_as_they_are_and_enable_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], policies: Path
) -> None:
    """Comments included; a policy in place of a default plugin needs no enabling."""
    manifests = documents(printed(capsys, "--policies", str(policies), "--scheduler-name", "mine"))
    data = manifests["ConfigMap", "policy-sched-policies"]["data"]
    assert data == {"one.yaml": POLICY % "One", "two.yaml": POLICY % "TaintToleration"}
    config = manifests["ConfigMap", "policy-sched-config"]["data"]["config.yaml"]
    (tmp_path / "config.yaml").write_text(config)
    made = PolicyFiles(str(tmp_path / "config.yaml"), (str(policies),)).compile()
    assert made.problems == ()
    (plan,) = made.plans
    assert plan.plan.scheduler_name == "mine"
    assert set(plan.plan.plugins) >= {"One", "TaintToleration"}


def test_a_configuration_of_ones_own_names_profile_and_lease(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The role is in the lease's namespace, for the lease's name."""
    config = tmp_path / "any.yaml"
    config.write_text(CONFIG)
    manifests = documents(printed(capsys, "--config", str(config), "--name", "other"))
    assert manifests["ConfigMap", "other-config"]["data"] == {"config.yaml": CONFIG}
    role = manifests["Role", "other:leader-election"]
    assert role["metadata"]["namespace"] == "here"
    assert role["rules"][1]["resourceNames"] == ["mine"]
    assert ("ConfigMap", "other-policies") not in manifests
    arguments = container(manifests, "other")["args"]
    assert arguments == [
        "run",
        "--kubeconfig=in-cluster",
        "--config=/etc/policy-sched/config/config.yaml",
    ]
    config.write_text(CONFIG.replace("{resourceName: mine,", "{leaderElect: false,"))
    manifests = documents(printed(capsys, "--config", str(config)))
    assert not [name for kind, name in manifests if kind == "Role"]


def container(documents: dict[tuple[str, str], Plain], name: str = "policy-sched") -> Plain:
    """Return the only container."""
    (item,) = documents["Deployment", name]["spec"]["template"]["spec"]["containers"]
    assert isinstance(item, dict)
    return item


def test_the_container_may_nothing_that_it_need_not(
    capsys: pytest.CaptureFixture[str], policies: Path
) -> None:
    """The restricted profile of the pod security standards, and a root that cannot be written."""
    manifests = documents(printed(capsys, "--policies", str(policies)))
    pod = manifests["Deployment", "policy-sched"]["spec"]["template"]["spec"]
    item = container(manifests)
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert item["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert item["resources"]["limits"]["memory"]
    assert pod["priorityClassName"] == "system-cluster-critical"
    assert not manifests["ServiceAccount", "policy-sched"]["automountServiceAccountToken"]
    assert {probe["httpGet"]["path"] for name, probe in item.items() if name.endswith("Probe")} == {
        "/livez",
        "/readyz",
    }


def test_changes_of_the_config_maps_arrive(
    capsys: pytest.CaptureFixture[str], policies: Path
) -> None:
    """Nothing is mounted by subPath, which never changes; what the arguments name is mounted."""
    manifests = documents(printed(capsys, "--policies", str(policies)))
    item = container(manifests)
    assert all("subPath" not in mount for mount in item["volumeMounts"])
    mounted = {mount["mountPath"] for mount in item["volumeMounts"]}
    named = {word.partition("=")[2] for word in item["args"] if word.startswith(("--c", "--p"))}
    assert named == {"/etc/policy-sched/config/config.yaml", "/etc/policy-sched/policies"}
    assert {"/etc/policy-sched/config", "/etc/policy-sched/policies"} < mounted


def test_two_replicas_apart_and_a_budget(capsys: pytest.CaptureFixture[str]) -> None:
    """One replica needs no budget, which would keep its node from being drained."""
    manifests = documents(printed(capsys))
    deployment = manifests["Deployment", "policy-sched"]["spec"]
    assert deployment["replicas"] == 2
    apart = deployment["template"]["spec"]["topologySpreadConstraints"]
    assert [item["topologyKey"] for item in apart] == [
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    ]
    assert manifests["PodDisruptionBudget", "policy-sched"]["spec"]["maxUnavailable"] == 1
    manifests = documents(printed(capsys, "--replicas", "1", "--image", "registry/x@sha256:0"))
    assert ("PodDisruptionBudget", "policy-sched") not in manifests
    assert container(manifests)["image"] == "registry/x@sha256:0"


def test_a_shadow_has_no_right_to_write(capsys: pytest.CaptureFixture[str], policies: Path) -> None:
    """One replica, no lease, and only list and watch; its records have a place."""
    manifests = documents(printed(capsys, "--shadow", "--policies", str(policies), "--name", "try"))
    verbs = {verb for rule in manifests["ClusterRole", "try"]["rules"] for verb in rule["verbs"]}
    assert verbs == {"list", "watch"}
    assert ("Role", "try:leader-election") not in manifests
    assert manifests["Deployment", "try"]["spec"]["replicas"] == 1
    assert container(manifests, "try")["args"][-2:] == [
        "--shadow=default-scheduler",
        "--shadow-log=/var/log/policy-sched/shadow.jsonl",
    ]
    config = yaml.load(
        manifests["ConfigMap", "try-config"]["data"]["config.yaml"], yaml.CSafeLoader
    )
    assert config["leaderElection"] == {"leaderElect": False}
    assert config["profiles"][0]["schedulerName"] == "default-scheduler"


def test_a_folder_without_policies_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside the manifests, which are printed as without it."""
    assert run(["manifests", "--policies", str(tmp_path)]) == 0
    told = capsys.readouterr()
    assert told.err.endswith("warning PS704: there is no policy in this directory\n")
    assert told.out == printed(capsys)


def test_policies_of_one_name_are_distinguished_by_their_folders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in policies/NAME/policy.yaml."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy.yaml").write_text(POLICY % name.title())
    manifests = documents(printed(capsys, "--policies", str(tmp_path)))
    data = manifests["ConfigMap", "policy-sched-policies"]["data"]
    assert list(data) == ["policy.yaml", "second-policy.yaml"]


INPUTS = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Quota}
spec:
  inputs:
  - {name: quota, apiVersion: example.com/v1, kind: Quota, schema: crds/quotas.yaml, key: object.name}
  - {name: load, apiVersion: metrics.k8s.io/v1beta1, kind: NodeMetrics, poll: 30s}
  filter:
  - expression: inputs.quota[?pod.namespace].hasValue()
    message: none
"""  # noqa: E501 - an input on a line


def test_inputs_bring_their_rights_and_schemas(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The account could not list what the rules read, and the schema was not mounted."""
    (tmp_path / "crds").mkdir()
    schema = yaml.safe_dump(definition())
    (tmp_path / "crds" / "quotas.yaml").write_text(schema)
    (tmp_path / "policy.yaml").write_text(INPUTS)
    manifests = documents(printed(capsys, "--policies", str(tmp_path / "policy.yaml")))
    rules = manifests["ClusterRole", "policy-sched"]["rules"]
    assert {"apiGroups": ["example.com"], "resources": ["quotas"],
            "verbs": ["get", "list", "watch"]} in rules  # fmt: skip
    assert {"apiGroups": ["metrics.k8s.io"], "resources": ["nodes"],
            "verbs": ["get", "list"]} in rules  # fmt: skip
    watched = {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"]}
    named = {"resourceNames": ["quotas.example.com"], "verbs": ["list", "watch"]}
    assert {**watched, **named} in rules
    data = manifests["ConfigMap", "policy-sched-policies"]["data"]
    assert data == {"policy.yaml": INPUTS, "crds__quotas.yaml": schema}
    volumes = manifests["Deployment", "policy-sched"]["spec"]["template"]["spec"]["volumes"]
    (items,) = [v["configMap"]["items"] for v in volumes if "items" in v.get("configMap", {})]
    assert items == [
        {"key": "policy.yaml", "path": "policy.yaml"},
        {"key": "crds__quotas.yaml", "path": "crds/quotas.yaml"},
    ]
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "p.yaml").write_text(INPUTS.replace("crds/", "../crds/"))
    (tmp_path / "below" / ".git").mkdir()
    assert run(["manifests", "--policies", str(tmp_path / "below" / "p.yaml")]) == 1
    assert "leads out of the policy's repository" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--name", "Upper"], "--name 'Upper' is no name of Kubernetes"),
        (["--namespace", "a" * 64], "is no name of Kubernetes"),
        (["--scheduler-name", "a..b"], "--scheduler-name 'a..b' is no name"),
        (["--shadow", "A"], "--shadow 'A' is no name"),
        (["--shadow", "a", "b"], "--shadow takes one scheduler's name, not 2"),
        (["--shadow", "--replicas", "2"], "a shadow holds no lease: one replica is enough"),
        (["--replicas", "0"], "--replicas must be 1 at least"),
        (["--image", "a b"], "--image 'a b' is no name of an image"),
        (["--config", "CONFIG", "--scheduler-name", "x"], "--scheduler-name is for when"),
        (["--policies", "nowhere.yaml"], "nowhere.yaml"),
        (["--policies", "BAD NAME"], "can be no key of a ConfigMap; rename the file"),
        (["--policies", "SAME"], "a ConfigMap has 'x-p.yaml' already; rename the file"),
        (["--policies", "LARGE"], "a ConfigMap holds 1048576 at most"),
    ],
)
def test_what_no_cluster_would_take_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    """Exit code 2, and nothing is printed."""
    (tmp_path / "CONFIG").write_text(CONFIG)
    (tmp_path / "BAD NAME").mkdir()
    (tmp_path / "BAD NAME" / "my policy.yaml").write_text(POLICY % "A")
    for number, folder in enumerate(("SAME/w/x", "SAME/y/x", "SAME/z/x")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "p.yaml").write_text(POLICY % f"P{number}")
    (tmp_path / "LARGE").mkdir()
    for number in range(3):
        padding = "# " + "x" * 400_000 + "\n"
        (tmp_path / "LARGE" / f"p{number}.yaml").write_text(padding + POLICY % f"P{number}")
    named = [
        str(tmp_path / argument) if argument.isupper() and len(argument) > 3 else argument
        for argument in arguments
    ]
    assert run(["manifests", *named]) == 2
    shown = capsys.readouterr()
    assert words in shown.err
    assert shown.out == ""


def test_mistakes_in_the_files_have_a_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are checked before anything is printed."""
    policy = tmp_path / "bad.yaml"
    policy.write_text((POLICY % "Bad").replace("node.name", "node.nam"))
    assert run(["manifests", "--policies", str(policy)]) == 1
    shown = capsys.readouterr()
    assert f"{policy}:6:22: error PS102" in shown.err
    assert shown.out == ""


def test_the_dockerfile_is_in_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    """From a wheel, in two stages, as a user that owns nothing; versions are arguments."""
    text = printed(capsys, "--dockerfile")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    words = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert words[:2] == ["ARG", "FROM"]
    assert words.count("FROM") == 2
    assert all("${PYTHON}" in line for line in lines if line.startswith("FROM"))
    users = [line.split()[1] for line in lines if line.startswith("USER")]
    assert users == ["65532:65532"]
    assert lines.index("USER 65532:65532") > max(
        number for number, line in enumerate(lines) if line.startswith(("FROM", "COPY", "RUN"))
    )
    assert 'ENTRYPOINT ["policy-sched"]' in lines
    assert not re.search(r"\bADD\b|:latest|sudo|curl|apt-get", text)
    assert f"policy-sched:{__version__}" in text


def test_the_image_keeps_the_rules_that_its_scheduler_looks_for(tmp_path: Path) -> None:
    """Its own RUN line, here: a replica that took over compiled the default rules for 0.25 s."""
    recipe = files("policy_sched.deploy").joinpath("Dockerfile").read_text("utf-8")
    (line,) = re.findall(r"^RUN (printf .*?[^\\])$", recipe, re.MULTILINE | re.DOTALL)
    (directory,) = set(re.findall(r"POLICY_SCHED_CACHE=(\S+)", recipe))
    cache = tmp_path / "cache"
    command = line.replace(directory, str(cache)).replace("/opt/policy-sched/bin/", "")
    command = command.replace("policy-sched simulate", f"{sys.executable} -m policy_sched simulate")
    subprocess.run(command, shell=True, cwd=tmp_path, check=True, capture_output=True)
    kept = sorted(path.name.rpartition("-")[0] for path in cache.iterdir())
    assert kept == ["default-rules", "grammar"]
    assert all(path.stat().st_mode & 0o004 for path in cache.iterdir())


OPTIONS = Options(name="sched-a")
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \|", re.MULTILINE)
PROMETHEUS = {
    "up": frozenset[str](),
    "process_resident_memory_bytes": frozenset[str](),
    "process_cpu_seconds_total": frozenset[str](),
}
"""Series of Prometheus itself, and of every process."""
TARGET = frozenset({"job", "instance"})


def exposed() -> dict[str, frozenset[str]]:
    """Return the series that docs/operating.md lists, with their labels."""
    series: dict[str, frozenset[str]] = dict(PROMETHEUS)
    for name, kind, labels in ROW.findall(page("docs/operating.md")):
        own = frozenset(re.findall(r"`(\w+)`", labels))
        if kind == "histogram":
            series |= {f"{name}_sum": own, f"{name}_count": own, f"{name}_bucket": own | {"le"}}
        else:
            series[name] = own
    return series


def expressions() -> list[str]:
    """Return every expression of the alerts and of the dashboard."""
    rules = [rule["expr"] for rule in alert_rules(OPTIONS)["groups"][0]["rules"]]
    panels = json.loads(dashboard(OPTIONS))["panels"]
    return rules + [target["expr"] for panel in panels for target in panel["targets"]]


def parsed(expression: str) -> Any:
    """Return an expression as a tree; Grafana has its own interval. ValueError: no PromQL."""
    return promql_parser.parse(expression.replace("$__rate_interval", "5m"))


def unknown(expression: str) -> list[str]:
    """Return the series and the labels in an expression that no scheduler has."""
    series, bad, there = exposed(), [], set(TARGET)
    grouped: set[str] = set()

    def visit(part: Any) -> None:
        if isinstance(part, promql_parser.VectorSelector):
            own = series.get(part.name)
            if own is None:
                bad.append(part.name)
                return
            there.update(own)
            labels = {matcher.name for matcher in part.matchers.matchers} - TARGET
            bad.extend(f"{part.name}.{label}" for label in sorted(labels - own))
        elif isinstance(part, promql_parser.AggregateExpr) and part.modifier is not None:
            grouped.update(part.modifier.labels)

    promql_parser.walk(parsed(expression), visit)
    return bad + sorted(grouped - there)


@pytest.mark.parametrize("expression", expressions())
def test_series_and_labels_of_an_expression_exist(expression: str) -> None:
    """An expression is PromQL, and an alert about a metric that nothing exposes never fires."""
    assert 'job="sched-a"' in expression
    assert unknown(expression) == []


def test_a_wrong_series_or_label_would_be_seen() -> None:
    """The check above sees misspelled series, labels of selectors and of groups, and no PromQL."""
    assert unknown("rate(scheduler_pending_podz{job='a'}[5m])") == ["scheduler_pending_podz"]
    assert unknown("scheduler_pending_pods{que='x'}") == ["scheduler_pending_pods.que"]
    assert unknown("sum by (plugin) (scheduler_pending_pods{job='a'})") == ["plugin"]
    for text in ("rate(scheduler_pending_pods)", "sum by (queue) scheduler_pending_pods", "a +"):
        with pytest.raises(ValueError, match=r"\w"):
            parsed(text)


def names_of_labels(text: str) -> set[str]:
    """Return the labels that a summary or a legend shows."""
    return set(re.findall(r"\{\{ *(?:\$labels\.)?(\w+) *\}\}", text))


def test_labels_that_are_shown_are_in_the_result() -> None:
    """A label that an expression sums away would be an empty word in a page or in a legend."""
    shown = [
        (rule["expr"], rule["annotations"]["summary"] + rule["annotations"]["description"])
        for rule in alert_rules(OPTIONS)["groups"][0]["rules"]
    ] + [
        (target["expr"], target["legendFormat"])
        for panel in json.loads(dashboard(OPTIONS))["panels"]
        for target in panel["targets"]
    ]
    assert len([text for _, text in shown if names_of_labels(text)]) > 8
    for expression, text in shown:
        kept = re.findall(r"\b(?:sum|max|min|count) by \(([^)]*)\)", expression)
        left = set(re.findall(r"\w+", kept[0])) if kept else {"instance"}
        assert names_of_labels(text) <= left, expression


def test_files_for_a_prometheus_and_a_grafana_without_operator(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The same alerts and the same dashboard as in the objects, as files of their own."""
    rules = yaml.load(printed(capsys, "--rule-file", "--name", "sched-a"), yaml.CSafeLoader)
    assert rules == alert_rules(OPTIONS)
    assert printed(capsys, "--dashboard-file", "--name", "sched-a") == dashboard(OPTIONS)


def test_each_alert_says_what_to_do() -> None:
    """Names are unique; each alert has a severity, a summary and a description."""
    rules = alert_rules(OPTIONS)["groups"][0]["rules"]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"].endswith(".")


def test_a_shadow_has_no_alert_about_a_lease() -> None:
    """A shadow holds no lease and binds nothing: `no leader` would fire for ever."""
    shadow = Options(shadow="default-scheduler")
    names = {rule["alert"] for rule in alert_rules(shadow)["groups"][0]["rules"]}
    assert "PolicySchedDown" in names
    assert not {"PolicySchedNoLeader", "PolicySchedStuck"} & names


def test_panels_do_not_overlap() -> None:
    """Each panel has an id and a place of its own, within 24 columns."""
    panels: list[dict[str, Any]] = json.loads(dashboard(OPTIONS))["panels"]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len({panel["id"] for panel in panels}) == len(panels) > 10
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_takes_the_rules(tmp_path: Path) -> None:
    """Prometheus' own check of a rule file, of the alerts and of the dashboard's queries."""
    queries = [
        {"record": f"query:{number}", "expr": text.replace("$__rate_interval", "5m")}
        for number, text in enumerate(expressions())
    ]
    groups = [*alert_rules(OPTIONS)["groups"], {"name": "queries", "rules": queries}]
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"groups": groups}), "utf-8")
    ended = subprocess.run(["promtool", "check", "rules", file], check=False, capture_output=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_documentation_lists_each_alert() -> None:
    """An operator who is paged finds the alert, with its severity, in docs/operating.md."""
    text = page("docs/operating.md")
    rules = alert_rules(OPTIONS)["groups"][0]["rules"]
    rows = [f"| `{rule['alert']}` | {rule['labels']['severity']} |" for rule in rules]
    assert [row for row in rows if row not in text] == []
    assert text.count("| `PolicySched") == len(rows)


def test_published_quotas_bring_their_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The account could not write what a policy publishes; that of a shadow may not."""
    (policy,) = test_published_quotas.written(tmp_path)
    right = {"apiGroups": ["example.com"], "resources": ["budgets/status"], "verbs": ["patch"]}
    manifests = documents(printed(capsys, "--policies", policy))
    assert right in manifests["ClusterRole", "policy-sched"]["rules"]
    shadow = documents(printed(capsys, "--policies", policy, "--shadow", "default-scheduler"))
    assert all(
        right not in item["rules"] for (kind, _), item in shadow.items() if kind == "ClusterRole"
    )


def test_policies_as_objects_need_their_definition_roles_and_rights(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Authors write policies, readers read them, and the scheduler writes their status alone."""
    objects = documents(printed(capsys, "--crds"))
    roles = ["policy-sched:policy-author", "policy-sched:policy-reader"]
    kinds = [own.plural for own in CUSTOM_RESOURCES]
    assert list(objects) == [
        *(("CustomResourceDefinition", f"{plural}.policysched.dev") for plural in kinds),
        *(("ClusterRole", name) for name in roles),
    ]
    (author,), (reader,) = (objects["ClusterRole", name]["rules"] for name in roles)
    assert author["resources"] == reader["resources"] == sorted(kinds)
    assert set(author["verbs"]) - set(reader["verbs"]) == {"create", "update", "patch", "delete"}
    text = printed(capsys, "--policy-objects", "team=a,tier in (x)")
    deployment = documents(text)["Deployment", "policy-sched"]["spec"]["template"]["spec"]
    assert deployment["containers"][0]["args"][-2:] == ["--policy-objects", "team=a,tier in (x)"]
    assert of_ours(text) == {
        tuple(sorted(kinds)): ["get", "list", "watch"],
        tuple(f"{plural}/status" for plural in sorted(kinds)): ["update", "patch"],
    }
    shadow = printed(capsys, "--shadow", "--policy-objects")
    assert of_ours(shadow) == {tuple(sorted(kinds)): ["get", "list", "watch"]}


def of_ours(text: str) -> dict[tuple[str, ...], list[str]]:
    """Return what the scheduler may do to objects of our kinds, by resources."""
    rules = documents(text)["ClusterRole", "policy-sched"]["rules"]
    ours = (rule for rule in rules if rule["apiGroups"] == ["policysched.dev"])
    return {tuple(rule["resources"]): rule["verbs"] for rule in ours}


def test_a_webhook_is_printed_that_trusts_the_certificate_and_never_blocks(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """For policies of the endpoints' path, with the authority that is given, or cert-manager's."""
    authority = tmp_path / "ca.crt"
    authority.write_text("-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n")
    words = ("--crds", "--webhook", "--tls-secret", "cert", "--namespace", "s")
    given = documents(printed(capsys, *words, "--ca-file", str(authority)))
    configuration = given["ValidatingWebhookConfiguration", "policy-sched"]
    assert [hook["name"] for hook in configuration["webhooks"]] == [
        f"validate.{own.plural}.policysched.dev" for own in CUSTOM_RESOURCES
    ]
    hook = configuration["webhooks"][0]
    client = hook["clientConfig"]
    assert b64decode(client["caBundle"]) == authority.read_bytes()
    assert client["service"]["path"] == "/validate"
    service = given["Service", client["service"]["name"]]
    assert service["metadata"]["namespace"] == client["service"]["namespace"] == "s"
    assert service["spec"]["ports"] == [{"name": "https", "port": 443, "targetPort": "https"}]
    assert (hook["failurePolicy"], hook["sideEffects"]) == ("Ignore", "None")
    assert hook["timeoutSeconds"] == 5
    injected = documents(printed(capsys, *words))
    metadata = injected["ValidatingWebhookConfiguration", "policy-sched"]["metadata"]
    assert metadata["annotations"] == {"cert-manager.io/inject-ca-from-secret": "s/cert"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--webhook", "--tls-secret", "a"), "--webhook is for --crds"),
        (("--crds", "--webhook"), "--webhook needs --tls-secret"),
        (("--crds", "--ca-file", "x"), "--ca-file is for --webhook"),
        (("--crds", "--webhook", "--tls-secret", "a", "--ca-file", "{key}"), "no certificate"),
    ],
)
def test_flags_of_the_webhook_that_do_not_fit_together(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    """Before anything is printed."""
    (tmp_path / "key").write_text("-----BEGIN PRIVATE KEY-----")
    arguments = [word.replace("{key}", str(tmp_path / "key")) for word in words]
    assert run(["manifests", *arguments]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""
