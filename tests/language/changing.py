"""A cluster that changes, and whether all ways to evaluate a rule follow it."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
from hypothesis import strategies as st

from policy_sched.cluster.cache import Cache
from policy_sched.language.expression import BoundExpression, Expression
from policy_sched.language.runtime.activation import Activation
from policy_sched.model.pod_info import PodInfo
from tests.finite import chooser

from .harness import checked, compiled
from .strategies import PARAMS, nodes, pods

NOW: Final = Activation(now=1_709_208_000_000_000_000)


def assert_fresh(bound: BoundExpression, cache: Cache, pod: PodInfo) -> None:
    """Compare a full pass over materialized columns with row numbers and single rows."""
    table = bound.table
    kept = list(zip(*bound.vector(pod, NOW), strict=True))
    plain = list(zip(*bound.vector(pod, NOW, np.arange(table.n)), strict=True))
    for row in sorted(table.row_of.values()):
        (value, error), (expected, problem) = kept[row], plain[row]
        assert error == problem, row
        assert error or repr(value) == repr(expected), row
        one, alone = bound.scalar(pod, NOW, row)
        assert error == alone, row
        assert error or repr(value) == repr(one), row


def change(data: st.DataObject, cache: Cache, step: int) -> None:
    """Let something happen to the cluster."""
    names = sorted(cache.nodes.row_of)
    running = [p for name in names for p in cache.nodes.pods_on(cache.nodes.row_of[name]).values()]
    choose = chooser(data.draw)
    what = choose(["assume", "remove", "update", "add node", "remove node"])
    if what == "add node":
        cache.add_node(data.draw(nodes(f"new{step}")))
    elif what == "remove" and running:
        cache.remove_pod(choose(running))
    elif names:
        name = choose(names)
        if what == "update":
            cache.update_node(data.draw(nodes(name)))
        elif what == "remove node":
            node = cache.nodes.nodes[cache.nodes.row_of[name]]
            assert node is not None
            cache.remove_node(node)
        elif what == "assume":
            cache.assume(PodInfo.of(data.draw(pods(f"pod{step}"))), name)


def bound_to(text: str, cache: Cache, section: str, *, with_pods: bool = True) -> BoundExpression:
    """Bind a text that must compile."""
    return _compiled(text, section).bind(cache.nodes, cache.pods if with_pods else None)


@lru_cache(maxsize=64)
def _compiled(text: str, section: str) -> Expression:
    """Compile a text once: an expression knows no cluster before it is bound."""
    tree, problems = checked(text, section, PARAMS)
    assert tree is not None, problems
    expression = compiled(tree, PARAMS)
    assert expression is not None, text
    return expression
