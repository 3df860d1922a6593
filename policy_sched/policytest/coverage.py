"""Rule coverage: what the tests of policies have seen of each rule, and what they have not.

A condition is covered when tests have seen both of its values, a score or a key when they have
seen two different ones. A policy is tested by the files that name it, and by those in its folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from policy_sched.errors import PluginError
from policy_sched.framework import Code, DeadlineExceeded, Handle, rows_with
from policy_sched.framework.evaluate import Nominations
from policy_sched.language import CompiledPolicy, RuleError
from policy_sched.language.check import check_policy
from policy_sched.language.diagnostics import PolicySource, Text, field_names
from policy_sched.language.runtime import Activation, no_allocation
from policy_sched.model import PodInfo, QueuedPod
from policy_sched.plugins.dynamicresources import Allocations
from policy_sched.plugins.rules import DeviceCase, Scored, bind
from policy_sched.policytest import coverage_probes
from policy_sched.policytest.scenario import Scenario
from policy_sched.preemption import (
    CandidateLimit,
    CandidateNodes,
    Case,
    NodeKey,
    PreemptionAttempt,
    PreemptionSearch,
    rules_of,
)
from policy_sched.profiles.build import CompiledPlan
from policy_sched.profiles.load import content_hash
from policy_sched.profiles.models import default_policies
from policy_sched.scheduler import Profile, Scheduler

ALL: Final = np.ones(1, np.bool_)
Rows: TypeAlias = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class LocationCoverage:
    """What was seen of one rule or condition, in words, and what was not."""

    location: coverage_probes.SourceLocation
    seen: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def covered(self) -> bool:
        """Whether nothing is missing."""
        return not self.missing


class RuleCoverage:
    """Collects over many scenarios; `watch` one after the other."""

    def __init__(self) -> None:
        self._seen: dict[coverage_probes.SourceLocation, set[object]] = {}
        self._wanted: dict[coverage_probes.SourceLocation, coverage_probes.CoverageCriterion] = {}

    def watch(
        self, scenario: Scenario, plans: Sequence[CompiledPlan], scheduler: Scheduler
    ) -> CoverageWatch:
        """Return the report about the pods of one scenario."""
        probes: dict[str, list[coverage_probes.PolicyProbes]] = {}
        orders: dict[str, list[tuple[coverage_probes.PolicyProbes, CompiledPolicy]]] = {}
        for ready in plans:
            plan = ready.plan
            tested = [s for s in plan.policies.values() if _is_tested(s, scenario)]
            by_policy = [_probes(_Form(source)) for source in tested]
            probes[plan.scheduler_name] = by_policy
            pairs = [
                (probes, ready.policies[source.name])
                for probes, source in zip(by_policy, tested, strict=True)
                if probes.node_order
            ]
            orders[plan.scheduler_name] = pairs
            for probe in (probe for policy in by_policy for probe in policy):
                self._register(probe)
        return CoverageWatch(probes, orders, scheduler, self._seen)

    def expect(self, source: PolicySource) -> None:
        """Count the rules of a policy without mistakes, whether or not a scenario tests it."""
        for probe in _probes(_Form(source)):
            self._register(probe)

    def _register(self, probe: coverage_probes.Probe) -> None:
        location = probe.location
        if location is None or probe.expression is None or self._wanted.get(location) == "once":
            return
        self._wanted[location] = probe.criterion

    def report(self) -> list[LocationCoverage]:
        """Return every rule and condition of the tested policies, in file order."""
        return [
            _coverage(location, self._wanted[location], self._seen.get(location, set()))
            for location in sorted(self._wanted)
        ]


def _coverage(
    location: coverage_probes.SourceLocation,
    wanted: coverage_probes.CoverageCriterion,
    seen: set[object],
) -> LocationCoverage:
    values = sorted((sight for sight in seen if sight != coverage_probes.ERROR), key=str)
    if wanted == "both":
        missing = [word for value, word in ((True, "true"), (False, "false")) if value not in seen]
    else:
        missing = ["a value"] if not values else []
        missing = ["a second value"] if wanted == "values" and len(values) == 1 else missing
    words = [_word(value) for value in values[:2]]
    return LocationCoverage(
        location,
        (*words, *([coverage_probes.ERROR] if coverage_probes.ERROR in seen else [])),
        tuple(missing),
    )


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class CoverageWatch:
    """Evaluates the rules at the points at which the scheduler evaluates them."""

    def __init__(
        self,
        probes: dict[str, list[coverage_probes.PolicyProbes]],
        orders: dict[str, list[tuple[coverage_probes.PolicyProbes, CompiledPolicy]]],
        scheduler: Scheduler,
        seen: dict[coverage_probes.SourceLocation, set[object]],
    ) -> None:
        self._probes = probes
        self._orders = orders
        self._scheduler = scheduler
        self._handle = scheduler.handle
        self._seen = seen
        self._decided = 0

    def decides(self, pod: PodInfo) -> None:
        """A pod is about to be decided: gates, filters and scores over all nodes."""
        self._decided += 1
        rows = np.flatnonzero(self._handle.nodes.live.values[: self._handle.nodes.n])
        every = np.ones(len(rows), np.bool_)
        cycle = self._cycle(pod)
        runner = self._runner(pod, cycle, rows)
        once = self._runner(pod, cycle, np.zeros(1, np.intp))
        for policy in self._of(pod):
            if not once.run_all(policy.match, ALL).all():
                continue
            if not once.run_all(policy.gates, ALL).all():
                continue
            for key in policy.order:
                once.run(key, ALL)
            for variable in policy.variables:
                runner.run(variable, every)
            if not once.run_all(policy.pre_filter, ALL).all():
                continue
            once.run_all(policy.narrowing, ALL)
            passed = runner.run_all(policy.filter, every)
            for domain in policy.domains:
                runner.run(domain, every)
            if once.run_all(policy.score_match, ALL).all():
                runner.run_all(policy.score, passed)
                self._run_normalizer(policy, pod, runner, rows[passed], passed)
            if policy.rates_devices:
                self._run_devices(policy, pod, rows)

    def _run_devices(self, policy: coverage_probes.PolicyProbes, pod: PodInfo, rows: Rows) -> None:
        """Run the rules over devices for each request and each device that it selects.

        That has the units of an attempt; what is beyond them is not seen.
        """
        allocating = self._handle.shared(Allocations).latest(pod.scheduler_name)
        if allocating is None:
            return
        self._handle.budget.begin()
        with suppress(DeadlineExceeded):
            for row in rows.tolist():
                for request, device in allocating.considered(pod, row):
                    case = DeviceCase(device, request)
                    runner = self._runner(pod, case, np.array([row], np.intp))
                    for variable in policy.device_variables:
                        runner.run(variable, ALL)
                    if runner.run_all(policy.device_filter, ALL).all():
                        runner.run_all(policy.device_score, ALL)
        self._handle.budget.under_way = False

    def _run_normalizer(
        self,
        policy: coverage_probes.PolicyProbes,
        pod: PodInfo,
        runner: coverage_probes.ProbeRunner,
        rows: Rows,
        passed: np.ndarray,
    ) -> None:
        """Run a normalizer on the nodes that passed, with their raw scores."""
        if not policy.normalize or not policy.score:
            return
        values = runner.values(policy.score[0].expression) or []
        raw = [value for value, counts in zip(values, passed, strict=True) if counts]
        scored = np.array([value != coverage_probes.ERROR for value in raw], np.bool_)
        if scored.any():
            scores = np.array([value for value in raw if value != coverage_probes.ERROR])
            seen = Scored.of(scores, self._cycle(pod))
            every = np.ones(len(scores), np.bool_)
            self._runner(pod, seen, rows[scored]).run_all(policy.normalize, every)

    def chose(self, pod: PodInfo, node: str) -> None:
        """A node was chosen, and the pod is counted on it."""
        rows = np.array([self._handle.nodes.row_of[node]], np.intp)
        runner = self._runner(pod, self._cycle(pod, apart=True), rows)
        for policy in self._of(pod):
            if runner.run_all(policy.match, ALL).all():
                for step in policy.steps:
                    runner.run(step, ALL)
                for timeout in policy.timeouts:
                    runner.run(timeout, ALL)

    def fits_nowhere(self, pod: PodInfo) -> None:
        """Filters left no node: run the probes of the preemption section and of groups."""
        now = self._handle.now()
        here = np.zeros(1, np.intp)
        cycle = self._cycle(pod)
        group = replace(cycle.pod_group, failures=cycle.pod_group.failures + 1)
        failing = self._runner(pod, replace(cycle, pod_group=group), here)
        for policy in self._of(pod):
            if policy.failing and failing.run_all(policy.match, ALL).all():
                for probe in policy.failing:
                    failing.run(probe, ALL)
        once = self._runner(pod, Activation(now=now, profile=pod.scheduler_name), here)
        for policy in self._of(pod):
            if not once.run_all(policy.match, ALL).all():
                continue
            if not self._runner(pod, Case(now), here).run_all(policy.eligible, ALL).all():
                continue
            if policy.victims:
                self._run_victims(policy, pod, now)
        for policy, compiled in self._orders.get(pod.scheduler_name, ()):
            profile = self._scheduler.profiles[pod.scheduler_name]
            observe = partial(self._run_node_order, policy, pod)
            observe_search(compiled, pod, profile, self._handle, observe)

    def evicts(self, profile: str, pods: Iterable[PodInfo]) -> None:
        """Running pods are looked at: whether each goes, and the keys of those that do."""
        nodes = self._handle.nodes
        for pod in pods:
            row = nodes.row_of.get(pod.node_name)
            if row is None or pod.terminating or pod.scheduler_name != profile:
                continue
            runner = self._runner(pod, self._cycle(pod), np.array([row], np.intp))
            for policy in self._of(pod):
                if policy.evict and runner.run_all((*policy.match, policy.evict[0]), ALL).all():
                    for key in policy.evict[1:]:
                        runner.run(key, ALL)

    def _run_node_order(
        self, policy: coverage_probes.PolicyProbes, pod: PodInfo, number: int, case: Case, row: int
    ) -> None:
        self._runner(pod, case, np.array([row], np.intp)).run(policy.node_order[number], ALL)

    def _run_victims(self, policy: coverage_probes.PolicyProbes, pod: PodInfo, now: int) -> None:
        nodes, pods = self._handle.nodes, self._handle.pods
        for victim, row in zip(pods.infos, pods.node.values.tolist(), strict=False):
            if victim is not None and row >= 0 and nodes.live.values[row]:
                rows = np.array([row], np.intp)
                runner = self._runner(pod, Case(now, victim), rows)
                runner.run_all(policy.victims[:1], ALL)
                for key in policy.victims[1:]:
                    runner.run(key, ALL)
                for unit in policy.units:
                    self._runner(victim, self._cycle(victim), rows).run(unit, ALL)

    def _of(self, pod: PodInfo) -> Iterator[coverage_probes.PolicyProbes]:
        yield from self._probes.get(pod.scheduler_name, ())

    def _runner(
        self, pod: PodInfo, cycle: Activation | Case | DeviceCase, rows: np.ndarray
    ) -> coverage_probes.ProbeRunner:
        fixture = coverage_probes.Fixture(self._handle.nodes, self._handle.pods, pod, cycle, rows)
        return coverage_probes.ProbeRunner(fixture, self._seen)

    def _cycle(self, pod: PodInfo, *, apart: bool = False) -> Activation:
        handle = self._handle
        came = handle.now() + self._decided  # the pods of a scenario come one after the other
        queued = QueuedPod(pod, came, came)
        allocating = handle.shared(Allocations).latest(pod.scheduler_name)
        return Activation(
            allocation=no_allocation if allocating is None else allocating.would_allocate,
            now=handle.now(),
            queued=queued,
            profile=pod.scheduler_name,
            pod_group=handle.groups.counts(pod, apart=apart),
        )


KeyObserver: TypeAlias = Callable[[int, Case, int], None]
"""Called with the number of a key, what it sees of a node, and the node's row."""

_EVERY_NODE = CandidateLimit(100, 1)


def observe_search(
    policy: CompiledPolicy, pod: PodInfo, profile: Profile, handle: Handle, observe: KeyObserver
) -> None:
    """Search for victims as the policy does; nothing is evicted. A rule that fails ends it.

    Only the search knows on which nodes a key of the order runs, and with which victims. So it runs
    once more, with keys that call ``observe`` first.
    """
    bound = bind(policy, handle.nodes, handle.pods).preemption
    assert bound is not None, "the policy has the section"
    evaluation = profile.evaluator.evaluate(pod)
    evaluation.state.write(evaluation.filtering)
    trial = evaluation.filtering.filter_dry_run
    rules = rules_of(bound, handle.pods, handle.now)
    keys = [partial(_observed, i, key, handle, observe) for i, key in enumerate(rules.node_order)]
    watched = replace(rules, node_order=tuple(keys), stable_keys=frozenset())
    nominations = Nominations(handle.cache, handle.nominator)
    attempt = PreemptionAttempt(pod, evaluation.state, trial, handle.cache, nominations)
    rows = rows_with(evaluation.filtering.statuses(), Code.UNSCHEDULABLE)
    search = PreemptionSearch(
        handle.cache, handle.objects, watched, _EVERY_NODE, handle.extenders, handle
    )
    with suppress(RuleError, PluginError):
        search.search(attempt, rows, handle.random)


def _observed(  # the first four are bound
    number: int,
    key: NodeKey,
    handle: Handle,
    observe: KeyObserver,
    pod: PodInfo,
    candidates: CandidateNodes,
) -> npt.NDArray[Any]:
    """Call the observer for each candidate, and return the values of the key."""
    places = zip(candidates.rows.tolist(), np.asarray(candidates.violations).tolist(), strict=True)
    for place, (row, violations) in enumerate(places):
        observe(number, Case(handle.now(), None, candidates.listed(place), violations), row)
    return key(pod, candidates)


class _Form:
    """A policy by file and content: compiled once."""

    def __init__(self, source: PolicySource) -> None:
        self.source = source
        self.key = (_file(source), content_hash(source))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Form) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)


@lru_cache(maxsize=256)
def _probes(form: _Form) -> coverage_probes.PolicyProbes:
    checked, _ = check_policy(form.source)
    assert checked is not None, "the policy was compiled"
    return coverage_probes.probes_of(checked, _file(form.source))


def _is_tested(source: PolicySource, scenario: Scenario) -> bool:
    file = Path(_file(source)).resolve()
    named = {Path(policy).resolve() for policy in scenario.policies}
    folders = {file, *file.parents}
    return Path(scenario.file).resolve().parent == file.parent or bool(named & folders)


def _file(source: PolicySource) -> str:
    """Return the file of a policy; "" for one without any text.

    A ``preemption`` section has texts of the shipped policy where it leaves something open.
    """
    texts = _texts(source)
    files = [text.file for text in texts if text.locate is not None]
    shipped = str(default_policies() / "policy.yaml")
    return next((file for file in files if file != shipped), files[0] if files else "")


def _texts(value: object) -> Iterator[Text]:
    """Yield the texts in a policy's source, section by section."""
    if isinstance(value, Text):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _texts(item)
    else:
        for part in field_names(type(value)):
            yield from _texts(getattr(value, part))


def percent(coverages: Sequence[LocationCoverage]) -> float:
    """Return how many of the rules are covered, in percent; conditions within them do not count.

    Without any rule it is 100.
    """
    rules = [coverage for coverage in coverages if coverage.location.is_rule]
    return 100.0 * sum(coverage.covered for coverage in rules) / len(rules) if rules else 100.0


def coverage_lines(coverages: Sequence[LocationCoverage]) -> Iterator[str]:
    """Yield a line for each rule and condition that lacks something, below its file."""
    for file, group in groupby(coverages, key=lambda rule: rule.location.file):
        locations = list(group)
        yield f"{file}: {counts_text(locations)}"
        for coverage in locations:
            if not coverage.covered:
                at = coverage.location
                yield (
                    f"  {file}:{at.line}:{at.column}: {at.policy}.{at.path}: "
                    f"{lack_text(coverage)}: {_shortened(at.text)}"
                )
    yield f"rule coverage {percent(coverages):.1f} %: {counts_text(coverages)}"


def lack_text(coverage: LocationCoverage) -> str:
    """Return what tests have not seen of a rule."""
    return f"never {' or '.join(coverage.missing)}" + (
        ", it failed" if "error" in coverage.seen else ""
    )


def counts_text(coverages: Sequence[LocationCoverage]) -> str:
    """Return how many rules, and conditions within them, are covered."""
    rules = [coverage.covered for coverage in coverages if coverage.location.is_rule]
    conditions = [coverage.covered for coverage in coverages if not coverage.location.is_rule]
    parts = f"{sum(conditions)} of {len(conditions)} conditions within rules"
    return f"{sum(rules)} of {len(rules)} rules, {parts}"


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def coverage_data(coverages: Sequence[LocationCoverage]) -> dict[str, Any]:
    """Return every rule and condition with its place, what was seen and what was not."""
    return {
        "percent": round(percent(coverages), 2),
        "rules": [_entry(coverage) for coverage in coverages if coverage.location.is_rule],
        "conditions": [_entry(coverage) for coverage in coverages if not coverage.location.is_rule],
    }


def _entry(coverage: LocationCoverage) -> dict[str, Any]:
    location = coverage.location
    return {
        "file": location.file,
        "line": location.line,
        "column": location.column,
        "policy": location.policy,
        "rule": location.path,
        "text": location.text,
        "covered": coverage.covered,
        "seen": list(coverage.seen),
        "missing": list(coverage.missing),
    }
