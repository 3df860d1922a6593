"""PodTopologySpread and InterPodAffinity repeat kube-scheduler's recorded decisions."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from policy_sched.client.memory import MemoryClient
from policy_sched.cluster.cache import Cache
from policy_sched.cluster.listers import ApiObjects
from policy_sched.framework.evaluate import Evaluation, Evaluator
from policy_sched.framework.handle import Handle
from policy_sched.framework.hookspecs import hookimpl
from policy_sched.framework.results import FilterResult, Rows
from policy_sched.framework.runtime.pipeline import Pipeline, freeze, implementations
from policy_sched.framework.runtime.runner import Runner
from policy_sched.framework.status import Code, Status
from policy_sched.framework.waiting_pods import WaitingPods
from policy_sched.model.cluster_objects import Namespace, Node
from policy_sched.model.kinds import KINDS
from policy_sched.model.pod import Pod
from policy_sched.model.pod_info import PodInfo
from policy_sched.plugins.interpodaffinity.plugin import InterPodAffinity
from policy_sched.plugins.podtopologyspread.plugin import PodTopologySpread
from policy_sched.queue.nominator import Nominator

CONFORMANCE = Path(__file__).parents[1] / "conformance"
OURS = {"PodTopologySpread": PodTopologySpread, "InterPodAffinity": InterPodAffinity}
WEIGHTS = {"PodTopologySpread": 2, "InterPodAffinity": 2}


class Others:
    """Replaces all other plugins: rejects the nodes that they rejected in the record."""

    def __init__(self) -> None:
        self.rejected: list[int] = []
        self.n = 0

    @hookimpl
    def filter(self, rows: Rows) -> FilterResult:
        codes = np.zeros(self.n, np.int16)
        codes[self.rejected] = 1
        return FilterResult.of(codes if rows is None else codes[rows], Status(Code.UNSCHEDULABLE))


def pipeline(handle: Handle, others: Others, args: Mapping[str, Any]) -> Pipeline:
    plugins: dict[str, object] = {"Others": others}
    plugins |= {name: kind(args.get(name, {}), handle) for name, kind in OURS.items()}
    names = [(name, WEIGHTS[name]) for name in OURS]
    order = {
        "preFilter": names,
        "filter": [("Others", 1), *names],
        "preScore": names,
        "score": names,
    }
    implemented = {name: implementations(plugin, name) for name, plugin in plugins.items()}
    return freeze("default-scheduler", implemented, order)


class Replay:
    """One scenario, step by step."""

    def __init__(self, scenario: Mapping[str, Any]) -> None:
        objects = [decode(one) for one in scenario["objects"]]
        self.cache = Cache()
        self.others = Others()
        handle = Handle(
            self.cache, WaitingPods(), Nominator(), MemoryClient(), lambda: 0, ApiObjects(objects)
        )
        profiles = scenario.get("config", {}).get("profiles", [{}])
        args = {entry["name"]: entry["args"] for entry in profiles[0].get("pluginConfig", ())}
        self.runner = Runner(pipeline(handle, self.others, args))
        for one in objects:
            if isinstance(one, Node):
                self.cache.add_node(one)
            elif isinstance(one, Namespace):
                self.cache.set_namespace(one)
        for one in objects:
            if isinstance(one, Pod):
                self.cache.add_pod(PodInfo.of(one))

    def evaluate(self, pod: PodInfo, expected: Mapping[str, Any]) -> Evaluation:
        row_of = self.cache.nodes.row_of
        self.others.n = self.cache.nodes.n
        self.others.rejected = [
            row_of[node]
            for node, answer in expected.get("rejected", {}).items()
            if answer.get("plugin") not in OURS
        ]
        return Evaluator(self.runner, self.cache.nodes, cached=False).evaluate(pod)


def decode(one: Mapping[str, Any]) -> object:
    return msgspec.convert(one, KINDS[one["apiVersion"], one["kind"]], strict=False)


def steps(family: str) -> Iterator[tuple[str, Replay, PodInfo, Mapping[str, Any]]]:
    with gzip.open(CONFORMANCE / f"{family}.jsonl.gz") as lines:
        for line in lines:
            scenario = json.loads(line)
            replay = Replay(scenario)
            for pending, expected in zip(scenario["pending"], scenario["expect"], strict=True):
                pod = PodInfo.of(decode(pending))  # type: ignore[arg-type]  # a Pod
                yield f"{scenario['name']} {pod.name}", replay, pod, expected
                if len(expected.get("preemption") or ()) == 1:
                    break  # from here on a nominated pod counts, outside these plugins
                if expected.get("chosen"):
                    replay.cache.assume(pod, expected["chosen"])


@pytest.mark.parametrize("family", ["spread", "interpod", "mixed"])
def test_statuses_and_scores_are_kube_schedulers(family: str) -> None:
    """On every node both plugins reject with the recorded status, or score as recorded."""
    compared = 0
    for where, replay, pod, expected in steps(family):
        if "preEnqueue" in expected or "preFilter" in expected:
            continue
        evaluation = replay.evaluate(pod, expected)
        names = replay.cache.nodes.names
        statuses = {
            names[row]: (status.code.value, status.plugin, list(status.reasons))
            for row, status in evaluation.filtering.statuses().items()
            if status.plugin in OURS
        }
        recorded = {
            node: (answer["code"], answer["plugin"], answer["reasons"])
            for node, answer in expected.get("rejected", {}).items()
            if answer.get("plugin") in OURS
        }
        assert statuses == recorded, where
        compared += 1
        if evaluation.scoring is None:
            assert not expected["feasible"], where
            continue
        rows = evaluation.filtering.feasible_rows()
        weighted = evaluation.scoring.weighted(rows)
        for plugin in OURS:
            ours = dict(
                zip(
                    [names[row] for row in rows.tolist()],
                    weighted.get(plugin, [0] * rows.size),
                    strict=True,
                )
            )
            theirs = {n: s["plugins"].get(plugin, 0) for n, s in expected["scores"].items()}
            assert ours == theirs, f"{where} {plugin}"
    assert compared > 100
