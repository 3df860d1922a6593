"""The objects of a deployment, in the order in which they can be created, and their texts.

RBAC rules are what the client requests, and no more. Pods pass the restricted profile of the Pod
Security Standards and prefer different nodes and zones.

Alerts for Prometheus and a dashboard for Grafana are made of monitoring.toml.

The files of a deployment are checked, and have the names that a ConfigMap has.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from os.path import normpath
from pathlib import Path
from typing import Any, Final

import yaml

from policy_sched import __version__
from policy_sched.client import kube
from policy_sched.client.apimachinery import DEFINITION, plural, resource as resource_of
from policy_sched.errors import Diagnostic, PolicySchedError
from policy_sched.language import Input
from policy_sched.language.diagnostics import MAX_ANNOTATED_COST
from policy_sched.profiles import build, models
from policy_sched.profiles.load import files_below, kind_of, load_policies, read_documents
from policy_sched.profiles.reload import PolicyFiles
from policy_sched.profiles.resolve import lease_of
from policy_sched.report import json_text

NAME: Final = "policy-sched"
SYSTEM: Final = "kube-system"
APP: Final = "app.kubernetes.io/name"
IMAGE: Final = f"policy-sched:{__version__}"
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(
    r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)


@dataclass(frozen=True, slots=True)
class Options:
    """One deployment.

    ``feature_gates`` come before those of the configuration.
    """

    namespace: str = SYSTEM
    name: str = NAME
    image: str = IMAGE
    scheduler_name: str | None = None
    replicas: int | None = None
    shadow: str | None = None
    """Name of the shadowed scheduler, None for a scheduler that binds."""
    service_monitor: bool = False
    alerts: bool = False
    dashboard: bool = False
    tls_secret: str | None = None
    """The Secret with the certificate of the endpoints, None to make one at the start."""
    max_cost_limit: int = MAX_ANNOTATED_COST
    """The most that a policy's annotation may let its rules cost."""
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    policy_objects: str | None = None
    """The label selector of policies that are read as objects; None: only files are read."""

    @property
    def profile(self) -> str:
        """The schedulerName of a configuration that is made."""
        return self.scheduler_name or self.shadow or self.name

    def check(self) -> None:
        """Raise PolicySchedError for what no API server would take."""
        for option, value, rule in (
            ("--namespace", self.namespace, _LABEL),
            ("--name", self.name, _LABEL),
            ("--scheduler-name", self.scheduler_name, _SUBDOMAIN),
            ("--shadow", self.shadow, _SUBDOMAIN),
            ("--tls-secret", self.tls_secret, _SUBDOMAIN),
        ):
            if value is not None and not rule.fullmatch(value):
                raise PolicySchedError(f"{option} {value!r} is no name of Kubernetes")
        if not self.image or any(mark.isspace() for mark in self.image):
            raise PolicySchedError(f"--image {self.image!r} is no name of an image")
        if self.replicas is not None and self.replicas < 1:
            raise PolicySchedError("--replicas must be 1 at least")
        if self.shadow is not None and (self.replicas or 1) > 1:
            raise PolicySchedError("a shadow holds no lease: one replica is enough")


CONFIG_FILE: Final = "config.yaml"
LARGEST: Final = 1 << 20
"""Bytes that a ConfigMap holds at most, as the API server has it."""
_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")


@dataclass(frozen=True, slots=True)
class Contents:
    """Texts of the configuration and the policies by file name."""

    config: Mapping[str, str]
    policies: Mapping[str, str]
    lease: tuple[str, str] | None
    """Namespace and name of the lease, None without leader election."""
    warnings: tuple[Diagnostic, ...] = ()
    """Warnings about the files."""
    pod_groups: bool = False
    """Whether a feature gate or a policy is about them."""
    inputs: tuple[kube.Right, ...] = ()
    """The rights to read what inputs of policies declare."""
    published: tuple[kube.Right, ...] = ()
    """The rights to write what quotas of policies publish, and to evict what policies evict."""
    folders: Mapping[str, str] = field(default_factory=dict)
    """Keys of ``policies`` that are mounted elsewhere than at their name, and where."""


def contents(options: Options, config: str | None, policies: tuple[str, ...]) -> Contents:
    """Read and check the files; a configuration that is not given is made.

    Raises PolicyError with every problem of the files, PolicySchedError for what does not fit
    into a ConfigMap, or together.
    """
    if config is not None and options.scheduler_name is not None:
        text = "--scheduler-name is for when there is no --config; that names its profiles itself"
        raise PolicySchedError(text)
    gates = options.feature_gates
    compilation = PolicyFiles(config, policies, options.max_cost_limit, gates).compile()
    build.raise_errors(compilation.problems)
    assert compilation.settings is not None, "what has no errors has settings"
    named = list(_policies(policies))
    election = compilation.settings.leader_election
    if config is None:
        lease: tuple[str, str] | None = (options.namespace, options.name)
        text = _configuration(options, [name for _, name in named])
    else:
        lease = lease_of(election) if election.leader_elect else None
        text = Path(config).read_text(encoding="utf-8")
    files = _by_name(dict.fromkeys(file for file, _ in named))
    schemas = dict(_schemas(policies))
    files |= {key: text for key, (_, text) in schemas.items()}
    for what, texts in ((CONFIG_FILE, [text]), ("--policies", list(files.values()))):
        size = sum(len(content.encode()) for content in texts)
        if size > LARGEST:
            raise PolicySchedError(f"{what}: {size} bytes; a ConfigMap holds {LARGEST} at most")
    held = None if options.shadow is not None else lease
    return Contents(
        {CONFIG_FILE: text},
        files,
        held,
        compilation.problems,
        build.reads_pod_groups(compilation.plans),
        tuple(_reading(build.declared_inputs(compilation.plans))),
        (*_publishing(compilation.plans), *_evicting(compilation.plans)),
        {key: path for key, (path, _) in schemas.items() if path != key},
    )


def _reading(inputs: Iterable[Input]) -> Iterator[kube.Right]:
    """Yield the rights to read what inputs declare; a url needs none."""
    for given in inputs:
        kinds = given.plural or plural(given.kind)
        group = given.api_version.rpartition("/")[0]
        verbs = ("get", "list") if given.poll else ("get", "list", "watch")
        for verb in verbs if given.kind else ():
            yield kube.Right(group, kinds, verb, why="what inputs of policies declare")
        definition, served = given.definition(plural(given.kind)), resource_of(DEFINITION)
        for verb in ("list", "watch") if definition else ():
            why = "whether schemas of inputs are still those of the policies"
            yield kube.Right(served.group, served.plural, verb, why=why, only=definition)


def _evicting(plans: Iterable[build.CompiledPlan]) -> Iterator[kube.Right]:
    """Yield the right to evict, where a policy does."""
    if any(policy.sections.evict for plan in plans for policy in plan.policies.values()):
        yield kube.Right("", "pods/eviction", "create", why="pods that a policy evicts")


def _publishing(plans: Iterable[build.CompiledPlan]) -> Iterator[kube.Right]:
    """Yield the rights to write what quotas publish."""
    for given in build.published_inputs(plans):
        resource = f"{given.plural or plural(given.kind)}/status"
        group = given.api_version.rpartition("/")[0]
        yield kube.Right(group, resource, "patch", why="what quotas of policies publish")


def _schemas(paths: Sequence[str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the schemas of inputs: the key, the path beside the policies, and the text."""
    seen: dict[str, str] = {}
    for policy in load_policies(paths)[0]:
        for given in policy.model.spec.inputs:
            if not given.schema_file:
                continue
            path = normpath(given.schema_file)
            key = path.replace("/", "__")
            if path.startswith(("/", "..")) or not _KEY.fullmatch(key):
                raise PolicySchedError(
                    f"{policy.place.name}: the schema {given.schema_file} is not below the"
                    " policy's directory; a ConfigMap holds it only there"
                )
            text = (Path(policy.place.name).parent / path).read_text(encoding="utf-8")
            if seen.setdefault(key, text) != text:
                message = f"two policies have different schemas {path}; rename one"
                raise PolicySchedError(f"{policy.place.name}: {message}")
            yield key, (path, text)


def _policies(paths: Iterable[str]) -> Iterator[tuple[Path, str]]:
    """Yield file and name of each policy; other documents stay at home."""
    for path in paths:
        for file in files_below(Path(path)):
            for marked in read_documents(file)[0]:
                if kind_of(marked.value) == (models.POLICY_API_VERSION, models.POLICY_KIND):
                    yield file, str(marked.value["metadata"]["name"])


def _by_name(files: Iterable[Path]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for file in files:
        name = file.name
        if not _KEY.fullmatch(name):
            raise PolicySchedError(
                f"{file}: {name!r} can be no key of a ConfigMap; rename the file"
            )
        if name in texts:
            name = f"{file.parent.name}-{name}"  # as in policies/NAME/policy.yaml
        if name in texts or not _KEY.fullmatch(name):
            raise PolicySchedError(f"{file}: a ConfigMap has {name!r} already; rename the file")
        texts[name] = file.read_text(encoding="utf-8")
    return texts


def _configuration(options: Options, policies: Iterable[str]) -> str:
    """Return the configuration that enables the policies for pods of one schedulerName."""
    default = {name for name, _ in models.DEFAULT_PLUGINS}
    enabled = [{"name": name} for name in policies if name not in default]
    plugins = {"plugins": {"multiPoint": {"enabled": enabled}}} if enabled else {}
    election: dict[str, object] = {"leaderElect": False}
    if options.shadow is None:
        election = {"resourceName": options.name, "resourceNamespace": options.namespace}
    document = {
        "apiVersion": models.API_VERSION,
        "kind": models.KIND,
        "leaderElection": election,
        "profiles": [{"schedulerName": options.profile, **plugins}],
    }
    return yaml.safe_dump(document, sort_keys=False)


Plain = dict[str, Any]
RBAC: Final = "rbac.authorization.k8s.io"
FLOWS: Final = "flowcontrol.apiserver.k8s.io/v1"
VERBS: Final = ("get", "list", "watch", "create", "update", "patch", "delete")
"""In the order in which people read them."""


def named(api_version: str, kind: str, name: str, namespace: str = "") -> Plain:
    """Return the beginning of an object."""
    metadata: Plain = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def access(
    options: Options,
    lease: tuple[str, str] | None,
    *,
    pod_groups: bool = False,
    inputs: Iterable[kube.Right] = (),
    published: Iterable[kube.Right] = (),
) -> Iterator[Plain]:
    """Yield service account, roles and bindings; what it may is bound to this account alone."""
    account = named("v1", "ServiceAccount", options.name, options.namespace)
    yield account | {"automountServiceAccountToken": False}
    rights = (*kube.READING, *kube.GROUP_READING) if pod_groups else kube.READING
    rights += tuple(inputs)
    if options.policy_objects is not None:
        rights += tuple(_of_objects(writes=options.shadow is None))
    if options.shadow is None:
        rights += (*kube.WRITING, *kube.GROUP_WRITING) if pod_groups else kube.WRITING
        rights += tuple(published)
    yield named(f"{RBAC}/v1", "ClusterRole", options.name) | {"rules": rules(rights)}
    yield _binding(options, "ClusterRoleBinding", options.name, ("ClusterRole", options.name))
    # The API server reviews callers of /metrics: TokenReview and SubjectAccessReview.
    reviews = ("ClusterRole", "system:auth-delegator")
    yield _binding(options, "ClusterRoleBinding", f"{options.name}:auth-delegator", reviews)
    if lease is not None:
        namespace, lock = lease
        name = f"{options.name}:leader-election"
        yield named(f"{RBAC}/v1", "Role", name, namespace) | {"rules": rules(kube.ELECTING, lock)}
        yield _binding(options, "RoleBinding", name, ("Role", name), namespace)


def _of_objects(*, writes: bool) -> Iterator[kube.Right]:
    """Yield the rights to read objects of our kinds, and to write their status alone."""
    for own in models.CUSTOM_RESOURCES:
        for verb in ("get", "list", "watch"):
            yield kube.Right(own.group, own.plural, verb, why="policies that are objects")
        for verb in ("update", "patch") if writes else ():
            why = "what becomes of a policy is told"
            yield kube.Right(own.group, f"{own.plural}/status", verb, why=why)


def rules(rights: Iterable[kube.Right], lock: str = "") -> list[Plain]:
    """Return the rules that grant rights: resources with the same verbs together."""
    verbs: dict[tuple[str, str, str], set[str]] = {}
    for right in rights:
        name = lock if right.named else right.only
        verbs.setdefault((right.group, right.resource, name), set()).add(right.verb)
    names: dict[tuple[str, str, tuple[str, ...], bool], list[str]] = {}
    for (group, resource, name), wanted in verbs.items():
        ordered = tuple(verb for verb in VERBS if verb in wanted)
        names.setdefault((group, resource, ordered, bool(name)), []).append(name)
    together: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for (group, resource, allowed, is_named), one_by_one in names.items():
        only = tuple(sorted(one_by_one)) if is_named else ()
        together.setdefault((group, allowed, only), []).append(resource)
    return [
        {
            "apiGroups": [group],
            "resources": sorted(resources),
            **({"resourceNames": list(only)} if only else {}),
            "verbs": list(allowed),
        }
        for (group, allowed, only), resources in sorted(together.items())
    ]


def priority(options: Options) -> Iterator[Plain]:
    """Yield what keeps requests from waiting behind other clients, outside kube-system too."""
    subject = {
        "kind": "ServiceAccount",
        "serviceAccount": {"name": options.name, "namespace": options.namespace},
    }
    everything = {
        "verbs": ["*"],
        "apiGroups": ["*"],
        "resources": ["*"],
        "clusterScope": True,
        "namespaces": ["*"],
    }
    leases = {
        "verbs": ["get", "create", "update"],
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "namespaces": ["*"],
    }
    flows: list[tuple[str, str, int, Plain]] = [("", "workload-high", 800, everything)]
    if options.shadow is None:
        flows.insert(0, (":leader-election", "leader-election", 200, leases))
    for suffix, level, precedence, requests in flows:
        yield named(FLOWS, "FlowSchema", f"{options.name}{suffix}".replace(":", "-")) | {
            "spec": {
                "priorityLevelConfiguration": {"name": level},
                "matchingPrecedence": precedence,
                "distinguisherMethod": {"type": "ByUser"},
                "rules": [{"subjects": [subject], "resourceRules": [requests]}],
            }
        }


def _binding(
    options: Options, kind: str, name: str, role: tuple[str, str], namespace: str = ""
) -> Plain:
    return named(f"{RBAC}/v1", kind, name, namespace) | {
        "roleRef": {"apiGroup": RBAC, "kind": role[0], "name": role[1]},
        "subjects": [
            {"kind": "ServiceAccount", "name": options.name, "namespace": options.namespace}
        ],
    }


PORT: Final = 10259
"""kube-scheduler's own, for metrics and health over HTTPS."""
USER: Final = 65532
"""A user that has nothing; the image's, too."""
REPLICAS: Final = 2
CONFIG: Final = "/etc/policy-sched/config"
POLICIES: Final = "/etc/policy-sched/policies"
RECORDS: Final = "/var/log/policy-sched"
TLS: Final = "/etc/policy-sched/tls"


def workload(options: Options, files: Contents) -> Iterator[Plain]:
    """Yield the ConfigMaps, the Deployment and its PodDisruptionBudget."""
    for suffix, texts in (("config", files.config), ("policies", files.policies)):
        if texts:
            name = f"{options.name}-{suffix}"
            yield named("v1", "ConfigMap", name, options.namespace) | {"data": dict(texts)}
    labels = {APP: options.name}
    replicas = options.replicas or (REPLICAS if options.shadow is None else 1)
    deployment = named("apps/v1", "Deployment", options.name, options.namespace)
    yield deployment | {
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": _pod(options, files, labels)},
        }
    }
    if replicas > 1:
        budget = named("policy/v1", "PodDisruptionBudget", options.name, options.namespace)
        spec = {"maxUnavailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow"}
        yield budget | {"spec": {**spec, "selector": {"matchLabels": labels}}}


def monitored(options: Options) -> Iterator[Plain]:
    """Yield the objects by which the Prometheus operator finds the metrics."""
    labels = {APP: options.name}
    service = named("v1", "Service", options.name, options.namespace)
    ports = [{"name": "https", "port": PORT, "targetPort": "https"}]
    yield service | {"spec": {"clusterIP": "None", "selector": labels, "ports": ports}}
    monitor = named("monitoring.coreos.com/v1", "ServiceMonitor", options.name, options.namespace)
    endpoint: Plain = {
        "port": "https",
        "scheme": "https",
        "path": "/metrics",
        "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
        # Like kube-scheduler's, the certificate is made at the start and self-signed.
        "tlsConfig": {"insecureSkipVerify": True},
    }
    if options.tls_secret is not None:
        endpoint["tlsConfig"] = {
            "ca": {"secret": {"name": options.tls_secret, "key": "ca.crt"}},
            "serverName": f"{options.name}.{options.namespace}.svc",
        }
    yield monitor | {"spec": {"selector": {"matchLabels": labels}, "endpoints": [endpoint]}}


def _pod(options: Options, files: Contents, labels: Plain) -> Plain:
    # In memory: keys are written there for a moment, as OpenSSL reads them from files.
    volumes: list[Plain] = [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}]
    mounts: list[Plain] = [{"name": "tmp", "mountPath": "/tmp"}]  # noqa: S108 - in the container
    # Whole directories: a file that is mounted by subPath never changes.
    for name, texts, path in (
        ("config", files.config, CONFIG),
        ("policies", files.policies, POLICIES),
    ):
        if texts:
            source: Plain = {"name": f"{options.name}-{name}"}
            if name == "policies" and files.folders:
                source["items"] = [
                    {"key": key, "path": files.folders.get(key, key)} for key in texts
                ]
            volumes.append({"name": name, "configMap": source})
            mounts.append({"name": name, "mountPath": path, "readOnly": True})
    if options.tls_secret is not None:
        secret = {"secretName": options.tls_secret, "defaultMode": 0o440}
        volumes.append({"name": "tls", "secret": secret})
        mounts.append({"name": "tls", "mountPath": TLS, "readOnly": True})
    if options.shadow is not None:
        volumes.append({"name": "records", "emptyDir": {"sizeLimit": "1Gi"}})
        mounts.append({"name": "records", "mountPath": RECORDS})
    return {
        "serviceAccountName": options.name,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [
            _apart("kubernetes.io/hostname", labels),
            _apart("topology.kubernetes.io/zone", labels),
        ],
        "containers": [_container(options, mounts, arguments(options, files))],
        "volumes": volumes,
    }


def arguments(options: Options, files: Contents) -> list[str]:
    """Return the arguments of the container."""
    words = ["run", "--kubeconfig=in-cluster", f"--config={CONFIG}/{CONFIG_FILE}"]
    if files.policies:
        words.append(f"--policies={POLICIES}")
    if options.policy_objects is not None:
        words.append("--policy-objects")
        words += [options.policy_objects] if options.policy_objects else []
    if options.max_cost_limit != MAX_ANNOTATED_COST:
        words.append(f"--max-cost-limit={options.max_cost_limit}")
    if options.feature_gates:
        gates = (f"{name}={str(on).lower()}" for name, on in options.feature_gates.items())
        words.append(f"--feature-gates={','.join(gates)}")
    if options.shadow is not None:
        words += [f"--shadow={options.shadow}", f"--shadow-log={RECORDS}/shadow.jsonl"]
    if options.tls_secret is not None:
        words += [f"--tls-cert-file={TLS}/tls.crt", f"--tls-private-key-file={TLS}/tls.key"]
    return words


def _container(options: Options, mounts: list[Plain], words: list[str]) -> Plain:
    return {
        "name": "scheduler",
        "image": options.image,
        "args": words,
        "ports": [{"name": "https", "containerPort": PORT}],
        "startupProbe": _probe("/livez", every=5, failures=24),
        "livenessProbe": _probe("/livez", every=10, failures=8),
        "readinessProbe": _probe("/readyz", every=5, failures=3),
        "resources": {
            "requests": {"cpu": "200m", "memory": "256Mi"},
            "limits": {"memory": "2Gi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }


def _probe(path: str, *, every: int, failures: int) -> Plain:
    return {
        "httpGet": {"path": path, "port": "https", "scheme": "HTTPS"},
        "periodSeconds": every,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def _apart(key: str, labels: Plain) -> Plain:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels},
        "matchLabelKeys": ["pod-template-hash"],
    }


_OURS: Final = {"app.kubernetes.io/managed-by": "policy-sched-manifests"}
_RESTRICTED: Final = {"pod-security.kubernetes.io/enforce": "restricted"}


def manifests(options: Options, files: Contents) -> Iterator[Plain]:
    """Yield the objects, each with labels to find it by; a namespace of its own is among them."""
    for obj in _objects(options, files):
        yield labelled(options, obj)


def labelled(options: Options, obj: Plain) -> Plain:
    """Return an object with the labels of the deployment."""
    metadata = obj["metadata"]
    metadata["labels"] = {APP: options.name, **_OURS, **metadata.get("labels", {})}
    return obj


def _objects(options: Options, files: Contents) -> Iterator[Plain]:
    if options.namespace != SYSTEM:
        namespace = named("v1", "Namespace", options.namespace)
        namespace["metadata"]["labels"] = dict(_RESTRICTED)
        yield namespace
    yield from access(
        options,
        files.lease,
        pod_groups=files.pod_groups,
        inputs=files.inputs,
        published=files.published,
    )
    yield from priority(options)
    yield from workload(options, files)
    if options.service_monitor:
        yield from monitored(options)
    if options.alerts:
        rule = named("monitoring.coreos.com/v1", "PrometheusRule", options.name, options.namespace)
        yield rule | {"spec": alert_rules(options)}
    if options.dashboard:
        page = named("v1", "ConfigMap", f"{options.name}-dashboard", options.namespace)
        # The label by which the sidecar of Grafana's chart finds dashboards.
        page["metadata"]["labels"] = {"grafana_dashboard": "1"}
        yield page | {"data": {f"{options.name}.json": dashboard(options)}}


def as_yaml(objects: Sequence[Plain]) -> str:
    """Return the objects as documents of YAML; the same bytes for the same objects."""
    return yaml.dump_all(
        objects, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100, explicit_start=True
    )


def as_json(objects: Sequence[Plain]) -> str:
    """Return the objects as a List in JSON."""
    return json_text({"apiVersion": "v1", "kind": "List", "items": list(objects)})


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and nothing as an alias."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - PyYAML's signature
        """Write everything where it belongs."""
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - PyYAML's
        """Indent lists below their keys."""
        super().increase_indent(flow, indentless=False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


_WIDTH: Final = 12
"""Columns of a panel; a dashboard has 24."""
_HEIGHT: Final = 8
_DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


def _definitions() -> dict[str, list[Plain]]:
    return tomllib.loads(files(__package__).joinpath("monitoring.toml").read_text("utf-8"))


def _of_job(expression: str, options: Options) -> str:
    """Return an expression about the scrapes of this deployment: their job is its Service."""
    return expression.replace("JOB", f'job="{options.name}"')


def alert_rules(options: Options) -> Plain:
    """Return the alerts as the content of a rule file of Prometheus."""
    rules = [
        {
            "alert": alert["name"],
            "expr": _of_job(alert["expr"], options),
            "for": alert["for"],
            "labels": {"severity": alert["severity"]},
            "annotations": {"summary": alert["summary"], "description": alert["description"]},
        }
        for alert in _definitions()["alert"]
        if options.shadow is None or not alert.get("leads")
    ]
    return {"groups": [{"name": options.name, "rules": rules}]}


def dashboard(options: Options) -> str:
    """Return the dashboard as JSON; the data source is chosen in Grafana."""
    panels = list(_panels(_definitions()["panel"], options))
    source = {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
    }
    return json_text(
        {
            "title": options.name,
            "uid": options.name[:40],  # the longest that Grafana takes
            "tags": ["scheduler"],
            "schemaVersion": 39,
            "editable": True,
            "refresh": "30s",
            "time": {"from": "now-3h", "to": "now"},
            "templating": {"list": [source]},
            "panels": panels,
        }
    )


def _panels(definitions: list[Plain], options: Options) -> Iterator[Mapping[str, object]]:
    for number, panel in enumerate(definitions):
        row, column = divmod(number, 24 // _WIDTH)
        yield {
            "id": number + 1,
            "type": "timeseries",
            "title": panel["title"],
            "datasource": _DATASOURCE,
            "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
            "fieldConfig": {"defaults": {"unit": panel["unit"], "min": 0}, "overrides": []},
            "targets": [
                {
                    "refId": chr(ord("A") + index),
                    "datasource": _DATASOURCE,
                    "expr": _of_job(expression, options),
                    "legendFormat": legend,
                }
                for index, (expression, legend) in enumerate(panel["queries"])
            ],
        }
