"""Reports in one file: `--report` of each verb shows the numbers that the verb prints."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from policy_sched import __version__
from policy_sched.cli.main import run
from policy_sched.scheduler.setup.factory import read
from policy_sched.web import environment
from tests.web.reading import Page

POLICIES = Path(__file__).parents[2] / "policies"
ORIGIN = "What this was made from"
CLUSTER = str(POLICIES / "example-cluster" / "manifests")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return where the report goes: a folder that is not there yet."""
    return tmp_path / "reports" / "report.html"


def reported(
    capsys: pytest.CaptureFixture[str], file: Path, *arguments: str, code: int = 0
) -> tuple[Page, Any]:
    """Return the page of a command, and what it prints as JSON."""
    assert run([*arguments, "--report", str(file), "-o", "json"]) == code
    return Page(file.read_text(encoding="utf-8")), json.loads(capsys.readouterr().out)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return what a command prints as text, on one line."""
    run(list(arguments))
    return " ".join(capsys.readouterr().out.split())


def test_explain_shows_the_funnel_and_what_would_change_it(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    """A pod without a node: the answer, each filter with its numbers, each change."""
    command = ["explain", "shop/report", "--cluster", CLUSTER]
    page, document = reported(capsys, file, *command)
    text = printed(capsys, *command)
    assert page.headings[0] == (1, "shop/report")
    assert [name for _, name in page.headings[1:]] == [
        "Filters", "What would change it", "Rejected nodes", ORIGIN,
    ]  # fmt: skip
    funnel = page.table("0 of 6 nodes pass all filters")
    steps = [step for step in document["filters"] if step["alone"]]
    assert [row[1:4] for row in funnel.rows[1:]] == [
        [str(step["removed"]), str(step["alone"]), str(step["left"])] for step in steps
    ]
    assert all(step["name"] in row[0] for step, row in zip(steps, funnel.rows[1:], strict=True))
    for line in (
        "shop/report fits on none of 6 nodes",
        document["message"],
        "3 other filters would let every node pass",
        "with 6500m less cpu it would fit on 1 node: general-1",
    ):
        assert line in text
        assert line in page.text
    assert page.column("The first filter", "Node") == sorted(document["rejections"])


def test_explain_shows_scores_by_plugin(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    """A pod with a node: totals and shares of the best nodes, and what decided."""
    page, document = reported(capsys, file, "explain", "shop/web-1", "--cluster", CLUSTER)
    title = "The best 4 nodes"
    assert page.column(title, "total") == [str(score["total"]) for score in document["scores"]]
    assert page.column(title, "NodeResourcesFit") == [
        str(score["plugins"]["NodeResourcesFit"]) for score in document["scores"]
    ]
    assert "gpu-2 beats general-1 by 32: NodeResourcesFit +31" in page.text


def test_simulate_shows_what_has_no_node_and_the_nodes(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    """The summary's numbers: reasons, allocation, and every placement."""
    page, document = reported(capsys, file, "simulate", CLUSTER)
    text = printed(capsys, "simulate", CLUSTER)
    summary = document["summary"]
    assert page.headings[0] == (1, "6 of 8 pods placed on 6 nodes")
    assert page.headings[0][1] in text
    reasons = dict(page.table("By every reason").rows[1:])
    assert reasons == {k: str(v) for k, v in summary["unschedulableByReason"].items()}
    assert [row[0] for row in page.table("By the reason that most nodes").rows[1:]] == [
        "Insufficient nvidia.com/gpu", "node(s) didn't match Pod's node affinity/selector",
    ]  # fmt: skip
    assert page.table("Over all nodes").rows[1:] == [
        [name, placement["requested"], placement["allocatable"], f"{placement['percent']:.1f} %"]
        for name, placement in summary["allocation"].items()
    ]
    pods = [(placement["pod"], placement["node"] or "-") for placement in document["placements"]]
    assert [(row[0], row[1]) for row in page.table("In the order").rows[1:]] == pods
    messages = {row[0]: row[3] for row in page.table("Messages").rows[1:]}
    assert messages == {
        placement["pod"]: placement["message"]
        for placement in document["placements"]
        if placement["message"]
    }


def test_the_use_of_nodes_adds_up_to_the_allocation(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    """Each node is there with its pods, as a row and as a cell."""
    page, document = reported(capsys, file, "simulate", CLUSTER)
    nodes = page.table("The fullest nodes first")
    assert len(nodes.rows) - 1 == document["summary"]["nodes"]
    total = sum(int(row[1]) for row in nodes.rows[1:])
    assert str(total) == document["summary"]["allocation"]["pods"]["requested"]
    cells = [a for tag, a in page.elements if tag == "span" and "u" in (a.get("class") or "")[:1]]
    assert len(cells) == document["summary"]["nodes"]
    assert "gpu-2: 6 pods, cpu 12 of 64" in " ".join(a["title"] or "" for a in cells)


AFTERNOON = """\
- {kind: Node, apiVersion: v1, metadata: {name: n1}, status: {allocatable: {cpu: "2", pods: "20"}}}
- {kind: Pod, apiVersion: v1, metadata: {name: train, creationTimestamp: "2026-03-02T13:00:00Z",
   annotations: {policysched.dev/duration: 2h}},
   spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "2"}}}]}}
- {kind: Pod, apiVersion: v1, metadata: {name: web, creationTimestamp: "2026-03-02T14:00:00Z",
   annotations: {policysched.dev/duration: 1h}},
   spec: {priority: 10, containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]}}
- {kind: Pod, apiVersion: v1, metadata: {name: huge, creationTimestamp: "2026-03-02T14:00:00Z"},
   spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "100"}}}]}}
"""


def test_a_timeline_shows_curves_and_what_was_never_placed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, file: Path
) -> None:
    """Intervals, waiting times and preemptions are those that the text and JSON have."""
    items = "\n".join(f"  {line}" for line in AFTERNOON.splitlines())
    path = tmp_path / "afternoon.yaml"
    path.write_text(f"apiVersion: v1\nkind: List\nitems:\n{items}\n", encoding="utf-8")
    command = ["simulate", str(path), "--timeline", "--bucket", "30m"]
    page, document = reported(capsys, file, *command)
    text = printed(capsys, *command)
    assert page.headings[0] == (1, "2 of 3 pods placed on 1 node")
    for title in ("The longest queue", "From creation to a node"):
        for row in page.table(title).rows[1:]:
            assert " ".join(row) in text
    assert len(page.table("The longest queue").rows) - 1 == len(document["buckets"])
    queue = [str(bucket["queue"]) for bucket in document["buckets"]]
    assert page.column("Queue", "longest queue (pods)")[:-1] == queue
    cpu = [bucket["resources"]["cpu"]["percent"] for bucket in document["buckets"]]
    shown = page.column("Requested share of what is allocatable", "cpu (%)")[:-1]
    assert [float(bucket) for bucket in shown] == pytest.approx(cpu, rel=1e-3)
    assert page.table("Pods that evict others").rows[1:] == [
        ["1h00m", "default/web", "n1", "default/train"]
    ]
    assert [row[0] for row in page.table("In order of arrival").rows[1:]] == ["default/huge"]
    charts = [a["data-chart"] for tag, a in page.elements if tag == "figure" and "data-chart" in a]
    assert charts == ["queue", "running", "utilisation", "waits", "evictions"]


def test_diff_shows_which_pods_move_ties_apart(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    """Every move is in one table, and the measures are those of the text."""
    nodes = "40*cpu=8,memory=32Gi"
    command = ["diff", "default", "gpu-bin-packing", "--cluster", CLUSTER, "--nodes", nodes]
    page, document = reported(capsys, file, *command)
    text = printed(capsys, *command)
    placements = document["placements"]
    titles = ("Pods that lose", "Pods that gain", "Pods that change", "Pods that move by chance")
    shown = {
        (row[0], row[1], row[2])
        for table in page.tables
        if table.title.startswith(titles)
        for row in table.rows[1:]
    }
    assert shown == {(m["pod"], m["old"] or "-", m["new"] or "-") for m in placements["moves"]}
    chance = [row[0] for row in page.table("Pods that move by chance").rows[1:]]
    assert chance == [m["pod"] for m in placements["moves"] if m["cause"] == "tie"]
    for row in page.table("Measures of both sides").rows[1:]:
        assert " ".join(row[:3]) in text
    assert "8 pods on 46 nodes: 6 move, 0 become unschedulable, 1 schedulable" in page.text
    assert "GpuBinPacking matched 8 of 8 pods" in page.text
    assert "+ weight 1" in page.text


def test_diff_with_seeds_shows_means_and_intervals(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    """The table of measures is that of the text; pods that lose come first."""
    command = ["diff", "gpu-bin-packing", "default", "--cluster", CLUSTER, "--seeds", "3"]
    page, document = reported(capsys, file, *command)
    text = printed(capsys, *command)
    rows = page.table("Means over the seeds").rows[1:]
    assert [row[0] for row in rows] == [
        measure["name"] for measure in document["placements"]["measures"]
    ]
    assert all(" ".join(row).strip() in text for row in rows)
    fates = page.table("Pods with a node in more or fewer").rows[1:]
    assert fates == [["research/train-large", "3 fewer seeds"]]


def test_diff_without_a_cluster_shows_the_policies_alone(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    """Equal sets are the same, and no placement is claimed."""
    page, document = reported(capsys, file, "diff", "default", "default")
    assert not document["differences"]
    assert "The policy sets are the same." in page.text
    assert [table.title for table in page.tables] == ["What decided"]


POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Seen}
spec:
  filter:
  - expression: pod.name != "b"
    message: not here
  - expression: node.labels.?disk.orValue("") != "x"
    message: never
"""
TESTS = """\
name: both values of the first rule
policies: [policy.yaml]
objects: [{node: n1}]
pending: [a, b]
expect: [{pod: a, chosen: n1}, {pod: b, chosen: n1}]
"""


def test_tests_show_differences_and_the_rules_that_they_miss(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, file: Path
) -> None:
    """What differs comes first; the source has a mark at each rule."""
    (tmp_path / "policy.yaml").write_text(POLICY, encoding="utf-8")
    (tmp_path / "tests.yaml").write_text(TESTS, encoding="utf-8")
    tests = str(tmp_path / "tests.yaml")
    page, document = reported(capsys, file, "test", tests, "--coverage", code=1)
    assert page.headings == [
        (1, "1 of 2 steps as expected"),
        (2, "Differences"), (2, "Files"), (2, "Rule coverage"), (2, "Sources"),
        (2, ORIGIN),
    ]  # fmt: skip
    assert [(row[1], row[2], row[3], row[4]) for row in page.table("Field by field").rows[1:]] == [
        (rule["pod"], rule["field"], rule["expected"], "(none)") for rule in document["differences"]
    ]
    lacking = [rule for rule in document["coverage"]["rules"] if not rule["covered"]]
    assert [(row[0], row[1]) for row in page.table("What tests have not seen").rows[1:]] == [
        (f"{rule['policy']}.{rule['rule']}", "never false") for rule in lacking
    ]
    assert f"{document['coverage']['percent']:.1f} %" in page.text
    rows = [a["class"] for tag, a in page.elements if (a.get("class") or "").startswith("row ")]
    assert rows == ["row good", "row bad"]


def test_tests_without_coverage_and_with_broken_files(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, file: Path
) -> None:
    """A file that cannot be read as tests is a problem with its line and a caret."""
    broken = tmp_path / "broken.yaml"
    broken.write_text("{name: x, pendign: []}", encoding="utf-8")
    assert run(["test", str(broken), "--report", str(file)]) == 1
    page = Page(file.read_text(encoding="utf-8"))
    assert page.headings == [(1, "0 of 0 steps as expected"), (2, "Problems"), (2, ORIGIN)]
    assert 'error PS702 unknown field "pendign"' in page.text
    assert "^~~~~~~" in page.text
    assert "Rule coverage" not in page.text
    capsys.readouterr()


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("report.txt", "--report {}: name a file that ends in .html"),
        ("-", "--report -: name a file that ends in .html"),
        ("folder.html", "--report {}: is a directory"),
    ],
)
def test_a_place_that_cannot_be_one_is_refused_before_the_work(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, complaint: str
) -> None:
    """Other endings, standard output and directories are refused, and nothing is decided."""
    (tmp_path / "folder.html").mkdir()
    path = name if name == "-" else str(tmp_path / name)
    command = ["explain", "shop/web-1", "--cluster", CLUSTER, f"--report={path}"]
    assert run(command) == 2
    output = capsys.readouterr()
    assert complaint.format(path) in output.err
    assert not output.out


def test_without_the_extra_the_command_that_installs_it_is_named(
    capsys: pytest.CaptureFixture[str], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Jinja2 a report is refused before the work, and the message names the extra."""
    environment.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert run(["explain", "shop/web-1", "--cluster", CLUSTER, "--report", str(file)]) == 2
    output = capsys.readouterr()
    assert "jinja2 is not installed: pip install 'jinja2>=3.1' (the extra console)" in output.err
    assert not output.out
    environment.cache_clear()


def test_equal_input_gives_equal_bytes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A report holds no time and no path."""
    files = [tmp_path / "a.html", tmp_path / "b.html"]
    for item in files:
        reported(capsys, item, "explain", "shop/web-1", "--cluster", CLUSTER)
    assert files[0].read_bytes() == files[1].read_bytes()


PACKING = str(POLICIES / "gpu-bin-packing")


def origin_of(file: Path, *arguments: str) -> str:
    """Return the last section of a command's report."""
    assert run([*arguments, "--report", str(file)]) == 0
    page = Page(file.read_text(encoding="utf-8"))
    assert page.headings[-1] == (2, ORIGIN)
    return page.text.partition(ORIGIN)[2]


@pytest.mark.parametrize(
    "command",
    [
        ["simulate", CLUSTER, "--policies", PACKING],
        ["simulate", CLUSTER, "--policies", PACKING, "--timeline"],
        ["explain", "shop/web-1", "--cluster", CLUSTER, "--policies", PACKING],
        ["diff", "default", PACKING, "--cluster", CLUSTER],
    ],
    ids=["simulate", "timeline", "explain", "diff"],
)
def test_a_report_says_what_it_was_made_from(
    command: list[str], file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report did not say of which cluster, policies and version it was, or of when."""
    monkeypatch.chdir(tmp_path)
    for name in ("here", "copy"):  # written at another time each
        shutil.copytree(CLUSTER, tmp_path / name, copy_function=shutil.copyfile)
    said, again = (
        origin_of(file, *[name if item == CLUSTER else item for item in command])
        for name in ("here", "copy")
    )
    newest = "2026-01-05T08:08:00Z"
    for text in (__version__, "here", "6 Nodes, 13 Pods", newest, "GpuBinPacking"):
        assert text in said
    (plan,) = read(None, [PACKING])[0]
    assert plan.content_hash[:12] in said
    assert plan.hashes["GpuBinPacking"].whole[:12] in said
    assert again == said.replace("here", "copy")
    (tmp_path / "here" / "more.yaml").write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: another}\n", encoding="utf-8"
    )
    more = origin_of(file, *["here" if item == CLUSTER else item for item in command])
    assert "7 Nodes, 13 Pods" in more


def test_a_report_of_tests_names_files_and_policies(file: Path) -> None:
    """By the hashes of their contents."""
    tests = POLICIES / "gpu-bin-packing" / "tests.yaml"
    said = origin_of(file, "test", str(tests))
    assert hashlib.sha256(tests.read_bytes()).hexdigest()[:12] in said
    (plan,) = read(None, [PACKING])[0]
    assert plan.hashes["GpuBinPacking"].whole[:12] in said


def test_a_trace_has_no_dates(file: Path, tmp_path: Path) -> None:
    """Its pods arrive so many seconds after the start, in no year."""
    trace = tmp_path / "jobs.csv"
    trace.write_text("submit_s,duration_s,num_gpus,vc\n0,10,1,a\n")
    nodes = ["--nodes", "2*nvidia.com/gpu=8"]
    said = origin_of(file, "simulate", str(trace), *nodes, "--timeline")
    assert "a trace has no dates" in said
    assert nodes[1] in said
