"""Promises about what proofs assume: no pod or node that the API accepts is another."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import z3

from policy_sched.client.apimachinery.resources import ApiError, resource
from policy_sched.cluster.cache import Cache
from policy_sched.embedded.apiserver.validation.checks import check_new
from policy_sched.errors import ClusterError
from policy_sched.manifests import decode_object
from policy_sched.model import Node, Pod, PodInfo
from policy_sched.prove import ASSUMPTIONS
from policy_sched.prove.terms import (
    Code,
    Listing,
    Mapping as MapTerm,
    Record,
    Terms,
    is_term,
    lifted,
)
from policy_sched.prove.world import World
from policy_sched.scheduler.setup import load_cluster
from policy_sched.testing import make_node, make_pod
from tests.cluster.tables import test_quotas
from tests.embedded.world import World as Cluster, node, pod
from tests.language.harness import evaluate
from tests.language.oracle_world import World as Nodes
from tests.prove.test_hostile import stated, verdicts
from tests.scheduler import test_scheduler

Plain = dict[str, Any]
Key = tuple[Any, ...]
HERE = Path(__file__).parents[1] / "conformance"
RECORDED: Final = sorted(
    file
    for folder in {HERE, Path(os.environ.get("POLICY_SCHED_CONFORMANCE") or HERE)}
    for file in folder.rglob("*.jsonl*")
    if "refused" not in file.parts
)
TEXTS: Final = (
    *("name", "namespace", "owner_name", "owner_uid", "owner_kind"),
    *("node_name", "service_account_name", "preemption_policy"),
)
MAPS: Final = ("labels", "annotations", "node_selector")
AMOUNTS: Final = ("requests", "limits", "non_zero_requests")


class Judge:
    """Reads pods and nodes into the constants of one world, and says which facts they break."""

    def __init__(self) -> None:
        self.world = World(Terms(), 12)
        self._facts: dict[str, list[tuple[int, Any, frozenset[str]]]] = {}
        self._seen = 0
        self._told: dict[tuple[Any, ...], bool] = {}

    def pod(self, info: PodInfo) -> list[str]:
        """Return what a pod breaks."""
        record = Record("Pod", ("pod",))
        values: dict[Key, Any] = {}
        for name in TEXTS:
            self.world.attribute(record, name, "s")
            values["pod", name] = getattr(info, name)
        self.world.attribute(record, "priority", "i")
        values["pod", "priority"] = info.priority
        for name in MAPS:
            for key, text in getattr(info, name).items():
                self.world.entry(self.world.attribute(record, name, "o"), key)
                values["pod", name, key] = text
        for name in AMOUNTS:
            for key, amount in getattr(info, name).items():
                self.world.amount(MapTerm("amounts", ("pod", name)), key)
                values["pod", name, key] = amount
        gates = ("pod", "scheduling_gates")
        self.world.attribute(record, gates[1], "o")
        values |= {(*gates, i): name for i, name in enumerate(info.scheduling_gates)}
        values[*gates, "length"] = len(info.scheduling_gates)
        listing = self.world.attribute(record, "tolerations", "o")
        parts = ("key", "operator", "value", "effect")
        values |= self._list(listing, ("pod", "tolerations"), info.tolerations, parts)
        return self._broken(values)

    def nodes(self, cache: Cache) -> Iterator[tuple[str, str]]:
        """Yield the names of nodes of a cache, and what they break."""
        for row, plain in enumerate(cache.nodes.nodes[: cache.nodes.n]):
            if plain is not None:
                broken = self._broken(self._node(cache, row, plain))
                yield from ((plain.metadata.name, fact) for fact in broken)

    def _node(self, cache: Cache, row: int, stated: Node) -> dict[Key, Any]:
        values: dict[Key, Any] = {("node", "name"): stated.metadata.name}
        self.world.column("name", "", "c")
        for family, texts in (
            ("label", stated.metadata.labels),
            ("annotation", stated.metadata.annotations),
        ):
            for key, text in texts.items():
                self.world.column(family, key, "c")
                values["node", family, key] = text
        for name in {*stated.status.allocatable, *stated.status.capacity, "cpu", "memory"}:
            for family in ("allocatable", "capacity", "requested", "nonZeroRequested"):
                leaf = self.world.column(family, name, "i")
                stands = int(cache.nodes.lookup((family, name)).view[row])
                if is_term(leaf):
                    values["node", family, name] = stands
                assert is_term(leaf) or stands == leaf == 0
            free = values["node", "allocatable", name] - values.get(("node", "requested", name), 0)
            assert cache.nodes.lookup(("free", name)).view[row] == free
        for family in ("podCount", "creationTime"):
            self.world.column(family, "", "i")
            values["node", family] = int(cache.nodes.lookup((family,)).view[row])
        parts = ("key", "value", "effect")
        taints = self.world.taints()
        return values | self._list(taints, ("node", "taints"), stated.spec.taints, parts)

    def _list(self, listing: Listing, key: Key, items: Any, parts: Any) -> dict[Key, Any]:
        values: dict[Key, Any] = {(*key, "length"): len(items)}
        for i, ((_, record), item) in enumerate(zip(listing.items, items, strict=False)):
            for part in parts:
                self.world.attribute(record, part, "s")
                values[*key, i, part] = getattr(item, part)
        return values

    def _broken(self, values: Mapping[Key, Any]) -> list[str]:
        by_name: dict[str, tuple[Any, Any]] = {}
        for key, value in values.items():
            leaf, name = self.world.leaves[key], ".".join(map(str, key))
            if isinstance(leaf, Code):
                by_name[f"{name}.present"] = (leaf.present, True)
                leaf = leaf.text
            by_name[name] = (leaf, value)
        self._note()
        names = by_name.keys()
        facts = {fact[0]: fact for name in names for fact in self._facts.get(name, ())}
        return [
            str(term)
            for number, term, of in facts.values()
            if of <= names and not self._holds(number, term, [by_name[name] for name in sorted(of)])
        ]

    def _note(self) -> None:
        """Index the facts that are new."""
        facts = self.world.terms.assumed[self._seen :]
        self._seen += len(facts)
        known = Terms()
        known.assumed = facts
        for number, fact in enumerate(known.facts(), self._seen - len(facts)):
            for name in fact.names:
                self._facts.setdefault(name, []).append((number, fact.term, fact.names))

    def _holds(self, number: int, fact: Any, given: list[tuple[Any, Any]]) -> bool:
        key = (number, *(value for _, value in given))
        if key not in self._told:
            pairs = [(leaf, lifted(value, leaf)) for leaf, value in given]
            self._told[key] = z3.is_true(z3.simplify(z3.substitute(fact, *pairs)))
        return self._told[key]


def judged(*manifests: Plain) -> list[str]:
    """Return what pods and nodes break, or why they are none, however wrong they are."""
    judge, cache = Judge(), Cache()
    kinds = {"Pod": Pod, "Node": Node}
    try:
        objects = [msgspec.convert(data, kinds[data["kind"]], strict=False) for data in manifests]
    except msgspec.ValidationError as error:
        return [str(error)]
    load_cluster(cache, objects)
    pods = [PodInfo.of(item) for item in objects if isinstance(item, Pod)]
    nodes = [fact for _, fact in judge.nodes(cache)]
    return [*(fact for info in pods for fact in judge.pod(info)), *nodes]


def refusal(manifest: Plain) -> str:
    """Return why the API server does not create an object; "" if it does."""
    try:
        check_new(resource((manifest["apiVersion"], manifest["kind"])), manifest)
        Cluster(nodes=0).cluster.apply(manifest)
    except (ApiError, ClusterError) as error:
        return str(error)
    return ""


def with_metadata(manifest: Plain, **fields: Any) -> Plain:
    """Return an object with more metadata."""
    return {**manifest, "metadata": {**manifest["metadata"], **fields}}


def owned(**fields: Any) -> Plain:
    """Return a pod with an owner that lacks something."""
    owner = {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "a", "controller": True, **fields}
    return with_metadata(pod("p"), ownerReferences=[owner])


def with_resources(*containers: Plain, **fields: Any) -> Plain:
    """Return a pod whose containers have these resources."""
    names = ({"name": f"c{i}", "image": "i"} for i in range(len(containers)))
    given = [{**n, "resources": of} for n, of in zip(names, containers, strict=True)]
    return pod("p", containers=given, **fields)


def with_status(**fields: Any) -> Plain:
    """Return a node with these amounts."""
    plain = node("n")
    return {**plain, "status": {**plain["status"], **fields}}


TAINT: Final = {"key": "k", "value": "v", "effect": "NoSchedule"}
LONG: Final = "a" * 64
BREAKING: Final[dict[str, list[Plain]]] = {
    "names": [
        pod("P"),
        node("A_b"),
        with_metadata(pod("p"), namespace="A"),
        pod("p", nodeName="N"),
        pod("p", serviceAccountName="A b"),
    ],
    "owners": [owned(kind=""), owned(name=""), owned(uid="")],
    "labels": [
        *(with_metadata(pod("p"), labels={"a": text}) for text in ("a b", "-", "a.", LONG)),
        *(node("n", labels={"a": text}) for text in ("é", "_a", LONG)),
        pod("p", nodeSelector={"a": "a/b"}),
    ],
    "amounts": [
        with_resources({"requests": {"cpu": "-1"}}),
        with_resources({"limits": {"memory": "-1"}}),
        *(with_status(**{part: {"memory": "81Pi"}}) for part in ("allocatable", "capacity")),
    ],
    "priority": [pod("p", priority=2**31), pod("p", priority=-(2**31) - 1)],
    "preemption": [pod("p", preemptionPolicy="Sometimes")],
    "gates": [pod("p", schedulingGates=[{"name": ""}])],
    "taints": [
        *(node("n", taints=[{**TAINT, name: ""}]) for name in ("key", "effect")),
        node("n", taints=[{**TAINT, "effect": "Sometimes"}]),
        node("n", taints=[{**TAINT, "value": "a b"}]),
        node("n", taints=[TAINT, {**TAINT, "value": "w"}]),
    ],
    "tolerations": [
        pod("p", tolerations=[toleration])
        for toleration in (
            {"key": "k", "operator": "Like"},
            {"operator": "Equal", "value": "v"},
            {"operator": "Lt", "value": "1"},
            {"key": "k", "operator": "Exists", "value": "v"},
            {"key": "k", "operator": "Equal", "value": "a b"},
            {"key": "a b", "operator": "Exists"},
            {"key": "k", "operator": "Exists", "effect": "Sometimes"},
        )
    ],
}
"""By assumption, objects that break it."""


@pytest.mark.parametrize("name", BREAKING)
def test_what_breaks_an_assumption_is_refused(name: str) -> None:
    """The model excludes it, and so does the API server."""
    for manifest in BREAKING[name]:
        assert judged(manifest), manifest
        assert refusal(manifest), manifest


ODD: Final = [
    owned(kind="A b", name="A_b \U0010ffff", uid="U/u"),
    with_metadata(pod("p"), annotations={"a": "\U0010ffff\n"}),
    pod("p", priority=2**31 - 1),
    pod("p", tolerations=[{"key": "k", "operator": "Gt", "value": "a b", "effect": "NoExecute"}]),
    pod("p", tolerations=[{"operator": "Exists"}, {"key": "a.b/C_d", "value": "E"}]),
    with_resources({"requests": {"cpu": "2"}}, {"limits": {"cpu": "1"}}),
    with_resources({}, resources={"requests": {"cpu": "4"}}),
    with_resources(*[{"requests": {"memory": "80Pi"}}] * 60),
    with_status(allocatable={"memory": "80Pi", "cpu": "80Ti"}, capacity={"pods": "0"}),
    node(
        "n", taints=[TAINT, {**TAINT, "effect": "NoExecute"}, {**TAINT, "key": "a/B", "value": ""}]
    ),
]
"""Objects that an assumption excluded once, or nearly does."""


@pytest.mark.parametrize("manifest", ODD)
def test_what_the_api_accepts_breaks_nothing(manifest: Plain) -> None:
    """Owners of any name, limits below requests of another container, amounts of the pod."""
    assert refusal(manifest) == ""
    assert judged(manifest) == []


@pytest.fixture(scope="module")
def judge() -> Judge:
    """Return one for all files, which asks once about what is alike in them."""
    return Judge()


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.name.partition(".")[0])
def test_no_recorded_pod_or_node_breaks_an_assumption(file: Path, judge: Judge) -> None:
    """But for the few that were recorded without an API server, which would have refused them."""
    data = file.read_bytes()
    for line in (gzip.decompress(data) if file.suffix == ".gz" else data).splitlines():
        objects = list(objects_of(json.loads(line)))
        cache = Cache()
        load_cluster(cache, [item for _, item in objects])
        nodes = {name for name, _ in judge.nodes(cache)}
        wrong = [
            manifest
            for manifest, item in objects
            if (
                judge.pod(PodInfo.of(item))
                if isinstance(item, Pod)
                else item.metadata.name in nodes
            )
        ]
        assert all(map(refusal, wrong)), wrong


def objects_of(value: Any) -> Iterator[tuple[Plain, Node | Pod]]:
    """Yield the pods and nodes within a recorded scenario, each with its manifest."""
    if isinstance(value, dict) and value.get("kind") in ("Node", "Pod") and "spec" in value:
        item = decode_object(value, lambda *problem: None)
        if isinstance(item, Node | Pod):
            yield value, item
        return
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, dict | list):
            yield from objects_of(inner)


@pytest.mark.parametrize("containers", [1, 20, 30, 60])
def test_what_is_requested_is_the_sum_of_the_pods(containers: int) -> None:
    """Also where the sum is more than can be counted; nonZeroRequested is no less."""
    world, requests = World(Terms(), 2), {"memory": "80Pi"}
    pods = [with_resources(*[{"requests": requests}] * containers, nodeName="n") for _ in range(2)]
    pods = [
        with_metadata(plain, name=name, uid=name) for plain, name in zip(pods, "ab", strict=True)
    ]
    cache = Cache()
    load_cluster(cache, [decoded(plain) for plain in (node("n"), *pods)])
    amounts = {f: int(cache.nodes.lookup((f, "memory")).view[0]) for f in ("requested", "free")}
    assert amounts["free"] == (32 << 30) - amounts["requested"]
    pairs = [(world.column("requested", "memory", "i"), z3.IntVal(amounts["requested"]))]
    for _, record in world.pods().items:
        leaf = world.amount(MapTerm("amounts", (*record.path, "requests")), "memory")
        pairs.append((leaf, z3.IntVal(PodInfo.of(decoded(pods[0])).requests["memory"])))
    pairs += [(world.leaves["node", name], z3.IntVal(2)) for name in ("podCount",)]
    pairs.append((world.leaves["node", "pods", "length"], z3.IntVal(2)))
    world.finish()
    assert all(z3.is_true(z3.simplify(z3.substitute(f, *pairs))) for f in world.terms.assumed)
    assert list(Judge().nodes(cache)) == []


def decoded(manifest: Plain) -> Any:
    """Return the object of a manifest, which is right."""
    item = decode_object(manifest, lambda *problem: None)
    assert item is not None
    return item


RULES: Final = (
    'size(pod.annotations["a"]) == 2',
    'pod.annotations["a"].startsWith("x")',
    'pod.annotations["a"].endsWith("x")',
    'pod.annotations["a"].indexOf("x") == 1',
    'pod.annotations["a"] < "xx"',
    'pod.annotations["a"] == "xx"',
)


@pytest.mark.parametrize("rule", RULES)
def test_characters_that_the_solver_does_not_know_count_as_others(rule: str) -> None:
    """One beyond U+2FFFF decides as one below it that no rule writes."""
    told = []
    for character in ("\U0002fffe", "\U0010ffff"):
        info = PodInfo.of(make_pod("p", annotations={"a": f"{character}x"}))
        result = evaluate(rule, Nodes([make_node("n")], []), info, section="filter")
        assert result is not None
        told.append(result.scalar(0))
    assert told[0] == told[1]
    assert told[0].error == ""


@pytest.mark.usefixtures("few_clusters")
def test_a_rule_that_writes_such_a_character_is_not_proven_of(tmp_path: Path) -> None:
    """It was taken for its escape, which is of nine characters."""
    text = 'pod.annotations[?"a"].orValue("")'
    (verdict,) = verdicts(stated(tmp_path, f'{text} != "\U00030000" || size({text}) == 9'))
    assert (verdict.answer, verdict.internal) == ("unknown", False)


def test_a_priority_class_of_another_value_is_refused() -> None:
    """It is an int32 for the API server, as a priority is."""
    manifest = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    for value, allowed in ((10**9, True), (2**31, False), (-(2**31) - 1, False)):
        whole = {**manifest, "metadata": {"name": "a"}, "value": value}
        assert (refusal(whole) == "") == allowed


FOLLOWS: Final = {
    "classes": test_a_priority_class_of_another_value_is_refused,
    "sums": test_quotas.test_all_quotas_together_use_no_more_than_a_sum_can_be,
    "characters": test_characters_that_the_solver_does_not_know_count_as_others,
    "free": test_what_is_requested_is_the_sum_of_the_pods,
    "requested": test_what_is_requested_is_the_sum_of_the_pods,
    "nonZero": test_no_recorded_pod_or_node_breaks_an_assumption,
    "pending": test_scheduler.test_a_pod_on_its_way_out_is_passed_over,
    "ranges": test_no_recorded_pod_or_node_breaks_an_assumption,
}
"""Assumptions that follow from what the scheduler makes of objects, and the tests of that."""


def test_every_assumption_is_judged() -> None:
    """A new one comes with objects that break it, or with a test of what it follows from."""
    assert sorted([*BREAKING, *FOLLOWS]) == sorted(ASSUMPTIONS)
