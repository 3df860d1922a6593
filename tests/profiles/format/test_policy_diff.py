"""What two policy sets say differently; how they are written makes no difference."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.errors import PolicySchedError
from policy_sched.profiles.format.policy_diff import ValueDifference, differences
from policy_sched.profiles.reload.inputs import policy_set, read_policy_set

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
) -> list[ValueDifference]:
    """Return the differences between two sets, of a policy and perhaps a configuration each."""
    sets = []
    for name, body in (("old", old), ("new", new)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "policy.yaml").write_text(HEAD + body, encoding="utf-8")
        if weights is not None:
            weight = weights[name == "new"]
            text = CONFIGURATION.replace("WEIGHT", str(weight))
            (folder / "config.yaml").write_text(text, encoding="utf-8")
        sets.append(read_policy_set(str(folder)))
    return differences(*sets)


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


def test_each_value_is_reported_at_its_place(tmp_path: Path) -> None:
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
        ValueDifference(f"{where} params.limit", "3", "4"),
        ValueDifference(
            f"{where} variables[full].expression",
            "node.podCount > params.limit",
            "node.podCount >= params.limit",
        ),
        ValueDifference(f"{where} filter[0].message", "node is full", "no room"),
        ValueDifference(f"{where} filter[1]", "", "node.ready, node is not ready, true"),
    ]


def test_weights_and_sections(tmp_path: Path) -> None:
    """A configuration in the directory enables the policy; without a score it has no weight."""
    without = OLD.replace("  score: {expression: 'variables.full ? 0 : 100'}\n", "")
    told = found(tmp_path, OLD, without, (2, 5))
    assert ValueDifference("profile default-scheduler: score Mine", "weight 2", "") in told
    score = [one for one in told if one.where == "profile default-scheduler: Mine score"]
    assert [one.new for one in score] == [""]


def test_another_weight_is_the_only_difference(tmp_path: Path) -> None:
    """Nothing else differs."""
    told = found(tmp_path, OLD, OLD, (2, 5))
    assert told == [
        ValueDifference("profile default-scheduler: score Mine", "weight 2", "weight 5")
    ]


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


OTHER = CONFIGURATION.replace("Mine, weight: WEIGHT", "Other")
EXTENDERS = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- urlPrefix: http://127.0.0.1:9/
  filterVerb: VERB
  managedResources: [{name: example.com/b}, {name: example.com/a}]
"""


def test_a_policy_that_is_not_enabled_is_compared_by_what_it_says(tmp_path: Path) -> None:
    """A configuration deep in the directory enables another policy: "nothing changed" was wrong."""
    sets = []
    for name, body in (("old", OLD), ("new", OLD.replace("limit: 3", "limit: 4"))):
        deep = tmp_path / name / "a" / "b"
        deep.mkdir(parents=True)
        (tmp_path / name / "policy.yaml").write_text(HEAD + body, encoding="utf-8")
        other = HEAD.replace("Mine", "Other") + "  filter: [{expression: node.ready}]\n"
        (deep / "other.yaml").write_text(other, encoding="utf-8")
        (deep / "config.yaml").write_text(OTHER, encoding="utf-8")
        sets.append(read_policy_set(str(tmp_path / name)))
    old, new = sets
    assert old.config == str(tmp_path / "old" / "a" / "b" / "config.yaml")
    assert list(old.idle) == ["Mine"]
    same = ValueDifference("policy Mine: params.limit", "3", "4", enabled=False)
    assert differences(old, new) == [same]
    (tmp_path / "new" / "policy.yaml").unlink()
    gone = ValueDifference("policy Mine", "present", "", enabled=False)
    assert differences(old, read_policy_set(str(tmp_path / "new"))) == [gone]


def test_a_policy_that_is_enabled_on_one_side_only_is_compared(tmp_path: Path) -> None:
    """It came to the profile, and its rules changed with that."""
    for name, body in (("old", OLD), ("new", OLD.replace("limit: 3", "limit: 4"))):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "policy.yaml").write_text(HEAD + body, encoding="utf-8")
    nothing = CONFIGURATION.partition("profiles")[0]
    (tmp_path / "old" / "config.yaml").write_text(nothing, encoding="utf-8")
    told = differences(*(read_policy_set(str(tmp_path / name)) for name in ("old", "new")))
    assert ValueDifference("policy Mine: params.limit", "3", "4", enabled=False) in told
    assert ValueDifference("profile default-scheduler: filter Mine", "", "enabled") in told


def test_extenders_are_shown_in_the_words_of_the_configuration(tmp_path: Path) -> None:
    """Each setting at its place, sets in order; a whole extender by what it sets.

    The comparison showed ``frozenset({...})`` and ``Selector(requirements=(), ...)``.
    """
    files = {}
    for name, text in {
        "one": EXTENDERS.replace("VERB", "filter"),
        "two": EXTENDERS.replace("VERB", "fits").replace(", {name: example.com/a}", ""),
        "none": EXTENDERS.partition("extenders")[0],
    }.items():
        files[name] = tmp_path / f"{name}.yaml"
        files[name].write_text(text, encoding="utf-8")
    one, two, none = (read_policy_set(str(files[name])) for name in ("one", "two", "none"))
    where = "profile default-scheduler: extenders[0]"
    assert differences(one, two) == [
        ValueDifference(f"{where}.filterVerb", "filter", "fits"),
        ValueDifference(
            f"{where}.managedResources", "[example.com/a, example.com/b]", "[example.com/b]"
        ),
    ]
    whole = (
        "{urlPrefix: http://127.0.0.1:9/, filterVerb: filter,"
        " managedResources: [example.com/a, example.com/b]}"
    )
    assert [one.new for one in differences(none, one) if one.where == where] == [whole]
