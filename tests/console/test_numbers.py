"""The numbers on pages are those that explain and simulate print for the same input."""

from __future__ import annotations

import json

import pytest

from policy_sched.cli.main import run
from policy_sched.console import FilesSource
from policy_sched.console.pages import Query, Results, node, overview, pod as pod_page
from policy_sched.model import Pod, PodInfo
from policy_sched.simulate import allocations
from policy_sched.web import Facts, Funnel, Table, Text
from tests.console.browsing import EXAMPLE, FILES, of_files, pages

ARGUMENTS = ["--config", str(EXAMPLE / "config.yaml"), "--policies", "policies/gpu-bin-packing"]
CLUSTER = ["--cluster", str(EXAMPLE / "manifests")]


@pytest.fixture(scope="module")
def source() -> FilesSource:
    """Return the example cluster, simulated."""
    simulated = of_files()
    simulated.simulate()
    return simulated


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    """Run a verb with JSON as its output, and return that."""
    assert run([*arguments, *ARGUMENTS, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def key_of(pod: Pod) -> str:
    """Return the namespace and the name of a pod."""
    return PodInfo.of(pod).key


def test_explanations_are_those_of_explain(
    source: FilesSource, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of every pod, with a node and without, now and after the pods ahead of it."""
    for pod in source.pods():
        for options, after in (([], False), (["--after-queue"], True)):
            wanted = printed(capsys, "explain", key_of(pod), *CLUSTER, *options)
            document = source.explained(pod, top=5, after_queue=after).document()
            assert json.loads(json.dumps(document)) == wanted, key_of(pod)


def test_the_page_of_a_pod_has_what_explain_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """The answer, every reason and every number of the table of filters."""
    assert run(["explain", "shop/report", *CLUSTER, *ARGUMENTS]) == 0
    head, *rest = capsys.readouterr().out.splitlines()
    (text,) = pages(of_files(), "/pods/shop/report")
    assert head in text
    funnel = json.dumps(rest)
    for name in ("NodeAffinity", "TaintToleration", "NodeResourcesFit"):
        assert (name in text) == (name in funnel)


def test_placements_are_those_of_simulate(
    source: FilesSource, capsys: pytest.CaptureFixture[str]
) -> None:
    """What becomes of each pod that waits, and the use of resources afterwards."""
    result = printed(capsys, "simulate", str(EXAMPLE / "manifests"))
    placed = {
        placement["pod"]: (placement["node"], placement["message"])
        for placement in result["placements"]
    }  # type: ignore[attr-defined]
    by_key = {
        placement.key: (placement.node or None, placement.message)
        for placement in source.waiting().values()
    }
    assert by_key == placed


def test_the_use_of_resources_is_that_of_simulate(source: FilesSource) -> None:
    """The overview's shares are the allocation that simulate sums up, of the cluster as it is."""
    facts = overview.view(source, Query("/", {}), Results())["sections"][1].blocks[1]
    assert isinstance(facts, Facts)
    wanted = {
        allocation.resource: f"{allocation.percent:.1f} %"
        for allocation in allocations(source.scheduler)
    }
    assert {fact.name: fact.value.text for fact in facts.facts} == wanted


def test_a_node_says_of_each_pod_what_explain_says(source: FilesSource) -> None:
    """Plugin and reasons that keep a pod out, or the score that the node has."""
    table = source.scheduler.cache.nodes
    pending = [PodInfo.of(pod) for pod in source.pods() if not pod.spec.node_name]
    for name in table.row_of:
        verdicts = node.verdicts(source.scheduler, pending, name)
        for info, verdict in zip(pending, verdicts, strict=True):
            explained = source.explained(info.pod, top=table.n)
            rejected = explained.rejections.get(name)
            scores = {score.node: score.total for score in explained.scores}
            if rejected is None:
                assert verdict.score == scores[name]
            else:
                assert (verdict.plugin, list(verdict.reasons)) == (rejected[0], rejected[1])


def test_the_funnel_has_the_steps_of_the_explanation(source: FilesSource) -> None:
    """Removed in turn, alone and left, filter by filter."""
    pod = next(pod for pod in source.pods() if key_of(pod) == "shop/report")
    arguments = {"namespace": "shop", "name": "report"}
    view = pod_page.view(source, Query("/pods/shop/report", {}, arguments), Results())
    (funnel,) = [b for s in view["sections"] for b in s.blocks if isinstance(b, Funnel)]
    steps = {item.name: (item.removed, item.alone, item.left) for item in funnel.steps}
    explained = source.explained(pod, top=5)
    wanted = {s.name: (s.removed, s.alone, s.left) for s in explained.filters if s.alone}
    assert {str(getattr(name, "text", name)): step for name, step in steps.items()} == wanted


def test_groups_of_the_overview_count_the_pods(source: FilesSource) -> None:
    """Each reason has the number of pods that have no node for it."""
    table = overview.view(source, Query("/", {}), Results())["sections"][0].blocks[-1]
    assert isinstance(table, Table)
    assert source.run is not None
    unplaced = [placement for placement in source.run.placements if placement.node is None]
    assert sum(int(row[1]) for row in table.rows if isinstance(row[1], str)) == len(unplaced)
    assert all(isinstance(row[0], Text) for row in table.rows)
    assert FILES.config is not None
