"""Compares what rules are estimated to cost with what they take, on a generated cluster.

Theory of operation. The nodes have labels, annotations, taints and pods of many kinds, so that no
rule is decided at once. Each rule is compiled, a pass over all nodes is timed several times, as if
every node had changed, and the shortest time is held against the estimate.
"""

from __future__ import annotations

import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Final

import msgspec
import numpy as np

from policy_sched.bench.in_process import quiet_collector
from policy_sched.bench.result import Result
from policy_sched.cluster import Cache
from policy_sched.language import Unit, make_unit
from policy_sched.language.check import check_expression
from policy_sched.language.lower import make_lowering
from policy_sched.language.runtime import Activation, Runtime
from policy_sched.language.values import types
from policy_sched.model import Node, Pod, PodInfo

NAME: Final = "RuleCost"
NODES: Final = 5_000
#: Passes that are timed, beyond one that is not.
PASSES: Final = 9
#: How far off an estimate may be, as a factor.
BOUND: Final = 3.0
#: Pods that run: no more than this, whatever the number of nodes.
PODS: Final = 10_000

RULES: Final[dict[str, str]] = tomllib.loads(
    files("policy_sched.bench").joinpath("rule_cost.toml").read_text("utf-8")
)
"""Expressions by the kind of rule that they stand for."""


class Measured(msgspec.Struct, frozen=True):
    """One rule: the estimate and the time of a pass, in microseconds, and what they are to each
    other."""

    rule: str
    expression: str
    estimate_us: float
    measured_us: float
    ratio: float

    @property
    def within(self) -> bool:
        """Whether the estimate is as good as it has to be."""
        return 1 / BOUND <= self.estimate_us / self.measured_us <= BOUND


class MeasuredRuleCosts(Result, frozen=True):
    """Every rule, measured on so many nodes; ``within`` of them are as good as they have to be."""

    nodes: int
    bound: float
    within: int
    rules: Sequence[Measured]

    def text_lines(self) -> Iterator[str]:
        """Yield what was measured for people."""
        yield f"{NAME}: {self.nodes} nodes, a pass over all of them, microseconds"
        yield f"  {'RULE':<20}{'ESTIMATE':>10}{'MEASURED':>10}{'RATIO':>8}"
        for rule in self.rules:
            mark = "" if rule.within else f"  beyond a factor of {BOUND:g}"
            numbers = f"{rule.estimate_us:>10,.1f}{rule.measured_us:>10,.1f}{rule.ratio:>8.2f}"
            yield f"  {rule.rule:<20}{numbers}{mark}"
        yield f"  {self.within} of {len(self.rules)} within a factor of {BOUND:g}"


def run_rule_costs(nodes: int) -> MeasuredRuleCosts:
    """Measure every rule on so many nodes."""
    cache, pod = _cluster(nodes)
    with quiet_collector():
        rules = [_measured(*named_rule, cache, pod) for named_rule in RULES.items()]
    return MeasuredRuleCosts(NAME, nodes, BOUND, sum(rule.within for rule in rules), rules)


def _measured(rule: str, text: str, cache: Cache, pod: PodInfo) -> Measured:
    unit = _unit(text)
    functions = unit.program.bind(Runtime(cache.nodes, cache.pods))
    n = cache.nodes.n
    rows, cycle = slice(0, n), Activation()
    times = []
    with np.errstate(all="ignore"):
        for _ in range(PASSES + 1):
            start = time.perf_counter_ns()
            functions.vector(pod, cycle, rows, n)
            times.append(time.perf_counter_ns() - start)
    estimate = round(unit.program.full.nanoseconds(n) / 1e3, 1)
    took = round(min(times[1:]) / 1e3, 1)
    return Measured(rule, text, estimate, took, round(estimate / took, 2))


def _unit(text: str) -> Unit:
    core, problems = check_expression(text)
    assert core is not None, problems
    low = make_lowering({}, types.RecordType("record"), {})
    return make_unit(low, [low.plain(low.lower(core, {}))], keeps=True)


def _cluster(nodes: int) -> tuple[Cache, PodInfo]:
    cache = Cache()
    for i in range(nodes):
        cache.add_node(_node(i))
    for i in range(min(2 * nodes, PODS)):
        requests = {"cpu": f"{100 + i % 900}m", "memory": f"{256 + i % 1024}Mi"}
        cache.add_pod(
            _pod(f"pod-{i}", f"team-{i % 7}", requests, {"nodeName": f"node-{i % nodes}"})
        )
    wanted = {
        "nodeSelector": {"tier": "reserved"},
        "tolerations": [{"key": "tier", "operator": "Exists"}],
    }
    return cache, _pod("pod", "team-1", {"cpu": "1", "memory": "2Gi"}, wanted)


def _node(i: int) -> Node:
    amounts = {"cpu": str(8 + i % 56), "memory": f"{32 + i % 96}Gi", "pods": "110"}
    labels = {
        "kubernetes.io/hostname": f"node-{i}",
        "rack": f"rack-{i % 100}",
        "tier": ("spot", "reserved", "on-demand")[i % 3],
        "number": str(i % 11),
    }
    devices = ",".join(str(i % 1000 * k) for k in (1, 3, 7))
    taint = {"key": "tier", "value": "spot", "effect": "NoSchedule"}
    return msgspec.convert(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": f"node-{i}",
                "labels": labels,
                "annotations": {"devices": devices},
            },
            "spec": {"taints": [taint] if i % 3 else []},
            "status": {"allocatable": amounts, "capacity": amounts},
        },
        Node,
    )


def _pod(
    name: str, namespace: str, requests: Mapping[str, str], spec: Mapping[str, object]
) -> PodInfo:
    container = {"name": "main", "resources": {"requests": requests}}
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"{namespace}-{name}",
        "labels": {"tier": "reserved"},
    }
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], **spec},
    }
    return PodInfo.of(msgspec.convert(manifest, Pod))
