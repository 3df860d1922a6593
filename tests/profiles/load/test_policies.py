"""Reading Policy documents: several in a file, directories, and rules that look like numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.profiles.load import content_hash, load_policies
from policy_sched.profiles.load.policy_source import policy_source

HEAD = "apiVersion: policysched.dev/v1alpha1\nkind: Policy\n"


def policy(name: str, spec: str) -> str:
    """Return a Policy document."""
    return f"{HEAD}metadata: {{name: {name}}}\nspec:\n{spec}\n"


def write(path: Path, text: str) -> str:
    """Write a file, and return its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_several_documents_and_directories(tmp_path: Path) -> None:
    """Policies come in the order of files and documents; tests and other kinds are passed over."""
    a, b = policy("A", "  score: {expression: 1}"), policy("B", "  score: {expression: 2}")
    write(tmp_path / "one" / "policy.yaml", f"{a}---\n{b}")
    write(tmp_path / "one" / "tests.yaml", "kind: PolicyTest\nname: x\n")
    write(tmp_path / "one" / "node.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n")
    write(tmp_path / "two.yml", policy("C", "  score: {expression: 3}"))
    write(tmp_path / "notes.txt", "no YAML: [")
    policies, problems = load_policies([str(tmp_path)])
    assert not problems
    assert [p.name for p in policies] == ["A", "B", "C"]


def test_a_hash_is_of_contents_not_of_places(tmp_path: Path) -> None:
    """A policy in another folder has the same hash, and with another schema another one."""
    text = policy("A", "  inputs: [{name: x, apiVersion: a/v1, kind: X, schema: x.json}]")
    text += "  score: {expression: 1}\n"
    hashes = []
    for folder, schema in (("one", "{}"), ("two", "{}"), ("three", '{"type": "object"}')):
        write(tmp_path / folder / "x.json", schema)
        (loaded,), _ = load_policies([write(tmp_path / folder / "policy.yaml", text)])
        hashes.append(content_hash(policy_source(loaded)))
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_mounted_config_map_is_read_once(tmp_path: Path) -> None:
    """The kubelet's double of every file, behind names with dots, is passed over."""
    real = tmp_path / "..2026_01_01"
    write(real / "policy.yaml", policy("A", "  score: {expression: 1}"))
    (tmp_path / "..data").symlink_to(real)
    (tmp_path / "policy.yaml").symlink_to(tmp_path / "..data" / "policy.yaml")
    (only,), problems = load_policies([str(tmp_path)])
    assert only.name == "A"
    assert not problems


def test_a_named_file_must_hold_policies(tmp_path: Path) -> None:
    """A file that is named is not passed over; a PolicyTest in it is."""
    path = write(tmp_path / "x.yaml", "kind: PolicyTest\n---\napiVersion: v1\nkind: Node\n")
    policies, (problem,) = load_policies([path])
    assert not policies
    assert (problem.line, problem.code) == (4, "PS706")


def test_rules_that_yaml_takes_for_something_else(tmp_path: Path) -> None:
    """A bare number or boolean is the rule that was written, character by character."""
    spec = """
  matchConditions: [true]
  filter:
  - {expression: TRUE, resolvable: 1}
  - {expression: 1.50e3}
  - {expression: 0x1F, resolvable: false}
  score: {expression: 23}"""
    (loaded,), problems = load_policies([write(tmp_path / "p.yaml", policy("P", spec))])
    assert not problems
    source = policy_source(loaded)
    assert [t.text for t in source.match_conditions] == ["true"]
    assert [r.expression.text for r in source.filter] == ["TRUE", "1.50e3", "0x1F"]
    first, _, last = source.filter
    assert not isinstance(first.resolvable, bool)
    assert first.resolvable.text == "1"
    assert last.resolvable is False
    assert source.score is not None
    assert source.score.expression.text == "23"


@pytest.mark.parametrize(
    ("rule", "offset", "position"),
    [
        ("expression: a + b", 4, (7, 21)),
        ("expression: 'a + ''b'''", 5, (7, 24)),
        ('expression: "a + \\"b\\""', 5, (7, 24)),
        ("expression: |-\n      a\n        + b", 6, (9, 11)),
        ("expression: >-\n      a\n      + b", 4, (9, 9)),
        ("expression: a\n      + b", 4, (8, 9)),
    ],
)
def test_offsets_of_a_rule_have_a_place(
    tmp_path: Path, rule: str, offset: int, position: tuple[int, int]
) -> None:
    """Whatever style a rule is written in, each of its characters has line and column."""
    text = policy("P", f"  score:\n    {rule}\n").replace("spec:\n", "spec:\n  params: {x: 1}\n")
    (loaded,), _ = load_policies([write(tmp_path / "p.yaml", text)])
    score = policy_source(loaded).score
    assert score is not None
    line, column, source_line = score.expression.position(offset)
    assert (line, column) == position
    expected = score.expression.text[offset]
    assert source_line[column - 1] in (expected, "\\", "'")


def test_params_may_be_anchored(tmp_path: Path) -> None:
    """Parameters shared through an alias are the same, and places stay right."""
    text = policy("A", "  params: &res {gpu: nvidia.com/gpu}\n  score: {expression: '1'}")
    second = "  params: {r: &x [1, 2], s: *x}\n  score: {expression: params.s}"
    (a, b), problems = load_policies(
        [write(tmp_path / "p.yaml", f"{text}---\n{policy('B', second)}")]
    )
    assert not problems
    assert a.model.spec.params == {"gpu": "nvidia.com/gpu"}
    assert policy_source(b, {"r": [3]}).params == {"r": [3], "s": [1, 2]}
    score = policy_source(b).score
    assert score is not None
    assert score.expression.position(7)[:2] == (13, 30)


def test_a_name_defined_twice(tmp_path: Path) -> None:
    """The second policy of a name is reported with the place of the first."""
    one = write(tmp_path / "one.yaml", policy("A", "  score: {expression: 1}"))
    two = write(tmp_path / "two.yaml", policy("A", "  score: {expression: 1}"))
    _, (problem,) = load_policies([one, two])
    assert problem.file == two
    assert problem.message == 'policy "A" is defined twice'
    assert problem.hint == f"the other one is at {one}:3:18"
