"""A cluster in files: empty ones, policies with errors, and files that change."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from policy_sched.console import FilesSource
from policy_sched.console.pages import Query, Results, overview, pod as pod_page, pods
from policy_sched.console.sources import UNDECIDED, Waiting, dominant_reason, grouped
from policy_sched.console.sources.source import History, QueueSample
from policy_sched.errors import PolicySchedError
from policy_sched.profiles.reload import PolicyFiles, ReloadResult
from policy_sched.web import DiagnosticView
from tests.console.browsing import EXAMPLE, Browser, browsing, of_files, pages
from tests.console.clusters import large, node, of_objects, pod
from tests.profiles.policy_texts import keeping

POLICY = keeping("Kept", 'node.name != "%s"', "node(s) were kept")
NONE = Results()
EVERY = ("/", "/pods", "/nodes", "/pods?by=reason", "/?colour=expression&expression=1%2B1")


def test_an_empty_cluster_has_pages() -> None:
    """No nodes and no pods: every list is there and says so."""
    overview_page, pod_list, node_list, *_ = pages(of_objects([]), *EVERY)
    assert "Nothing: every pod has a node" in overview_page
    assert "0 pods" in pod_list
    assert "no pod" in pod_list
    assert "no node" in node_list


def test_what_is_not_there_is_not_found() -> None:
    """A pod or node that is gone, and a path that never was, are 404 with the reason."""

    async def act(browser: Browser) -> list[tuple[int, str]]:
        await browser.opened()
        paths = ("/pods/shop/gone", "/nodes/gone", "/gone")
        return [(await browser.get(path))[:2] for path in paths]

    responses = browsing(of_files(), act)
    assert [status for status, _ in responses] == [404, 404, 404]
    assert "there is no pod shop/gone" in responses[0][1]
    assert "there is no node gone" in responses[1][1]


def test_broken_policies_are_shown_in_place(tmp_path: Path) -> None:
    """From the start: the default profile decides, and each page says so, with line and caret."""
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY.replace("node.name", "node.nome") % "a")
    source = of_files(policies=PolicyFiles(None, (str(file),)))
    assert source.status.fallback
    (text,) = pages(source, "/")
    assert "the default profile decides" in text
    assert f"{file}:6:23" in text
    assert "<mark>nome</mark>" in text
    file.write_text(POLICY % "a")
    assert source.reload() is ReloadResult.LOADED
    (text,) = pages(source, "/")
    assert "the default profile decides" not in text
    assert "policy.yaml" not in text


def test_a_reload_that_fails_keeps_what_decides(tmp_path: Path) -> None:
    """The generation stays, and the problem needs attention until the file is mended."""
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY % "a")
    source = of_objects([node("a"), node("b"), pod("p")], PolicyFiles(None, (str(file),)))
    source.simulate()
    assert _node(source) == "b"
    before = dict(source.versions())
    file.write_text("kind: Policy\n")
    assert source.reload() is ReloadResult.REFUSED
    assert source.versions()["policies"] > before["policies"]
    assert source.store.status.generation == 1
    shown = overview.attention(source, list(source.waiting().values())).blocks
    assert any(isinstance(block, DiagnosticView) for block in shown)
    file.write_text(POLICY % "b")
    assert source.reload() is ReloadResult.LOADED
    source.simulate()
    assert _node(source) == "a"
    assert source.store.status.generation == 2


def _node(source: FilesSource) -> str:
    (waiting,) = source.waiting().values()
    return waiting.node


def test_manifests_are_read_again(tmp_path: Path) -> None:
    """A pod that is added is there; an error leaves the cluster as it is, and is shown."""
    folder = tmp_path / "manifests"
    shutil.copytree(EXAMPLE / "manifests", folder)
    source = of_files([folder], PolicyFiles())
    count = len(source.pods())
    more = folder / "more.yaml"
    more.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: more}\n")
    source.reread()
    assert len(source.pods()) == count + 1
    more.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: [1]}\n")
    source.reread()
    assert len(source.pods()) == count + 1
    assert [Path(problem.file).name for problem in source.problems()] == ["more.yaml"]
    more.unlink()
    source.reread()
    assert (len(source.pods()), source.problems()) == (count, ())


def test_a_simulation_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pages say so, and show the cluster as it is."""

    def fails(*_arguments: object) -> None:
        raise PolicySchedError("a decision <b>cannot</b> be executed")

    monkeypatch.setattr("policy_sched.console.sources.files.run_queue", fails)
    source = of_objects([node("a"), pod("p")])
    source.simulate()
    (text,) = pages(source, "/pods")
    assert "The pods that wait cannot be decided: a decision &lt;b&gt;cannot" in text
    assert "1 pods: 1 without one" not in text
    assert "1 pod: 1 without one" in text


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("0/5 nodes are available: 3 Insufficient cpu, 2 node(s) were kept.", "Insufficient cpu"),
        (
            "0/5 nodes are available: 1 Insufficient cpu, 4 a, b and c. preemption: 0/5 nodes are.",
            "a, b and c",
        ),
        ("0/2 nodes are available: 1 first, 1 second.", "first"),
        ("0/0 nodes are available.", "0/0 nodes are available."),
        ("no nodes available to schedule pods", "no nodes available to schedule pods"),
        ("waiting for 2 more pods\nof its group", "waiting for 2 more pods"),
        ("", UNDECIDED),
    ],
)
def test_the_reason_of_most_nodes_counts(message: str, reason: str) -> None:
    """A message of kube-scheduler's form has one dominant reason; any other is a reason itself."""
    assert dominant_reason(message) == reason


def test_groups_are_sorted_by_size() -> None:
    """The most frequent reason comes first."""
    groups = grouped(Waiting(str(i), str(i), message="ab"[i % 3 == 0]) for i in range(5))
    assert [(reason, len(pods)) for reason, pods in groups] == [("a", 3), ("b", 2)]


def test_decisions_per_second_come_from_samples() -> None:
    """A rate over the last seconds; without two samples there is none."""
    history = History()
    assert history.rate() is None
    for second in range(30):
        history.add(QueueSample(second * 10**9, {"active": second}, second * 7))
    history.add(QueueSample(0, {}, 0))
    assert history.rate() == 7
    assert [rate for _, rate in history.rates()] == [7.0] * 29


def test_lists_are_paged_and_filtered() -> None:
    """State, name, reason and page are in the address; positions are those of the queue."""
    source = large(nodes=20, pods=500, pending=200)
    source.simulate()

    def view(**parameters: str) -> dict[str, object]:
        return dict(pods.view(source, Query("/pods", parameters), Results()))

    first = view(state="pending")["pods"].rows  # type: ignore[attr-defined]
    assert [row[2] for row in first] == [str(i) for i in range(1, 101)]
    assert [row[3] for row in first][:3] == ["2", "2", "2"]
    assert view(state="pending", page="2")["pods"].rows[0][2] == "101"  # type: ignore[attr-defined]
    assert view(q="web-00007")["lead"] == "1 of 500 pods: 1 with a node"
    assert view(page="99")["pager"].last == 500  # type: ignore[attr-defined]
    groups = view(by="priority", state="pending")["groups"]
    assert [row[0].text for row in groups.rows] == ["1", "0", "2"]  # type: ignore[attr-defined]
    assert sum(int(row[1]) for row in groups.rows) == 200  # type: ignore[attr-defined]


def crowded() -> FilesSource:
    """Return four nodes, and five pods for which they have room, and then one for which not."""
    nodes = [node(f"n{number}", cpu="4") for number in range(4)]
    ahead = [pod(f"web-{number}", cpu="3", priority=10) for number in range(4)]
    return of_objects([*nodes, *ahead, pod("late", cpu="2")])


def test_a_pod_without_room_is_explained_after_the_pods_ahead_of_it() -> None:
    """Its page said first that it goes to one of all the nodes, by their names."""
    source = crowded()
    source.simulate()
    wanted = {"namespace": "default", "name": "late"}

    def view(**parameters: str) -> dict[str, Any]:
        return dict(pod_page.view(source, Query("/pods/default/late", parameters, wanted), NONE))

    first = view()
    assert first["after"]
    assert first["lead"] == "After the 4 pods ahead of it: default/late fits on none of 4 nodes"
    assert first["tone"] == "bad"
    assert first["remarks"][-2:] == [
        "On the cluster as it is, it would go to one of n0, n1, n2 and 1 more.",
        (
            "default/web-0, default/web-1, default/web-2 and 1 more are ahead of it and go to nodes"
            " on which it fits now."
        ),
    ]
    now = view(after="now")
    assert not now["after"]
    assert now["lead"].startswith("default/late goes to one of n0, n1, n2 and 1 more: the best")
    assert now["remarks"][-1].startswith("After the pods ahead of it, it has no node: 0/4 nodes")
    assert view(after="queue")["lead"] == first["lead"]


def test_nodes_are_coloured_as_they_are_and_as_simulated() -> None:
    """The cells showed an empty cluster, however many pods found a node."""
    source = crowded()

    def view(**parameters: str) -> dict[str, Any]:
        return dict(overview.view(source, Query("/", parameters), NONE))

    assert view(cluster="simulated")["clusters"] == []  # nothing is simulated yet
    source.simulate()
    for cluster, share, text in (("now", 0.0, "0 of 4 cpu"), ("simulated", 0.75, "3 of 4 cpu")):
        values = view(cluster=cluster)
        (group,) = values["cells"].groups
        assert {(cell.share, cell.text) for cell in group.cells} == {(share, text)}
        assert (", as simulated:" in values["cells"].caption) == (cluster == "simulated")
        assert values["cluster"] == cluster
    (page,) = pages(source, "/?cluster=simulated&colour=expression&expression=node.free.cpu")
    assert '<option value="simulated" selected>as simulated</option>' in page
    assert "node.free.cpu, as simulated: one cell for each node" in page


def test_the_list_says_how_it_decides() -> None:
    """One after the other, as simulate does; a live cluster's list decides each pod alone."""
    assert "decided one after the other" in pages(crowded(), "/pods")[0]


def test_nodes_are_coloured_by_any_expression() -> None:
    """Numbers become a scale; an expression with an error shows it with a caret."""
    source = of_objects([node("a", {"rack": "1"}, cpu="4"), node("b", {"rack": "2"}, cpu="12")])

    def view(expression: str) -> dict[str, object]:
        query = Query("/", {"colour": "expression", "expression": expression, "by": "rack"})
        return dict(overview.view(source, query, Results()))

    cells = view("node.allocatable.cpu")["cells"]
    by_key = {cell.name: (cell.share, cell.text) for g in cells.groups for cell in g.cells}  # type: ignore[attr-defined]
    assert (by_key["a"][0], by_key["b"][0]) == (0.0, 1.0)
    assert [group.name for group in cells.groups] == ["1", "2"]  # type: ignore[attr-defined]
    (problem,) = view("node.nome")["colouring"].problems  # type: ignore[attr-defined]
    assert problem.marked == "nome"
    assert "reads the pod" in view("pod.priority > 1")["colouring"].failure  # type: ignore[attr-defined]
