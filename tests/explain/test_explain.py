"""Explanations: each number is the result of another decision."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import given, settings, strategies as st

from policy_sched.explain.explain import explain
from policy_sched.explain.report import Explanation
from policy_sched.model.cluster_objects import Node
from policy_sched.model.meta import ObjectMeta
from policy_sched.model.pod import Pod
from policy_sched.model.pod_group import POD_GROUP_LABEL, CoschedulingGroup, CoschedulingSpec
from policy_sched.model.pod_info import PodInfo
from policy_sched.scheduler.setup.factory import build
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled

TAINT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}


def explained(pod: Pod, nodes: Sequence[Node], disabled: str = "", point: str = "") -> Explanation:
    """Explain a pod on empty nodes, perhaps with a plugin disabled at a point."""
    config: dict[str, Any] | None = None
    if disabled:
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"plugins": {point: {"disabled": [{"name": disabled}]}}}],
        }
    scheduler = build(config)
    for node in nodes:
        scheduler.cache.add_node(node)
    return explain(scheduler, PodInfo.of(pod), top=50)


def test_a_pod_that_fits_has_its_scores_shown() -> None:
    """The best node comes first, and its plugins' shares add up to its total."""
    explanation = explained(
        make_pod("p", cpu="1"), [make_node("a", cpu="2"), make_node("b", cpu="8")]
    )
    assert explanation.best == ["b"]
    assert [score.node for score in explanation.scores] == ["b", "a"]
    assert all(sum(score.plugins.values()) == score.total for score in explanation.scores)
    assert explanation.message == ""
    assert explanation.filters[-1].left == explanation.feasible == 2


def test_rules_of_one_policy_are_listed_one_by_one() -> None:
    """Each with the nodes it removes by itself and after the earlier ones."""
    nodes = [make_node("a", cpu="1", taints=[TAINT]), make_node("b", cpu="1")]
    explanation = explained(make_pod("p", cpu="2", node_selector={"disk": "ssd"}), nodes)
    steps = {step.name: step for step in explanation.filters}
    assert steps["TaintToleration"].removed == 1
    assert steps["NodeAffinity.filter[0]"].alone == 0
    affinity = steps["NodeAffinity.filter[1]"]
    assert (affinity.removed, affinity.alone, affinity.left) == (1, 2, 0)
    assert affinity.reasons == {"node(s) didn't match Pod's node affinity/selector": 1}
    assert (steps["NodeResourcesFit"].removed, steps["NodeResourcesFit"].alone) == (0, 2)
    assert explanation.alternatives == []  # no rule alone keeps the pod from running


def test_the_smaller_request_that_would_fit() -> None:
    """The least that is missing, and where."""
    nodes = [make_node("a", cpu="1"), make_node("b", cpu="1500m"), make_node("c", cpu="1500m")]
    explanation = explained(make_pod("p", cpu="2"), nodes)
    by_kind = {alternative.kind: alternative for alternative in explanation.alternatives}
    assert by_kind["filter"].name == "NodeResourcesFit"
    assert by_kind["filter"].fits == 3
    less = by_kind["resource"]
    assert (less.name, less.amount, less.fits, less.best) == ("cpu", "500", 2, ("b", "c"))


def test_pods_that_never_see_a_node() -> None:
    """Gates, unknown profiles and PreFilter rejections are reported as such."""
    assert explained(make_pod("p", gates=["wait"]), []).gated_by == "SchedulingGates"
    explanation = explained(make_pod("p", scheduler_name="nobody"), [])
    assert explanation.message == 'no profile has schedulerName "nobody"'
    explanation = explained(make_pod("p"), [])
    assert explanation.message == "no nodes available to schedule pods"


def test_room_that_is_made_by_preemption() -> None:
    """Node and victims are reported, and nothing is evicted."""
    scheduler = build()
    scheduler.cache.add_node(make_node("a", cpu="2"))
    victim = PodInfo.of(make_pod("old", cpu="2", node_name="a", priority=1))
    scheduler.cache.add_pod(victim)
    explanation = explain(scheduler, PodInfo.of(make_pod("new", cpu="2", priority=9)))
    assert (explanation.nominated_node, explanation.victims) == ("a", ["default/old"])
    assert scheduler.cache.pod(victim.uid) is not None
    assert not scheduler.handle.nominator.nominated()


def test_an_explanation_leaves_random_choices_as_they_were() -> None:
    """The search for victims begins at a random node, the same one whether it was explained."""
    scheduler = build()
    for name in ("a", "b", "c"):
        scheduler.cache.add_node(make_node(name, cpu="2"))
        victim = make_pod(f"on-{name}", cpu="2", node_name=name, priority=1)
        scheduler.cache.add_pod(PodInfo.of(victim))
    before = scheduler.handle.random.getstate()
    assert explain(scheduler, PodInfo.of(make_pod("new", cpu="2", priority=9))).victims
    assert scheduler.handle.random.getstate() == before


@settings(max_examples=scaled(20))
@given(
    st.lists(
        st.builds(
            lambda cpu, taint, disk: (cpu, taint, disk),
            st.sampled_from(["1", "2", "4", "16"]),
            st.booleans(),
            st.booleans(),
        ),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from(["500m", "2", "3"]),
    st.booleans(),
)
def test_alternatives_are_what_another_configuration_decides(
    shapes: list[tuple[str, bool, bool]], cpu: str, wants_disk: bool
) -> None:
    """Without a filter or score means: as if the plugin were disabled there."""
    nodes = [
        make_node(
            f"n{i}",
            cpu=size,
            taints=[TAINT] if tainted else [],
            labels={"disk": "ssd"} if disk else {},
        )
        for i, (size, tainted, disk) in enumerate(shapes)
    ]
    pod = make_pod("p", cpu=cpu, node_selector={"disk": "ssd"} if wants_disk else {})
    explanation = explained(pod, nodes)
    reported = {(stored.kind, stored.name): stored for stored in explanation.alternatives}
    plugins = ("TaintToleration", "NodeAffinity", "NodeResourcesFit")
    for kind, plugin in [(k, p) for k in ("filter", "score") for p in plugins]:
        other = explained(pod, nodes, plugin, kind)
        name = "NodeAffinity.filter[1]" if (kind, plugin) == ("filter", "NodeAffinity") else plugin
        stored = reported.get((kind, name))
        if other.best and not set(other.best) & set(explanation.best):
            assert stored is not None, (kind, plugin)
            assert (list(stored.best), stored.fits) == (other.best[:3], other.feasible)
        else:
            assert stored is None


RACK_GANG = str(Path(__file__).parents[2] / "policies" / "rack-gang")
RACK = "topology.example.com/rack"


def gang(*, cpus: Sequence[int], needed: int = 3) -> Explanation:
    """Explain one of three pods of 1 cpu; rack i has a node of cpus[i]."""
    meta = ObjectMeta(name="ring", namespace="default")
    group = CoschedulingGroup(metadata=meta, spec=CoschedulingSpec(min_member=needed))
    scheduler = build(None, [RACK_GANG], objects=[group])
    for i, cpu in enumerate(cpus):
        scheduler.cache.add_node(make_node(f"n{i}", cpu=str(cpu), labels={RACK: f"r{i}"}))
    pods = [PodInfo.of(make_pod(name, cpu="1", labels={POD_GROUP_LABEL: "ring"})) for name in "xyz"]
    for pod in pods:
        scheduler.handle.groups.seen(pod)
    explanation = explain(scheduler, pods[1])
    assert scheduler.cache.nodes.pod_total == 0
    assert scheduler.cache.check() == []
    return explanation


def test_a_group_that_is_placed_as_a_whole_has_its_placements_listed() -> None:
    """Each with the number of placed pods and its score; the pod's node is in the chosen one."""
    explanation = gang(cpus=[2, 4, 3])
    reported = [
        (placement.name, placement.placed, placement.feasible, placement.score)
        for placement in explanation.placements
    ]
    assert reported == [("r0", 2, False, 0), ("r1", 3, True, 75), ("r2", 3, True, 100)]
    assert (explanation.placement, explanation.best, explanation.feasible) == ("r2", ["n2"], 1)
    assert explanation.filters[-1].name == "placement by RackGang"
    assert explanation.filters[-1].removed == 2
    assert explanation.alternatives == []


def test_a_group_without_room_has_a_reason() -> None:
    """There is no placement, and the message is that of the pod."""
    explanation = gang(cpus=[2, 1])
    assert (explanation.placement, explanation.best, explanation.failed) == ("", [], False)
    assert explanation.message.startswith("0/2 placements are available")
    assert [placement.feasible for placement in explanation.placements] == [False, False]
