"""The hint of a problem leads to the cure."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.profiles.check.check import check_files

HEAD = "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: Hint}\nspec:\n"
TENANTS = 'cluster.pods.filter(p, p.labels["tenant"] == pod.labels["tenant"]).size() < 3'


@pytest.mark.parametrize(
    ("rule", "code", "hint"),
    [
        (f"  - expression: {TENANTS}\n    message: out\n", "PS510", 'use `[?"key"]` for what'),
        ("  - {expression: [1, 2].size() > 1, message: out}\n", "PS701", "quote it: inside { }"),
        ("  - {expression: !has(node.a), message: out}\n", "PS701", "put a rule in quotes"),
    ],
    ids=["a label that a pod may lack", "a comma in braces", "a negation"],
)
def test_hints_name_the_cure(rule: str, code: str, hint: str, tmp_path: Path) -> None:
    """The hint spoke of costs where `[?"tenant"]` was the cure, and none named quotes."""
    file = tmp_path / "policy.yaml"
    file.write_text(f"{HEAD}  filter:\n{rule}", encoding="utf-8")
    found = [one for one in check_files([str(file)]) if one.code == code]
    assert any(hint in one.hint for one in found), check_files([str(file)])
