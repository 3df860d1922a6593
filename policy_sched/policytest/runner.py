"""Runs a scenario: decides its pending pods in order and compares each decision.

The whole decision is compared before it is executed: every status and every score. Then the pod
is assumed and reserved on the node that is expected, so that the steps which follow see the
cluster that they were written for. What a machine recorded was decided without the plugins that
are named in `UNRECORDED`, whatever its configuration. Permit plugins run too, and again
at every later step for the waiting pods; the clock does not advance, so none times out.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from random import Random
from typing import Final, TypeVar

from msgspec import structs

from policy_sched import errors, framework
from policy_sched.cluster.tables import QUEUED
from policy_sched.explain import filter_parts
from policy_sched.framework import PodToEvict
from policy_sched.framework.runtime import Runner
from policy_sched.language import RuleError
from policy_sched.language.diagnostics import MAX_ANNOTATED_COST
from policy_sched.manifests import set_creation_times
from policy_sched.model import Pod, PodInfo, QueuedPod
from policy_sched.plugins.dynamicresources import Reservation
from policy_sched.plugins.rules import inputs_of, polled_answer
from policy_sched.policytest import sequence
from policy_sched.policytest.comparison import Strictness, compare
from policy_sched.policytest.coverage import CoverageWatch, RuleCoverage
from policy_sched.policytest.expectations import (
    EVICTION,
    ExpectedOutcome,
    PluginOutcome,
    QuotaNumber,
    unknown_names,
)
from policy_sched.policytest.kueue import KueueRecord, load_kueue, run_kueue
from policy_sched.policytest.life import Life, load_lives, run_life
from policy_sched.policytest.objects import pod_name
from policy_sched.policytest.observed import (
    GroupSteps,
    as_recorded,
    claims_of_cluster,
    outcome_of,
    plugin_outcome,
    queue_of,
    raw_scores,
    with_claims,
)
from policy_sched.policytest.report import StepResult
from policy_sched.policytest.scenario import Scenario, decision_name, load_scenarios
from policy_sched.profiles.build import CompiledPlan, declared_inputs
from policy_sched.profiles.models import NOT_BUILT, UNKNOWN_PLUGIN, did_you_mean
from policy_sched.profiles.reload import PolicyFiles
from policy_sched.profiles.resolve import shipped_policies
from policy_sched.scheduler import (
    Attempt,
    Decision,
    GroupPlan,
    Preempt,
    Profile,
    Scheduler,
    candidates,
    clear_lower_nominations,
    decide,
    dry_run_group,
    eviction_rounds,
    hold,
    in_turn,
    member_decision,
    note_group_failure,
    object_seen,
    pod_gone,
    pre_bind_at_once,
)
from policy_sched.scheduler.setup import assemble, load_cluster, read_policies
from policy_sched.source import shortened


@dataclass(frozen=True, slots=True)
class ScenarioRun:
    """What is to be compared, and the observers; by default all steps, and none."""

    coverage: RuleCoverage | None = None
    wanted: Callable[[str, str], bool] = lambda _scenario, _pod: True
    """Says whether the step of a scenario and a pod is compared; all pods are placed."""
    roots: tuple[str, ...] = ()
    """Directories below which tests may name files, beside those that `References` finds."""
    max_cost_limit: int = MAX_ANNOTATED_COST
    """The most that a policy's annotation may let its rules cost."""
    checks_names: bool = True
    """Whether it is an error that nodes, pods, plugins or rules of expectations are not there."""
    saw: Callable[[Sequence[CompiledPlan]], None] = lambda _plans: None
    """Called with the profiles of each scenario."""
    exact: bool = False
    """Whether steps of recorded lives are compared in everything."""
    enforce_audits: bool = False
    """Whether policies that are audited decide."""
    read: Callable[[PolicyFiles], tuple[tuple[CompiledPlan, ...], object]] = read_policies
    """Reads the configuration and the policies of a scenario."""


QUEUE: Final = decision_name("", 1)
"""What a step is called that looks at the order of the queue."""

_WITHOUT_VICTIMS: Final = re.compile(
    r"(\d+) No (?:victims found on node [^ ]+ for preemptor pod [^ ,]+?"
    r"|preemption victims found for incoming pod)(?=, \d|\.$|\. )"
)
"""What plugins say of nodes on which no pod may be evicted."""
UNRECORDED: Final = frozenset({"DynamicResources", "NodeDeclaredFeatures"})
"""Plugins that were disabled where decisions of kube-scheduler were recorded without binding."""


def run_scenario(scenario: Scenario, run: ScenarioRun | None = None) -> list[StepResult]:
    """Return one result per expected step. Raises PolicyError where a file is wrong."""
    return observe_scenario(scenario, run)[0]


def observe_scenario(
    scenario: Scenario, run: ScenarioRun | None = None
) -> tuple[list[StepResult], dict[str, ExpectedOutcome]]:
    """Return one result per expected step, and by pod what happened in every wanted step."""
    run = ScenarioRun() if run is None else run
    names = {op.pod or QUEUE for op in scenario.ops if not op.delete}
    wanted = {name for name in names if run.wanted(scenario.name, name)}
    results: list[StepResult] = []
    seen: dict[str, ExpectedOutcome] = {}
    if not wanted:
        return results, seen
    course = _Course(scenario, run)
    times: Counter[str] = Counter()
    for op in scenario.ops:
        if op.delete:
            course.delete(op.pod)
            continue
        times[op.pod] += 1
        name = decision_name(op.pod, times[op.pod])
        expected = scenario.expect.get(name)
        if expected is not None and expected.skipped:
            if (op.pod or QUEUE) in wanted:
                reason = expected.skipped
                results.append(StepResult(scenario.file, scenario.name, name, (), skipped=reason))
            continue
        started = time.perf_counter()
        outcome = course.step(op.pod, expected, times[op.pod])
        if (op.pod or QUEUE) not in wanted:
            continue
        seen[name] = outcome
        if expected is not None:
            differences = compare(expected, outcome, course.rules)
            seconds = time.perf_counter() - started
            step = StepResult(scenario.file, scenario.name, name, differences, outcome, seconds)
            results.append(step)
    return results, seen


def _fill(scheduler: Scheduler, scenario: Scenario, plans: Sequence[CompiledPlan]) -> None:
    """Load the cluster of a scenario. Raises PolicyError for objects that inputs cannot have."""
    set_creation_times([*scenario.objects, *scenario.pending], scenario.now)
    load_cluster(scheduler.cache, scenario.objects)
    problems = list(_answered(scheduler, scenario, plans))
    for problem in scheduler.handle.shared(inputs_of).problems.values():
        blank = scenario.places.get((problem.kind[1], *problem.place))
        if blank is not None:
            message = f"input {problem.input}: {problem.message}"
            problems.append(replace(blank, code=problem.code, message=message))
    if problems:
        raise errors.PolicyError(problems)


def _answered(
    scheduler: Scheduler, scenario: Scenario, plans: Sequence[CompiledPlan]
) -> Iterator[errors.Diagnostic]:
    """Give inputs with a url the answers that a scenario states; yield what is wrong with them."""
    asked = {given.name: given for given in declared_inputs(plans) if given.url}
    for name, (blank, answer) in scenario.answers.items():
        if not (name in asked or (asked and not name)):
            hint = did_you_mean(name, asked) or "an input with a url, of an enabled policy"
            message = f"no input with a url is called {name}"
            if not name:
                hint = "leave it out, or name the policy in policies"
                message = "no enabled policy has an input with a url"
            yield replace(blank, code="PS805", message=message, hint=hint)
        for given in [asked[name]] if name in asked else () if name else asked.values():
            try:
                said = polled_answer(given, answer)
            except ValueError as error:
                message = f"input {given.name}: {error}"
                yield replace(blank, code="PS805", message=message)
                continue
            for item in said.objects:
                object_seen(scheduler, None, item)
            scheduler.handle.shared(inputs_of).set_root(given.identity, said.root)


class _Course:
    """What happens in a scenario, on a scheduler of its own; PolicyError where a file is wrong."""

    def __init__(self, scenario: Scenario, run: ScenarioRun) -> None:
        plans = _plans(scenario, run)
        self.rules = Strictness(
            scenario.complete,
            nominations=scenario.complete and scenario.several,
            sorted_reasons=scenario.complete and bool(scenario.plugin),
        )
        self._scenario = scenario
        self._scheduler = assemble(
            plans,
            all_nodes=_looked_at_all(scenario, plans),
            objects=scenario.objects,
            now=lambda: scenario.now,
        )
        _fill(self._scheduler, scenario, plans)
        coverage = run.coverage
        self._watch = None if coverage is None else coverage.watch(scenario, plans, self._scheduler)
        decided = {op.pod for op in scenario.ops}
        for pod in scenario.pending:
            info = PodInfo.of(pod)
            self._scheduler.handle.groups.seen(info)
            if info.nominated_node_name and pod_name(pod) not in decided:  # it only waits
                self._scheduler.handle.nominator.nominate(info, info.nominated_node_name)
        self._groups = GroupSteps(self._scheduler, scenario)
        self._running = {pod_name(obj): obj for obj in scenario.objects if isinstance(obj, Pod)}
        self._pending = {pod_name(pod): pod for pod in scenario.pending}
        self._queued = {pod_name(pod): PodInfo.of(pod) for pod in scenario.pending}
        self._waits: dict[str, Observation] = {}
        self._aggregates = self._scheduler.handle.nodes.aggregates
        self._aggregates.join(
            QUEUED, lambda: [(pod, "") for pod in self._queued.values()], lambda: None
        )

    def delete(self, name: str) -> None:
        """Take a pod away."""
        pod_gone(self._scheduler, PodInfo.of(self._pod(name)))
        waited = self._queued.pop(name, None)
        if waited is not None:
            self._aggregates.leave(QUEUED, waited, -1)
        _end_waits(self._scheduler, self._waits)

    def step(self, name: str, expected: ExpectedOutcome | None, times: int) -> ExpectedOutcome:
        """Decide a pod, or look at the queue or the running pods."""
        if not name:
            return self.queue()
        return self.evict() if name == EVICTION else self.decide(name, expected, times)

    def evict(self) -> ExpectedOutcome:
        """Evict the pods that policies evict; they are gone then. Raises PolicySchedError."""
        handle, evicted = self._scheduler.handle, list[str]()
        for look in eviction_rounds(self._scheduler.profiles):
            running = [pod for pod in handle.pods.infos if pod is not None]
            if self._watch is not None:
                self._watch.evicts(look.profile, running)
            judged = list(candidates(look, running, handle))
            for error in judged:
                if isinstance(error, RuleError):
                    raise errors.PolicySchedError(str(error))
            victims = [victim for victim in judged if isinstance(victim, PodToEvict)]
            for victim in islice(in_turn(victims, handle), look.rules.most):
                pod_gone(self._scheduler, victim.pod)
                evicted.append(victim.pod.key)
        _end_waits(self._scheduler, self._waits)
        return ExpectedOutcome(EVICTION, evicted=tuple(evicted))

    def queue(self) -> ExpectedOutcome:
        """Return the order of the queue; records have pods that PreEnqueue rejects in it."""
        waiting, gated = self._queued.values(), self._scenario.complete
        return ExpectedOutcome("", queue=queue_of(self._scheduler, waiting, gated=gated))

    def decide(self, name: str, expected: ExpectedOutcome | None, times: int) -> ExpectedOutcome:
        """Decide a pod, for the first time or once more; do what is expected."""
        pod, scenario = self._pod(name), self._scenario
        info = PodInfo.of(pod)
        if not self._groups.decided(info) and self._scheduler.cache.node_of(info.uid):
            pod_gone(self._scheduler, info)
            _end_waits(self._scheduler, self._waits)
        if times == 1 and pod.status.nominated_node_name:
            self._scheduler.handle.nominator.nominate(info, info.nominated_node_name)
        nominator = self._scheduler.handle.nominator
        if scenario.plugin and times > 1:
            nominator.clear(info.uid)  # recorded decisions try no node first
        self._queued[name] = info
        self._aggregates.come(QUEUED, info, -1)
        queue = self.queue().queue if expected is not None and expected.queue is not None else None
        outcome = self._groups.decide(info)
        if outcome is None:
            outcome = _step(self._scheduler, pod, expected, self._watch, scenario, self._waits)
            if scenario.complete and scenario.gates:
                outcome = replace(outcome, permit=None)  # stated of pods of groups only
        elif scenario.complete:
            outcome = as_recorded(outcome, expected)
        nowhere = expected is not None and expected.nominated == "" and scenario.plugin
        if nowhere and outcome.nominated is None and not nominator.node_of(info.uid):
            outcome = replace(outcome, nominated="")
        used = None if expected is None or expected.used is None else self._used()
        quotas = self._quotas(expected.quotas) if expected is not None and expected.quotas else None
        return replace(outcome, queue=queue, used=used, quotas=quotas)

    def _quotas(
        self, expected: Mapping[str, Mapping[str, QuotaNumber]]
    ) -> dict[str, dict[str, QuotaNumber]]:
        """Return the keys of all quotas, with the numbers that are expected of some."""
        quotas: dict[str, dict[str, QuotaNumber]] = {}
        for given in self._scheduler.handle.nodes.quotas.values():
            for key in given.objects.by_key:
                numbers, state = expected.get(key, ()), given.state(key)
                quotas.setdefault(key, {name: getattr(state, name) for name in numbers})
        return quotas

    def _used(self) -> dict[str, dict[str, int]]:
        """Return what each quota counts; cpu and memory also where that is nothing."""
        return {
            key: {"cpu": 0, "memory": 0, **quotas.used.value(key)}
            for quotas in self._scheduler.handle.nodes.quotas.values()
            for key in sorted(quotas.objects.by_key)
        }

    def _pod(self, name: str) -> Pod:
        return self._pending.get(name) or self._running[name]


def _plain(reasons: Sequence[object]) -> list[tuple[str, int]]:
    """Return reasons without what plugins word differently, and how many nodes have no victim."""
    plain = []
    for words in map(str, reasons):
        nodes = sum(int(number) for number in _WITHOUT_VICTIMS.findall(words))
        text = re.sub(r"(, )?\0", "", _WITHOUT_VICTIMS.sub("\0", words))
        plain.append((text.replace("preemption: ", "").replace(": , ", ": "), nodes))
    return plain


def _plans(scenario: Scenario, run: ScenarioRun) -> tuple[CompiledPlan, ...]:
    """Return the profiles of a scenario. Raises PolicyError also for expectations of others."""
    most, audits = run.max_cost_limit, run.enforce_audits
    files = PolicyFiles(scenario.config, tuple(scenario.policies), most, scenario.gates, audits)
    try:
        plans, _ = run.read(files)
    except errors.PolicyError as error:
        raise errors.PolicyError(list(map(scenario.placed, error.diagnostics))) from None
    run.saw(plans)
    unknown = [*scenario.unknown, *unknown_names(scenario.mentions, plans)]
    if unknown and run.checks_names:
        raise errors.PolicyError(unknown)
    return plans if scenario.whole else tuple(_without(UNRECORDED, plan) for plan in plans)


def _looked_at_all(scenario: Scenario, plans: Sequence[CompiledPlan]) -> bool:
    """Return whether a record has several feasible nodes of a pod that no plugin scores nodes for.

    kube-scheduler's search ends at the first; some records were made without its search.
    """
    unscored = {plan.plan.scheduler_name for plan in plans if not plan.plan.points["score"]}
    pods = {pod_name(pod) for pod in scenario.pending if pod.spec.scheduler_name in unscored}
    steps = (outcome for outcome in scenario.expect.values() if outcome.pod in pods)
    return scenario.complete and any(len(outcome.feasible or ()) > 1 for outcome in steps)


def _without(names: Collection[str], compiled: CompiledPlan) -> CompiledPlan:
    """Return a plan as if these plugins were disabled."""
    points = {
        point: tuple(plugin for plugin in enabled if plugin[0] not in names)
        for point, enabled in compiled.plan.points.items()
    }
    return structs.replace(compiled, plan=structs.replace(compiled.plan, points=points))


def _step(
    scheduler: Scheduler,
    pod: Pod,
    expected: ExpectedOutcome | None,
    watch: CoverageWatch | None,
    scenario: Scenario,
    waits: dict[str, Observation],
) -> ExpectedOutcome:
    """Decide one pod, and leave the cluster as the steps that follow expect it.

    In a record a nomination ends only where the expectation states it. ``waits``: the pods that
    wait for permission, by UID.
    """
    info = PodInfo.of(pod)
    if watch is not None:
        watch.decides(info)
    before = claims_of_cluster(scheduler.handle.objects) if scenario.bind else {}
    observed = Observation(
        scheduler,
        pod,
        rules=_states_rules(expected),
        bind=scenario.bind,
        plugin=scenario.plugin,
    )
    if watch is not None and observed.outcome.feasible == ():
        watch.fits_nowhere(info)
    node = observed.assume(expected)
    observed.note_group(node)
    if observed.waits_on:
        waits[info.uid] = observed
    allowed, rejected = _end_waits(scheduler, waits)
    if scenario.plugin or not scenario.complete:
        observed.note_waiting(allowed, rejected)
    if scenario.plugin and scenario.complete:
        observed.name_waiting_as_recorded()
        observed.name_preemption_as_recorded(expected)
    if watch is not None and node:
        watch.chose(info, node)
    if node and not scenario.complete:
        observed.note_devices()
    observed.nominate(expected, clears=not scenario.complete)
    if not scenario.bind:
        return observed.outcome
    return with_claims(observed.outcome, info, before, scheduler.handle)


def _end_waits(
    scheduler: Scheduler, waits: dict[str, Observation]
) -> tuple[list[str], dict[str, PluginOutcome]]:
    """Take the pods back that a plugin has rejected since; those it has allowed keep their nodes.

    A pod that is taken back may be what others of its group wait for. Returns the pods that were
    allowed, and why others were taken back.
    """
    allowed: list[str] = []
    rejected: dict[str, PluginOutcome] = {}
    pods = scheduler.handle.waiting_pods
    pods.recheck()
    while ended := [waiting for waiting in pods if waiting.ended]:
        for waiting in ended:
            status = waiting.status_at(scheduler.handle.now())
            pods.remove(waiting.pod.uid)
            observed = waits.pop(waiting.pod.uid)
            if status is not None and not status.ok:
                observed.give_up(waiting.node)
                rejected[waiting.pod.key] = plugin_outcome(status)
            else:
                allowed.append(waiting.pod.key)
        pods.recheck()
    return allowed, rejected


def _states_rules(expected: ExpectedOutcome | None) -> bool:
    outcomes = (expected.rejected or {}).values() if expected is not None else ()
    return any(outcome.rule is not None for outcome in outcomes)


class Observation:
    """One pod's decision, seen from all sides; ``outcome`` is what a scenario can state of it."""

    def __init__(
        self,
        scheduler: Scheduler,
        pod: Pod,
        *,
        rules: bool = False,
        bind: bool = False,
        plugin: str = "",
    ) -> None:
        """``rules``: the rules that reject nodes are named, too. ``bind``: PreBind runs.

        ``plugin``: whose scores before normalisation are noted.
        """
        self._bind = bind
        self._plugin = plugin
        self._scheduler = scheduler
        self._info = PodInfo.of(pod)
        self._state = framework.CycleState()
        self._decision: Decision | None = None
        self.waits_on = ""
        """The node where the pod waits for permission, empty if it does not."""
        self.outcome = self._decide()
        if rules and self.outcome.rejected:
            self.outcome = replace(self.outcome, rejected=self._by_rule(self.outcome.rejected))

    def assume(self, expected: ExpectedOutcome | None) -> str:
        """Assume and reserve the pod on the expected node, else on the first of our best.

        Returns the node on which Reserve and Permit ran, though they may have rejected the pod.
        """
        best = self.outcome.best
        node = expected.chosen if expected is not None and expected.chosen else None
        if node is None:
            if not best:
                return ""
            node = best[0]
        if node not in self._scheduler.cache.nodes.row_of:
            return ""
        profile = self._scheduler.profiles.get(self._info.scheduler_name)
        if profile is None:
            return ""
        self._scheduler.cache.assume(self._info, node)
        self._scheduler.handle.nominator.clear(self._info.uid)
        self._state = self._state.clone()  # which equal pods share until then
        try:
            status = self._binding(profile, node)
        except errors.PluginError as error:
            status = framework.Status(framework.Code.ERROR)
            self.outcome = replace(self.outcome, message=str(error))
        if status.code is framework.Code.WAIT:
            self.waits_on = node
        elif not status.ok:
            self.give_up(node)
        return node

    def note_group(self, node: str) -> None:
        """Note what became of a pod of a group: it was tried on a node, or found none."""
        if not self._info.pod_group:
            return
        handle = self._scheduler.handle
        if node:
            handle.groups.tried(self._info, handle.now())
        else:
            note_group_failure(self._info, self._decision, self._state, handle)

    def note_waiting(self, allowed: Sequence[str], rejected: Mapping[str, PluginOutcome]) -> None:
        """Note which other pods no longer wait."""
        own = self._info.key
        self.outcome = replace(
            self.outcome,
            allowed=tuple(sorted(name for name in allowed if name != own)) or None,
            rejected_waiting={n: why for n, why in rejected.items() if n != own} or None,
        )

    def name_waiting_as_recorded(self) -> None:
        """Say that the pod waits in the words of kube-scheduler's framework, as records do."""
        permit = self.outcome.permit
        if permit is not None and permit.code == framework.Code.WAIT.value:
            text = (
                f'one or more plugins asked to wait and no plugin rejected pod "{self._info.name}"'
            )
            waits = PluginOutcome(permit.code, "", (text,))
            self.outcome = replace(self.outcome, permit=waits)

    def name_preemption_as_recorded(self, expected: ExpectedOutcome | None) -> None:
        """Say why preemption fails, and where the pod is nominated now, as other plugins do.

        kube-scheduler's DefaultPreemption alone says "preemption: " before the reason, and others
        name each node without victims.
        """
        outcome = self.outcome
        if expected is None:
            return
        failed, stated = outcome.post_filter, expected.post_filter
        if failed is not None and stated is not None and failed.plugin != "DefaultPreemption":
            if _plain(failed.reasons or ()) == _plain(stated.reasons or ()):
                failed = replace(failed, reasons=stated.reasons)
            message = outcome.message
            if _plain([message or ""]) == _plain([expected.message or ""]):
                message = expected.message
            outcome = replace(outcome, post_filter=failed, message=message)
        if expected.nominated is not None and outcome.nominated is None:
            there = self._scheduler.handle.nominator.node_by_uid.get(self._info.uid, "")
            outcome = replace(outcome, nominated=there)
        if expected.nominated == "" and len(expected.preemption or ()) > 1:
            outcome = replace(outcome, nominated="")  # a record leaves equal nodes open
        self.outcome = outcome

    def give_up(self, node: str) -> None:
        """Take back what Reserve did, and the pod from its node."""
        handle = self._scheduler.handle
        runner = self._scheduler.profiles[self._info.scheduler_name].runner
        runner.undo("reserve", self._state, self._info, node)
        self._scheduler.cache.forget(self._info.uid)
        if self._info.pod_group:
            handle.groups.sent_back(self._info, handle.now(), rejected=True)

    def _binding(self, profile: Profile, node: str) -> framework.Status:
        """Run Reserve and Permit, and PreBind where the scenario binds pods; note what they say."""
        runner, handle = profile.runner, self._scheduler.handle
        status = runner.run("reserve", self._state, self._info, node).status
        if not status.ok:
            self.outcome = replace(self.outcome, reserve=plugin_outcome(status))
        elif runner.pipeline.at("permit"):
            status = self._permit(runner, node)
        if status.ok and self._bind:
            attempt = Attempt(QueuedPod(self._info), profile, self._state, runner.hooks)
            status = pre_bind_at_once(attempt, node, handle)
            if not status.ok:
                # As records have it, an error names no plugin.
                own = status.code is not framework.Code.ERROR
                outcome = plugin_outcome(status if own else status.by(""))
                self.outcome = replace(self.outcome, pre_bind=outcome)
        return status

    def note_devices(self) -> None:
        """Note the devices that were reserved for the pod, by request."""
        reservation = self._state.read(Reservation)
        if reservation is None or reservation.pod != self._info.uid:
            return
        devices_of: dict[str, list[str]] = {}
        for _, result in reservation.results:
            for device in result.devices.results:
                devices_of.setdefault(device.request, []).append(device.device)
        devices = {request: tuple(names) for request, names in devices_of.items()}
        self.outcome = replace(self.outcome, devices=devices or None)

    def _permit(self, runner: Runner, node: str) -> framework.Status:
        """Ask for permission; a pod that waits is among the handle's waiting pods."""
        handle = self._scheduler.handle
        permitted = runner.run("permit", self._state, self._info, node)
        status, waits = permitted.status, permitted.waits
        if waits:
            hold(permitted, self._info, node, handle)
            plugin, first = next(iter(waits.items()))
            status = first.status.by(plugin)
        wanted = self._state.read(framework.PodsToActivate)
        groups = sorted(wanted.groups) if wanted is not None and waits else ()
        pods = {uid for key in groups for uid in handle.groups.without_nodes(key)}
        others = [info for info in handle.groups.pending(self._info) if info.uid in pods]
        self.outcome = replace(
            self.outcome,
            permit=plugin_outcome(status),
            activates=tuple(sorted(info.key for info in others)) or None,
        )
        return status

    def nominate(self, expected: ExpectedOutcome | None, *, clears: bool) -> None:
        """Nominate the pod to the only node that is expected, else to the one we found.

        With several acceptable nodes, no pod is nominated unless the expectation names the
        node. ``clears``: a nomination that the decision ends is ended.
        """
        if expected is not None and expected.nominated is not None:
            self._settle(expected.nominated)
            return
        ours = self.outcome.preemption
        stated = ours if expected is None or expected.preemption is None else expected.preemption
        if stated is not None and len(stated) == 1:
            self._settle(stated[0].node)
        elif clears and self.outcome.nominated == "":
            self._settle("")

    def _settle(self, node: str) -> None:
        """Nominate the pod to a node, or to none."""
        handle = self._scheduler.handle
        if not node:
            handle.nominator.clear(self._info.uid)
            return
        clear_lower_nominations(self._info, node, handle)
        handle.nominator.nominate(self._info, node)

    def _decide(self) -> ExpectedOutcome:
        info = self._info
        profile = self._scheduler.profiles.get(info.scheduler_name)
        if profile is None:
            message = f'no profile has schedulerName "{info.scheduler_name}"'
            return ExpectedOutcome(info.key, message=message)
        gate = profile.runner.run("pre_enqueue", info).status
        if not gate.ok:
            return ExpectedOutcome(info.key, pre_enqueue=plugin_outcome(gate))
        plan = dry_run_group(info, profile, self._scheduler.handle)
        if plan is not None:
            return self._decided_together(plan)
        attempt = Attempt(QueuedPod(info), profile)
        table = self._scheduler.handle.nodes
        # Ties are looked at, not broken: any source of randomness will do.
        decision = decide(attempt, table, Random(0))  # noqa: S311 - no secret
        self._state, self._decision = attempt.state, decision
        if self._bind and isinstance(decision, Preempt):
            # Records of preemption are made of several runs of PostFilter in one cycle: plugins
            # see what dry runs of the first left in the state.
            profile.runner.run("post_filter", attempt.state, info, decision.diagnosis)
        outcome = outcome_of(info, decision, table, scored=not profile.evaluator.any_will_do)
        return replace(outcome, raw=raw_scores(decision, self._plugin, table))

    def _decided_together(self, plan: GroupPlan) -> ExpectedOutcome:
        """Return what a plan for its whole group means for the pod."""
        member = member_decision(plan, self._info.uid)
        self._state, self._decision = member.attempt.state, member.decision
        scores = {result.name: result.total if result.status.ok else None for result in plan.tried}
        chosen = "" if plan.best is None else plan.best.name
        outcome = outcome_of(self._info, member.decision, self._scheduler.handle.nodes)
        return replace(outcome, placement=chosen, placements=scores)

    def _by_rule(self, rejected: Mapping[str, PluginOutcome]) -> dict[str, PluginOutcome]:
        """Return the outcomes with the first rule of each plugin's that rejects the node."""
        nodes = self._scheduler.handle.nodes
        parts = filter_parts(
            self._scheduler.profiles[self._info.scheduler_name].runner, nodes, self._info
        )
        named = {}
        for node, outcome in rejected.items():
            row = nodes.row_of[node]
            rule = next(
                (
                    f"{part.name}.filter[0]" if part.name == part.plugin else part.name
                    for part in parts
                    if part.plugin == outcome.plugin and part.rejected(nodes.n)[row]
                ),
                None,
            )
            named[node] = replace(outcome, rule=rule)
        return named


@dataclass(slots=True)
class FileResults:
    """One result per expected step, and what kept steps from being run."""

    results: list[StepResult] = field(default_factory=list)
    problems: list[errors.Diagnostic] = field(default_factory=list)


def run_file(path: str) -> list[StepResult]:
    """Return one result per expected step, in file order.

    Raises PolicyError with every problem of the file, and OSError where it cannot be read.
    """
    results = run_files([path])
    if results.problems:
        raise errors.PolicyError(results.problems)
    return results.results


def run_files(paths: Sequence[str], run: ScenarioRun | None = None) -> FileResults:
    """Run the scenarios of all files that can be run; OSError where one cannot be read.

    A file with a problem is not run; a broken policy stops only the scenarios that it is in.
    """
    run = ScenarioRun() if run is None else run
    results = FileResults()
    for path in paths:
        try:
            _run(path, run, results)
        except errors.PolicyError as error:
            results.problems = list(dict.fromkeys([*results.problems, *error.diagnostics]))
    return results


def _run(path: str, run: ScenarioRun, results: FileResults) -> None:
    cycles = load_kueue(path)
    if cycles is not None:
        _run_each(path, cycles, partial(run_kueue, path), run, results)
        return
    sequences = sequence.load_sequences(path)
    if sequences is not None:
        _run_each(path, sequences, partial(sequence.run_sequence, path), run, results)
        return
    lives = load_lives(path)
    if lives is not None:
        _run_each(path, lives, partial(run_life, path, exact=run.exact), run, results)
        return
    not_shipped: Counter[str] = Counter()
    for scenario in load_scenarios(path, run.roots):
        recorded = scenario.plugin if scenario.complete and not scenario.policies else ""
        if recorded and recorded not in shipped_policies():
            not_shipped[recorded] += 1
            continue
        if run.wanted(scenario.name, ""):
            results.problems += scenario.untested
        try:
            results.results += run_scenario(scenario, run)
        except errors.PolicyError as error:
            results.problems = list(dict.fromkeys([*results.problems, *error.diagnostics]))
        except errors.PolicySchedError as error:
            text = f"{scenario.name}: {error}"
            results.problems.append(errors.Diagnostic(scenario.file, 1, 1, NOT_BUILT, text))
    for plugin, count in not_shipped.items():
        text = f"no policy ships for the plugin {shortened(plugin, quote=False)}"
        records = "its record is" if count == 1 else f"its {count} records are"
        hint = f'{records} not run; "policies": ["FILE"] in a record names a policy'
        results.problems.append(errors.Diagnostic(path, 1, 1, UNKNOWN_PLUGIN, text, hint))


R = TypeVar("R", sequence.Sequence, Life, KueueRecord)


def _run_each(
    path: str,
    records: Sequence[tuple[int, R]],
    act: Callable[[R], list[StepResult]],
    run: ScenarioRun,
    outcome: FileResults,
) -> None:
    """Run the records of a file's lines; one that cannot be is a problem of its line."""
    for line, record in records:
        try:
            results = act(record)
        except errors.PolicyError as error:
            outcome.problems += error.diagnostics
        except errors.PolicySchedError as error:
            text = f"{record.name}: {error}"
            outcome.problems.append(errors.Diagnostic(path, line, 1, sequence.BAD_SEQUENCE, text))
        else:
            outcome.results += (r for r in results if run.wanted(r.scenario, r.pod))
