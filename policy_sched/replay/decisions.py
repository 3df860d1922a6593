"""Recorded decisions, made again: the same pod, on the cluster as it was, by the policies of then.

Theory of operation. The state follows the recording: whatever was decided differently here, the pod
goes where it was recorded to go. So each decision is judged by itself, and one that differs makes
no other differ.

Of our own scheduler the recording has the decisions in their order among the changes. At each of
them the pod is decided with the policies whose hash it names, the pods of a group together. Ties go
to the recorded node. Then the pod counts on its node as it did: it is assumed, its Reserve plugins
run, and the changes that followed are in the recording. An attempt that was in vain after all is
undone when the pod is seen to wait again.

If all plugins are kube-scheduler's, no decision reads the queue but for nominated pods and groups,
so no other pod is in it. And what kubelets report of pods that run (half of the changes) is read by
preemption alone: it is held back until an attempt finds no node, and most of it until the pod has
gone.

Of another scheduler the recording has what was seen of its decisions, bindings out of order
included. That is what shadow mode is for, so its comparison is used as it is.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from policy_sched import model, scheduler as scheduling
from policy_sched.client import Done, ObjectRequest, ObjectResponse
from policy_sched.cluster import PodState
from policy_sched.errors import PluginError
from policy_sched.framework import CycleState
from policy_sched.framework.evaluate import looks_at_all
from policy_sched.instance import shadow
from policy_sched.instance.shadow import Agreement, Comparison, LoggedDecision
from policy_sched.profiles.build import CompiledPlan
from policy_sched.recording import FAILED, Added, Decided, Deleted, Event, Modified, PolicyChanged
from policy_sched.scheduler import Profile, setup
from policy_sched.simulate import RecordedTies, VirtualClock, uid_of

Plans = Sequence[CompiledPlan]
_ASSUMED: Final = (PodState.ASSUMED, PodState.BOUND)
MOST_SETS: Final = 8
"""Sets of policies whose profiles are kept at a time."""


class Silent:
    """A client whose cluster is a recording: what is asked of it is in there, if it was done."""

    def bind(self, pod: model.PodInfo, node: str, done: Done) -> None:
        """Do nothing."""

    def delegate(self, pod: model.PodInfo, work: Callable[[], None], done: Done) -> None:
        """Do nothing."""

    def record_event(
        self,
        pod: model.PodInfo,
        kind: str,
        reason: str,
        action: str,
        note: str,
        related: model.PodInfo | None = None,
    ) -> None:
        """Do nothing."""

    def send(self, request: ObjectRequest, done: ObjectResponse | None = None) -> None:
        """Do nothing."""


@dataclass(slots=True)
class Tally:
    """What became of the decisions of a recording."""

    ties: int = 0
    """Decisions that agree because another node was as good."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Decisions that were not made again, by the reason."""
    differences: list[Comparison] = field(default_factory=list)
    """Those that do not agree."""
    by_policies: dict[str, Counter[Agreement]] = field(default_factory=lambda: defaultdict(Counter))
    """Results by the hash of the policies that decided; "" for another scheduler."""

    @property
    def results(self) -> Counter[Agreement]:
        """The results of all policies."""
        return sum(self.by_policies.values(), Counter[Agreement]())

    @property
    def decisions(self) -> int:
        """The number of decisions that were made again."""
        return self.results.total()

    def add(self, comparison: Comparison, policies: str) -> None:
        """Count a decision that was compared."""
        result = comparison.result
        self.by_policies[policies][result] += 1
        if result is not Agreement.AGREE:
            self.differences.append(comparison)
        elif comparison.ours.node != comparison.theirs.node:
            self.ties += 1


class _Cluster:
    """A scheduler whose cluster is that of the recording."""

    def __init__(self, plans: Plans, ties: RecordedTies, now: int) -> None:
        self.clock = VirtualClock(now)
        self.scheduler, self.assembly = setup.assemble_with_assembly(
            plans, client=Silent(), now=self.clock, ties=ties
        )
        ties.row_of = self.scheduler.cache.nodes.row_of
        self.changes = shadow.LastChanges(self.scheduler.handle)
        self._known: dict[tuple[type, str, str], model.ApiObject] = {}

    def change(self, thing: model.ApiObject, *, gone: bool) -> model.ApiObject | None:
        """Apply a change of an object that is no pod; return the object before."""
        key = type(thing), thing.metadata.namespace, thing.metadata.name
        old = self._known.get(key)
        if gone:
            self._known.pop(key, None)
            if old is None:
                return None
        else:
            self._known[key] = thing
        if scheduling.object_changed(self.scheduler, old or None, None if gone else thing):
            self.changes.note(thing.kind, thing.metadata.name)
        return old


@dataclass(slots=True)
class _Reservation:
    """What Reserve plugins hold for a pod until it is seen on its node."""

    profile: Profile
    state: CycleState
    node: str


class OwnDecisions:
    """Makes decisions of our own scheduler again; ``plans_of`` has the policies of a hash.

    A hash without plans leaves its decisions out.
    """

    def __init__(self, plans: Plans, plans_of: Callable[[str], Plans | None], now: int) -> None:
        self.tally = Tally()
        # The recorded node of the pod that is decided, or of each pod of its group.
        self._nodes: dict[str, str] = {}
        self._ties = RecordedTies(0, self._nodes)
        self._cluster = _Cluster(plans, self._ties, now)
        self._scheduler = self._cluster.scheduler
        self._plans_of = plans_of
        self._profiles: dict[str, Mapping[str, Profile] | None] = {}
        self._pending: dict[str, model.PodInfo] = {}
        self._reserved: dict[str, _Reservation] = {}
        self._reported: dict[str, model.Pod] = {}
        """By UID pods whose last status is held back."""
        self._in_tree = _only_in_tree(plans)
        """Whether all plugins that decide are kube-scheduler's."""
        self._infos = model.PodInfos()
        self._plan: scheduling.GroupPlan | None = None

    def play(self, events: Iterable[Event]) -> Tally:
        """Follow the events, and return what became of their decisions."""
        clock = self._cluster.clock
        take: dict[type, Callable[[Any], None]] = {
            Added: self._seen,
            Modified: self._seen,
            Deleted: self._gone,
            PolicyChanged: self._change_policies,
        }
        together: list[Decided] = []
        for event in events:
            if together and not self._goes_with(event, together):
                self._decided(together)
                together = []
            if event.time > clock.ns:  # noqa: PLR1730 - max takes longer
                clock.ns = event.time
            if isinstance(event, Decided):
                together.append(event)
            else:
                take[event.__class__](event)
        if together:
            self._decided(together)
        return self.tally

    # Changes.

    def _seen(self, event: Added | Modified) -> None:
        thing = event.object
        if not isinstance(thing, model.Pod):
            self._cluster.change(thing, gone=False)
        elif thing.status.phase in setup.ENDED:
            self._pod_gone(thing)
        elif thing.spec.node_name:
            self._pod_bound(thing)
        else:
            self._pod_waits(thing)

    def _gone(self, event: Deleted) -> None:
        if isinstance(event.object, model.Pod):
            self._pod_gone(event.object)
        else:
            self._cluster.change(event.object, gone=True)

    def _pod_gone(self, pod: model.Pod) -> None:
        uid = uid_of(pod)
        waits = self._pending.pop(uid, None)
        self._reported.pop(uid, None)
        known = waits or self._scheduler.cache.pod(uid) or model.PodInfo.of(pod)
        scheduling.pod_gone(self._scheduler, known)
        self._confirm(uid)

    def _pod_bound(self, pod: model.Pod) -> None:
        uid, cache = uid_of(pod), self._scheduler.cache
        waited = self._pending.pop(uid, None)
        before = cache.pod(uid)
        if waited is None and before is not None and before.node_name == pod.spec.node_name:
            # For speed: no pod of the queue waits for what changes here.
            if self._in_tree and _only_reported(before, pod):
                self._reported[uid] = pod
            else:
                self._reported.pop(uid, None)
                cache.update_pod(model.PodInfo.of(pod))
            return
        if not (self._alone(uid) and cache.confirm_binding(pod)):
            scheduling.object_changed(self._scheduler, None, pod)
        self._confirm(uid)

    def _pod_waits(self, pod: model.Pod) -> None:
        uid, cache = uid_of(pod), self._scheduler.cache
        waits, state = self._pending.get(uid), cache.state(uid)
        if waits is not None and state in _ASSUMED:
            if waits.pod.status.conditions == pod.status.conditions:
                self._pending[uid] = self._infos.of(pod)
                return  # it is on its way to its node
            self._give_up(uid)
        info = self._pending[uid] = self._infos.of(pod)
        alone = state is not PodState.ADDED and self._alone(uid)
        if info.pod_group or info.nominated_node_name or not alone:
            scheduling.pod_seen(self._scheduler, info)

    def _alone(self, uid: str) -> bool:
        """Return whether no decision has to do with whether a pod waits."""
        scheduler = self._scheduler
        return (
            self._in_tree
            and scheduler.queue.get(uid) is None
            and uid not in scheduler.handle.nominator.node_by_uid
        )

    def _catch_up(self) -> None:
        """Apply what was held back."""
        for pod in self._reported.values():
            self._scheduler.cache.update_pod(model.PodInfo.of(pod))
        self._reported.clear()

    def _change_policies(self, event: PolicyChanged) -> None:
        profiles = self._profiles_of(event.hash)
        if profiles is None:
            return
        self._scheduler.profiles = profiles
        if not self._in_tree:
            self._queue()

    def _queue(self) -> None:
        """Let the pods wait in the queue that do not."""
        for uid, info in self._pending.items():
            if self._scheduler.queue.get(uid) is None and not self._scheduler.cache.is_assumed(uid):
                scheduling.pod_seen(self._scheduler, info)

    def _profiles_of(self, content_hash: str) -> Mapping[str, Profile] | None:
        if content_hash not in self._profiles:
            if len(self._profiles) >= MOST_SETS:
                self._profiles.pop(next(iter(self._profiles)))
            plans = self._plans_of(content_hash)
            built = None
            if plans is not None:
                assembly = setup.Assembly(self._scheduler.handle, [])
                built = assembly.build(plans).profiles
                if not _only_in_tree(plans):
                    self._in_tree = False
                    self._catch_up()
                    self._queue()
            self._profiles[content_hash] = built
        return self._profiles[content_hash]

    # Decisions.

    def _goes_with(self, event: Event, others: Sequence[Decided]) -> bool:
        """Return whether a decision was made with others, for the pods of one group."""
        first = others[0]
        if not isinstance(event, Decided) or event.time != first.time:
            return False
        if any(event.uid == other.uid for other in others):
            return False  # the group was tried again at once
        pods = [self._pending.get(uid) for uid in (event.uid, first.uid)]
        groups = {(pod.namespace, pod.pod_group) if pod and pod.pod_group else None for pod in pods}
        return len(groups) == 1 and None not in groups

    def _decided(self, decisions: Sequence[Decided]) -> None:
        """Make decisions again that were made together, mostly one."""
        for decided in decisions:
            self._nodes[decided.uid] = decided.node
        self._plan = self._plan_of(decisions)
        for decided in decisions:
            if not decided.evicted:
                self._decide(decided)
        self._nodes.clear()

    def _decide(self, decided: Decided) -> None:
        info = self._pending.get(decided.uid)
        if info is None:
            return self._leave_out("the pod is not known to wait")
        if not decided.policies:
            return self._leave_out("another scheduler decided")
        profiles = self._profiles_of(decided.policies)
        if profiles is None:
            return self._leave_out(f"the recording has no policies {decided.policies[:12]}")
        profile = profiles.get(info.scheduler_name)
        if profile is None:
            return self._leave_out(f"no profile has schedulerName {info.scheduler_name}")
        if self._scheduler.cache.is_assumed(info.uid):
            self._give_up(info.uid)
        if decided.reason == FAILED:
            self._follow(decided, info, None, profile)
            return self._leave_out("the attempt met an error")
        choice = self._choice(decided, info, profile)
        self._follow(decided, info, choice, profile)
        return None

    def _leave_out(self, reason: str) -> None:
        self.tally.left_out[reason] += 1

    def _choice(
        self, decided: Decided, info: model.PodInfo, profile: Profile
    ) -> scheduling.Bind | None:
        """Decide, and compare; return what Reserve plugins are to follow."""
        handle = self._scheduler.handle
        if self._plan is not None or info.may_use_devices:
            handle.budget.begin()
        try:
            if self._plan is not None:
                choice = shadow.decision_with_group(info, profile, self._plan, handle.nodes)
                self._compare(decided, info, profile, choice)
                return None
            if self._reported and not decided.node:
                self._catch_up()
            decision = self._decision(info, profile)
            if self._reported and not isinstance(decision, scheduling.Bind):
                self._catch_up()
                decision = self._decision(info, profile)
        except PluginError as error:
            broken = shadow.ShadowDecision(profile, LoggedDecision(None, str(error)), broken=True)
            self._compare(decided, info, profile, broken)
            return None
        finally:
            handle.budget.under_way = False
        bind = decision if isinstance(decision, scheduling.Bind) else None
        if bind is not None and bind.node == decided.node:
            self.tally.by_policies[decided.policies][Agreement.AGREE] += 1
        else:
            choice = shadow.described(info, profile, decision, handle.nodes)
            self._compare(decided, info, profile, choice)
        return bind

    def _decision(self, info: model.PodInfo, profile: Profile) -> scheduling.Decision:
        attempt = scheduling.Attempt(model.QueuedPod(info), profile)
        return scheduling.decide(attempt, self._scheduler.cache.nodes, self._ties)

    def _plan_of(self, decisions: Sequence[Decided]) -> scheduling.GroupPlan | None:
        """Return where the pods go that were decided together; None for one by itself."""
        first = self._pending.get(decisions[0].uid)
        if first is None or not first.pod_group:
            return None
        profile = (self._profiles_of(decisions[0].policies) or {}).get(first.scheduler_name)
        if profile is None:
            return None
        pods = [pod for decided in decisions if (pod := self._pending.get(decided.uid))]
        for pod in pods:
            if self._scheduler.cache.is_assumed(pod.uid):
                self._give_up(pod.uid)
        self._catch_up()
        members = [model.QueuedPod(pod, first_enqueued_at=i) for i, pod in enumerate(pods)]
        uids = {pod.uid for pod in pods}
        handle = self._scheduler.handle
        handle.budget.begin(brief=False)
        try:
            return scheduling.dry_run_members(members, profile, handle, uids, self._ties)
        except PluginError:
            return None  # each pod meets it again
        finally:
            handle.budget.under_way = False

    def _compare(
        self,
        decided: Decided,
        info: model.PodInfo,
        profile: Profile,
        choice: shadow.ShadowDecision,
    ) -> None:
        table = self._scheduler.handle.nodes
        theirs, result = shadow.judged(_response(decided), choice, table)
        ours = choice.side
        same = theirs.preempts and ours.preempts and theirs.node == ours.node
        if same and tuple(sorted(decided.victims)) != ours.victims:
            theirs, result = _response(decided), Agreement.DIFFER
        comparison = Comparison(
            time=decided.time / 1e9,
            pod=info.key,
            uid=info.uid,
            result=result,
            scheduler=decided.scheduler,
            profile=info.scheduler_name,
            theirs=theirs,
            ours=ours,
            difference=choice.difference(theirs, table),
            cause="" if result is Agreement.AGREE else self._cause(info, profile),
            feasible_nodes=choice.feasible,
            evaluated_nodes=choice.nodes,
            requests=info.requests,
            content_hash=decided.policies,
        )
        self.tally.add(comparison, decided.policies)

    def _cause(self, info: model.PodInfo, profile: Profile) -> str:
        """Return why the cluster here may not be what the scheduler knew; "" if it is."""
        if any(extender.interested(info) for extender in profile.extenders):
            return "an extender took part, whose answers are not recorded"
        if not looks_at_all(profile.pipeline.percentage_of_nodes_to_score):
            return "a part of the nodes was looked at, from where the attempt before had ended"
        return self._cluster.changes.cause(info)

    # What follows.

    def _follow(
        self,
        decided: Decided,
        info: model.PodInfo,
        choice: scheduling.Bind | None,
        profile: Profile,
    ) -> None:
        """Let the pod count where it was recorded to go."""
        handle = self._scheduler.handle
        if decided.node:
            if handle.cache.pod(info.uid) is not None:
                return  # it was bound before the decision was recorded
            handle.cache.assume(info, decided.node)
            handle.nominator.clear(info.uid)
            if choice is not None and choice.evaluation.filtering.hooks["reserve"]:
                self._reserve(info, decided.node, choice, profile)
        elif decided.nominated_node:
            handle.nominator.nominate(info, decided.nominated_node)

    def _reserve(
        self, info: model.PodInfo, node: str, choice: scheduling.Bind, profile: Profile
    ) -> None:
        evaluation = choice.evaluation
        state, hooks = evaluation.state.clone(), evaluation.filtering.hooks
        self._reserved[info.uid] = _Reservation(profile, state, node)
        try:
            profile.runner.run("reserve", state, info, node, hooks=hooks["reserve"])
        except PluginError:
            return  # the changes that follow say what was reserved

    def _confirm(self, uid: str) -> None:
        """A pod is seen on its node, or is gone: what was reserved is in the cluster now."""
        held = self._reserved.pop(uid, None)
        if held is not None:
            info = self._scheduler.cache.pod(uid)
            if info is not None:
                held.profile.runner.undo("reserve", held.state, info, held.node)

    def _give_up(self, uid: str) -> None:
        """An attempt was in vain: the pod leaves its node."""
        self._confirm(uid)
        self._scheduler.cache.forget(uid)


def _only_in_tree(plans: Plans) -> bool:
    """Return whether all plugins of some plans are kube-scheduler's."""
    return all(plan.hashes.keys() <= plan.in_tree for plan in plans)


def _only_reported(before: model.PodInfo | None, pod: model.Pod) -> bool:
    """Return whether of a pod that runs only what its kubelet reports changed, no amount of it."""
    status = pod.status
    return (
        before is not None
        and before.pod.metadata is pod.metadata
        and before.pod.spec is pod.spec
        and not before.pod_group
        and not status.nominated_node_name
        and status.resources is None
        and not status.allocated_resources
        and not status.init_container_statuses
        and not before.pod.status.container_statuses
        and (not status.container_statuses or model.as_requested(pod))
    )


def _response(decided: Decided) -> LoggedDecision:
    if decided.node:
        return LoggedDecision(decided.node)
    if decided.nominated_node:
        victims = tuple(sorted(decided.victims))
        return LoggedDecision(
            decided.nominated_node, decided.message, preempts=True, victims=victims
        )
    return LoggedDecision(None, decided.message)


class OthersDecisions:
    """Makes decisions of other schedulers again, with a shadow for each profile that has their
    name."""

    def __init__(self, plans: Plans, now: int) -> None:
        self.tally = Tally()
        self._cluster = _Cluster(plans, RecordedTies(0, {}), now)
        self._scheduler = self._cluster.scheduler
        self._shadows = [
            shadow.Shadow(
                self._scheduler,
                plan.plan.scheduler_name,
                lambda comparison: self.tally.add(comparison, ""),
                Random(0),  # noqa: S311 - a seed makes choices repeatable; no secret
            )
            for plan in plans
        ]
        for each in self._shadows:
            each.changes = self._cluster.changes

    def play(self, events: Iterable[Event]) -> Tally:
        """Follow the events, and return what became of the decisions that they show."""
        clock, began, first = self._cluster.clock, False, None
        for event in events:
            if not began and not isinstance(event, PolicyChanged):
                first = event.time if first is None else first
                if event.time != first or not isinstance(event, Added):
                    began = True
                    self._begin()
            if began:
                self._look_again(event.time)
            clock.ns = max(clock.ns, event.time)
            match event:
                case Added(_, thing) | Modified(_, thing):
                    self._change(thing, gone=False)
                case Deleted(_, thing):
                    self._change(thing, gone=True)
        if not began:
            self._begin()
        return self.tally

    def _begin(self) -> None:
        for each in self._shadows:
            each.begin()

    def _look_again(self, until: int) -> None:
        """Let the shadows look at what is overdue before the next event."""
        clock = self._cluster.clock
        for each in self._shadows:
            while (at := each.next_time()) is not None and at <= until:
                clock.ns = max(clock.ns, at)
                each.overdue()

    def _change(self, thing: model.ApiObject, *, gone: bool) -> None:
        if isinstance(thing, model.Pod):
            info = model.PodInfo.of(thing)
            if gone or thing.status.phase in setup.ENDED:
                for each in self._shadows:
                    each.pod_gone(info.uid)
                scheduling.pod_gone(self._scheduler, info)
                return
            for each in self._shadows:
                each.pod_seen(info)
            if info.node_name:
                scheduling.pod_seen(self._scheduler, info)
            return
        old = self._cluster.change(thing, gone=gone)
        if isinstance(thing, model.PersistentVolumeClaim) and old is None and not gone:
            for each in self._shadows:
                each.claim_seen(thing)
