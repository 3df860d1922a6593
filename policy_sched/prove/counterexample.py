"""Makes a PolicyTest of what the solver found, and runs it as `policy-sched test` does.

What the solver gives is a value for each constant of the model. The test has the pod, the node and
the pods on it that have these values, and only the policies of the claim are enabled, so that what
is seen is theirs. What cannot be built, or is not confirmed by the scheduler, is no counterexample.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import yaml

from policy_sched.cluster.tables import PodRows
from policy_sched.errors import PolicySchedError
from policy_sched.language import CompiledPolicy, check
from policy_sched.language.runtime import FAILED, Activation
from policy_sched.language.values import RuleError
from policy_sched.lru import Lru
from policy_sched.model import Pod, PodInfo
from policy_sched.plugins.rules import BoundPolicy, bind
from policy_sched.policytest import (
    ExpectedOutcome,
    PluginOutcome,
    Scenario,
    ScenarioRun,
    observe_scenario,
    scenarios_of,
)
from policy_sched.profiles.check import ELIGIBLE, TAKES_PART, VICTIM
from policy_sched.profiles.reload import PolicyFiles
from policy_sched.prove.rules import read
from policy_sched.scheduler import Scheduler
from policy_sched.scheduler.setup import assemble, load_cluster, read_policies

Key = tuple[Any, ...]
Plain = dict[str, Any]

PEERS: Final = ("peer", "peer2")
"""What nodes beside the one of a claim are called."""
VICTIM_UID: Final = "running-1"
FAILS, CONDITIONS_FAIL = "fails", "conditions fail"
"""Whether matchConditions or rules about evictions fail, and whether the score's conditions do."""
#: Pods that a node of a counterexample has at most.
MAX_PODS: Final = 500
_NODE, _POD, _SPACE = "node-1", "pod-1", "default"
_IMAGE: Final = "registry.example/app:1"


class NotBuiltError(PolicySchedError):
    """The values that the solver found belong to no pod and node that can be written down."""


@dataclass(frozen=True, slots=True)
class Values:
    """The value of each constant of the model; None is a text that is missing."""

    leaves: Mapping[Key, Any]

    def text(self, key: Key, default: str = "") -> str:
        """Return a text, or the default where nothing read it."""
        value = self.leaves.get(key)
        return value if isinstance(value, str) else default

    def texts(self, path: Key) -> dict[str, str]:
        """Return the entries of a map of texts that are there."""
        return {
            key[-1]: value
            for key, value in self.leaves.items()
            if key[:-1] == path and isinstance(value, str)
        }

    def amounts(self, path: Key) -> dict[str, str]:
        """Return the amounts of an object that are not 0."""
        return {
            key[-1]: _amount(key[-1], value)
            for key, value in self.leaves.items()
            if key[:-1] == path and value
        }

    @property
    def victim(self) -> bool:
        """Whether there is a pod that claims call `victim`."""
        return any(key[0] == "victim" for key in self.leaves)

    def length(self, path: Key) -> int:
        """Return the length of a list."""
        return int(self.leaves.get((*path, "length"), 0))


def _amount(resource: str, units: int) -> str:
    if resource != "cpu":
        return str(units)
    return f"{units}m" if units % 1000 else str(units // 1000)


def document(
    values: Values, policies: Sequence[str], names: Sequence[str], *, full: bool = False
) -> Plain:
    """Return the PolicyTest of values, without expectations.

    ``policies``: files, relative to the test; ``names``: the policies that are enabled; ``full``:
    the node has no room, so that pods are evicted. Raises NotBuiltError where no pod and node have
    the values.
    """
    pod, hour = _pending(values), values.leaves.get(("now",))
    needed = ("PrioritySort", *names, *("NodeResourcesFit",) * full, "DefaultBinder")
    enabled = [{"name": name} for name in dict.fromkeys(needed)]
    plugins = {"multiPoint": {"disabled": [{"name": "*"}], "enabled": enabled}}
    if any(policy.queue_sort for policy in _checked(policies) if policy.name in names):
        # No claim is about the order of the queue, which one plugin alone may state.
        plugins["queueSort"] = {"disabled": [{"name": "*"}], "enabled": enabled[:1]}
    return {
        "apiVersion": "policysched.dev/v1alpha1",
        "kind": "PolicyTest",
        "name": "counterexample",
        "policies": list(policies),
        **({"now": f"2026-01-01T{hour:02}:30:00Z"} if hour is not None else {}),
        "config": {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}],
        },
        "objects": [
            *_namespaces(values, pod),
            *_nodes(values, full=full),
            *(of for key, of in values.leaves.items() if key[0] == "object"),
        ],
        "pending": [pod],
        "expect": [{"pod": f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"}],
    }


def _namespaces(values: Values, pod: Plain) -> Iterator[Plain]:
    """Yield the namespace of the pod where its labels or annotations matter."""
    parts: Plain = {name: values.texts(("namespace", name)) for name in ("labels", "annotations")}
    metadata = _stated(**parts)
    if metadata:
        metadata = {"name": pod["metadata"]["namespace"], **metadata}
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _nodes(values: Values, *, full: bool) -> Iterator[Plain]:
    """Yield the node, and the other one where there is one, with their pods."""
    yield _node(values, full=full)
    yield from _running(values)
    for number, side in enumerate(PEERS, 2):
        if values.leaves.get((side, "there")):
            other = {("node", *k[1:]): of for k, of in values.leaves.items() if k[0] == side}
            beside = Values({("node", "name"): f"node-{number}", **other})
            yield _node(beside)
            yield from _running(beside, f"other-{number}")


def _node(values: Values, *, full: bool = False) -> Plain:
    leaves, name = values.leaves, values.text(("node", "name"), _NODE)
    capacity = values.amounts(("node", "capacity"))
    allocatable = values.amounts(("node", "allocatable"))
    if full and ("node", "allocatable", "pods") not in leaves:
        allocatable["pods"] = str(_count(values))
    for key, there in leaves.items():
        if key[:2] == ("node", "allocatable?") and there:
            allocatable.setdefault(key[2], "0")
    info = {
        _INFO[key[2]]: value
        for key, value in leaves.items()
        if key[:2] == ("node", "field") and key[2] in _INFO and value
    }
    parts: dict[str, Plain] = {
        "metadata": {
            "name": name,
            "labels": values.texts(("node", "label")),
            "annotations": values.texts(("node", "annotation")),
        },
        "spec": {
            "unschedulable": bool(leaves.get(("node", "unschedulable"))),
            "taints": [
                {part: values.text(("node", "taints", i, part), of) for part, of in _TAINT}
                for i in range(values.length(("node", "taints")))
            ],
            "providerID": values.text(("node", "field", "providerID")),
        },
        "status": {
            "capacity": {**allocatable, **capacity},
            "allocatable": allocatable,
            "conditions": [{"type": "Ready", "status": "True"}]
            if leaves.get(("node", "ready"))
            else [],
            "nodeInfo": info,
        },
    }
    stated = {name: _stated(**of) for name, of in parts.items()}
    return {"apiVersion": "v1", "kind": "Node", **_stated(**stated)}


def _stated(**parts: Any) -> Plain:
    """Return the parts of an object that are not empty."""
    return {name: of for name, of in parts.items() if of}


_TAINT: Final = (("key", "key"), ("value", ""), ("effect", "NoSchedule"))
_INFO: Final = {
    name: name
    for name in ("architecture", "operatingSystem", "osImage", "kernelVersion", "kubeletVersion")
} | {"runtimeVersion": "containerRuntimeVersion"}


def _pod(values: Values, path: Key, name: str, requests: Plain) -> Plain:
    leaves, kind = values.leaves, values.text((*path, "owner_kind"))
    owner = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "name": values.text((*path, "owner_name")) or "owner",
        "uid": values.text((*path, "owner_uid")) or "owner",
        "controller": True,
    }
    metadata = {
        "name": values.text((*path, "name"), name) or name,
        "namespace": values.text((*path, "namespace"), _SPACE) or _SPACE,
        "labels": values.texts((*path, "labels")),
        "annotations": values.texts((*path, "annotations")),
        "ownerReferences": [owner] if kind else [],
    }
    resources = _stated(requests=requests, limits=values.amounts((*path, "limits")))
    container = {"name": "main", "image": _IMAGE, **_stated(resources=resources)}
    more = [{"name": f"more-{i}", "image": _IMAGE} for i in range(values.length((*path, "more")))]
    spec: Plain = {"containers": [container, *more]}  # the others state no requests
    if (*path, "priority") in leaves:
        spec["priority"] = leaves[*path, "priority"]
    spec |= _stated(
        hostNetwork=bool(leaves.get((*path, "host_network"))),
        nodeSelector=values.texts((*path, "node_selector")),
        serviceAccountName=values.text((*path, "service_account_name")),
        preemptionPolicy=values.text((*path, "preemption_policy")),
    )
    return {"apiVersion": "v1", "kind": "Pod", "metadata": _stated(**metadata), "spec": spec}


def _pending(values: Values) -> Plain:
    requests = values.amounts(("pod", "requests"))
    pod = _pod(values, ("pod",), _POD, requests)
    tolerations = []
    for i in range(values.length(("pod", "tolerations"))):
        parts = ("key", "operator", "value", "effect")
        toleration = _stated(**{p: values.text(("pod", "tolerations", i, p)) for p in parts})
        if "key" not in toleration:
            toleration.setdefault("operator", "Exists")
        tolerations.append(toleration)
    gates = ("pod", "scheduling_gates")
    names = [values.text((*gates, i)) for i in range(values.length(gates))]
    pod["spec"] |= _stated(
        tolerations=tolerations,
        nodeName=values.text(("pod", "node_name")),
        schedulingGates=[{"name": name} for name in names],
    )
    return pod


def pending_pod(values: Values) -> PodInfo:
    """Return the pod that is decided."""
    return PodInfo.of(msgspec.convert(_pending(values), Pod, strict=False))


def _count(values: Values) -> int:
    """Return how many pods run on the node."""
    if ("node", "pods", "length") in values.leaves:
        return values.length(("node", "pods"))
    stated = values.leaves.get(("node", "podCount"))
    some = any(of and key[:2] == ("node", "requested") for key, of in values.leaves.items())
    return max(int(values.victim), int(some) if stated is None else int(stated))


def _running(values: Values, name: str = "running") -> Iterator[Plain]:
    node, count = values.text(("node", "name"), _NODE), _count(values)
    if count > MAX_PODS:
        raise NotBuiltError(f"a node with {count} pods")
    rest = {key[2]: of for key, of in values.leaves.items() if key[:2] == ("node", "requested")}
    victims: list[Key] = [("victim",)] if values.victim else []
    for path in [*victims, *(("node", "pods", i) for i in range(count - len(victims)))]:
        own = {key[-1]: of for key, of in values.leaves.items() if key[:-1] == (*path, "requests")}
        if path[-1] == 0 and not own:
            own = rest
        else:
            rest = {resource: of - own.get(resource, 0) for resource, of in rest.items()}
        number = 1 if path == ("victim",) else int(path[-1]) + 1 + len(victims)
        amounts = {resource: _amount(resource, of) for resource, of in own.items() if of}
        pod = _pod(values, path, f"{name}-{number}", amounts)
        pod["metadata"]["uid"] = f"{name}-{number}"
        if values.leaves.get((*path, "terminating")):
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        pod["spec"]["nodeName"] = node
        yield pod


def node_of(test: Plain) -> str:
    """Return the name of the node that a test is about."""
    names = (item["metadata"]["name"] for item in test["objects"] if item["kind"] == "Node")
    return str(next(names))


def text_of(test: Plain) -> str:
    """Return a test as YAML."""
    return yaml.safe_dump(test, sort_keys=False, allow_unicode=True, width=100)


def scenario_of(test: Plain, plugin: str = "", rule: str = "") -> Scenario:
    """Return a test as `policy-sched test` reads it beside the first of its policies.

    ``plugin``: whose raw scores are seen; ``rule``: one of those that are told apart where they
    reject. Raises PolicyError where the test cannot be read.
    """
    files = [Path(file).resolve() for file in test["policies"]]
    stated = {**test, "policies": list(map(str, files)), **_stated(plugin=plugin)}
    if rule:
        stated["expect"] = [{**test["expect"][0], "rejected": {node_of(test): {"rule": rule}}}]
    folder = files[0] if files[0].is_dir() else files[0].parent
    path, text = str(folder / "counterexample.yaml"), msgspec.json.encode(stated).decode()
    (scenario,) = scenarios_of(path, text, test["policies"])
    return scenario


class Run:
    """Runs the scheduler on a pod and a node that the solver found.

    ``test`` and ``seen``: with the policies of the claim, and what became of them.
    """

    def __init__(
        self, leaves: Mapping[Key, Any], sides: Sequence[tuple[str, ...]], names: tuple[str, ...],
        plugin: str = "", rule: str = "", *, full: bool = False,
    ) -> None:  # fmt: skip
        """``sides``: files of policies, and those with which they are compared.

        ``names``, ``plugin``: as of a call; ``rule``, ``full``: as of `scenario_of` and `document`.
        """
        self._leaves, self._sides, self._rule = leaves, sides, rule
        self._ran: dict[Any, tuple[Plain, ExpectedOutcome]] = {}
        self.test, self.seen = self(names, plugin, full=full)

    def __call__(
        self, names: tuple[str, ...], plugin: str = "", *,
        changed: bool = False, new: bool = False, full: bool = False,
    ) -> tuple[Plain, ExpectedOutcome]:  # fmt: skip
        """Return the test with some policies enabled, and what is seen.

        ``plugin``: the one whose raw score is seen; ``changed``: the one number is another;
        ``new``: the policies are those of the other side.
        """
        key = (names, plugin, changed, new, full)
        if key not in self._ran:
            others = {key[1:]: of for key, of in self._leaves.items() if key[0] == "changed"}
            paths, values = (
                self._sides[new],
                {**self._leaves, **others} if changed else self._leaves,
            )
            test = document(Values(values), paths, names, full=full)
            scenario = scenario_of(test, plugin if plugin in names else "", self._rule)
            _, seen = observe_scenario(scenario, RUN)
            self._ran[key] = test, next(iter(seen.values()))
        return self._ran[key]


def loaded(test: Plain) -> tuple[Scenario, Scheduler, Mapping[str, CompiledPolicy]]:
    """Return a test, a scheduler with its cluster before anything is decided, and its policies."""
    scenario = scenario_of(test)
    files = PolicyFiles(
        scenario.config, scenario.policies, feature_gates=scenario.gates, enforce_audits=True
    )
    plans, _ = RUN.read(files)
    scheduler = assemble(plans, objects=scenario.objects, now=lambda: scenario.now)
    load_cluster(scheduler.cache, scenario.objects)
    for pod in scenario.pending:
        scheduler.handle.groups.seen(PodInfo.of(pod))
    return scenario, scheduler, plans[0].policies


def bound_says(test: Plain, name: str) -> dict[str, Any]:
    """Return what `said_of` does of a policy, and the pod and the pods of a test."""
    if not name:
        return dict.fromkeys((TAKES_PART, ELIGIBLE, VICTIM, FAILS, CONDITIONS_FAIL), False)
    scenario, scheduler, policies = loaded(test)
    bound = bind(policies[name], scheduler.handle.nodes, scheduler.handle.pods)
    return said_of(bound, scheduler, PodInfo.of(scenario.pending[0]))


def said_of(bound: BoundPolicy, scheduler: Scheduler, pod: PodInfo) -> dict[str, Any]:
    """Return what the rules that preemption asks say of a pod, by function of claims.

    ``victim``: the UIDs of the pods that it may evict, none where there are none.
    """
    pods, now, cycle = scheduler.handle.pods, scheduler.handle.now(), cycle_of(scheduler, pod)
    said: dict[str, Any] = dict.fromkeys((TAKES_PART, ELIGIBLE, VICTIM), False)
    said |= {FAILS: True, CONDITIONS_FAIL: bound.score is not None}
    with suppress(RuleError):
        if bound.matches(pod, cycle):
            bound.matches_score(pod, cycle)
        said[CONDITIONS_FAIL] = False
    with suppress(RuleError):
        said[TAKES_PART] = bound.matches(pod, cycle)
        rules = bound.preemption
        if rules is not None and said[TAKES_PART]:
            said[ELIGIBLE] = rules.eligible(pod, now)
            uids = {row: info.uid for row, info in enumerate(pods.infos) if info is not None}
            if uids and said[ELIGIBLE]:
                may = rules.victim(pod, now, PodRows(pods, np.array([list(uids)])))[0]
                said[VICTIM] = {uid for uid, goes in zip(uids.values(), may, strict=True) if goes}
        said[FAILS] = False
    return said


def cycle_of(scheduler: Scheduler, pod: PodInfo) -> Activation:
    """Return what rules see of an attempt."""
    return Activation(now=scheduler.handle.now(), pod_group=scheduler.handle.groups.counts(pod))


_policies: Lru[tuple[str, ...], list[check.CheckedPolicy]] = Lru(20)
_plans: Lru[str, Any] = Lru(200)
"""Of configurations with a policy alone, and with two."""


def _checked(paths: Sequence[str]) -> list[check.CheckedPolicy]:
    """Return what `read` makes of files, from the one before if they have the same names."""
    key = tuple(paths)
    if key not in _policies.entries:
        _policies.put(key, read(paths))
    return _policies.entries[key]


def _read_once(files: PolicyFiles) -> Any:
    """Return what `read_policies` makes of files, from the one before if equal."""
    key = repr(files)
    if key not in _plans.entries:
        _plans.put(key, read_policies(files))
    return _plans.get(key)


RUN: Final = ScenarioRun(enforce_audits=True, read=_read_once)
"""Reads each configuration and its policies once."""


def with_expectation(test: Plain, seen: ExpectedOutcome, plugin: str, *, final: bool) -> Plain:
    """Return a test that expects what was seen; ``final``: normalised scores, too."""
    expected = dict(test["expect"][0])
    if seen.feasible:
        expected["feasible"] = list(seen.feasible)
        if seen.raw and plugin and FAILED not in seen.raw.values():
            expected["raw"] = {node: _number(score) for node, score in seen.raw.items()}
        if final:
            scores = {node: dict(of.plugins or {}) for node, of in (seen.scores or {}).items()}
            expected["scores"] = {node: {"plugins": of} for node, of in scores.items()}
    else:
        expected["chosen"] = None
        if seen.pre_enqueue is not None:
            expected["preEnqueue"] = _status(seen.pre_enqueue)
        elif seen.pre_filter is not None:
            expected["preFilter"] = _status(seen.pre_filter)
        elif seen.rejected:
            expected["rejected"] = {node: _status(why) for node, why in seen.rejected.items()}
        if seen.nominated:
            expected["nominated"] = seen.nominated
        elif seen.post_filter is not None:
            expected["postFilter"] = _status(seen.post_filter)
    whole = {**test, "expect": [expected]}
    return {**whole, "plugin": plugin} if "raw" in expected else whole


def _status(status: PluginOutcome) -> Plain:
    return {
        "code": status.code,
        "plugin": status.plugin,
        "reasons": [str(reason) for reason in status.reasons or ()],
    }


def _number(score: float) -> int | float:
    return int(score) if Fraction(score).denominator == 1 else score
