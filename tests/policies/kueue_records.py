"""Counts recorded scenarios of Kueue that the policy Cohorts decides alike, and explains others.

``python -m tests.policies.kueue_records FILE...`` prints a line for each family: how many scenarios
come out equal in every admission and every victim of every cycle, and the others by the rules of
Kueue that the policy does not have (see `kueue_model.RULES`). A scenario is attributed to the
smallest set of rules without which the model of Kueue decides as the policy does, up to the first
cycle that differs. ``k``: the workloads choose among flavors, and quotas are not kept by flavor.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from policy_sched.policytest.kueue import KueueCluster, KueueRecord, load_kueue, run_kueue
from tests.policies.kueue_model import RULES, Model

EQUAL: Final = "equal"
FLAVORS: Final = "k"
UNEXPLAINED: Final = "unexplained"
MOST_RULES: Final = 3
"""Sets of so many rules are tried, and all rules together."""

Decided = tuple[list[str], list[str]]
"""The workloads that a cycle admitted, and the victims, sorted."""


def verdicts(path: str, *, rounds: bool = True, every: int = 1) -> Iterator[tuple[str, str]]:
    """Yield each scenario's name with "equal", or the rules that its difference is attributed to.

    ``rounds``: see `KueueCluster`; without them each head sees what those before it got.
    ``every``: of so many scenarios the first is decided.
    """
    records = load_kueue(path)
    assert records is not None, "a file of recorded cycles"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        plain = [json.loads(line) for line in lines]
    for (_, record), data in zip(records[::every], plain[::every], strict=True):
        results = run_kueue(path, record, rounds=rounds)
        first = next((i for i, result in enumerate(results) if not result.ok), None)
        if first is None:
            yield record.name, EQUAL
        else:
            yield record.name, _attributed(path, record, data, first + 1, rounds=rounds)


def _attributed(
    path: str, record: KueueRecord, data: Mapping[str, Any], cycles: int, *, rounds: bool
) -> str:
    cluster = KueueCluster(path, record, rounds=rounds)
    ours = [
        (sorted(cycle.admitted), sorted(cycle.preempted))
        for cycle in itertools.islice(cluster.cycles(), cycles)
    ]
    if _of_model(data, (), cycles) == ours:
        return FLAVORS  # the workloads are the same
    for rules in _sets(("rounds",) if not rounds else ()):
        if _of_model(data, rules, cycles) == ours:
            return "+".join(rules)
    flavors = [m for m in record.objects if m["kind"] == "ResourceFlavor"]
    return FLAVORS if len(flavors) > 1 else UNEXPLAINED


def _sets(always: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield sets of rules, the smallest first; ``always``: rules that are in each."""
    names = [name for name in RULES if name not in ("rounds", *always)]
    for size in range(0 if always else 1, MOST_RULES + 1):
        for rules in itertools.combinations(names, size):
            yield (*always, *rules)
    yield (*always, *names)


def _of_model(data: Mapping[str, Any], rules: Sequence[str], cycles: int) -> list[Decided]:
    model = Model(data, rules)
    return [
        (sorted(admitted), sorted(victims))
        for admitted, victims in itertools.islice(model.cycles(), cycles)
    ]


def summary(path: str, *, rounds: bool = True, every: int = 1) -> tuple[Counter[str], list[str]]:
    """Return how many scenarios of a file have each verdict, and the names of unexplained ones."""
    counts: Counter[str] = Counter()
    unexplained = []
    for name, verdict in verdicts(path, rounds=rounds, every=every):
        counts[verdict] += 1
        if verdict == UNEXPLAINED:
            unexplained.append(name)
    return counts, unexplained


def main() -> None:
    """Print the counts of each file."""
    parser = argparse.ArgumentParser(description="\n".join((__doc__ or "").splitlines()[:1]))
    parser.add_argument("files", nargs="+")
    parser.add_argument(
        "--in-turn", action="store_true", help="each head sees what those before it got"
    )
    given = parser.parse_args()
    for path in given.files:
        counts, unexplained = summary(path, rounds=not given.in_turn)
        total = counts.total()
        equal = counts.pop(EQUAL, 0)
        lines = [f"{Path(path).name.partition('.')[0]}: {equal} of {total} equal"]
        lines += [f"  {number:4} {verdict}" for verdict, number in counts.most_common()]
        lines += [f"       {name}" for name in unexplained]
        sys.stdout.write("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
