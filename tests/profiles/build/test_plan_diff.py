"""What differs between two sets, as far as the scheduler has to act on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.profiles.build.plan_diff import PlanDiff, diff_plans
from policy_sched.profiles.reload.inputs import PolicyFiles
from tests.profiles.policy_texts import config, gating, keeping, scoring, sorting, write

BASE = {
    "keep.yaml": keeping("Keep", 'node.name != "x"'),
    "gate.yaml": gating("Gate", 'pod.namespace != "closed"'),
    "score.yaml": scoring("Score", "50"),
    "sort.yaml": sorting("Sort", "pod.priority"),
    "config.yaml": config({"one": ["Keep", "Gate", "Score"], "two": ["Score"]}),
}


def changes(folder: Path, **files: str) -> PlanDiff:
    """Return what changes if some of the files say something else."""
    plans = []
    for texts in (BASE, BASE | {name.replace("_", "."): text for name, text in files.items()}):
        for name, text in texts.items():
            write(folder / name, text)
        compiled = PolicyFiles(str(folder / "config.yaml"), (str(folder),)).compile()
        assert not compiled.problems
        plans.append(compiled.plans)
    return diff_plans(*plans)


def test_equal_plans_differ_in_nothing(tmp_path: Path) -> None:
    """Equal sets differ in nothing, and that is false."""
    assert not changes(tmp_path)


def test_another_filter_makes_rejections_of_its_profile_void(tmp_path: Path) -> None:
    """Its profile changed, and what it rejected may be accepted; others' pods may not hope."""
    found = changes(tmp_path, keep_yaml=keeping("Keep", 'node.name != "y"'))
    assert (found.changed, found.filters, found.policies) == (("one",), ("one",), ("Keep",))
    assert not found.gates
    assert not found.queue_sort
    assert found.helps("one", ["Keep", "NodeName"])
    assert found.helps("one", []), "an error may not come again"
    assert not found.helps("one", ["NodeName"])
    assert not found.helps("two", ["Keep"])


def test_a_filter_that_is_gone(tmp_path: Path) -> None:
    """Its rejections are void."""
    found = changes(tmp_path, config_yaml=config({"one": ["Gate", "Score"], "two": ["Score"]}))
    assert found.helps("one", ["Keep"])
    assert not found.helps("one", ["Gate"])


def test_a_filter_that_came(tmp_path: Path) -> None:
    """It can only reject more: no pod is tried again."""
    both = config({"one": ["Keep", "Gate", "Score"], "two": ["Keep", "Score"]})
    found = changes(tmp_path, config_yaml=both)
    assert found.filters == ("two",)
    assert not found.void


def test_another_score_makes_no_pod_schedulable(tmp_path: Path) -> None:
    """It changes every profile that has it, and makes no pod schedulable."""
    found = changes(tmp_path, score_yaml=scoring("Score", "51"))
    assert found.changed == ("one", "two")
    assert not found.filters
    assert not found.void


@pytest.mark.parametrize(("domain", "score", "hope"), [("row", 1, True), ("rack", 2, False)])
def test_another_placement_may_have_room_for_a_group(
    tmp_path: Path, domain: str, score: int, hope: bool
) -> None:
    """Other domains may have room for a group; another score chooses among those that had."""
    text = "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: Score}\nspec:\n"
    text += '  placement: {domain: "node.labels[\'%s\']", score: "%d"}\n'
    plans = []
    for values in (("rack", 1), (domain, score)):
        write(tmp_path / "score.yaml", text % values)
        write(tmp_path / "config.yaml", config({"one": ["Score"]}))
        compiled = PolicyFiles(str(tmp_path / "config.yaml"), (str(tmp_path),)).compile()
        assert not compiled.problems
        plans.append(compiled.plans)
    found = diff_plans(*plans)
    assert found.policies == ("Score",)
    assert found.helps("one", ["Score"]) is hope


def test_another_gate_lets_pods_be_decided_anew(tmp_path: Path) -> None:
    """The profile's pods have to be decided anew."""
    found = changes(tmp_path, gate_yaml=gating("Gate", "true"))
    assert found.gates == ("one",)
    assert found.helps("one", ["Gate"])


@pytest.mark.parametrize("name", ["three", "two"])
def test_profiles_that_come_and_go(tmp_path: Path, name: str) -> None:
    """They are named; a profile under another name is another profile."""
    found = changes(tmp_path, config_yaml=config({"one": ["Keep", "Gate", "Score"], name: []}))
    if name == "two":
        assert (found.added, found.removed, found.changed) == ((), (), ("two",))
    else:
        assert (found.added, found.removed, found.changed) == (("three",), ("two",), ())


def test_another_queue_sort_of_the_first_profile_orders_the_queue_anew(tmp_path: Path) -> None:
    """The queue is ordered anew if the first profile's sort changed, and only then."""
    profiles = {"one": ["Keep", "Gate", "Score"], "two": ["Score"]}
    assert changes(tmp_path, config_yaml=config(profiles, "Sort")).queue_sort


def test_other_extenders_make_every_rejection_void(tmp_path: Path) -> None:
    """They are everybody's: every rejection is void."""
    more = "extenders:\n- {urlPrefix: 'http://127.0.0.1:1', filterVerb: f}\n"
    found = changes(tmp_path, config_yaml=BASE["config.yaml"] + more)
    assert found.changed == ("one", "two")
    assert found.helps("two", ["NodeName"])
