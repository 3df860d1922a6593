"""Examples where the solver finds none or gives up: clusters at random, and tests beside.

Theory of operation. What is drawn is mostly plain, near the numbers and texts that policies name,
and the same each time. `clusters` draws small clusters, with pod groups and with objects of inputs
as their schemas describe them, and says what rules are there. `differing` runs the programs of two
versions of a policy on them: what has no term (domains, parts of texts, the time) and what takes
the solver long often differs on one. `sights` and `differences` run the tests beside a policy. The
scheduler confirms whatever is found, as any other counterexample.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import z3

from policy_sched.errors import PolicySchedError
from policy_sched.language import check
from policy_sched.language.stdlib import policy_environment
from policy_sched.language.syntax import ast
from policy_sched.language.values import RuleError, types
from policy_sched.model import PodInfo
from policy_sched.plugins.rules import bind
from policy_sched.policytest import (
    ExpectedOutcome,
    RuleCoverage,
    Scenario,
    load_scenarios,
    observe_scenario,
)
from policy_sched.prove.counterexample import (
    RUN,
    Values,
    cycle_of,
    document,
    loaded,
    pending_pod,
    said_of,
    scenario_of,
)
from policy_sched.prove.rules import read
from policy_sched.prove.terms import Code, is_term
from policy_sched.scheduler import Scheduler

Leaves = Mapping[tuple[Any, ...], Any]
"""The value of each constant of a model; None is a text that is missing."""
Sights = Mapping[tuple[str, str], Sequence[str]]
"""What rules were, in words ("true", "false", "error", scores), by policy and place in it."""
#: What is drawn beside what is named.
_TEXTS: Final = ("a", "b", "a,b", "1", "7", "1.2.0", "2.0.0", "yes", "true", "owner")
_NUMBERS: Final = (0, 0, 1, 2, 10, 100, 1000, 4000, 100_000, 1_000_000, 2**30)
_DURATION: Final = re.compile(r"(\d{1,6})([smh])")
NOW: Final = ("now",)
"""What the hour of an example is called; the pods are decided at half past it."""
#: Clusters of one policy, and pods for each.
_CLUSTERS: Final = 400
_PODS: Final = 8
_SIDES: Final = ("node", "peer", "peer2")
_KEY: Final = re.compile(r"[a-z0-9.-]+/[a-zA-Z0-9.-]+")
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_OWN: Final = ("scheduling_gates", "tolerations", "node_selector", "node_name", "name")
"""What running pods do not have of pending ones."""
_SUMS: Final = ("requested", "nonZeroRequested", "podCount", "non_zero_requests")
"""What follows from the pods."""
_NUMBER, _TEXT = z3.Int("number"), z3.String("text")
"""What is drawn beside what has a term."""
_GROUP: Final = "scheduling.x-k8s.io"
"""The API group of pod groups."""
_TESTS_FILE: Final = "tests.yaml"
#: Tests that are run for one policy.
_MOST: Final = 20


def _moments(text: str) -> Iterator[datetime]:
    """Yield moments that are as long before the time of an example as a text says, and nearly."""
    duration = _DURATION.fullmatch(text)
    for off in (0, 1) if duration else ():
        unit = {"s": 1, "m": 60, "h": 3600}[duration[2]]  # type: ignore[index]  # it matches
        yield datetime(2026, 1, 1, 12, 30) - timedelta(seconds=int(duration[1]) * unit - off)  # type: ignore[index]


def plainest(leaf: Any, key: tuple[Any, ...]) -> Any:
    """Return the plainest value of a constant."""
    if isinstance(leaf, Code):
        return None
    if z3.is_string(leaf):
        words = {"name": "a", "namespace": "default", "key": "a", "effect": "NoSchedule"}
        return words.get(key[-1] if key[1:2] != ("tolerations",) else "", "")
    if z3.is_bool(leaf):
        return key[0] == "others"
    return 110 if key == ("node", "allocatable", "pods") else 0


def _named(policies: Sequence[check.CheckedPolicy]) -> tuple[list[Any], set[str]]:
    """Return the texts and numbers that policies and their parameters name, and the variables."""
    todo: list[Any] = [*policies]
    named: dict[Any, None] = {}
    variables = set[str]()
    while todo:
        match todo.pop():
            case check.CheckedPolicy() as policy:
                named |= dict.fromkeys(_plain(policy.params))
                todo += [getattr(policy, name) for name in policy.__struct_fields__]
            case check.Checked() as checked:
                todo.append(checked.core)
            case ast.UserFunction() as function:
                todo.append(function.body)
            case ast.Core() as core:
                parts = [*check.walk(core)]
                constants = (part.value for part in parts if isinstance(part, ast.Const))
                named |= dict.fromkeys(of for constant in constants for of in _plain(constant))
                variables |= {part.name for part in parts if isinstance(part, ast.Var)}
            case Mapping() as inner:
                todo += inner.values()
            case tuple() | list() as parts:
                todo += parts
            case msgspec.Struct() as record:
                todo += [getattr(record, name) for name in record.__struct_fields__]
    return list(named), variables


def _plain(value: Any) -> Iterator[Any]:
    """Yield the texts and numbers within plain data."""
    if isinstance(value, Mapping):
        yield from _plain([*value.values()])
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _plain(part)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield value


class _Clusters:
    """Draws clusters of up to three nodes with pods and objects, and pending pods."""

    def __init__(self, leaves: Leaves, policies: Sequence[check.CheckedPolicy]) -> None:
        self._random = Random(5)  # noqa: S311  # examples, no secrets
        constants, variables = _named(policies)
        texts = [text for text in constants if isinstance(text, str)]
        self._texts = [text for text in texts if len(text) < 64]
        numbers = {number for number in constants if type(number) is int}
        near = sorted({n + by for n in numbers for by in (-1, 0, 1) if abs(n) < 2**62})
        self._numbers = [*near, *_NUMBERS]
        self._written = [str(number) for number in constants if not isinstance(number, str)]
        self._written += [
            moment.strftime("%Y-%m-%dT%H:%M:%SZ") for text in texts for moment in _moments(text)
        ]
        self._grouped = "podGroup" in variables
        self._inputs = [given for policy in policies for given in policy.inputs]
        keys = [text for text in texts if _KEY.fullmatch(text)]
        keys += [f"{_GROUP}/pod-group"] * self._grouped
        self._leaves = {
            **_leaves_named(keys),
            **{
                key: leaf
                for key, leaf in leaves.items()
                if key[0] in ("node", "pod", "namespace") and key[1] not in _SUMS
            },
        }

    def cluster(self) -> tuple[Leaves, list[Leaves]]:
        """Return nodes with their pods, and pods that each may be decided with them."""
        random = self._random
        hours = [number for number in self._numbers if 0 <= number < 24]
        values: dict[Any, Any] = {NOW: 12 if random.random() < 0.8 else random.choice(hours)}
        self._draw_texts()
        plain = random.choice((0.1, 0.3, 0.6))
        for side in _SIDES[: random.choice((1, 1, 2, 3))]:
            values |= self._node(side, plain)
            if side != "node":
                values[side, "there"] = True
        values |= self._of("namespace", ("namespace",), plain)
        values |= {("object", i): of for i, of in enumerate(self._objects())}
        pods = [self._of("pod", ("pod",), plain) for _ in range(_PODS)]
        for pod in pods:
            length = ("pod", "scheduling_gates", "length")
            if length in pod and random.random() < 0.7:
                pod[length] = 0
        return values, list(pods)

    def _draw_texts(self) -> None:
        """Choose the texts of what is drawn next: few, as it matters which are equal."""
        self._drawn = self._random.choices([*self._texts, *_TEXTS], k=2)
        if self._written:
            written, numbers = self._random.choices(self._written, k=2), map(str, self._numbers)
            written += self._random.choices([*numbers], k=2)
            self._drawn += [*written, ",".join(written[1:3])]

    def _value(self, leaf: Any, key: tuple[Any, ...], plain: float) -> Any:
        """Return a value for a constant; ``plain``: how often it is absent, empty, or 0."""
        random = self._random
        if not is_term(leaf) and not isinstance(leaf, Code):
            return leaf
        if random.random() < plain:
            return plainest(leaf, key)
        if key[-1] == "namespace":
            return self._name()
        if isinstance(leaf, Code) or z3.is_string(leaf):
            return random.choice(self._drawn)
        if z3.is_bool(leaf):
            return random.random() < 0.5
        if key[-1] in ("length", "podCount"):
            return random.randrange(4)
        return random.choice(self._numbers)

    def _of(self, kind: str, path: tuple[Any, ...], plain: float) -> dict[Any, Any]:
        return {
            (*path, *key[1:]): self._value(leaf, key, plain)
            for key, leaf in self._leaves.items()
            if key[0] == kind and key[1:2] != ("pods",)
        }

    def _node(self, side: str, plain: float) -> dict[Any, Any]:
        random = self._random
        node = self._of("node", (side,), plain)
        node.pop((side, "name"), None)
        if (side, "allocatable", "pods") in node and random.random() < 0.8:
            node[side, "allocatable", "pods"] = 110
        node[side, "pods", "length"] = count = random.choice((0, 1, 2, 3))
        for i in range(count):
            path = (side, "pods", i)
            pod = {k: v for k, v in self._of("pod", path, plain).items() if k[3] not in _OWN}
            for key, leaf in self._leaves.items():
                if key[:2] == ("node", "pods") and len(key) > 3 and key[3] not in _OWN:
                    pod[*path, *key[3:]] = self._value(leaf, ("pod", *key[3:]), plain)
            node |= pod
        return node

    def _name(self) -> str:
        """Return a name that objects, namespaces and texts may have in common."""
        return self._random.choice(["default", *filter(_NAME.fullmatch, self._drawn)])

    def _objects(self) -> Iterator[dict[str, Any]]:
        """Yield objects of inputs, and pod groups."""
        random, meta = self._random, policy_environment().records["Object"].fields.keys()
        for given in self._inputs:
            of = given.source
            for _ in range(0 if of.url or of.annotation else random.randrange(4)):
                content = self._of_type(given.type.record)
                spaced = given.namespaced or (of.schema is not None and random.random() < 0.5)
                metadata = {"name": self._name(), **({"namespace": self._name()} if spaced else {})}
                head = {"apiVersion": of.api_version, "kind": of.kind, "metadata": metadata}
                yield {**{name: content[name] for name in content.keys() - meta}, **head}
        for _ in range(random.randrange(3) if self._grouped else 0):
            yield {
                "apiVersion": f"{_GROUP}/v1alpha1",
                "kind": "PodGroup",
                "metadata": {"name": self._name(), "namespace": "default"},
                "spec": {"minMember": random.randrange(4)},
            }

    def _of_type(self, kind: types.Type) -> Any:
        """Return the JSON of a value of a type; a field is often missing."""
        random = self._random
        match kind:
            case types.ObjectType():
                there = [pair for pair in kind.fields if random.random() < 0.8]
                return {name: self._of_type(inner) for name, inner in there}
            case types.ListType():
                return [self._of_type(kind.element) for _ in range(random.randrange(3))]
            case types.MapType():
                names = random.choices([*self._texts, *_TEXTS], k=random.randrange(3))
                return {name: self._of_type(kind.value) for name in names}
            case types.QuantityType():
                return str(random.choice(self._numbers))
            case types.RESOURCES:
                some = random.sample(("cpu", "memory"), random.randrange(3))
                return {name: str(random.choice(self._numbers)) for name in some}
            case types.TIMESTAMP:
                return random.choice(("0001-01-01T00:00:00Z", "2026-01-01T12:00:00Z"))
            case types.BOOL:
                return random.random() < 0.5
            case types.INT | types.DOUBLE:
                return random.choice(self._numbers)
        return random.choice([*self._drawn, random.choice([*self._texts, ""])])


def _leaves_named(keys: Sequence[str]) -> dict[Any, Any]:
    """Return constants of pods and nodes that are drawn whether or not they have a term."""
    named: dict[Any, Any] = {
        ("node", "allocatable", key): _NUMBER for key in ("cpu", "memory", *keys[:5])
    }
    named |= {("pod", "requests", key[2]): _NUMBER for key in named}
    for kind, part in product(("node", "pod"), ("label", "annotation")):
        plural = part if kind == "node" else f"{part}s"
        named |= {(kind, plural, key): Code(True, _TEXT) for key in keys}
    named |= {("pod", name): _TEXT for name in ("owner_uid", "owner_name", "owner_kind")}
    return {**named, ("pod", "priority"): _NUMBER, ("pod", "more", "length"): _NUMBER}


def clusters(
    paths: Sequence[str], names: tuple[str, ...], leaves: Leaves, *, full: bool
) -> Iterator[tuple[Leaves, Sights]]:
    """Yield clusters with a pod, each with what the rules of some policies of files are there.

    ``full``: as of `document`.
    """
    draws = _Clusters(leaves, [policy for policy in read(paths) if policy.name in names])
    for _ in range(_CLUSTERS):
        cluster, (pod, *_) = draws.cluster()
        values = {**cluster, **pod}
        with suppress(PolicySchedError):
            yield values, _sights(scenario_of(document(Values(values), paths, names, full=full)))


def differing(name: str, sides: Sequence[Sequence[str]], leaves: Leaves) -> Iterator[Leaves]:
    """Yield clusters with a pod of which two versions of a policy make something else.

    ``sides``: the files of both.
    """
    both = [[policy for policy in read(paths) if policy.name == name] for paths in sides]
    draws = _Clusters(leaves, [policy for side in both for policy in side])
    for _ in range(_CLUSTERS):
        cluster, pods = draws.cluster()
        with suppress(PolicySchedError):
            bound = []
            for paths, own in zip(sides, both, strict=True):
                test = document(Values(cluster), paths, (name,) if own else ())
                _, scheduler, policies = loaded(test)
                tables = scheduler.handle.nodes, scheduler.handle.pods
                bound.append((scheduler, [bind(policies[rules.name], *tables) for rules in own]))
            for pod in pods:
                values = {**cluster, **pod}
                info = pending_pod(Values(values))
                old, new = ([_made(p, info, scheduler) for p in own] for scheduler, own in bound)
                if old != new:
                    yield values


def smaller(values: Leaves) -> Iterator[Leaves]:
    """Yield clusters with a node, a pod, or something else less."""
    for side in _SIDES[:0:-1]:
        if (side, "there") in values:
            yield {key: of for key, of in values.items() if key[0] != side}
    for key, of in values.items():
        if key[-1] == "length" and of:
            yield {**values, key: of - 1}
    for key, of in values.items():
        if of and key[-1] not in ("length", "there"):
            yield {other: value for other, value in values.items() if other != key}


def _made(policy: Any, pod: PodInfo, scheduler: Scheduler) -> Any:
    """Return what a policy makes of a pod: refusals, codes and reasons by row, and raw scores."""
    scheduler.handle.groups.seen(pod)
    cycle, said = cycle_of(scheduler, pod), said_of(policy, scheduler, pod)
    try:
        held = policy.pre_enqueue(pod, cycle)
        if held or not policy.matches(pod, cycle):
            return said, held, None
        held = policy.before.refusal(pod, cycle, ())
        codes = None if held else policy.filters().codes(pod, cycle)
        scored = not held and policy.score is not None and policy.matches_score(pod, cycle)
        raw = policy.score.raw(pod, cycle, None, marked=True).tolist() if scored else None
    except RuleError as error:
        return said, str(error), None
    passed: list[Any] = [] if codes is None else codes.tolist()
    if raw is not None and passed:
        raw = [score for score, code in zip(raw, passed, strict=True) if code == 0]
    filters = policy.filters()
    reasons = [code and filters.explain_row(pod, cycle, i, code) for i, code in enumerate(passed)]
    return said, held, passed, raw, reasons


def sights(paths: Sequence[str], policies: Sequence[str]) -> Iterator[tuple[str, Sights]]:
    """Yield what rules of policies were in tests beside them, each with the test's name.

    Tests that cannot be read or run show nothing; `policy-sched test` says why.
    """
    scenarios = [scenario for path in paths for scenario in _scenarios(_tests_of(path), paths)]
    scenarios.sort(key=lambda scenario: not any(name in scenario.name for name in policies))
    for scenario in scenarios[:_MOST]:
        with suppress(PolicySchedError):
            yield scenario.name, _sights(scenario)


def _sights(scenario: Scenario) -> Sights:
    """Return what rules were in a test, as the coverage of tests knows it."""
    coverage = RuleCoverage()
    observe_scenario(scenario, replace(RUN, coverage=coverage))
    rules = [rule for rule in coverage.report() if rule.location.is_rule]
    return {(rule.location.policy, rule.location.path): rule.seen for rule in rules}


def differences(
    sides: Sequence[tuple[str, ...]], plugin: str
) -> Iterator[tuple[str, ExpectedOutcome, ExpectedOutcome]]:
    """Yield what becomes of the pods of tests with each of two sides, with the test's name."""
    old, _ = sides
    for scenario in [tried for path in old for tried in _scenarios(_tests_of(path), old)][:_MOST]:
        both = []
        for paths in sides:
            with suppress(PolicySchedError):
                told = replace(scenario, policies=paths, plugin=plugin, mentions=())
                both.append(observe_scenario(told, RUN)[1])
        if len(both) == len(sides):
            yield from ((scenario.name, seen, both[1][pod]) for pod, seen in both[0].items())


def _tests_of(path: str) -> Path:
    return (Path(path) if Path(path).is_dir() else Path(path).parent) / _TESTS_FILE


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
