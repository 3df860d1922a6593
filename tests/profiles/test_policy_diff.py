"""What two policy sets say differently; how they are written makes no difference."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.errors import PolicySchedError
from policy_sched.profiles.policy_diff import Difference, differences
from policy_sched.profiles.policy_set import policy_set

HEAD = "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: Mine}\nspec:\n"
CONFIGURATION = (
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
    "- plugins: {multiPoint: {enabled: [{name: Mine, weight: WEIGHT}]}}\n"
)
OLD = """\
  params: {limit: 3}
  variables: [{name: full, expression: node.podCount > params.limit}]
  filter:
  - {expression: '!variables.full', message: node is full}
  score: {expression: 'variables.full ? 0 : 100'}
"""


def found(
    tmp_path: Path, old: str, new: str, weights: tuple[int, int] | None = None
) -> list[Difference]:
    """Return the differences between two sets, of a policy and perhaps a configuration each."""
    plans = []
    for name, body in (("old", old), ("new", new)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "policy.yaml").write_text(HEAD + body, encoding="utf-8")
        if weights is not None:
            weight = weights[name == "new"]
            text = CONFIGURATION.replace("WEIGHT", str(weight))
            (folder / "config.yaml").write_text(text, encoding="utf-8")
        compiled = policy_set(str(folder)).compile()
        assert not compiled.failed, compiled.problems
        plans.append(compiled.plans)
    return differences(*plans)


def test_form_makes_no_difference(tmp_path: Path) -> None:
    """Blanks, parentheses, comments and the order of keys."""
    new = """\
  score:
    expression: |-
      // empty nodes
      (variables.full) ? 0:100
  filter:
  - {message: node is full, expression: '! variables.full'}
  variables: [{name: full, expression: (node.podCount>params.limit)}]
  params: {limit: 3}
"""
    assert found(tmp_path, OLD, new) == []


def test_each_value_is_told_at_its_place(tmp_path: Path) -> None:
    """Parameters, messages, rules, and rules that came."""
    new = """\
  params: {limit: 4}
  variables: [{name: full, expression: node.podCount >= params.limit}]
  filter:
  - {expression: '!variables.full', message: no room}
  - {expression: node.ready, message: node is not ready}
  score: {expression: 'variables.full ? 0 : 100'}
"""
    where = "profile default-scheduler: Mine"
    assert found(tmp_path, OLD, new) == [
        Difference(f"{where} params.limit", "3", "4"),
        Difference(
            f"{where} variables[full].expression",
            "node.podCount > params.limit",
            "node.podCount >= params.limit",
        ),
        Difference(f"{where} filter[0].message", "node is full", "no room"),
        Difference(f"{where} filter[1]", "", "node.ready, node is not ready, true"),
    ]


def test_weights_and_sections(tmp_path: Path) -> None:
    """A configuration in the directory enables the policy; without a score it has no weight."""
    without = OLD.replace("  score: {expression: 'variables.full ? 0 : 100'}\n", "")
    told = found(tmp_path, OLD, without, (2, 5))
    assert Difference("profile default-scheduler: score Mine", "weight 2", "") in told
    score = [one for one in told if one.where == "profile default-scheduler: Mine score"]
    assert [one.new for one in score] == [""]


def test_another_weight(tmp_path: Path) -> None:
    """Nothing else differs."""
    told = found(tmp_path, OLD, OLD, (2, 5))
    assert told == [Difference("profile default-scheduler: score Mine", "weight 2", "weight 5")]


def test_a_set_has_one_configuration(tmp_path: Path) -> None:
    """A file is a set, too; two configurations are one too many."""
    for name in ("a", "b"):
        text = CONFIGURATION.replace("WEIGHT", "1")
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(PolicySchedError, match="several KubeSchedulerConfigurations"):
        policy_set(str(tmp_path))
    one = str(tmp_path / "a.yaml")
    assert policy_set(one).config == one
    assert policy_set(one).policies == ()
