"""Mutants of shipped policies, and what `prove --diff` says of each: none may be proven wrongly.

``python -m tests.prove.mutants [COUNT] [SECONDS] [FIRST]`` breaks COUNT (300) operators, numbers,
resources and fields of shipped policies, one after the other, and compares the policy before and
after. It says which one is the next: pieces of 50 take some minutes each. A mutant is refuted by
a pod and a node that the scheduler confirmed, or it is proven to decide alike, and then the
compiled programs agree on 100,000 random pairs; else it is unknown.
Those that differ in sections that are not compared (requeue) are passed over. The exit code is 1
if one is proven equal and differs, or if the scheduler does not confirm the solver.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice, zip_longest
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np

from policy_sched.cluster.cache import Cache
from policy_sched.errors import PolicyError
from policy_sched.language import compile_policy
from policy_sched.language.runtime import Activation
from policy_sched.manifests import decode_object
from policy_sched.model import Node, Pod, PodInfo
from policy_sched.plugins.rules import bind
from policy_sched.prove import counterexample
from policy_sched.prove.claims import ELSEWHERE
from policy_sched.prove.prover import PROVEN, REFUTED, Prover, Settings, Verdict, prove
from policy_sched.prove.rules import read
from policy_sched.prove.terms import Code, is_term, texts_in
from policy_sched.scheduler.setup import load_cluster

POLICIES: Final = Path(__file__).parents[2] / "policies"
NAMES: Final = (
    "spot-nodes",
    "gpu-bin-packing",
    "max-per-host",
    "tenant-isolation",
    "driver-version",
    "night-power",
    "load-aware",
    "data-locality",
    "allocatable",
    "fragmentation-gradient",
    "device-packing",
    "target-load-packing",
    "rack-spread",
    "default",
)
"""Policies that filter or score."""
CHANGES: Final = (
    (r" < ", " <= "), (r" <= ", " < "), (r" >= ", " > "), (r" > ", " >= "), (r" == ", " != "),
    (r" != ", " == "), (r" && ", " || "), (r" \|\| ", " && "), (r" \+ ", " - "), (r" - ", " + "),
    (r"!(?=[a-z(])", ""), (r"\btrue\b", "false"), (r"\bfalse\b", "true"),
    (r"(?<=[ (])\d+(?=[ ,)\n])", "7"), (r"(?<=[ (])\d+(?=[ ,)\n])", "0"),
    (r'"cpu"', '"memory"'), (r'"memory"', '"cpu"'), (r"node\.requested", "node.allocatable"),
    (r"node\.free", "node.allocatable"), (r"pod\.requests", "pod.nonZeroRequests"),
    (r"node\.labels", "node.annotations"), (r"pod\.annotations", "pod.labels"),
    (r"ownerUID", "ownerName"), (r"ownerKind", "ownerName"), (r"\.all\(", ".exists("),
    (r"\.exists\(", ".all("), (r"\.min\(\)", ".max()"), (r"orValue\(false\)", "orValue(true)"),
    (r'"(?=[a-zA-Z]+")', '"x'),
)  # fmt: skip
ROWS, PODS = 200, 500
"""Random nodes and pods: 100,000 pairs."""


def mutants_of(name: str) -> Iterator[tuple[str, str]]:
    """Yield what is changed in a policy, and its text then."""
    text = (POLICIES / name / "policy.yaml").read_text(encoding="utf-8")
    for pattern, becomes in CHANGES:
        for found in re.finditer(pattern, text):
            line = text.count("\n", 0, found.start()) + 1
            rest = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
            if "#" in rest or re.match(r"\s*(- )?(message|name|hint|kind|actions)", rest):
                continue
            changed = text[: found.start()] + becomes + text[found.end() :]
            if changed == text:
                continue
            yield f"{name}:{line}: {found[0]!r} becomes {becomes!r}", changed


def all_mutants() -> Iterator[tuple[str, str, str]]:
    """Yield the mutants of all policies in turn: policy, change, text."""
    lists = [[(name, *mutant) for mutant in mutants_of(name)] for name in NAMES]
    for seed, of_policy in enumerate(lists):
        Random(seed).shuffle(of_policy)
    for turn in zip_longest(*lists):
        yield from (mutant for mutant in turn if mutant is not None)


def value_at_random(leaf: Any, key: Any, texts: list[str], random: Random) -> Any:
    """Return a value for a constant of the model."""
    if isinstance(leaf, Code):
        return random.choice([None, *texts, "a", "7"])
    sort = leaf.sort().name() if is_term(leaf) else "Bool"
    if key[-1] == "length":
        return random.randrange(4)
    if key == ("node", "podCount"):
        return random.randrange(4)
    if sort == "Int":
        near = random.choice([0, 1, 2, 99, 100, 101, 1000, 4000, 99_999, 100_000, 1_000_000])
        return near + random.choice([0, 0, 1]) if key[-1] != "length" else near
    if sort == "Bool":
        return random.random() < 0.5
    return random.choice([*texts, "a", "b", "owner"])


def random_values(prover: Prover, texts: list[str], random: Random) -> counterexample.Values:
    """Return values of all constants of a model."""
    leaves = prover.worlds[0].leaves
    return counterexample.Values(
        {key: value_at_random(leaf, key, texts, random) for key, leaf in leaves.items()}
    )


def objects_at_random(
    prover: Prover, texts: list[str], random: Random
) -> tuple[list[Any], list[Pod]]:
    """Return nodes with their pods, and pending pods."""
    objects: list[Any] = []
    for i in range(ROWS):
        leaves = dict(random_values(prover, texts, random).leaves)
        leaves["node", "name"] = f"node-{i}"
        values = counterexample.Values(leaves)
        manifests = [counterexample._node(values)]
        with suppress(counterexample.NotBuiltError):  # the node has no pods then
            manifests += counterexample._running(values)
        for j, manifest in enumerate(manifests[1:]):
            manifest["metadata"]["name"] = f"running-{i}-{j}"
            manifest["metadata"]["uid"] = f"running-{i}-{j}"
            manifest["metadata"]["namespace"] = random.choice(["default", "kube-system"])
        objects += [decoded(manifest) for manifest in manifests]
    pods: list[Any] = []
    while len(pods) < PODS:
        with suppress(counterexample.NotBuiltError):  # no pod has these values
            pods.append(decoded(counterexample._pending(random_values(prover, texts, random))))
    return [o for o in objects if isinstance(o, Node | Pod)], [p for p in pods if p is not None]


def decoded(manifest: Mapping[str, Any]) -> Any:
    """Return the object of a manifest."""
    return decode_object(dict(manifest), lambda *_problem: None)


def disagreements(prover: Prover, old: str, new: str, random: Random) -> int:
    """Return on how many random pairs the compiled policies of two files differ."""
    texts = [t for t in texts_in([claim.term for claim in prover.claims]) if len(t) < 60]
    objects, pods = objects_at_random(prover, texts, random)
    cache = Cache()
    load_cluster(cache, objects)
    sides = [[compile_policy(policy)[0] for policy in read((file,))] for file in (old, new)]
    count = 0
    for before, after in zip(*sides, strict=True):
        assert before is not None
        assert after is not None
        bound = [bind(policy, cache.nodes) for policy in (before, after)]
        for pod in pods:
            info = PodInfo.of(pod)
            results = [outcome(policy, info) for policy in bound]
            count += int(results[0] != results[1])
    return count


def outcome(policy: Any, info: PodInfo) -> object:
    """Return which rows pass, and the raw scores of those."""
    cycle = Activation(now=1_767_225_600_000_000_000)
    try:
        if not policy.matches(info, cycle):
            return "idle"
    except Exception as error:  # noqa: BLE001  # whatever it is, the other side has it, too
        return type(error).__name__
    codes = policy._filter.codes(info, cycle)
    n = policy._table.n
    passed = np.ones(n, bool) if codes is None else codes == 0
    score = policy.score
    if score is None or not policy.matches_score(info, cycle):
        return passed.tolist()
    return passed.tolist(), np.where(passed, score.raw(info, cycle, None, marked=True), 0).tolist()


def judged(name: str, text: str, seconds: float, folder: Path) -> tuple[str, list[Verdict]]:
    """Return what becomes of a mutant, and the verdicts on it."""
    old, new = str(POLICIES / name / "policy.yaml"), str(folder / "policy.yaml")
    Path(new).write_text(text, encoding="utf-8")
    try:
        read((new,))
    except PolicyError:
        return "refused", []
    settings = Settings((old,), 3, seconds, (new,))
    verdicts = prove([settings], 1, lambda _done: None)
    if any(verdict.internal for verdict in verdicts):
        return "NOT CONFIRMED", verdicts
    if any(verdict.answer == REFUTED for verdict in verdicts):
        return "refuted", verdicts
    if any(ELSEWHERE in verdict.claim and not verdict.fine for verdict in verdicts):
        return "elsewhere", verdicts
    if all(verdict.fine for verdict in verdicts):
        differ = disagreements(Prover(settings), old, new, Random(name))
        exact = all(verdict.answer == PROVEN for verdict in verdicts)
        return ("PROVEN AND DIFFERS" if differ else "proven" if exact else "bounded"), verdicts
    return "unknown", verdicts


def show(*lines: str) -> None:
    """Write lines at once."""
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()


def main(count: int = 300, seconds: float = 5.0, first: int = 0) -> int:
    """Judge so many mutants from one on; print what is not as it should be, and the numbers."""
    numbers: Counter[str] = Counter()
    following = first
    with tempfile.TemporaryDirectory() as folder:
        for name, change, text in islice(all_mutants(), first, None):
            if sum(numbers.values()) >= count:
                break
            following += 1
            answer, verdicts = judged(name, text, seconds, Path(folder))
            if answer in ("refused", "elsewhere"):
                continue  # check refuses it, or what differs is told not to be compared
            numbers[answer] += 1
            if answer != "refuted":
                why = {v.reason for v in verdicts if v.internal or not v.fine}
                show(f"{answer}: {change}", *(f"    {reason}" for reason in sorted(why)))
    told = ", ".join(f"{number} {answer}" for answer, number in sorted(numbers.items()))
    show(f"{told}; the next one is {following}")
    return int(bool(numbers["NOT CONFIRMED"] or numbers["PROVEN AND DIFFERS"]))


if __name__ == "__main__":
    given = sys.argv[1:]
    numbers_given = (int(given[0]) if given else 300, float(given[1]) if len(given) > 1 else 5.0)
    sys.exit(main(*numbers_given, int(given[2]) if len(given) > 2 else 0))
