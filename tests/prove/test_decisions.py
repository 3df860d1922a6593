"""Promises about rewrites: what is proven to decide alike does, and the rest is not proven."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

from policy_sched.diff import rewrites
from policy_sched.errors import PolicyError
from policy_sched.profiles.reload import read_policy_set
from policy_sched.prove import decide_alike
from policy_sched.prove.prover import Prover, Settings

from .mutants import POLICIES, all_mutants, disagreements
from .test_hostile import pigeons

Spec = dict[str, Any]


def filtering(*rules: str, **more: Any) -> Spec:
    """Return the spec of a policy that filters; ``more``: other sections."""
    return {"filter": [{"expression": rule} for rule in rules], **more}


def rejecting(rule: str, **more: Any) -> Spec:
    """Return the spec of a policy with one filter rule; ``more``: of the rule."""
    return {"filter": [{"expression": rule, **more}]}


def scoring(rule: str, **more: Any) -> Spec:
    """Return the spec of a policy that scores; ``more``: of the score."""
    return {"score": {"expression": rule, **more}}


BY_VARIABLE = filtering(
    "variables.v > 7", variables=[{"name": "v", "expression": "pod.priority * 2"}]
)
FAILS, HOLDS = 'pod.labels["a"] == "b"', 'pod.labels[?"a"] == optional.of("b")'
NO_TAINTS, TAINTS = "node.taints.size() == 0", scoring("node.taints.size()", normalize="Max")
FOUR = {
    "name": "four",
    "params": {"c": "string", "d": "string"},
    "expression": (
        "node.taints.all(a, node.taints.all(b, "
        "a.key == b.key || a.key == c || a.key == d || b.key == c || b.key == d || c == d))"
    ),
}
"""Of any four taints two have one key."""
GATE = {"expression": "pod.priority > 5"}
ALIKE = [
    (filtering("pod.priority > 5"), filtering("pod.priority >= 6")),
    (filtering("!(node.ready && pod.hostNetwork)"), filtering("!node.ready || !pod.hostNetwork")),
    (scoring("node.ready ? 10 : 20"), scoring("!node.ready ? 20 : 10")),
    (BY_VARIABLE, filtering("pod.priority > 3")),
    (
        filtering("pod.priority > params.p", params={"p": 3}),
        filtering("pod.priority >= params.p", params={"p": 4}),
    ),
    (
        filtering("node.ready", matchConditions=["pod.priority > 5"]),
        filtering("node.ready", matchConditions=["!(pod.priority < 6)"]),
    ),
    (filtering("node.taints.size() > 0"), filtering("node.taints.size() != 0")),
    (filtering(NO_TAINTS, "pod.priority > 5"), filtering(NO_TAINTS, "pod.priority >= 6")),
    (filtering("node.ready", **TAINTS), filtering("!!node.ready", **TAINTS)),
    (
        filtering("node.ready", preEnqueue=[GATE]),
        filtering("!!node.ready", preEnqueue=[GATE]),
    ),
]
NOT_PROVEN = [
    (filtering("pod.priority > 5"), filtering("pod.priority > 6")),
    (rejecting("node.ready", message="a"), rejecting("!!node.ready", message="b")),
    (rejecting("node.ready", resolvable=False), rejecting("!!node.ready")),
    (
        filtering("pod.priority > params.p", params={"p": 3}),
        filtering("pod.priority > params.p", params={"p": 4}),
    ),
    (rejecting(FAILS, onError="Abort"), rejecting(FAILS, onError="Reject")),
    (
        filtering("node.ready", matchConditions=[FAILS]),
        filtering("node.ready", matchConditions=[HOLDS]),
    ),
    (scoring("7", matchConditions=[FAILS]), scoring("7", matchConditions=[HOLDS])),
    (scoring("node.podCount", normalize="Max"), scoring("node.podCount", normalize="MaxReverse")),
    (
        filtering("node.ready", preEnqueue=[GATE]),
        filtering("node.ready", preEnqueue=[{"expression": "pod.priority >= 6"}]),
    ),
    (
        BY_VARIABLE | {"preEnqueue": [{"expression": "variables.v > 7"}]},
        {**BY_VARIABLE, "preEnqueue": [{"expression": "variables.v > 7"}]}
        | {"variables": [{"name": "v", "expression": "2 * pod.priority"}]},
    ),
    (filtering("node.ready"), filtering("node.ready", **scoring("7"))),
    (filtering("node.taints.all(a, node.taints.all(b, a.key == b.key))"), filtering("true")),
    (
        filtering("node.taints.all(c, node.taints.all(d, four(c.key, d.key)))", functions=[FOUR]),
        filtering("true", functions=[FOUR]),
    ),
    (
        filtering("pod.name.indexOf(params.x) > 1", params={"x": "a"}),
        filtering("pod.name.indexOf(params.x) > 1", params={"x": "b"}),
    ),
    (
        filtering("domain(params.x).pods.size() > 2", params={"x": "a"}),
        filtering("domain(params.x).pods.size() > 2", params={"x": "b"}),
    ),
]


def alike(folder: Path, old: Spec, new: Spec) -> bool:
    """Return whether it is proven that policies of two specs decide alike."""
    sets = []
    for name, spec in (("old", old), ("new", new)):
        file = folder / f"{name}.yaml"
        head = {"apiVersion": "policysched.dev/v1alpha1", "kind": "Policy"}
        file.write_text(json.dumps({**head, "metadata": {"name": "P"}, "spec": spec}))
        sets.append(read_policy_set(str(file)))
    changed = rewrites(*sets)
    return changed is not None and decide_alike(changed)


@pytest.mark.parametrize(("old", "new"), ALIKE)
def test_a_rewrite_is_proven(old: Spec, new: Spec, tmp_path: Path) -> None:
    """Other words for the same rule, beside rules about lists that stay as they are."""
    assert alike(tmp_path, old, new)


@pytest.mark.parametrize(("old", "new"), NOT_PROVEN)
def test_what_may_decide_otherwise_is_not_proven(old: Spec, new: Spec, tmp_path: Path) -> None:
    """Nodes, reasons, errors that end the attempt, and what is outside of filter and score."""
    assert not alike(tmp_path, old, new)


def test_a_proof_that_takes_long_is_none(tmp_path: Path) -> None:
    """The solver has few steps: what is not shown soon is simulated."""
    assert not alike(tmp_path, filtering(pigeons(12)), filtering("true"))


def test_no_mutant_is_proven_that_differs(tmp_path: Path) -> None:
    """A broken policy is not said to decide as before."""
    proven = 0
    for name, _, text in islice(all_mutants(), 14):
        old, new = str(POLICIES / name / "policy.yaml"), str(tmp_path / "policy.yaml")
        Path(new).write_text(text)
        try:
            changed = rewrites(*map(read_policy_set, (old, new)))
        except PolicyError:
            continue
        if changed and decide_alike(changed):
            proven += 1
            prover = Prover(Settings((old,), 3, 1.0, (new,)))
            assert disagreements(prover, old, new, Random(name)) == 0
    assert proven < 5
