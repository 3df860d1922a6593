"""Pages of explanations: the lead first, and of every kind of explanation what there is."""

from __future__ import annotations

import pytest

from policy_sched.explain import Explanation, explanation_page, scores_bars
from policy_sched.explain.devices import ClaimSteps, DevicesStep, RatedStep, RequestStep
from policy_sched.explain.report import FilterStep, NodeScore, PlacementStep
from policy_sched.web import Tone, report
from tests.web.reading import Page

SCORES = [
    NodeScore("b", 130, {"Fit": 100, "Taints": 30, "Images": 0}),
    NodeScore("a", 90, {"Fit": 60, "Taints": 30, "Images": 0}),
]


def page_of(explanation: Explanation) -> Page:
    """Return the page of an explanation."""
    return Page(report(explanation_page(explanation)))


@pytest.mark.parametrize(
    ("explanation", "tone", "lead"),
    [
        (Explanation("d/p", "x", ignored=True), "bad", "d/p is not scheduled here"),
        (
            Explanation("d/p", "x", gated_by="Gates", message="waiting for scheduling gates"),
            "bad",
            "d/p does not enter the queue: Gates keeps it out",
        ),
        (
            Explanation("d/p", "x", failed=True, message="plugin X raised"),
            "bad",
            "d/p is not placed: the attempt fails, and is tried again after a backoff",
        ),
        (
            Explanation("d/p", "x", nodes=3, nominated_node="n", victims=["d/v"]),
            "warn",
            "d/p fits nowhere yet; it preempts pods on n",
        ),
        (
            Explanation("d/p", "x", nodes=3, feasible=2, best=["n"]),
            "good",
            "d/p goes to n: the best of 2 feasible, 3 nodes in all",
        ),
        (
            Explanation("d/p", "x", nodes=3, feasible=2, best=["n"], after_queue=True),
            "bad",
            "d/p is not placed, though 2 of 3 nodes are feasible",
        ),
    ],
)
def test_the_lead_is_that_of_the_text(explanation: Explanation, tone: Tone, lead: str) -> None:
    """The first line of the text is the sentence of the page; the colour says good or bad."""
    summary = explanation_page(explanation)
    assert (summary.lead, summary.tone) == (lead, tone)
    assert lead == next(iter(explanation.text_lines()))
    assert lead in page_of(explanation).text


def test_plugins_with_equal_scores_are_one_quiet_part() -> None:
    """They come first, so that bars differ where plugins do, and the legend leaves out zeros."""
    bars = scores_bars(Explanation("d/p", "x", nodes=2, scores=SCORES, best=["b"]))
    assert [part.name for part in bars.bars[0].parts] == ["the same for each: 1 plugin", "Fit"]
    assert bars.legend == {"the same for each: 1 plugin": 7, "Fit": 0}
    assert [bar.text for bar in bars.bars] == ["130", "90"]


def test_the_parts_of_a_bar_add_up_to_the_total() -> None:
    """Each bar is as long as the node's total."""
    bars = scores_bars(Explanation("d/p", "x", nodes=2, scores=SCORES, best=["b"]))
    assert [bar.total for bar in bars.bars] == [score.total for score in SCORES]


def test_many_nodes_are_not_all_drawn() -> None:
    """Of many scores and rejections the first are shown, and how many more there are."""
    scores = [NodeScore(f"n{i:03}", 1, {"Fit": 1}) for i in range(50)]
    rejections = {f"r{i:03}": ("Fit", ["Insufficient cpu"]) for i in range(300)}
    explanation = Explanation(
        "d/p", "x", nodes=350, scores=scores, rejections=rejections, best=["n000"]
    )
    page = page_of(explanation)
    assert len(page.table("The best 20 nodes").rows) == 21
    assert len(page.table("The first filter").rows) == 201
    assert "and 100 more" in page.text


def test_placements_and_devices_are_tables() -> None:
    """The domains of a group, and of each request what keeps devices from it."""
    placement = PlacementStep("rack-1", 2, 1, 3, feasible=False, score=0, plugins={})
    request = RequestStep("d/c", "gpu", "gpu", 1, [DevicesStep(["n1", "n2"], 0, [], 0)])
    explanation = Explanation(
        "d/p", "x", nodes=2,
        filters=[FilterStep("DynamicResources", "DynamicResources", 2, 2, 0, {"none": 2})],
        placements=[placement],
        claims=ClaimSteps([request], [], []),
    )  # fmt: skip
    page = page_of(explanation)
    assert page.table("Domains in which").rows[1:] == [["rack-1", "2", "1 of 3", "infeasible"]]
    assert page.table("Devices for request gpu of claim d/c").rows[1:] == [["n1, n2", "no devices"]]
    assert page.table("0 of 2 nodes").rows[1][:4] == ["DynamicResources2 none", "2", "2", "0"]


def test_rated_devices_say_what_rules_say() -> None:
    """Devices of the best node, request by request, with scores and refusals."""
    rated = [
        RatedStep("a", "gpu-0", 5.0, chosen=True),
        RatedStep("a", "gpu-1", 0.0, chosen=False, refused_by="Old"),
    ]
    explanation = Explanation("d/p", "x", nodes=1, feasible=1, best=["n"], rated=rated)
    page = page_of(explanation)
    assert (2, "Devices of n") in page.headings
    assert page.table("Request a").rows[1:] == [
        ["gpu-0", "score 5, chosen"],
        ["gpu-1", "rejected by rule Old"],
    ]
