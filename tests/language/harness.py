"""From text to results in three ways: the vector function, the scalar function, and the oracle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from policy_sched.cluster.cache import Cache
from policy_sched.errors import Diagnostic, Severity
from policy_sched.language import typed
from policy_sched.language.checker import check_expression
from policy_sched.model.pod_info import PodInfo

from .oracle import Oracle
from .oracle_values import OracleError
from .oracle_world import ClusterRecord, NamespaceRecord, NodeRecord, World


@dataclass(frozen=True, slots=True)
class Outcome:
    """A value, or the kind of the error that took its place ("" where there is none)."""

    value: Any
    error: str = ""


def cache_of(world: World) -> Cache:
    """Return a cache that holds a world's nodes, in row order, and its pods."""
    cache = Cache()
    for namespace in world.namespaces.values():
        cache.set_namespace(namespace)
    for node in world.nodes:
        cache.add_node(node)
    for pod in world.pods:
        cache.add_pod(pod)
    return cache


def names_of(world: World, pod: PodInfo, row: int, params: Mapping[str, Any]) -> dict[str, object]:
    """Return what the variables of an expression mean on one row."""
    return {
        "params": dict(params),
        "pod": pod,
        "node": NodeRecord(world, world.nodes[row]),
        "cluster": ClusterRecord(world),
        "namespaceObject": NamespaceRecord(world, pod.namespace),
        "now": world.now,
    }


def oracle_outcome(tree: typed.Core, names: dict[str, object]) -> Outcome:
    """Return what the oracle makes of a tree."""
    try:
        return Outcome(Oracle(names).value(tree))
    except OracleError as error:
        return Outcome(None, error.kind)


def checked(
    text: str, section: str = "any", params: Mapping[str, Any] | None = None
) -> tuple[typed.Core | None, list[Diagnostic]]:
    """Check one expression; it has either a tree or problems, each with a code and a place.

    Warnings are left out.
    """
    tree, found = check_expression(text, section, params)
    problems = [p for p in found if p.severity is Severity.ERROR]
    assert (tree is None) == bool(problems)
    for problem in problems:
        assert problem.code.startswith("PS")
        assert problem.line >= 1
        assert problem.column >= 1
    return tree, problems
