"""Completion: the names of a section, and the members of a value.

Quick fixes: each mends its problem, and nothing is offered that does not.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random

import pytest

from policy_sched.lsp.suggestions import fixes, meaning, suggestions
from policy_sched.profiles.check.check import check_open
from policy_sched.profiles.models.defaults import policies_directory

HEAD = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: P}
spec:
  params: {limit: 3, zone: a}
  functions:
  - {name: twice, params: {x: int}, expression: x * 2}
  variables:
  - {name: tier, expression: 'node.labels[?"tier"]'}
"""


def at_end(rule: str) -> tuple[str, int, int]:
    """Return a policy that ends in a rule, with the cursor at its end."""
    text = HEAD + rule
    return text, text.count("\n"), len(text) - text.rfind("\n") - 1


def labels(rule: str) -> list[str]:
    """Return the suggestions at the end of a rule."""
    return [suggestion.label for suggestion in suggestions("p.yaml", *at_end(rule))]


@pytest.mark.parametrize(
    ("rule", "there", "missing"),
    [
        ("  filter:\n  - expression: no", {"node"}, {"pod"}),
        ("  filter:\n  - expression: ", {"node", "pod", "twice", "percent", "math"}, {"victim"}),
        ("  preEnqueue:\n  - expression: ", {"queue", "pod"}, {"node", "cluster"}),
        ("  filter:\n  - expression: node.", {"labels", "free", "podCount"}, {"priority"}),
        ("  filter:\n  - expression: node.pod", {"pods", "podCount"}, {"labels"}),
        ("  filter:\n  - expression: node.name.st", {"startsWith"}, {"labels"}),
        ("  filter:\n  - expression: params.", {"limit", "zone"}, {"labels"}),
        ("  filter:\n  - expression: variables.", {"tier"}, {"labels"}),
        ("  filter:\n  - expression: variables.tier.", {"orValue", "optMap"}, {"map"}),
        ("  filter:\n  - expression: node.pods.", {"all", "exists"}, {"optMap"}),
        ("  filter:\n  - expression: node.pods.all(q, q.", {"priority"}, {"podCount"}),
        ("  filter:\n  - expression: node.pods.all(q, ", {"q", "pod"}, {"victim"}),
        ("  filter:\n  - expression: math.", {"abs", "ceil"}, {"percent"}),
        ("  preEnqueue:\n  - expression: node.", set(), {"labels"}),
        ("  preemption:\n    victim: victim.pri", {"priority"}, {"name"}),
        ("  filter:\n  - expression: |-\n      pod.tolerations.exists(t, t.k", {"key"}, {"name"}),
        ("  requeue:\n    events:\n    - hint: ", {"event", "pod"}, {"node"}),
        ("  requeue:\n    events:\n    - hint: event.new", {"newNode", "newPod"}, {"labels"}),
        ("  requeue:\n    events:\n    - ac", {"actions"}, {"every"}),
        ("  filter:\n  - mess", {"message", "messageExpression"}, {"expression"}),
        ("  ", {"filter", "score", "permit"}, {"expression"}),
    ],
)
def test_what_can_be_typed(rule: str, there: set[str], missing: set[str]) -> None:
    """Names that the section sees, members that the value has, keys that the schema has."""
    names = set(labels(rule))
    assert there <= names
    assert not missing & names


@pytest.mark.parametrize(
    ("rule", "title", "words"),
    [
        ("  filter:\n  - expression: node.free", "Node.free: resources", "may be below zero"),
        ("  filter:\n  - expression: node", "node: Node", ""),
        ("  filter:\n  - expression: percent", "percent(int, int) -> int", ""),
        (
            "  filter:\n  - expression: node.name.startsWith",
            "string.startsWith(string) -> bool",
            "",
        ),
        ("  filter:\n  - expression: variables.tier", "variables.tier: optional(string)", "node"),
        ("  filter:\n  - expression: params.limit", "params.limit: int", ""),
    ],
)
def test_what_a_word_means(rule: str, title: str, words: str) -> None:
    """Type, unit and sentence, as the reference has them."""
    text, line, character = at_end(rule)
    entry = meaning("p.yaml", text, line, character - 1)
    assert entry is not None
    assert title in entry.title.split("\n")
    assert words in entry.text


def test_what_a_key_means() -> None:
    """As in the schema; words of messages have no description."""
    text, line, _ = at_end("  filter:\n  - expression: 'true'\n    message: node")
    entry = meaning("p.yaml", text, line, 6)
    assert entry is not None
    assert entry.text == "Why, as constant text."
    assert meaning("p.yaml", text, line, 15) is None


def test_a_policy_test_has_keys_of_its_own() -> None:
    """A PolicyTest has its own keys: of short forms, and of expectations."""
    head = "apiVersion: policysched.dev/v1alpha1\nkind: PolicyTest\nname: x\n"
    for text, wanted in (
        ("objects:\n- {node: n1, ta", {"taints"}),
        ("expect:\n- pod: a\n  no", {"notOn", "nominated"}),
        ("pend", {"pending"}),
    ):
        whole = head + text
        line, character = whole.count("\n"), len(whole) - whole.rfind("\n") - 1
        assert {
            suggestion.label for suggestion in suggestions("t.yaml", whole, line, character)
        } == wanted


@pytest.mark.parametrize(
    "file", sorted(policies_directory().glob("*/*.yaml")), ids=lambda file: str(file.parent.name)
)
def test_no_place_and_no_half_of_a_file_is_too_much(file: Path) -> None:
    """Wherever the cursor is, and wherever the file ends, there is an answer."""
    random = Random(7)
    text = file.read_text(encoding="utf-8")
    lines = text.split("\n")
    for _ in range(4):
        line = random.randrange(len(lines))
        character = random.randrange(len(lines[line]) + 1)
        cut = "\n".join([*lines[:line], lines[line][:character]])
        for shown in (text, cut, cut + "\n" + "\n".join(lines[line + 1 :])):
            suggestions(str(file), shown, line, character)
            meaning(str(file), shown, line, character)
        check_open(str(file), cut)


BARE = "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: P}\nspec:\n"
CHECK = partial(check_open, "p.yaml")


def mended(spec: str) -> list[tuple[str, str]]:
    """Return the code of each fix for a spec, and the lines of the spec with it done."""
    text = BARE + spec
    items = []
    for fix in fixes(text, 0, text.count("\n"), CHECK):
        lines = text.split("\n")
        row, start = fix.problem.line - 1, fix.problem.column - 1
        line = lines[row]
        lines[row] = line[:start] + fix.new_text + line[start + fix.problem.width :]
        items.append((fix.problem.code, "\n".join(lines).removeprefix(BARE)))
    return items


def rule(text: str) -> str:
    """Return a filter with one rule as it is written in YAML."""
    return f"  filter:\n  - {{expression: {text}, message: m, onError: Reject}}\n"


@pytest.mark.parametrize(
    ("wrong", "code", "right"),
    [
        (rule("node.unschedulabel"), "PS102", rule("node.unschedulable")),
        (rule("nod.unschedulable"), "PS101", rule("node.unschedulable")),
        (rule("node.ready").replace("filter", "filtr"), "PS702", rule("node.ready")),
        (rule("node.name = pod.name"), "PS002", rule("node.name == pod.name")),
        (
            rule("node.name == pod.name and node.ready"),
            "PS002",
            rule("node.name == pod.name && node.ready"),
        ),
        (
            rule('\'node.labels["a"] != "b"\''),
            "PS412",
            rule('\'node.labels[?"a"] != optional.of("b")\''),
        ),
        (
            rule("\"node.labels['a'] != 'b'\""),
            "PS412",
            rule('"node.labels[?\\"a\\"] != optional.of(\'b\')"'),
        ),
        (
            "  score: {expression: node.podCount}\n",
            "PS321",
            "  score: {expression: 'clamp(node.podCount, 0, 100)'}\n",
        ),
    ],
    ids=lambda value: value if len(str(value)) == 5 else "",
)
def test_the_hint_is_done(wrong: str, code: str, right: str) -> None:
    """The suggested word or text, in the existing quotes."""
    assert (code, right) in mended(wrong)


@pytest.mark.parametrize(
    "spec",
    [
        rule("node.frobnicated"),
        rule("true"),
        "  filter:\n  - {expression: node.unschedulable, message: m}\n  filter: []\n",
        "  filter: [\n",
    ],
)
def test_nothing_is_offered_that_does_not_mend(spec: str) -> None:
    """No word is close, or the message suggests no text."""
    assert mended(spec) == []


def test_only_the_requested_lines() -> None:
    """An editor requests one line at a time."""
    text = BARE + rule("node.unschedulabel") + "  scores: {}\n"
    assert [fix.problem.code for fix in fixes(text, 5, 5, CHECK)] == ["PS102"]
    assert [fix.title for fix in fixes(text, 6, 6, CHECK)] == ["Write score"]


OF_INPUTS = """\
  inputs:
  - {name: classes, apiVersion: scheduling.k8s.io/v1, kind: PriorityClass}
  filter:
  - expression: """


@pytest.mark.parametrize(
    ("rule", "there"),
    [
        ("inputs.cl", ["classes"]),
        ('inputs.classes[?"high"].optMap(c, c.val', ["value"]),
        ("inputs.classes.a", ["all"]),
        ("inp", ["inputs"]),
    ],
)
def test_inputs_and_their_fields_are_completed(rule: str, there: list[str]) -> None:
    """After `inputs.` come the policy's inputs, and after an object of one its fields."""
    assert labels(OF_INPUTS + rule) == there


def test_a_field_of_an_object_says_what_it_is() -> None:
    """Hovering a field of an object shows its type."""
    text, line, column = at_end(OF_INPUTS + 'inputs.classes[?"a"].optMap(c, c.value')
    entry = meaning("p.yaml", text, line, column - 1)
    assert entry is not None
    assert (entry.title, entry.kind) == ("c.value: int", "field of inputs.classes")
