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
from tests import finite

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
    choose = finite.chooser(draw)
    return write(choose, choose(RESULTS[section]), scope_of(section, depth))


TEXTS: Final = finite.of(
    "", "a", "b", "c", "7", "-3", "0", "é😀", "9223372036854775807", "1.5", "A b"
)
#: Values that the API takes in a node selector requirement.
VALID: Final = finite.of("", "a", "b", "7", "0")
IMAGES: Final = ("img:1", "registry/img:2", "plain")
NAMESPACES: Final = ("a", "b", "default")
EFFECTS: Final = finite.of("NoSchedule", "PreferNoSchedule", "NoExecute")
FLAG: Final = finite.of(False, True)
RESOURCES: Final = {
    "cpu": finite.of("0", "1", "100m", "2500m", "4", "64"),
    "memory": finite.of("0", "1", "200Mi", "32Gi", "1125899906842624"),
    "example.com/gpu": finite.of("0", "1", "3"),
}


def labels(*keys: str) -> finite.Finite[dict[str, str]]:
    """Labels of which any may be missing."""
    return finite.fields({}, dict.fromkeys(keys, TEXTS))


TENANTS: Final = labels("tenant").strategy()
NODE_LABELS: Final = labels("zone", "rank", "app").strategy()
POD_LABELS: Final = labels("a", "rank", "app").strategy()
NODE_RESOURCES: Final = finite.fields(
    {}, {**RESOURCES, "pods": finite.of("0", "3", "110")}
).strategy()
REQUESTS: Final = finite.fields({}, RESOURCES).strategy()
TAINTS: Final = finite.lists(
    finite.fields({"key": finite.of("k", "l"), "effect": EFFECTS}, {"value": finite.of("v", "w")}),
    3,
).strategy()
TOLERATIONS: Final = finite.lists(
    finite.fields(
        {"operator": finite.of("Exists", "Equal", "")},
        {
            "key": finite.of("k", "l"),
            "value": finite.of("v", "w"),
            "effect": EFFECTS,
            "tolerationSeconds": finite.of(0, 3, 300),
        },
    ),
    2,
).strategy()
REQUIREMENT: Final = finite.either(
    finite.fields({
        "key": finite.of("zone", "rank"),
        "operator": finite.of("In", "NotIn"),
        "values": finite.lists(VALID, 2, least=1),
    }),
    finite.fields({"key": finite.of("rank"), "operator": finite.of("Exists", "DoesNotExist")}),
    finite.fields({
        "key": finite.of("rank"), "operator": finite.of("Gt", "Lt"), "values": finite.of(["2"])
    }),
)  # fmt: skip
TERMS: Final = finite.fields({"matchExpressions": finite.lists(REQUIREMENT, 2)}).strategy()
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
NODE_FACTS: Final = finite.fields({
    "annotations": labels("note"),
    "unschedulable": FLAG,
    "ready": FLAG,
    "images": finite.fields({}, dict.fromkeys(IMAGES, finite.of(0, 40_000_000, 2**40))),
    "created": finite.of(None, datetime(2024, 2, 29, 11, 59, tzinfo=UTC)),
}).strategy()  # fmt: skip
POD_FACTS: Final = finite.fields({
    "affinity": FLAG,
    "namespace": finite.of(*NAMESPACES),
    "node_selector": finite.fields({}, {"zone": TEXTS}),
    "priority": finite.of(0, 5, -7, 2_000_000_000, -2_147_483_648),
    "host_ports": finite.of((), (80,), (443,)),
    "images": finite.lists(finite.of(*IMAGES), 2),
    "created": finite.of(None, "2024-02-29T11:58:00Z"),
    "gates": finite.of((), ("g",), ("h",), ("g", "h"), ("h", "g")),
}).strategy()  # fmt: skip
WORLD_FACTS: Final = finite.fields({
    "namespaces": finite.of((), ("a",), ("b",), ("default",), ("a", "b"), ("default", "b")),
    "group": finite.fields({
        "name": TEXTS, "members": finite.lists(finite.of(0, 1, 2, 3), 4, least=4),
    }),
}).strategy()  # fmt: skip


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    """Draw a node: labels missing, capacities zero or absent, taints twice."""
    resources: dict[str, str | int | float] = draw(NODE_RESOURCES)
    facts = draw(NODE_FACTS)
    created = facts.pop("created")
    node = make_node(name, labels=draw(NODE_LABELS), taints=draw(TAINTS), **facts)
    node.status.allocatable = node.status.capacity = resources
    node.metadata.creation_timestamp = created
    return node


@st.composite
def pods(draw: st.DrawFn, name: str, node_name: str | None = None) -> Pod:
    """Draw a pod, bound to a node or not."""
    facts = draw(POD_FACTS)
    if facts.pop("affinity"):
        facts["affinity"] = {"nodeAffinity": draw(AFFINITIES)}
    if node_name is not None:
        facts["node_name"] = node_name
    return make_pod(
        name,
        requests=draw(REQUESTS),
        labels=draw(POD_LABELS),
        tolerations=draw(TOLERATIONS),
        **facts,
    )


@st.composite
def worlds(draw: st.DrawFn, max_nodes: int = 5, max_pods: int = 4) -> tuple[World, PodInfo]:
    """Draw a cluster and the pod that is to be scheduled."""
    count = 1 + draw(finite.numbers(max_nodes))
    members = [draw(nodes(f"n{i}")) for i in range(count)]
    bound = [
        PodInfo.of(draw(pods(f"bound{i}", f"n{draw(finite.numbers(count))}")))
        for i in range(draw(finite.numbers(max_pods + 1)))
    ]
    facts = draw(WORLD_FACTS)
    known = {
        name: Namespace(metadata=ObjectMeta(name=name, labels=draw(TENANTS)))
        for name in facts["namespaces"]
    }
    now = 1_709_208_000_000_000_000
    group = GroupCounts(facts["group"]["name"], *facts["group"]["members"])
    return World(members, bound, known, now, group), PodInfo.of(draw(pods("asked")))
