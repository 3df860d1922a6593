"""What the tests beside a policy show: clusters with more than one pod and one node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Generic, TypeVar

from policy_sched.errors import PolicySchedError
from policy_sched.language.runtime import FAILED
from policy_sched.policytest import (
    ExpectedOutcome,
    PluginOutcome,
    Scenario,
    load_scenarios,
    observe_scenario,
)
from policy_sched.prove.counterexample import RUN

TESTS_FILE = "tests.yaml"
#: Tests that are run for one policy.
_MOST = 20


T = TypeVar("T")


class Kept(Generic[T]):
    """What is yielded, which may be gone through several times and is computed once."""

    def __init__(self, told: Iterator[T]) -> None:
        self._told = told
        self._before: list[T] = []

    def __iter__(self) -> Iterator[T]:
        yield from self._before
        for one in self._told:
            self._before.append(one)
            yield one


def outcomes(
    paths: Sequence[str], policy: str, plugin: str
) -> Iterator[tuple[str, ExpectedOutcome]]:
    """Yield what becomes of the pods of tests beside a policy, each with the test's name.

    ``plugin``: whose raw scores they have. Tests that cannot be read or run show nothing;
    `policy-sched test` says why.
    """
    scenarios = [scenario for path in paths for scenario in _scenarios(_tests_of(path), paths)]
    scenarios.sort(key=lambda scenario: policy not in scenario.name)
    for scenario in scenarios[:_MOST]:
        try:
            _, seen = observe_scenario(_telling(scenario, policy, plugin), RUN)
        except PolicySchedError:
            continue
        yield from ((scenario.name, outcome) for outcome in seen.values())


Sides = tuple[tuple[str, ...], tuple[str, ...]]


def differences(
    sides: Sides, policy: str, plugin: str
) -> Iterator[tuple[str, ExpectedOutcome, ExpectedOutcome]]:
    """Yield what becomes of the pods of tests with each of two sides, with the test's name."""
    old, _ = sides
    for scenario in [one for path in old for one in _scenarios(_tests_of(path), old)][:_MOST]:
        both = []
        for paths in sides:
            told = _telling(replace(scenario, policies=paths), policy, plugin)
            try:
                both.append(observe_scenario(replace(told, mentions=()), RUN)[1])
            except PolicySchedError:
                break
        if len(both) == len(sides):
            yield from ((scenario.name, seen, both[1][pod]) for pod, seen in both[0].items())


def _tests_of(path: str) -> Path:
    return (Path(path) if Path(path).is_dir() else Path(path).parent) / TESTS_FILE


def _scenarios(file: Path, paths: Sequence[str]) -> Iterator[Scenario]:
    """Yield the tests of a file that are of one of the policies."""
    try:
        scenarios = load_scenarios(str(file)) if file.is_file() else []
    except PolicySchedError:
        return
    own = {Path(path).resolve() for path in paths}
    for scenario in scenarios:
        if not scenario.policies:  # of the default profile, whose plugins policies stand for
            yield replace(scenario, policies=tuple(paths))
        named = {Path(policy).resolve() for policy in scenario.policies}
        if named & (own | {folder for path in own for folder in path.parents}):
            yield scenario


def _telling(scenario: Scenario, policy: str, plugin: str) -> Scenario:
    """Return a test whose outcomes say which rule rejects, and have the raw scores of a plugin."""
    rules = {"": PluginOutcome(rule=f"{policy}.filter[0]")}
    names = {f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in scenario.pending}
    names |= set(scenario.expect)
    expect = {
        name: replace(scenario.expect.get(name, ExpectedOutcome(name)), rejected=rules)
        for name in names
    }
    return replace(scenario, plugin=plugin, expect=expect)


def shows_scores(seen: ExpectedOutcome) -> bool:
    """Return whether nodes have different raw scores of the policy."""
    return len({score for score in (seen.raw or {}).values() if score != FAILED}) > 1
