"""Two policy sets on one cluster: moved pods, their causes, and the effect of several seeds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings, strategies as st

from policy_sched.diff import placement_diff
from policy_sched.diff.report import seeds_document, seeds_lines
from policy_sched.experiments import Significance
from policy_sched.model.meta import ApiObject
from policy_sched.profiles.build.pipeline import CompiledPlan
from policy_sched.scheduler.setup.factory import read
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled

HEAD = "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: Mine}\nspec:\n"
#: Draws pod p0 to n3, and leaves all other decisions alone.
DRAWS = '  score: {expression: \'pod.name == "p0" && node.name == "n3" ? 100 : 0\'}\n'
REFUSES = "  filter: [{expression: 'pod.name != \"p0\"', message: not here}]\n"
NOTHING = "  matchConditions: ['pod.name == \"nobody\"']\n" + DRAWS


@cache
def plans(body: str = "") -> tuple[CompiledPlan, ...]:
    """Return the default profile, perhaps with a policy."""
    if not body:
        return read(None, ())[0]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "policy.yaml"
        path.write_text(HEAD + body, encoding="utf-8")
        return read(None, [str(path)])[0]


def cluster(pods: int, nodes: int = 4) -> list[ApiObject]:
    """Return equal nodes without pods, and equal pods: every decision is a tie at first."""
    return [
        *(make_node(f"n{i}", cpu="4") for i in range(nodes)),
        *(make_pod(f"p{i}", cpu="1") for i in range(pods)),
    ]


def causes(diff: placement_diff.PlacementDiff) -> dict[str, placement_diff.Cause | None]:
    """Return why each pod moved."""
    return {move.pod.removeprefix("default/"): move.cause for move in diff.moves}


def test_a_policy_that_does_nothing_moves_nothing() -> None:
    """Its score is left out, and the same seed draws the same nodes."""
    diff = placement_diff.compare_placements(plans(), plans(NOTHING), cluster(8), seed=3)
    assert diff.moves == ()
    (applied,) = diff.new.policies
    assert (applied.matched, applied.pods, applied.scored) == (0, 8, 0)


def test_only_the_pod_that_a_policy_draws_is_made_to_move_by_it() -> None:
    """All other moves come from the random choice, or from the capacity that the first one left."""
    for seed in range(6):
        diff = placement_diff.compare_placements(plans(), plans(DRAWS), cluster(8), seed)
        for pod, cause in causes(diff).items():
            assert (cause is placement_diff.Cause.POLICY) == (pod == "p0")
        assert diff.causes[placement_diff.Cause.POLICY] <= 1
    tied = {c for seed in range(6) for c in compare(DRAWS, seed).causes}
    assert tied == {
        placement_diff.Cause.POLICY,
        placement_diff.Cause.TIE,
        placement_diff.Cause.FOLLOWS,
    }


def compare(body: str, seed: int) -> placement_diff.PlacementDiff:
    """Compare the default profile with one that has a policy."""
    return placement_diff.compare_placements(plans(), plans(body), cluster(8), seed)


def test_a_pod_that_a_filter_rejects_is_attributed_to_the_policy() -> None:
    """It becomes unschedulable, and schedulable the other way round."""
    comparison = compare(REFUSES, 0)
    assert causes(comparison)["p0"] is placement_diff.Cause.POLICY
    assert comparison.counts["unschedulable"] == 1
    (applied,) = comparison.new.policies
    assert (applied.matched, applied.rejected, applied.nodes) == (8, 4, 4)
    back = placement_diff.compare_placements(plans(REFUSES), plans(), cluster(8), 0)
    assert causes(back)["p0"] is placement_diff.Cause.POLICY


def test_several_seeds_separate_a_difference_from_noise() -> None:
    """A pod less with every seed is a difference; which nodes are in use is not."""
    seeds_diff = placement_diff.compare_seeds(plans(), plans(REFUSES), cluster(8), range(6))
    measures = {measure.name: measure.values for measure in seeds_diff.measures}
    assert measures[placement_diff.PLACED].verdict is Significance.DIFFERENT
    assert measures[placement_diff.PLACED].difference.mean == -1
    assert [(measure.pod, measure.change) for measure in seeds_diff.fates] == [("default/p0", -6)]
    same = placement_diff.compare_seeds(plans(), plans(NOTHING), cluster(8), range(6))
    assert {measure.values.verdict for measure in same.measures} == {Significance.EQUAL}


def test_pods_that_move_with_every_seed_are_named() -> None:
    """With several seeds the report named no pod but those that have no node any more."""
    elsewhere = DRAWS.replace("n3", "n1")
    seeds_diff = placement_diff.compare_seeds(plans(DRAWS), plans(elsewhere), cluster(8), range(6))
    first, *_ = seeds_diff.always
    assert (first.pod, first.old, first.new, first.by_policy) == ("default/p0", ("n3",), ("n1",), 6)
    text = list(seeds_lines(seeds_diff))
    at = next(i for i, line in enumerate(text) if "node with every seed, 1 of them by a" in line)
    assert text[at + 1] == "  default/p0: n3 -> n1"
    document = seeds_document(seeds_diff)["always"][0]
    assert document == {"pod": "default/p0", "old": ("n3",), "new": ("n1",), "byPolicy": 6}


def test_too_few_seeds_are_told() -> None:
    """Five seeds gave a column of words that looked like a result."""
    hostname = {"kubernetes.io/hostname": "n0"}
    nodes = [make_node(f"n{i}", cpu="4", labels={**hostname} if i == 0 else {}) for i in range(4)]
    objects = [*nodes, make_pod("p0", cpu="1"), make_pod("p1", cpu="4", node_selector=hostname)]
    seeds_diff = placement_diff.compare_seeds(plans(), plans(DRAWS), objects, range(5))
    assert "5 seeds are too few to tell" in list(seeds_lines(seeds_diff))[-1]


@settings(max_examples=scaled(5), deadline=None)
@given(first=st.integers(0, 1000), pods=st.integers(1, 6))
def test_each_run_is_that_of_its_seed(first: int, pods: int) -> None:
    """Runs do not touch each other, and come in the order of the seeds."""
    objects: Sequence[ApiObject] = cluster(pods, 2)
    seeds = range(first, first + 3)
    seeds_diff = placement_diff.compare_seeds(plans(), plans(DRAWS), objects, seeds)
    alone = [
        placement_diff.compare_placements(plans(), plans(DRAWS), objects, seed) for seed in seeds
    ]
    assert list(seeds_diff.runs) == alone
    assert seeds_diff.seeds == tuple(seeds)
