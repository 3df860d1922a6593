"""The shape of PolicyTests, as an editor and `check` tell of it."""

from __future__ import annotations

import pytest

from policy_sched.profiles.check.check import check_open
from policy_sched.profiles.models.defaults import policies_directory

HEAD = "apiVersion: policysched.dev/v1alpha1\nkind: PolicyTest\nname: x\n"


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("objects: [{node: n1, cpuu: 3}]", "PS702", "did you mean 'cpu'?"),
        (
            "objects: [{pod: a, priority: high}]",
            "PS703",
            "objects[0].priority: expected",
        ),
        ("pendign: [a]", "PS702", "did you mean 'pending'?"),
        ("expect: [{pod: a, message: {match: x}}]", "PS704", "expect[0].message.matches"),
        ("expect: [{pod: a, scores: {n1: {min: a}}}]", "PS703", "expect[0].scores.n1.min"),
        ("expect: [{pod: a, chosen: [n1]}]", "PS703", "expected a string or nothing, found a list"),
        ("expect: [{chosen: n1}]", "PS704", "expect[0].pod: Required value"),
        ("expect: [{pod: a, rejected: }]", "PS703", "expected a mapping, found nothing"),
        ("objects: [{cpu: 1}]", "PS707", "objects[0]: this is no object"),
        ("objects: [{namespace: a, labls: {}}]", "PS702", "did you mean 'labels'?"),
        ("now: noon", "PS707", 'now: "noon" is not a time'),
    ],
)
def test_mistakes_are_found_where_they_stand(line: str, code: str, words: str) -> None:
    """With the key that was meant; a pod in short is not taken for a node."""
    found = check_open("t.yaml", HEAD + line + "\n")
    assert (found[0].line, found[0].code) == (4, code)
    assert words in f"{found[0].message} {found[0].hint}"


@pytest.mark.parametrize("entry", ["evicted: []", "evicted: [a]", "queue: [a, [b, c]]"])
def test_an_entry_without_a_pod(entry: str) -> None:
    """`check` asked for a pod where only the running pods that go are expected."""
    text = f"{HEAD}ops: [{{order: true}}, {{evict: true}}]\nexpect: [{{{entry}}}]\n"
    assert check_open("t.yaml", text) == []


def test_no_mistake_hides_another() -> None:
    """What only a second look sees, such as a time, is told with the rest."""
    text = (
        f"{HEAD}now: noon\nobjects: [{{cpu: 1}}]\nexpect: [{{chosen: n1}}, {{pod: a, best: 5}}]\n"
    )
    assert [one.line for one in check_open("t.yaml", text)] == [4, 5, 6, 6]


def test_the_shipped_tests_have_none() -> None:
    """Every scenario that we ship has the shape of one."""
    for file in policies_directory().glob("*/tests.yaml"):
        assert check_open(str(file), file.read_text(encoding="utf-8")) == []
