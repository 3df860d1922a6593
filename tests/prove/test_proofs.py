"""Promises about PolicyProof documents: each form of a claim, what is assumed, and bad input."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
import z3

from policy_sched.cli.main import run
from policy_sched.prove.prover import Prover, Settings, parts_of

from .mutants import POLICIES

POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Gold}
spec:
  filter:
  - expression: pod.priority >= 100 || node.labels[?"tier"].orValue("") != "gold"
    message: gold
  score: {expression: 'percent(node.requested["cpu"], node.allocatable["cpu"])'}
"""
HEAD = """\
apiVersion: policysched.dev/v1alpha1
kind: PolicyProof
name: gold
policies: [policy.yaml]
"""
GOLD = 'node.labels[?"tier"].orValue("") == "gold"'
FORMS = {
    "always: '!passes || pod.priority >= 100 || !(" + GOLD + ")'": "proven",
    "always: passes": "refuted: it is false",
    "always: 'passes(\"Gold\") == passes'": "proven",
    "never: 'passes && pod.priority < 100 && " + GOLD + "'": "proven",
    "never: pod.priority > 7": "refuted: it is true",
    "implies: {if: pod.priority >= 100, then: passes}": "proven",
    "implies: {if: pod.priority >= 99, then: passes}": (
        "refuted: the first holds and the second does not"
    ),
    "disjoint: ['!passes', pod.priority >= 100]": "proven",
    "disjoint: [passes, pod.priority >= 100]": "refuted: rules 0 and 1 are both true",
    'always: score("Gold") <= 100': "proven",
    'always: score("Gold") < 100': "refuted: it is false",
    'always: pod.requests["memory"] < quantity("200Pi")': (
        "unknown: no test can show it: the text '225179981368524800' must be"
    ),
    'always: \'pod.requests["xcpu"].sign() == 0 && node.requested["xcpu"].sign() == 0\'': "proven",
    'always: node.taints.all(t, t.key != "")': "proven up to 3 elements of node.taints",
    "monotone: {score: Gold, in: 'node.requested[\"cpu\"]', direction: Increasing}": "proven",
    "monotone: {score: Gold, in: 'node.requested[\"cpu\"]', direction: Decreasing}": (
        "refuted: the score rises as the number grows"
    ),
    "monotone: {score: Gold, in: 'node.free[\"cpu\"]', direction: Decreasing}": (
        "unknown: `in` must be one number"
    ),
    "equivalent: {old: policy.yaml, new: policy.yaml}": "Gold: the same nodes pass: proven",
    "equivalent: {old: policy.yaml, new: other.yaml}": (
        "Gold: the same nodes pass: refuted: a node passes one and not the other"
    ),
}


EVERY_SECTION = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Gold}
spec:
  matchConditions: [pod.namespace != "kube-system"]
  preEnqueue: [{expression: pod.schedulingGates.size() == 0, message: gated}]
  filter: [{expression: pod.priority >= 100, message: gold}]
  score: {expression: node.podCount * 3, normalize: MinMax}
  preemption:
    eligible: pod.preemptionPolicy != "Never" && pod.priority > 10
    victim: victim.priority < pod.priority && victim.namespace == pod.namespace
"""
OF_SECTIONS = {
    'always: takesPart("Gold") == (pod.namespace != "kube-system")': "proven",
    'always: takesPart("Gold")': "refuted",
    'never: \'preEnqueue("Gold") && takesPart("Gold") && "w" in pod.schedulingGates\'': (
        "proven up to 3 elements of pod.scheduling_gates"
    ),
    'always: preEnqueue("Gold")': "refuted",
    "implies: {if: 'eligible(\"Gold\")', then: pod.priority > 10}": "proven",
    "implies: {if: 'eligible(\"Gold\")', then: pod.priority > 11}": "refuted",
    "never: 'victim(\"Gold\") && victim.priority >= pod.priority'": "proven",
    "never: 'victim(\"Gold\") && victim.priority >= 5'": "refuted",
    'always: \'normalized("Gold") >= 0 && normalized("Gold") <= 100\'': "proven",
    'always: normalized("Gold") < 100': "refuted",
    'always: normalized("Gold") == 0': "refuted",
    # two nodes have 0 and 100: it takes a third one
    "always: 'normalized(\"Gold\") in [0, 100]'": "refuted",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a policy, and another version of it."""
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "other.yaml").write_text(POLICY.replace(">= 100", ">= 101"))
    return tmp_path


@pytest.mark.usefixtures("few_clusters")
def test_each_form_of_a_claim(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is true is proven, what is not is refuted by a pod and a node, with its line."""
    lines = [f"- name: claim {i}\n  {form}\n" for i, form in enumerate(FORMS)]
    (folder / "claims.yaml").write_text(f"{HEAD}claims:\n{''.join(lines)}")
    assert run(["prove", str(folder / "claims.yaml"), "--timeout", "60"]) == 1
    out = capsys.readouterr().out
    for i, (form, answer) in enumerate(FORMS.items()):
        said = [line for line in out.splitlines() if f": claim {i}: " in line]
        assert any(f": claim {i}: {answer}" in line for line in said), (form, answer, said)


def test_claims_of_every_section(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who waits, takes part, evicts and is evicted; a counterexample is a test that passes."""
    (tmp_path / "policy.yaml").write_text(EVERY_SECTION)
    lines = [f"- name: claim {i}\n  {form}\n" for i, form in enumerate(OF_SECTIONS)]
    file, tests = tmp_path / "claims.yaml", tmp_path / "tests.yaml"
    file.write_text(f"{HEAD}claims:\n{''.join(lines)}")
    assert run(["prove", str(file), "--write", str(tests)]) == 1
    out = capsys.readouterr().out
    for i, (form, answer) in enumerate(OF_SECTIONS.items()):
        assert f": claim {i}: {answer}" in out, form
    assert run(["test", str(tests)]) == 0
    assert "nominated: node-1" in tests.read_text()
    assert "Gold: 100" in tests.read_text()


DIFFERENCES = {
    "size() == 0": ("size() < 2", "the same pods enter the queue: refuted"),
    "message: gated": ("message: wait", "the reasons are the same: refuted"),
    "MinMax": ("MinMaxReverse", "the normalised scores are the same: refuted"),
    '"Never" &&': ('"Never" ||', "the same pods may evict others: refuted"),
    "victim.priority <": ("victim.priority <=", "the same pods may be evicted: refuted"),
    "  score": ("  requeue: {every: 1m}\n  score", "not the same: requeue"),
}


def test_versions_are_compared_section_by_section(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each difference has its claim; what is not compared is said not to be the same."""
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(EVERY_SECTION)
    for text, (becomes, answer) in DIFFERENCES.items():
        new.write_text(EVERY_SECTION.replace(text, becomes))
        run(["prove", "--diff", str(old), str(new)])
        out = capsys.readouterr().out
        assert answer in out, out
        assert out.count("refuted: ") + out.count("unknown: ") <= 3, out
    new.write_text(EVERY_SECTION)
    assert run(["prove", "--diff", str(old), str(new)]) == 0


SAME = sorted(file.parent.name for file in POLICIES.glob("*/policy.yaml"))


@pytest.mark.parametrize("name", SAME)
def test_the_same_policy_is_proven_without_a_question(name: str) -> None:
    """Equal operations are one term: whatever has no term, nothing differs in any section."""
    path = str(POLICIES / name / "policy.yaml")
    for claim in Prover(Settings((path,), 3, 1.0, (path,))).claims:
        assert (claim.term, claim.caution) == (False, ""), claim.name


@pytest.mark.parametrize("section", ["policy", "score"])
def test_conditions_that_fail_are_compared(
    section: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a condition of a score fails the attempt ends; where it is false, nothing is scored."""
    files = [tmp_path / name for name in ("old.yaml", "new.yaml")]
    rules = ('pod.labels["a"] == "b"', 'pod.labels[?"a"] == optional.of("b")')
    for file, rule in zip(files, rules, strict=True):
        score: dict[str, Any] = {"expression": "7"}
        conditions = {"matchConditions": [rule]}
        spec = {"score": score | (conditions if section == "score" else {})}
        spec |= conditions if section == "policy" else {}
        file.write_text(f"{EVERY_SECTION.partition('spec:')[0]}spec: {json.dumps(spec)}\n")
    assert run(["prove", "--diff", *map(str, files)]) == 1
    out = capsys.readouterr().out
    assert "they fail on one side: yes before, no now" in out
    assert "2 claims: 1 proven, 1 refuted, 0 unknown" in out


def test_other_sections_are_compared_with_their_conditions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A section of which no term is made counts for other pods under other matchConditions."""
    text = EVERY_SECTION.partition("spec:\n")[0] + "spec: {postBind: '\"bound\"', "
    files = [tmp_path / name for name in ("old.yaml", "new.yaml")]
    for file, least in zip(files, (5, 6), strict=True):
        file.write_text(f"{text}matchConditions: [pod.priority > {least}]}}\n")
    run(["prove", "--diff", *map(str, files)])
    assert "nothing else differs: unknown: not compared" in capsys.readouterr().out


@pytest.mark.usefixtures("few_clusters")
@pytest.mark.parametrize(("value", "answer"), [("count: true", "refuted"), ("sum: 1", "unknown")])
def test_numbers_of_pods_are_not_negative(
    value: str, answer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An aggregate may have any value of its type; what no pod and node can show is not refuted."""
    spec = f"""spec:
  aggregates: [{{name: pods, by: pod.namespace, {value}}}]
  filter: [{{expression: 'aggregates.pods[pod.namespace] + node.podCount >= node.podCount'}}]
"""
    file = tmp_path / "policy.yaml"
    file.write_text(f"{EVERY_SECTION.partition('spec:')[0]}{spec}")
    assert run(["prove", str(file)]) == (answer == "refuted")
    out = capsys.readouterr().out
    assert f"filter[0] rejects some node: {answer}: " in out, out
    assert "some node passes: proven" in out


def test_what_is_assumed_narrows_what_is_looked_at(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A claim that is wrong of some pods is proven where the cluster has no such pods."""
    claims = "claims: [{name: all pass, always: passes}]\n"
    for assumed, code in (("pod.priority >= 0", 1), ("pod.priority >= 100", 0)):
        (folder / "claims.yaml").write_text(f"{HEAD}assume: [{assumed}]\n{claims}")
        assert run(["prove", str(folder / "claims.yaml")]) == code
    assert "all pass: proven" in capsys.readouterr().out


def test_a_counterexample_of_a_claim_is_a_test(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names the policies from where it is written, and passes as a test of them."""
    (folder / "claims.yaml").write_text(f"{HEAD}claims: [{{name: all pass, always: passes}}]\n")
    assert run(["prove", str(folder / "claims.yaml"), "--write", str(folder / "tests.yaml")]) == 1
    assert run(["test", str(folder / "tests.yaml")]) == 0
    assert "1 of 1 steps as expected" in capsys.readouterr().out


def test_what_was_asked_before_changes_no_answer(folder: Path) -> None:
    """The numbers of the solver's terms differ where others came and went; examples do not."""
    rising = "{score: Gold, in: 'node.requested[\"cpu\"]', direction: Decreasing}"
    (folder / "claims.yaml").write_text(f"{HEAD}claims: [{{name: a, monotone: {rising}}}]\n")
    (settings,) = parts_of([str(folder / "claims.yaml")], (), 3, 10.0)
    answers = set()
    for seed in range(2):
        terms = [z3.Int(f"other{i}") + i for i in range(5000)]
        Random(seed).shuffle(terms)
        del terms[2500:]
        prover = Prover(settings)
        verdicts = [prover.verdict(i) for i in range(len(prover.claims))]
        answers.add(str([(verdict.answer, verdict.test) for verdict in verdicts]))
    assert len(answers) == 1


def test_a_policy_that_sorts_the_queue_has_examples(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A profile has one plugin that sorts: a policy beside PrioritySort was refused, unheard."""
    (folder / "policy.yaml").write_text(f"{POLICY}  queueSort: [{{expression: pod.name}}]\n")
    (folder / "claims.yaml").write_text(f"{HEAD}claims: [{{name: all, always: passes}}]\n")
    written = folder / "shown.yaml"
    assert run(["prove", str(folder / "claims.yaml"), "--write", str(written)]) == 1
    assert "all: refuted: it is false" in capsys.readouterr().out
    assert run(["test", str(written)]) == 0


@pytest.mark.parametrize(
    ("claims", "problem"),
    [
        ("[{name: a, always: pod.nam == \"\"}]", "5:32: error PS102"),
        ("[{name: a, always: passes && pod.nam == \"\"}]", "5:42: error PS102"),
        ("[{name: a, always: pod.priority}]", "5:28: error PS301"),
        ("[{name: a, always: 'passes(\"Silver\")'}]", "5:29: error PS705"),
        ("[{name: a, always: 'victim(\"Gold\")'}]", "5:29: error PS705"),
        ("[{name: a, always: 'preEnqueue(\"Gold\")'}]", "5:29: error PS705"),
        ("[{name: a, always: passes, never: passes}]", "5:10: error PS704"),
        ("[{name: a}]", "5:10: error PS704"),
        ("[{name: a, allways: passes}]", "5:20: error PS702"),
        ("[{name: a, monotone: {score: Silver, in: pod.priority, direction: Increasing}}]",
         "5:38: error PS705"),
        ("[{name: a, equivalent: {old: policy.yaml, new: gone.yaml}}]", "5:56: error PS707"),
    ],
)  # fmt: skip
def test_problems_of_claims_have_their_places(
    claims: str, problem: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """check and prove report the same problem of a claim, with line and column."""
    file = folder / "claims.yaml"
    file.write_text(f"{HEAD}claims: {claims}\n")
    assert run(["check", str(file)]) == 1
    assert f"{file}:{problem}" in capsys.readouterr().out
    assert run(["prove", str(file)]) == 1
    assert f"{file}:{problem}" in capsys.readouterr().err


OF_QUOTAS = {
    '(quota.used + pod.requests).fitsIn(quota.limit, "unlimited")': "",
    "(quotas.team.used + pod.requests).fitsIn(quotas.team.nominal)": "",
    "(cluster.allocatable - cluster.requested - pod.requests).fitsIn(cluster.allocatable)": "",
    "(quota.nominal + pod.requests).fitsIn(quota.limit)": "unknown",
    "(pod.requests + pod.requests + pod.requests).fitsIn(cluster.allocatable)": "unknown",
    '!quota.exists || quota.path[0].name != "a"': "proven",
    'quota.path[0].name != "a"': "refuted",
    '!quota.exists || quota.path[1].name != "a"': "refuted",
    "quota.path.all(q, (q.used + pod.requests).fitsIn(q.limit))": "unknown",
    '!quota.exists || quota.path.all(q, quota.path[0].name != "a")': "proven",
    'podGroup.triedSince.optMap(t, now - t < duration("1m")).orValue(true)': "proven",
    'podGroup.creationTime.optMap(t, now - t < duration("1m")).orValue(true)': "unknown",
    'podGroup.creationTime.optMap(t, t > timestamp("1600-01-01T00:00:00Z")).orValue(true)': "",
}
"""By rule, whether it is proven never to fail; "" where that needs no claim."""
CAPACITY = POLICIES / "capacity"


@pytest.mark.usefixtures("few_clusters")
@pytest.mark.parametrize("rule", OF_QUOTAS)
def test_what_is_known_of_objects_and_sums(
    rule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sums end before they overflow, a quota is the first of its path, and times may be old."""
    text = (CAPACITY / "policy.yaml").read_text().partition("  preFilter:")[0]
    rules = json.dumps([{"expression": rule}])
    (tmp_path / "policy.yaml").write_text(f"{text}  preFilter: {{rules: {rules}}}\n")
    (tmp_path / "elasticquota.json").write_text((CAPACITY / "elasticquota.json").read_text())
    written = tmp_path / "shown.yaml"
    code = run(["prove", str(tmp_path / "policy.yaml"), "--write", str(written)])
    out = capsys.readouterr().out
    said = [line for line in out.splitlines() if "never fails: " in line]
    assert "".join(said).partition("never fails: ")[2].partition(":")[0] == OF_QUOTAS[rule]
    assert "it rejects no pod" not in out
    if code:
        assert run(["test", str(written)]) == 0
        assert ("kind: ElasticQuota" in written.read_text()) == rule.startswith("!")


@pytest.mark.parametrize("name", ["capacity", "gang", "preemption-toleration", "proportion"])
def test_objects_of_examples_are_drawn(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Quotas, groups and inputs: without a test beside, small clusters have them."""
    for file in (POLICIES / name).iterdir():
        if file.name == "policy.yaml" or file.suffix == ".json":
            (tmp_path / file.name).write_text(file.read_text())
    assert run(["prove", str(tmp_path)]) == 0
    assert ", 0 refuted, 0 unknown" in capsys.readouterr().out


def test_other_nodes_change_with_the_number_of_a_monotone_claim(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the cluster has in all is more where a node has more."""
    score = "clamp(50 + node.podCount - 2 * cluster.podCount, 0, 100)"
    text = POLICY.partition("  score:")[0]
    (folder / "policy.yaml").write_text(f"{text}  score: {{expression: '{score}'}}\n")
    claim = "{score: Gold, in: node.podCount, direction: Increasing}"
    (folder / "claims.yaml").write_text(f"{HEAD}claims: [{{name: a, monotone: {claim}}}]\n")
    run(["prove", str(folder / "claims.yaml")])
    assert "a: proven" not in capsys.readouterr().out
