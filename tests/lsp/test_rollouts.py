"""The language server knows rollouts: keys, measures in abort rules, problems, hover texts."""

from __future__ import annotations

from pathlib import Path

from policy_sched.lsp.suggestions import fixes, meaning, suggestions
from policy_sched.profiles.check import check_open
from policy_sched.rollout import MEASURES

HEAD = "apiVersion: policysched.dev/v1alpha1\nkind: Rollout\nmetadata: {name: r}\nspec:\n"
STEPS = "  steps: [{canary: {percent: 5, for: 1m}}]\n"


def labels(text: str) -> set[str]:
    """Return the words that are offered at the end of a text."""
    lines = (HEAD + text).split("\n")
    offered = suggestions("r.yaml", HEAD + text, len(lines) - 1, len(lines[-1]))
    return {item.label for item in offered}


def test_keys_come_from_the_schema() -> None:
    """Below spec, a step and a rule the keys of a rollout are offered."""
    assert labels("  ") == {"steps", "abortWhen"}
    assert labels("  steps:\n  - ") >= {"audit", "canary"}
    assert labels("  steps:\n  - canary:\n      ") == {"percent", "by", "for", "decisions"}
    assert labels("  abortWhen:\n  - expression: a\n    ") >= {"expression", "message", "decisions"}


def test_measures_are_completed() -> None:
    """An abort rule may begin with a side, and a side has all measures."""
    names = labels(f"{STEPS}  abortWhen:\n  - expression: ")
    assert {"stable", "candidate"} <= names
    assert "pod" not in names
    assert set(MEASURES) <= labels(f"{STEPS}  abortWhen:\n  - expression: candidate.")
    assert labels(f"{STEPS}  abortWhen:\n  - expression: candidate.errors > stable.wai") == {
        "waitingP50",
        "waitingP99",
    }
    assert labels(f"{STEPS}  abortWhen:\n  - message: candidate.") == set()


def test_keys_and_measures_are_explained() -> None:
    """The hover text is the description of the key or of the measure."""
    text = f"{HEAD}{STEPS}  abortWhen:\n  - expression: candidate.unschedulable > 0.5\n"
    key = meaning("r.yaml", text, 5, 4)
    assert key is not None
    assert "abort the rollout" in key.text
    measure = meaning("r.yaml", text, 6, 30)
    assert measure is not None
    assert "share of decisions" in measure.text


def test_a_misspelt_measure_is_mended(tmp_path: Path) -> None:
    """The problem is shown while typing, and its quick fix takes it away."""
    text = f"{HEAD}{STEPS}  abortWhen:\n  - expression: candidate.erors > 0\n"
    path = str(tmp_path / "r.yaml")
    assert [(d.line, d.code) for d in check_open(path, text)] == [(7, "PS102")]
    offered = list(fixes(text, 0, 10, lambda changed: check_open(path, changed)))
    assert [fix.new_text for fix in offered] == ["errors"]
