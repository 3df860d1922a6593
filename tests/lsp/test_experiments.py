"""The language server knows experiments: keys, rules of measures, problems."""

from __future__ import annotations

from pathlib import Path

from policy_sched.experiments import open_experiment_problems
from policy_sched.lsp.suggestions import meaning, suggestions
from policy_sched.profiles.check import check_open

HEAD = "apiVersion: policysched.dev/v1alpha1\nkind: Experiment\nmetadata: {name: e}\nspec:\n"


def labels(text: str) -> set[str]:
    """Return the words that are offered at the end of a text."""
    lines = (HEAD + text).split("\n")
    offered = suggestions("e.yaml", HEAD + text, len(lines) - 1, len(lines[-1]))
    return {item.label for item in offered}


def test_keys_come_from_the_schema() -> None:
    """Below spec and below a measure the keys of an experiment are offered."""
    assert {"cluster", "workload", "variants", "seeds", "measures"} <= labels("  ")
    assert {"allocation", "nodes", "percentOf", "summary"} <= labels(
        "  measures:\n  - name: x\n    "
    )
    assert labels("  workload:\n    arrivals:\n      infl") == {"inflate"}


def test_rules_of_measures_are_completed() -> None:
    """In a measure's rule the fields of node are offered, and no pod."""
    assert {"requested", "allocatable", "free"} <= labels("  measures:\n  - nodes: node.")
    names = labels("  measures:\n  - nodes: ")
    assert "node" in names
    assert "pod" not in names
    assert labels("  measures:\n  - policy: ") == set()


def test_a_key_is_explained() -> None:
    """The hover text is the key's description."""
    text_of_key = meaning("e.yaml", HEAD + "  seeds: {count: 3}\n", 4, 4)
    assert text_of_key is not None
    assert "every variant is run with each" in text_of_key.text


def test_problems_are_shown_while_typing(tmp_path: Path) -> None:
    """Mistakes of meaning are found without the tables of the experiment."""
    text = HEAD + (
        "  cluster: {files: [missing.csv]}\n  workload: {files: [missing.csv]}\n  seeds: [1]\n"
        "  measures: [{name: m, nodes: node.cpus}]\n"
    )
    path = str(tmp_path / "e.yaml")
    diagnostics = check_open(path, text, experiments=open_experiment_problems)
    assert any("cpus" in diagnostic.message and diagnostic.line == 8 for diagnostic in diagnostics)
