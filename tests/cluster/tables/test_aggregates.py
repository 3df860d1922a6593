"""Aggregates as a state machine: what events keep equals what all pods give when added up anew."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from policy_sched.cluster.cache import Cache, PodState
from policy_sched.cluster.tables.aggregates import (
    BOUND,
    GATED,
    HOUR,
    MAX_RESOURCES,
    NEVER,
    NOMINATED,
    QUEUED,
    ROOT,
    SOURCES,
    SWEEP_FROM,
    Aggregate,
    Contribution,
    Since,
)
from policy_sched.model.cluster_objects import Namespace
from policy_sched.model.meta import ObjectMeta
from policy_sched.model.pod_info import PodInfo, QueueState
from policy_sched.queue.nominator import Nominator
from policy_sched.queue.scheduling_queue import SchedulingQueue
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled

NODES = ("n0", "n1", "n2")
UIDS = tuple(f"p{i}" for i in range(5))
TEAMS = ("a", "b", "")
ZONES = ("z1", "z2")


HALF_LIFE = 600 * 10**9
HALVED = ("sum", "sumOfDoubles", "sumOfResources")


class Model:
    """What an aggregate counts, in the plainest way."""

    def __init__(
        self, kind: str, sources: frozenset[str], cache: Cache, moments: Any = None, since: str = ""
    ) -> None:
        self.kind = kind
        self.moments = moments
        self.since = since
        self.sources = sources
        self.cache = cache

    def zone(self, row: int) -> str:
        """Return the zone of a row's node."""
        node = self.cache.nodes.nodes[row]
        assert node is not None
        return node.metadata.labels.get("zone", "")

    def key(self, pod: PodInfo, row: int) -> Any:
        """Return the key of a pod; None if it does not count."""
        team = pod.labels.get("team", "")
        match self.kind:
            case "sum":
                return None if row < 0 else self.cache.nodes.names[row]
            case "max":
                if self.waits:
                    return team
                return None if row < 0 else (team, self.zone(row))
            case "union":
                namespace = self.cache.nodes.namespaces.get(pod.namespace)
                return "" if namespace is None else namespace.metadata.labels.get("env", "")
        return team or None

    def value(self, pod: PodInfo) -> Any:
        """Return what a pod counts with."""
        match self.kind:
            case "sum":
                return 1
            case "sumOfDoubles":
                return pod.priority / 3
            case "sumOfResources":
                return pod.requests
            case "max" | "min":
                if self.waits:
                    return self.cache.nodes.aggregates.waiting[pod.uid].attempts
                return pod.priority
        return pod.images

    def moment(self, key: Any) -> int:
        """Return since when the pods of a key count."""
        moment: int = self.moments.get(ROOT if self.since == "all" else key, NEVER)
        return moment

    def began(self, pod: PodInfo, row: int) -> bool:
        """Return whether a pod began since the moment of its key."""
        return not self.since or (pod.start_time or 10**9) >= self.moment(self.key(pod, row))

    @property
    def by_zone(self) -> bool:
        """Whether its keys have two parts."""
        return self.kind == "max" and not self.waits

    @property
    def waits(self) -> bool:
        """Whether it reads how long pods wait."""
        return self.sources <= {QUEUED, GATED}

    def contribute(self, pod: PodInfo, row: int) -> Contribution | None:
        """Return what an aggregate takes of a pod."""
        key = self.key(pod, row)
        return None if key is None else Contribution(key, self.value(pod))

    def result(self, values: list[Any]) -> Any:
        """Return the aggregate of values."""
        match self.kind:
            case "sum":
                return sum(values)
            case "sumOfDoubles":
                return float(sum(map(Fraction, values), Fraction(0)))
            case "sumOfResources":
                total: dict[str, int] = defaultdict(int)
                for amounts in values:
                    for name, amount in amounts.items():
                        total[name] += amount
                return {name: amount for name, amount in total.items() if amount}
            case "max":
                return max(values, default=0)
            case "min":
                return min(values, default=0)
        return sorted({text for texts in values for text in texts})


def aggregate_of(model: Model) -> Aggregate:
    """Return the aggregate that a model describes."""
    return Aggregate(
        model.kind,
        model.sources,
        model.contribute,
        by_node=model.kind == "sum",
        reads_nodes=model.kind in ("sum", "max"),
        reads_queue=model.waits and model.kind in ("max", "min"),
        reads_namespaces=model.kind == "union",
        since=_since(model) if model.since else None,
    )


def _since(model: Model) -> Since:
    """Return the moments of a model, which are looked up in what stands for an input."""
    read = ROOT if model.since == "all" else None

    def moment(key: Any) -> tuple[int, frozenset[Any]]:
        return model.moment(key), frozenset({("moments", read or key)})

    return Since(moment, read is None)


def _began(pod: PodInfo, time: int) -> PodInfo:
    pod.start_time = time
    return pod


PODS = st.builds(
    lambda uid, team, namespace, priority, cpu, time: _began(
        PodInfo.of(
            make_pod(
                uid,
                uid=uid,
                namespace=namespace,
                labels={"team": team} if team else {},
                priority=priority,
                cpu=cpu,
                images=(f"img-{priority}",),
            )
        ),
        time,
    ),
    st.sampled_from(UIDS),
    st.sampled_from(TEAMS),
    st.sampled_from(("default", "prod")),
    st.integers(-3, 3),
    st.sampled_from((None, "100m", "2")),
    st.integers(0, 4),
)


class AggregateMachine(RuleBasedStateMachine):
    """Pods that come, go, change, fail to be bound and are nominated; nodes; trials; reloads."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = Cache(time_to_live=5)
        self.nominator = Nominator()
        nodes, nominator = self.cache.nodes, self.nominator
        nodes.aggregates.join(
            NOMINATED,
            lambda: [(p, node) for node, pods in nominator.nominated() for p in pods],
            lambda: setattr(nominator, "told", nodes.aggregates.nominated),
        )
        self.now = 0
        self.gates: set[str] = set()
        self.queue = SchedulingQueue(
            lambda queued: (queued.info.priority,),
            lambda: self.now,
            gate=lambda pod, _: "Gate" if pod.uid in self.gates else "",
        )
        aggregates = nodes.aggregates
        aggregates.join_queue(self.queue.by_uid, lambda: self.queue.tell(aggregates.queued))
        kinds = ("sum", "sumOfDoubles", "sumOfResources", "max", "min", "union")
        self.models = [
            Model(kind, frozenset(sources), self.cache)
            for kind in kinds
            for sources in (
                *((BOUND,), (NOMINATED,), (BOUND, NOMINATED)),
                *((QUEUED,), (QUEUED, GATED), (BOUND, QUEUED), SOURCES),
            )
        ]
        nodes.aggregates.now = lambda: self.now
        self.models += [Model(kind, frozenset({BOUND}), self.cache) for kind in HALVED]
        self.spells: dict[tuple[int, str, Any], list[Any]] = {}
        self.past: list[tuple[int, Any]] = []
        self.moments: dict[Any, int] = {}
        self.models += [
            Model(kind, frozenset(sources), self.cache, self.moments, since)
            for kind, since in (("sum", "key"), ("sum", "all"), ("max", "key"), ("min", "all"))
            for sources in ((BOUND,), (BOUND, NOMINATED))
        ]
        self.aggregates: list[Aggregate] = []
        self.version = -1
        self.seen: list[dict[Any, Any]] = []
        self.reload()

    @rule()
    def reload(self) -> None:
        """New policies come into force: their aggregates begin with the pods that are there."""
        self.aggregates = [aggregate_of(model) for model in self.models]
        for number, aggregate in enumerate(self.aggregates):
            if number in self.halved:
                aggregate.half_life = HALF_LIFE
            self.cache.nodes.aggregates.add(str(number), aggregate)
        self.seen = []
        self.past.clear()
        self.spells.clear()
        for number in self.halved:
            for pod, row in self.pods(self.models[number]):
                self.begin(number, pod, row, pod.start_time or self.now)

    @property
    def halved(self) -> list[int]:
        """Return the numbers of the aggregates with a half-life."""
        return [n for n, model in enumerate(self.models) if model.sources == {BOUND}][6:9]

    def begin(self, number: int, pod: PodInfo, row: int, began: int) -> None:
        """Note that a pod counts from a time on."""
        model = self.models[number]
        key, value = model.key(pod, row), model.value(pod)
        amounts = value if isinstance(value, dict) else {"": value}
        self.spells[number, pod.uid, (key, repr(value))] = [key, amounts, began, None]

    @invariant()
    def spent_amounts_are_right(self) -> None:
        """Amounts times hours equal what the spells of all pods come to, one by one."""
        for number in self.halved:
            model, aggregate, there = self.models[number], self.aggregates[number], set()
            for pod, row in self.pods(model):
                name = (number, pod.uid, (model.key(pod, row), repr(model.value(pod))))
                there.add(name)
                if name not in self.spells:
                    self.begin(number, pod, row, self.now)
            for name in [name for name in self.spells if name[0] == number and name not in there]:
                spell = self.spells.pop(name)
                self.past.append((number, [*spell[:3], self.now]))
            spells = [spell for n, spell in self.past if n == number]
            spells += [spell for name, spell in self.spells.items() if name[0] == number]
            for key in {spell[0] for spell in spells}:
                spent: dict[str, float] = defaultdict(float)
                for _, amounts, began, ended in [each for each in spells if each[0] == key]:
                    end = self.now if ended is None else ended
                    far, near = ((began - self.now) / HALF_LIFE, (end - self.now) / HALF_LIFE)
                    hours = (2**near - 2**far) / math.log(2) * HALF_LIFE / (3600 * 10**9)
                    for resource, amount in amounts.items():
                        spent[resource] += amount * hours
                got = aggregate.then(key, self.now)
                got = got if isinstance(got, dict) else {"": got}
                for resource, amount in spent.items():
                    within = 0.51 if resource else 1e-4
                    assert abs(got.get(resource, 0) - amount) <= within

    @rule(
        key=st.sampled_from((*NODES, ROOT, ("a", "z1"), ("b", "z2"))),
        moment=st.sampled_from((0, 1, 2, 3, 4, 5, NEVER)),
    )
    def moment(self, key: Any, moment: int) -> None:
        """An object that says since when pods count changes, or goes; time may go back, too."""
        self.moments[key] = moment
        self.cache.nodes.aggregates.input_changed("moments", key)

    @rule(name=st.sampled_from(NODES), zone=st.sampled_from(ZONES))
    def node(self, name: str, zone: str) -> None:
        """A node comes or changes."""
        self.cache.add_node(make_node(name, labels={"zone": zone}))

    @rule(name=st.sampled_from(NODES))
    def no_node(self, name: str) -> None:
        """A node goes."""
        if name in self.cache.nodes.row_of:
            self.cache.remove_node(make_node(name))

    @rule(name=st.sampled_from(("default", "prod")), env=st.sampled_from(("x", "y")))
    def namespace(self, name: str, env: str) -> None:
        """A namespace comes or has other labels."""
        self.cache.set_namespace(Namespace(metadata=ObjectMeta(name=name, labels={"env": env})))

    @rule(pod=PODS, node=st.sampled_from(NODES))
    def assume(self, pod: PodInfo, node: str) -> None:
        """A pod is reserved."""
        if self.cache.state(pod.uid) is PodState.INITIAL and self.queue.get(pod.uid) is None:
            self.nominator.clear(pod.uid)
            self.cache.assume(pod, node)

    @rule(uid=st.sampled_from(UIDS))
    def forget(self, uid: str) -> None:
        """A binding fails."""
        if self.cache.state(uid) in (PodState.ASSUMED, PodState.BOUND):
            self.cache.forget(uid)

    @rule(uid=st.sampled_from(UIDS), later=st.integers(0, 9))
    def expire(self, uid: str, later: int) -> None:
        """A binding ends, and is perhaps never confirmed."""
        if self.cache.state(uid) is PodState.ASSUMED:
            self.cache.finish_binding(uid, 0)
        self.cache.expire(later)

    @rule(pod=PODS, node=st.sampled_from(NODES))
    def watch(self, pod: PodInfo, node: str) -> None:
        """The watch shows a pod that runs, or a newer form of it."""
        state = self.cache.state(pod.uid)
        self.queue.delete(pod.uid)
        if state is PodState.ADDED:
            pod.node_name = self.cache.node_of(pod.uid)
            self.cache.update_pod(pod)
        else:
            pod.node_name = node
            self.cache.add_pod(pod)

    @rule(uid=st.sampled_from(UIDS))
    def delete(self, uid: str) -> None:
        """A pod is deleted."""
        pod = self.cache.pod(uid)
        if pod is not None and self.cache.state(uid) is PodState.ADDED:
            self.cache.remove_pod(pod)

    @rule(pod=PODS, node=st.sampled_from(NODES))
    def nominate(self, pod: PodInfo, node: str) -> None:
        """A pod is nominated."""
        self.nominator.nominate(pod, node)

    @rule(uid=st.sampled_from(UIDS))
    def withdraw(self, uid: str) -> None:
        """A nomination ends."""
        self.nominator.clear(uid)

    @rule(pod=PODS, gated=st.booleans())
    def wait(self, pod: PodInfo, gated: bool) -> None:
        """A pod comes to the queue, or changes there; what runs does not wait."""
        (self.gates.add if gated else self.gates.discard)(pod.uid)
        if self.cache.state(pod.uid) is PodState.INITIAL:
            self.queue.add(pod)

    @rule(later=st.integers(1, 400))
    def time_passes(self, later: int) -> None:
        """Backoffs end, and pods that waited for long are tried again."""
        self.now += later * 10**9
        self.queue.flush()

    @rule(node=st.sampled_from(NODES), end=st.sampled_from(("fail", "error", "reserve", "bind")))
    def attempt(self, node: str, end: str) -> None:
        """A pod is popped, and found no node, or is reserved; then its binding fails, or ends."""
        queued = self.queue.pop()
        if queued is None:
            return
        self.counts_are_right()
        if end in ("fail", "error"):
            plugins = frozenset({"Filter"}) if end == "fail" else frozenset()
            self.queue.add_unschedulable_if_not_present(queued, plugins)
            return
        self.cache.assume(queued.info.on(node), node)
        self.queue.mark_binding(queued)
        self.counts_are_right()
        if end == "reserve":
            self.cache.forget(queued.info.uid)
            self.queue.add_unschedulable_if_not_present(queued)
        else:
            self.queue.done(queued.info.uid)

    @rule(uid=st.sampled_from(UIDS))
    def leave_queue(self, uid: str) -> None:
        """A pod that waits is deleted."""
        self.queue.delete(uid)

    @rule()
    def other_gates(self) -> None:
        """Other policies gate pods, or let them go."""
        self.queue.reload(
            lambda pod, _: "Gate" if pod.uid in self.gates else "",
            self.queue.hints,
            regate=lambda _: True,
        )

    @precondition(lambda self: len(self.cache))
    @rule(data=st.data())
    def trial(self, data: st.DataObject) -> None:
        """A pod is off its node for a trial, and in a dry run pods are removed and added."""
        uid = data.draw(st.sampled_from(sorted(self.cache.held())))
        taken = self.cache.take_off(uid)
        self.counts_are_right()
        self.cache.put_back(taken)
        rows = sorted(self.cache.nodes.row_of.values())
        if not rows:
            return
        row, guest = data.draw(st.sampled_from(rows)), data.draw(PODS)
        with self.cache.overlay as overlay:
            leaving = list(self.cache.nodes.pods_on(row).values())[:1]
            for pod in leaving:
                overlay.remove(row, pod)
            uids = {pod.uid for pod in leaving}
            if self.cache.pod(guest.uid) is None:
                overlay.add(row, guest)
            others = list(overlay.differences())
            for model, aggregate in zip(self.models, self.aggregates, strict=True):
                if model.sources == {BOUND}:
                    there = [pair for pair in self.pods(model) if pair[0].uid not in uids]
                    there += [(pod, at) for sign, pod, at in others if sign > 0]
                    self.check(model, aggregate, there, others)

    @rule(uid=st.sampled_from(UIDS))
    def decide(self, uid: str) -> None:
        """The pod that is decided does not count."""
        pod = PodInfo.of(make_pod(uid, uid=uid))
        for model, aggregate in zip(self.models, self.aggregates, strict=True):
            there = [pair for pair in self.pods(model) if pair[0].uid != uid]
            values = self.values(model, there)
            for key in {*values, *aggregate.all_keys()}:
                assert aggregate.value(key, pod) == model.result(values.get(key, []))
            if model.by_zone:
                zones = {
                    key[-1]: model.result(each) for key, each in values.items() if key[0] == "a"
                }
                assert aggregate.values(("a",), pod) == zones

    def pods(self, model: Model) -> list[tuple[PodInfo, int]]:
        """Return the pods that a model counts, each by its first source, with their rows."""
        found: dict[str, tuple[PodInfo, int]] = {}

        def take(pod: PodInfo, row: int) -> None:
            if model.key(pod, row) is not None:
                found.setdefault(pod.uid, (pod, row))

        row_of = self.cache.nodes.row_of
        for uid in self.cache.held() if BOUND in model.sources else ():
            pod = self.cache.pod(uid)
            assert pod is not None
            take(pod, row_of.get(self.cache.node_of(uid), -1))
        for node, pods in self.nominator.nominated() if NOMINATED in model.sources else ():
            for pod in pods:
                take(pod, row_of.get(node, -1))
        queue = self.queue
        under_way = [queued for queued in queue.by_uid.values() if queued in queue.in_flight()]
        ready = [*queue.active(), *queue.backoff(), *queue.unschedulable(), *under_way]
        for queued in ready if QUEUED in model.sources else ():
            take(queued.info, -1)
        for queued in queue.gated() if GATED in model.sources else ():
            assert queued.place is QueueState.GATED
            take(queued.info, -1)
        return list(found.values())

    def values(self, model: Model, pods: list[tuple[PodInfo, int]]) -> dict[Any, list[Any]]:
        """Return the values by key."""
        values: dict[Any, list[Any]] = defaultdict(list)
        for pod, row in pods:
            key = model.key(pod, row)
            if key is not None and model.began(pod, row):
                values[key].append(model.value(pod))
        return values

    def check(
        self, model: Model, aggregate: Aggregate, pods: list[tuple[PodInfo, int]], others: Any = ()
    ) -> None:
        """Compare all keys and the total."""
        values = self.values(model, pods)
        for key in {*values, *aggregate.all_keys()}:
            assert aggregate.value(key, None, others) == model.result(values.get(key, []))
        by_first: dict[Any, dict[str, Any]] = defaultdict(dict)
        for key, each in values.items():
            if isinstance(key, tuple):
                by_first[key[:-1]][key[-1]] = model.result(each)
        for first in [(team,) for team in TEAMS] if model.by_zone else ():
            assert aggregate.values(first, None, others) == by_first[first]
        every = [value for each in values.values() for value in each]
        assert aggregate.total(None, others) == model.result(every)

    @invariant()
    def counts_are_right(self) -> None:
        """What is kept equals what is added up anew."""
        for model, aggregate in zip(self.models, self.aggregates, strict=True):
            self.check(model, aggregate, self.pods(model))
            if aggregate.by_row is not None:
                for name, row in self.cache.nodes.row_of.items():
                    assert aggregate.make_room(row + 1)[row] == aggregate.value(name)
            counting = {pod.uid for pod, row in self.pods(model) if model.began(pod, row)}
            assert aggregate.counted.keys() == counting

    @invariant()
    def the_journal_has_what_changed(self) -> None:
        """A value that changed since a version has a row in the journal after it."""
        seen = [{key: one.value(key) for key in one.all_keys()} for one in self.aggregates]
        journal = self.cache.nodes.journal
        if self.seen and seen != self.seen and self.cache.nodes.row_of:
            assert journal.version > self.version
            rows = journal.since(self.version)
            assert rows is None or rows.rows
        self.seen, self.version = seen, journal.version


TestAggregates = AggregateMachine.TestCase
TestAggregates.settings = settings(max_examples=scaled(60), stateful_step_count=30, deadline=None)


def test_resources_of_one_key_are_bounded() -> None:
    """A pod that names a hundred resources made an aggregate as large."""
    model = Model("sumOfResources", frozenset({BOUND}), Cache())
    aggregate = aggregate_of(model)
    requests = {f"example.com/r{i}": 1 for i in range(100)}
    aggregate.come(BOUND, PodInfo.of(make_pod("p", labels={"team": "a"}, requests=requests)), -1)
    assert len(aggregate.value("a")) == MAX_RESOURCES
    other = PodInfo.of(make_pod("q", labels={"team": "a"}, cpu="1"))
    aggregate.come(BOUND, other, -1)
    assert aggregate.value("a")["cpu"] == 1000
    aggregate.leave(BOUND, "default/p")
    assert aggregate.value("a") == other.requests


def test_an_aggregate_goes_with_its_policy() -> None:
    """What a policy counted was counted on for ever after the policy was replaced."""
    cache = Cache()
    aggregate = aggregate_of(Model("sum", frozenset({BOUND}), cache))
    cache.nodes.aggregates.add("a", aggregate)
    assert cache.nodes.aggregates.used
    del aggregate
    cache.add_node(make_node("n"))
    cache.add_pod(PodInfo.of(make_pod("p", node_name="n")))
    assert not cache.nodes.aggregates.used


def test_a_pod_that_counts_elsewhere_changes_both_nodes() -> None:
    """A pod that was nominated to one node and reserved on another one counted on both."""
    cache = Cache()
    nodes, pod = cache.nodes, PodInfo.of(make_pod("p"))
    for name in NODES:
        cache.add_node(make_node(name))
    aggregate = aggregate_of(Model("sum", frozenset({BOUND, NOMINATED}), cache))
    nodes.aggregates.add("a", aggregate)
    nodes.aggregates.nominated(pod, "n2", comes=True)
    version = nodes.journal.version
    cache.assume(pod, "n1")
    assert aggregate.make_room(3).tolist()[:3] == [0, 1, 0]
    rows = nodes.journal.since(version)
    assert rows is not None
    assert sorted(rows.rows) == [1, 2]
    version = nodes.journal.version
    nodes.aggregates.nominated(pod, "n2", comes=False)
    assert nodes.journal.version == version


def test_an_attempt_counts_where_attempts_are_read() -> None:
    """The queue knows of a pod's attempts what no event of the cluster brings."""
    cache = Cache()
    cache.add_node(make_node("n0"))
    queue = SchedulingQueue(lambda queued: (queued.info.priority,), lambda: 7)
    aggregates = cache.nodes.aggregates
    aggregates.join_queue(queue.by_uid, lambda: queue.tell(aggregates.queued))
    aggregate = aggregate_of(Model("max", frozenset({QUEUED}), cache))
    aggregates.add("a", aggregate)
    queue.add(PodInfo.of(make_pod("p", labels={"team": "a"})))
    version = cache.nodes.journal.version
    assert queue.pop() is not None
    assert aggregate.value("a") == 1
    assert cache.nodes.journal.version > version
    queue.done("default/p")
    assert aggregate.all_keys() == []
    queue.update(PodInfo.of(make_pod("q", labels={"team": "a"})))
    queue.update(PodInfo.of(make_pod("q", labels={"team": "b"})))
    assert aggregate.all_keys() == ["b"]


def test_what_was_spent_stays_when_pods_are_counted_anew() -> None:
    """A change of a namespace's labels would forget what a team used."""
    cache, now = Cache(), [HOUR]
    cache.nodes.aggregates.now = lambda: now[0]
    cache.add_node(make_node("n0"))
    cache.add_pod(_began(PodInfo.of(make_pod("p", node_name="n0")), 1))
    aggregate = Aggregate(
        "sum",
        frozenset({BOUND}),
        lambda _pod, _row: Contribution("a", 1),
        reads_namespaces=True,
        half_life=10**9 * HOUR,
    )
    cache.nodes.aggregates.add("a", aggregate)
    assert aggregate.then("a", HOUR) == pytest.approx(1), "it ran for an hour before"
    now[0] = 3 * HOUR
    cache.set_namespace(Namespace(metadata=ObjectMeta(name="default", labels={"env": "x"})))
    assert aggregate.then("a", 4 * HOUR) == pytest.approx(4)
    pod = cache.pod("default/p")
    assert pod is not None
    cache.remove_pod(pod)
    assert aggregate.then("a", 9 * HOUR) == aggregate.total_then(9 * HOUR) == pytest.approx(3)


def test_keys_of_which_all_is_forgotten_are_dropped() -> None:
    """Names that pods choose would stay for ever with what was spent under them."""
    now = [0]
    aggregate = Aggregate(
        "sum", frozenset({BOUND}), lambda pod, _row: Contribution(pod.name, 1), half_life=HALF_LIFE
    )
    aggregate.now = lambda: now[0]
    for number in range(3 * SWEEP_FROM):
        aggregate.come(BOUND, PodInfo.of(make_pod(f"p{number}")), -1)
        aggregate.leave(BOUND, f"default/p{number}")
        now[0] += HALF_LIFE
    assert len(aggregate._decaying) <= SWEEP_FROM
