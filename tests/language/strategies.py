"""Hypothesis strategies: well-typed expressions as text, and small clusters with odd corners."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from hypothesis import strategies as st

from policy_sched.model.cluster_objects import Namespace, Node
from policy_sched.model.meta import ObjectMeta
from policy_sched.model.pod import Pod
from policy_sched.model.pod_group import GroupCounts
from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import make_node, make_pod

from .oracle_world import World
from .productions import BRANCHES
from .templates import FIELDS, LEAVES, WORDS

#: The parameters that generated expressions read.
PARAMS: Final[dict[str, Any]] = {
    "flag": True,
    "number": 40,
    "ratio": 0.25,
    "word": "b",
    "words": ["a", "b", "é"],
    "numbers": [3, 0, -4],
}
Choose = Callable[[Sequence[str]], str]
#: What needs parentheses around it wherever it is put.
LOOSE: Final = re.compile(r" (&&|\|\||==|!=|<|>|<=|>=|in|/|\?) |^[-!]")
HOLE: Final = re.compile(r"\{([a-z?]+)(?:\|(\w):(\w+))?\}")
#: Names that a section does not see.
HIDDEN: Final = {
    "matchConditions": ("node.", "(node)", "domain(", "cycle.", "queue.", "podGroup."),
    "filter": ("queue.",),
    "score": ("queue.",),
    "preEnqueue": ("node.", "(node)", "domain(", "cluster."),
    "queueSort": ("node.", "(node)", "domain(", "cluster.", "now", "podGroup.waiting"),
    "reserve": ("cycle.", "queue."),
    "permit.timeout": ("cycle.", "queue."),
    "postBind": ("cycle.", "queue."),
    "requeue.hint": ("(node)", "(node,", "domain", "cluster.", "cycle.", "queue.", "podGroup."),
}
RESULTS: Final = {
    "matchConditions": ("bool",),
    "filter": ("bool",),
    "score": ("int", "double"),
    "preEnqueue": ("bool",),
    "queueSort": ("int", "string", "double"),
    "reserve": ("bool",),
    "permit.timeout": ("duration",),
    "postBind": ("string",),
    "requeue.hint": ("bool",),
}


@dataclass(frozen=True, slots=True)
class Scope:
    """What a generated expression may read, and how deep it may still go."""

    hidden: tuple[str, ...]
    depth: int
    root: bool = True
    variables: tuple[tuple[str, str], ...] = ()


def _visible(texts: tuple[str, ...], scope: Scope) -> list[str]:
    return [t for t in texts if not any(word in t for word in scope.hidden)]


def _productions(kind: str, scope: Scope) -> list[str]:
    """Return the productions of a type in a scope, those that read its variables weighing more."""
    own = [
        text.replace("{v}", name)
        for name, of in scope.variables
        for text in FIELDS[of].get(kind, ())
    ]
    near = _visible((*own, *own, *own, *own), scope)
    if scope.depth <= 0:
        return _visible(LEAVES[kind], scope) + near
    deep = _visible(BRANCHES[kind], scope)
    return deep if scope.root else deep * 2 + _visible(LEAVES[kind], scope) + near


def write(choose: Choose, kind: str, scope: Scope) -> str:
    """Write an expression of a type, every choice being made by ``choose``."""
    production = choose(_productions(kind, scope))
    fresh = len(scope.variables)
    inner = replace(scope, depth=scope.depth - 1, root=False)

    def hole(found: re.Match[str]) -> str:
        name, variable, of = found.groups()
        if name in WORDS:
            return choose(WORDS[name])
        there = inner
        if variable is not None:
            there = replace(inner, variables=(*scope.variables, (f"{variable}{fresh}", of)))
        part = write(choose, name, there)
        return f"({part})" if LOOSE.search(part) else part

    return HOLE.sub(hole, re.sub(r"\$(\w)", lambda found: f"{found[1]}{fresh}", production))


def scope_of(section: str, depth: int) -> Scope:
    """Return what a rule of a section may read, with at most ``depth`` levels."""
    return Scope(HIDDEN[section], depth)


@st.composite
def rules(draw: st.DrawFn, section: str, depth: int = 3) -> str:
    """Draw an expression of a type that a section's rule may have."""

    def choose(options: Sequence[str]) -> str:
        return draw(st.sampled_from(options))

    return write(choose, choose(RESULTS[section]), scope_of(section, depth))


TEXTS: Final = st.sampled_from(
    ["", "a", "b", "c", "7", "-3", "0", "é😀", "9223372036854775807", "1.5", "A b"]
)
#: Values that the API takes in a node selector requirement.
VALID: Final = st.sampled_from(["", "a", "b", "7", "0"])
AMOUNTS: Final = st.sampled_from(["0", "1", "100m", "2500m", "4", "64"])
SIZES: Final = st.sampled_from(["0", "1", "200Mi", "32Gi", "1125899906842624"])
EFFECTS: Final = st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"])
IMAGES: Final = st.sampled_from(["img:1", "registry/img:2", "plain"])
MOMENTS: Final = st.sampled_from([None, datetime(2024, 2, 29, 11, 59, tzinfo=UTC)])
NAMESPACES: Final = st.sampled_from(["a", "b", "default"])


def labels(*keys: str) -> st.SearchStrategy[dict[str, str]]:
    """Labels of which any may be missing."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys(keys, TEXTS))


TAINTS: Final = st.lists(
    st.fixed_dictionaries(
        {"key": st.sampled_from(["k", "l"]), "effect": EFFECTS},
        optional={"value": st.sampled_from(["v", "w"])},
    ),
    max_size=3,
)
TOLERATIONS: Final = st.lists(
    st.fixed_dictionaries(
        {"operator": st.sampled_from(["Exists", "Equal", ""])},
        optional={
            "key": st.sampled_from(["k", "l"]),
            "value": st.sampled_from(["v", "w"]),
            "effect": EFFECTS,
            "tolerationSeconds": st.sampled_from([0, 3, 300]),
        },
    ),
    max_size=2,
)
REQUESTS: Final = st.fixed_dictionaries(
    {},
    optional={"cpu": AMOUNTS, "memory": SIZES, "example.com/gpu": st.sampled_from(["0", "1", "3"])},
)
REQUIREMENTS: Final = st.one_of(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(["zone", "rank"]),
            "operator": st.sampled_from(["In", "NotIn"]),
            "values": st.lists(VALID, min_size=1, max_size=2),
        }
    ),
    st.fixed_dictionaries(
        {"key": st.just("rank"), "operator": st.sampled_from(["Exists", "DoesNotExist"])}
    ),
    st.fixed_dictionaries(
        {
            "key": st.just("rank"),
            "operator": st.sampled_from(["Gt", "Lt"]),
            "values": st.just(["2"]),
        }
    ),
)
TERMS: Final = st.fixed_dictionaries({"matchExpressions": st.lists(REQUIREMENTS, max_size=2)})
AFFINITIES: Final = st.fixed_dictionaries(
    {},
    optional={
        "requiredDuringSchedulingIgnoredDuringExecution": st.fixed_dictionaries(
            {"nodeSelectorTerms": st.lists(TERMS, min_size=1, max_size=2)}
        ),
        "preferredDuringSchedulingIgnoredDuringExecution": st.lists(
            st.fixed_dictionaries({"weight": st.integers(1, 100), "preference": TERMS}), max_size=2
        ),
    },
)


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    """Draw a node: labels missing, capacities zero or absent, taints twice."""
    resources: dict[str, str | int | float] = {**draw(REQUESTS)}
    if draw(st.booleans()):
        resources["pods"] = draw(st.sampled_from(["0", "3", "110"]))
    node = make_node(
        name,
        labels=draw(labels("zone", "rank", "app")),
        annotations=draw(labels("note")),
        taints=draw(TAINTS),
        unschedulable=draw(st.booleans()),
        ready=draw(st.booleans()),
        images=draw(st.dictionaries(IMAGES, st.sampled_from([0, 40_000_000, 2**40]), max_size=2)),
    )
    node.status.allocatable = node.status.capacity = resources
    node.metadata.creation_timestamp = draw(MOMENTS)
    return node


@st.composite
def pods(draw: st.DrawFn, name: str, node_name: str | None = None) -> Pod:
    """Draw a pod, bound to a node or not."""
    extra: dict[str, Any] = {}
    if draw(st.booleans()):
        extra["affinity"] = {"nodeAffinity": draw(AFFINITIES)}
    if node_name is not None:
        extra["node_name"] = node_name
    return make_pod(
        name,
        namespace=draw(NAMESPACES),
        requests=draw(REQUESTS),
        labels=draw(labels("a", "rank", "app")),
        tolerations=draw(TOLERATIONS),
        node_selector=draw(st.just({}) | labels("zone")),
        priority=draw(st.sampled_from([0, 5, -7, 2_000_000_000, -2_147_483_648])),
        host_ports=draw(st.lists(st.sampled_from([80, 443]), max_size=1)),
        images=draw(st.lists(IMAGES, max_size=2)),
        created=draw(st.sampled_from([None, "2024-02-29T11:58:00Z"])),
        gates=draw(st.lists(st.sampled_from(["g", "h"]), max_size=2, unique=True)),
        **extra,
    )


@st.composite
def worlds(draw: st.DrawFn, max_nodes: int = 5, max_pods: int = 4) -> tuple[World, PodInfo]:
    """Draw a cluster and the pod that is to be scheduled."""
    count = draw(st.integers(1, max_nodes))
    members = [draw(nodes(f"n{i}")) for i in range(count)]
    bound = [
        PodInfo.of(draw(pods(f"bound{i}", f"n{draw(st.integers(0, count - 1))}")))
        for i in range(draw(st.integers(0, max_pods)))
    ]
    known = {
        name: Namespace(metadata=ObjectMeta(name=name, labels=draw(labels("tenant"))))
        for name in draw(st.lists(NAMESPACES, max_size=2, unique=True))
    }
    now = 1_709_208_000_000_000_000
    few = st.integers(0, 3)
    group = GroupCounts(draw(TEXTS), draw(few), draw(few), draw(few), draw(few))
    return World(members, bound, known, now, group), PodInfo.of(draw(pods("asked")))
