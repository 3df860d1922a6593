"""The same policy, pod and nodes give the same bytes: whatever hashes, orders and threads do.

Point 7 of the language's test plan.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from hypothesis import given, strategies as st

from policy_sched.model.pod_info import PodInfo

from .harness import Evaluation, agree, evaluate
from .oracle_world import World
from .strategies import PARAMS, rules, worlds

#: Compiles rules that go through sets and maps, and prints programs, reads, values and errors.
SCRIPT: Final = """
import numpy as np
from policy_sched.cluster.cache import Cache
from policy_sched.language.check.policy import check_expression
from policy_sched.language.runtime.activation import Activation
from policy_sched.language.values.types import params_type
from policy_sched.language.expression import (compile_expression)
from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import make_node, make_pod

PARAMS = {"weights": {"b": 2, "a": 1, "c": 3}}
TEXTS = (
    'params.weights.map(k, k + node.name).join(",") + string(node.taints.size())',
    'pod.labels.transformMap(k, v, v + node.labels[?k].orValue("-")).map(k, k).join()',
    'pod.requests.names().filter(r, node.free[r].sign() > 0).join(",") + node.free.names().join()',
    'node.pods.map(p, p.name).sort().join(",") + string(domain("zone").podCount)',
    'node.taints.filter(t, t.effect == "NoSchedule" && !pod.tolerates(t)).map(t, t.key).join()',
    'string(stableHash(node.name, 97)) + string(node.images.size())',
)
cache = Cache()
for i in range(6):
    cache.add_node(make_node(f"n{i}", labels={"zone": "ab"[i % 2], "x": str(i)},
        taints=[{"key": f"k{i % 3}", "effect": "NoSchedule"}], images={"img": 5, f"i{i}": 7}))
    cache.add_pod(PodInfo.of(make_pod(f"p{i}", node_name=f"n{i % 4}", labels={"a": "1", "b": "2"})))
pod = PodInfo.of(make_pod("p", labels={"x": "1", "zone": "2", "app": "3"}, cpu="1"))
for text in TEXTS:
    tree, problems = check_expression(text, "any", PARAMS)
    found = compile_expression(tree, PARAMS, params_type(PARAMS))
    bound = found.bind(cache.nodes)
    print(found.program.text, sorted(found.reads.pod), sorted(found.reads.node))
    given = Activation()
    print(bound.vector(pod, given), [bound.scalar(pod, given, row) for row in range(6)])
"""


def printed(seed: str) -> str:
    """Return what the script prints where Python hashes with a seed."""
    given_env = {**os.environ, "PYTHONHASHSEED": seed, "POLICY_SCHED_CACHE": ""}
    done = subprocess.run(  # our own script
        [sys.executable, "-c", SCRIPT], env=given_env, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_hashes_change_nothing() -> None:
    """Programs, what they read, and what they give are the same for two seeds of hashes."""
    first, second = printed("1"), printed("4711")
    assert len(first) > 1000
    assert first == second


def _shuffled(value: Any, data: st.DataObject) -> Any:
    if not isinstance(value, dict):
        return value
    keys = data.draw(st.permutations(list(value)))
    return {key: _shuffled(value[key], data) for key in keys}


def _evaluated(text: str, section: str, world: World, pod: PodInfo, params: Any) -> Any:
    return evaluate(text, world, pod, section=section, params=params)


@given(rules("filter"), worlds(), st.data())
def test_the_order_of_keys_changes_nothing(
    text: str, situation: tuple[World, PodInfo], data: st.DataObject
) -> None:
    """Labels, annotations and parameters in another order give the same."""
    world, pod = situation
    before = _evaluated(text, "filter", world, pod, PARAMS)
    if before is None:
        return
    expected = before.vector()
    for node in world.nodes:
        node.metadata.labels = _shuffled(node.metadata.labels, data)
        node.metadata.annotations = _shuffled(node.metadata.annotations, data)
    after = _evaluated(text, "filter", world, pod, _shuffled(PARAMS, data))
    assert after is not None
    assert all(agree(a, b) for a, b in zip(after.vector(), expected, strict=True))


@given(rules("score"), worlds())
def test_threads_change_nothing(text: str, situation: tuple[World, PodInfo]) -> None:
    """One program over one table, run by four threads at a time, gives each of them the same."""
    found = _evaluated(text, "score", *situation, PARAMS)
    if found is None:
        return
    expected = found.vector()

    def run(evaluation: Evaluation) -> bool:
        return all(agree(a, b) for a, b in zip(evaluation.vector(), expected, strict=True))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, [found] * 8))
