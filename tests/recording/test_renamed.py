"""Decisions on a cluster with pseudonyms are those on the original."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from policy_sched.manifests.admission import set_creation_times
from policy_sched.model.meta import ApiObject
from policy_sched.model.pod import Pod
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.storage import PersistentVolumeClaim
from policy_sched.policytest.scenario import Scenario, load_scenarios
from policy_sched.profiles.build.pipeline import CompiledPlan
from policy_sched.recording.pseudonyms import Pseudonyms, _Order, _Rewriting, renamed
from policy_sched.recording.reduction import TAKEN, reduced
from policy_sched.scheduler.setup.factory import EPOCH, assemble, load_cluster, read
from policy_sched.simulate.one_shot import run_queue
from policy_sched.simulate.report import OneShotRun
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled

CONFORMANCE = Path(__file__).parents[1] / "conformance"
PLANS, _ = read(None, ())
KEY = b"0123456789abcdef"


def decided(
    plans: Sequence[CompiledPlan], objects: Sequence[ApiObject], now: int = EPOCH
) -> OneShotRun:
    """Decide all pending pods."""
    scheduler = assemble(plans, objects=objects, now=lambda: now)
    set_creation_times(objects, now)
    pending = load_cluster(scheduler.cache, objects)
    return run_queue(scheduler, [PodInfo.of(pod) for pod in pending], lambda _more: None)


def same(left: OneShotRun, other: OneShotRun, pseudonyms: Pseudonyms) -> list[str]:
    """Return the pods whose decisions differ."""
    real = pseudonyms.names

    def facts(run: OneShotRun) -> Iterator[tuple[Any, ...]]:
        for placement in run.placements:
            node = placement.node
            yield (
                real.get(node, node) if node else None,
                placement.feasible,
                placement.score,
                len(placement.reasons),
                placement.message.count(" "),
            )

    pairs = zip(left.placements, facts(left), facts(other), strict=True)
    return [placement.pod for placement, ours, theirs in pairs if ours != theirs]


def scenarios(family: str, folder: Path, count: int = 3) -> list[Scenario]:
    """Return some recorded scenarios of a family."""
    every = gzip.decompress((CONFORMANCE / f"{family}.jsonl.gz").read_bytes()).splitlines(True)
    some = folder / f"{family}.jsonl"
    some.write_bytes(b"".join(every[:: max(1, len(every) // count)]))
    return list(load_scenarios(str(some)))


FAMILIES = (
    *("resources", "taints", "nodename_ports", "images", "spread", "interpod", "volumes"),
    *("preemption", "everything", "dra", "gang", "gang-topology"),
)


@pytest.mark.parametrize("family", FAMILIES)
def test_recorded_scenarios_are_decided_alike(family: str, tmp_path: Path) -> None:
    """Nodes, feasible nodes, scores and reasons; volumes, devices, groups and evictions."""
    for scenario in scenarios(family, tmp_path):
        plans, _ = read(scenario.config, scenario.policies, feature_gates=scenario.gates)
        objects = reduced([*scenario.objects, *scenario.pending])
        pseudonyms = Pseudonyms(KEY)
        other = renamed(objects, pseudonyms)
        first, two = (decided(plans, cluster, scenario.now) for cluster in (objects, other))
        assert same(first, two, pseudonyms) == [], scenario.name
        assert len(first.preemptions) == len(two.preemptions)


WORDS = st.sampled_from(["red", "blue", "7", "12", "green-1", "default"])
LABELS = st.dictionaries(st.sampled_from(["color", "acme.com/size", "kubernetes.io/os"]), WORDS)
OPERATORS = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])


@st.composite
def requirements(draw: st.DrawFn) -> dict[str, Any]:
    """Return a requirement on nodes' labels."""
    operator = draw(OPERATORS)
    if operator in ("Gt", "Lt"):
        values = [draw(st.sampled_from(["7", "10"]))]
    else:
        values = draw(st.lists(WORDS, min_size=1, max_size=2)) if "In" in operator else []
    key = draw(st.sampled_from(["color", "acme.com/size"]))
    return {"key": key, "operator": operator, "values": values}


@st.composite
def pods(draw: st.DrawFn, number: int, nodes: int) -> Pod:
    """Return a pod with selectors of nodes and of pods; it may run."""
    spec: dict[str, Any] = {}
    affinity: dict[str, Any] = {}
    if draw(st.booleans()):
        term = {"matchExpressions": draw(st.lists(requirements(), min_size=1, max_size=2))}
        affinity["nodeAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
        }
    if draw(st.booleans()):
        near = {"topologyKey": "color", "labelSelector": {"matchLabels": draw(LABELS)}}
        key = draw(st.sampled_from(["podAffinity", "podAntiAffinity"]))
        affinity[key] = {"requiredDuringSchedulingIgnoredDuringExecution": [near]}
    if draw(st.booleans()):
        spec["topology_spread_constraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": draw(st.sampled_from(["color", "acme.com/size"])),
                "whenUnsatisfiable": draw(st.sampled_from(["DoNotSchedule", "ScheduleAnyway"])),
                "labelSelector": {"matchLabels": draw(LABELS)},
            }
        ]
    runs = draw(st.booleans())
    return make_pod(
        f"p{number}",
        cpu=str(draw(st.integers(0, 3))),
        labels=draw(LABELS),
        node_name=f"n{draw(st.integers(0, nodes - 1))}" if runs else "",
        node_selector=draw(st.one_of(st.just({}), LABELS)),
        priority=draw(st.integers(0, 2)),
        tolerations=[{"key": "color", "value": draw(WORDS)}],
        affinity=affinity or None,
        images=["registry.acme.com/app:1"],
        **spec,
    )


@st.composite
def clusters(draw: st.DrawFn) -> list[ApiObject]:
    """Return nodes and pods that select each other."""
    count = draw(st.integers(1, 5))
    nodes = [
        make_node(
            f"n{i}",
            cpu=str(draw(st.integers(1, 6))),
            labels=draw(LABELS),
            taints=draw(
                st.lists(
                    st.fixed_dictionaries(
                        {"key": st.just("color"), "value": WORDS, "effect": st.just("NoSchedule")}
                    ),
                    max_size=1,
                )
            ),
        )
        for i in range(count)
    ]
    waiting = [draw(pods(i, count)) for i in range(draw(st.integers(1, 6)))]
    return [*nodes, *waiting]


@settings(max_examples=scaled(40))
@given(clusters())
def test_any_cluster_is_decided_alike(objects: list[ApiObject]) -> None:
    """Whatever selects, tolerates, attracts, repels or spreads: nodes and scores are the same."""
    pseudonyms = Pseudonyms(KEY)
    taken = reduced(objects)
    other = renamed(taken, pseudonyms)
    assert same(decided(PLANS, taken), decided(PLANS, other), pseudonyms) == []


def texts(value: Any) -> Iterator[str]:
    """Yield every text of plain data, keys too."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from texts(inner)
    elif isinstance(value, str):
        yield value


@pytest.mark.parametrize("kind", TAKEN, ids=lambda kind: kind.__name__)
def test_every_text_is_known_as_a_name_or_a_word(kind: type[ApiObject]) -> None:
    """A new field of a struct cannot be written as it is by mistake."""
    assert callable(_Rewriting(Pseudonyms(KEY), _Order()).of(kind))


def test_no_name_is_left(tmp_path: Path) -> None:
    """The names of a cluster of every kind are nowhere in what is written."""
    every: list[ApiObject] = []
    for family in ("volumes", "spread"):
        for scenario in scenarios(family, tmp_path):
            every += [*scenario.objects, *scenario.pending]
    objects = reduced(every)
    words = set(texts(msgspec.to_builtins(renamed(objects, Pseudonyms(KEY)))))
    stays = {"default", "kube-system", "", "local"}  # the last one is a field, too
    for obj in objects:
        meta = obj.metadata
        if obj.kind not in ("DeviceClass", "CSIDriver") and meta.name not in stays:
            assert meta.name not in words, obj.kind
        assert not meta.uid or meta.uid not in words


def test_claims_of_pods_are_found() -> None:
    """The claim of an ephemeral volume is named after its pod and its volume."""
    pod = make_pod("db", volumes=[{"name": "data", "ephemeral": {"volumeClaimTemplate": {}}}])
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "db-data",
            "namespace": "default",
            "ownerReferences": [{"kind": "Pod", "name": "db", "uid": "u", "controller": True}],
        },
    }
    objects = renamed([msgspec.convert(claim, PersistentVolumeClaim), pod], Pseudonyms(KEY))
    info = PodInfo.of(objects[1])  # type: ignore[arg-type]  # the pod
    assert info.pvc_names == (objects[0].metadata.name,)


def test_devices_and_domains_keep_their_order(tmp_path: Path) -> None:
    """Slices of a pool, pools, and topology domains of groups are taken in the order of names."""
    scenario = scenarios("dra", tmp_path, 2)[0]
    objects = reduced(scenario.objects)

    def ordered(things: Iterable[ApiObject]) -> list[int]:
        slices = [
            (thing.spec.driver, thing.spec.pool.name, thing.metadata.name, i)  # type: ignore[attr-defined]
            for i, thing in enumerate(things)
            if thing.kind == "ResourceSlice"
        ]
        return [domain for *_, domain in sorted(slices)]

    assert ordered(objects) == ordered(renamed(objects, Pseudonyms(KEY)))
