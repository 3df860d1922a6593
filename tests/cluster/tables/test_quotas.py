"""The tree of quotas equals what all objects and pods give, worked out anew each time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from random import Random

import pytest

from policy_sched.cluster.tables.aggregates import BOUND, MAX_RESOURCES, QUEUED, OtherPod
from policy_sched.cluster.tables.inputs import InputTable
from policy_sched.cluster.tables.quotas import MAX_DEPTH, Grant, QuotaKind, Quotas, QuotaState
from policy_sched.cluster.tables.schema import MAX_SUM
from policy_sched.model import PodInfo
from policy_sched.testing import make_pod
from tests.examples import scaled

from .quota_model import Model, Place

RESOURCES = ("cpu", "memory")
CAPACITY = 60


def _amounts(random: Random, most: int, *, named: float = 0.8) -> dict[str, int]:
    return {name: random.randrange(most) for name in RESOURCES if random.random() < named}


def _grant(random: Random, keys: tuple[str, ...]) -> Grant:
    return Grant(
        _amounts(random, 12),
        _amounts(random, 20, named=0.2),
        _amounts(random, 8, named=0.4),
        _amounts(random, 8, named=0.3),
        random.choice((*keys, *keys, "", "nobody")),
        random.choice((0, 500, 1000, 3000)),
        random.choice((0, 0, 1)),
    )


def _without_zeros(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount}


def _equals(state: QuotaState, model: Model, kind: int = 0) -> None:
    """Compare a quota with the model, and its ancestors."""
    place = Place(kind, state.name)
    for name in RESOURCES:
        assert state.used.get(name, 0) == model.used(place, name)
        assert state.nominal.get(name, 0) == model.nominal(place, name)
        assert state.available.get(name, 0) == model.available(place, name)
        assert state.borrowed.get(name, 0) == max(
            0, model.used(place, name) - model.nominal(place, name)
        )
    assert state.share == model.share(place)


class Cluster:
    """Quotas with their objects and pods; `expected` is the model of them."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.caps = random.random() < 0.4
        kinds = random.choice((1, 2))
        self.tables = [InputTable() for _ in range(kinds)]
        self.pods: dict[str, PodInfo] = {}
        self.told: dict[tuple[str, str], str] = {}
        self.keys = ("a", "b", "c", "d")
        self.quotas = self.made()
        self.quotas.tell = self._tell

    def _tell(self, identity: str, key: str, why: str) -> None:
        if why:
            self.told[identity, key] = why
        else:
            self.told.pop((identity, key), None)

    def made(self, *, shares_cluster: bool = False) -> Quotas:
        """Return quotas that begin with what is there, as after a reload."""
        kinds = [
            QuotaKind(str(i), table, lambda record: record) for i, table in enumerate(self.tables)
        ]
        quotas = Quotas(
            lambda pod: pod.namespace,
            kinds,
            lambda _: CAPACITY,
            caps=self.caps,
            shares_cluster=shares_cluster,
        )
        quotas.used.start({}, 0)
        for pod in self.pods.values():
            quotas.used.come(BOUND, pod, -1)
        return quotas

    def new_pod(self, number: int) -> PodInfo:
        """Return a pod of any key, also of one without an object."""
        random = self.random
        amounts = {"cpu": f"{random.randrange(6)}m", "memory": str(random.randrange(6))}
        return PodInfo.of(
            make_pod(f"p{number}", namespace=random.choice((*self.keys, "other")), **amounts)
        )

    def step(self, number: int) -> None:
        """Let anything happen."""
        random, quotas = self.random, self.quotas
        what = random.random()
        if what < 0.35:
            i = random.randrange(len(self.tables))
            key = random.choice(self.keys if random.random() < 0.8 else ("e", "f", "g", "h"))
            if key in self.tables[i].by_key and random.random() < 0.4:
                self.tables[i].remove(key)
                self.told.pop((str(i), key), None)
            else:
                self.tables[i].put(key, _grant(random, self.keys))
            quotas.object_changed(str(i), key)
        elif what < 0.7:
            pod = self.new_pod(number)
            self.pods[pod.uid] = pod
            quotas.used.come(BOUND, pod, -1)
        elif what < 0.95 and self.pods:
            uid = random.choice([*self.pods])
            del self.pods[uid]
            quotas.used.leave(BOUND, uid)
        else:
            self.quotas = self.made()
            self.quotas.tell = self._tell

    def expected(self, apart: PodInfo | None = None, others: Iterable[OtherPod] = ()) -> Model:
        """Return the model, without a pod and with changes of others."""
        pods = {uid: pod for uid, pod in self.pods.items() if apart is None or uid != apart.uid}
        for sign, pod, _ in others:
            if sign > 0 and (apart is None or pod.uid != apart.uid):
                pods[pod.uid] = pod
            else:
                pods.pop(pod.uid, None)
        objects = [dict(table.by_key) for table in self.tables]
        counted = [(pod.namespace, pod.requests) for pod in pods.values()]
        return Model(objects, counted, caps=self.caps)


@pytest.mark.parametrize("seed", range(scaled(40)))
def test_the_tree_is_what_all_objects_and_pods_give(seed: int) -> None:
    """An object that moved, or a victim of a dry run, left amounts behind at the ancestors."""
    cluster = Cluster(Random(seed))
    random = cluster.random
    for number in range(40):
        cluster.step(number)
        model, quotas = cluster.expected(), cluster.quotas
        for key in (*cluster.keys, "e"):
            state = quotas.state(key)
            assert state.exists == (Place(0, key) in model.grants)
            if not state.exists:
                continue
            above = len(cluster.tables) - 1
            for i, node in enumerate(state.path):
                _equals(node, model, above if i else 0)
            way = [state.name, *(p.key for p in model.up(Place(0, key))[1:])]
            assert [node.name for node in state.path] == way
            request = _amounts(random, 9)
            assert state.height(request) == model.height(Place(0, key), request)
            assert state.reaches(request).name == model.reaches(Place(0, key), request).key
            with_it = state.with_request(request)
            assert with_it.without_request(request).used == state.used
            lacking = {
                name: amount - max(0, model.available(Place(0, key), name))
                for name, amount in request.items()
            }
            assert state.lacking(request) == {n: a for n, a in lacking.items() if a > 0}
        cut = {p for p in model.stated if p not in model.parents}
        assert {(p.kind, p.key) for p in cut} == {(int(i), key) for i, key in quotas.problems}
        assert quotas.problems == {place: cluster.told[place] for place in quotas.problems}


@pytest.mark.parametrize("seed", range(scaled(40)))
def test_a_dry_run_counts_as_if_it_were_true(seed: int) -> None:
    """The pod that is decided, victims and nominated pods: each counts, or does not, exactly."""
    cluster = Cluster(Random(seed))
    random = cluster.random
    for number in range(40):
        cluster.step(number)
        pods = [*cluster.pods.values()]
        victims = random.sample(pods, min(len(pods), random.randrange(4)))
        apart = random.choice([*pods, cluster.new_pod(1000)])
        others: list[OtherPod] = [(-1, pod, -1) for pod in victims]
        others += [(1, cluster.new_pod(2000 + i), -1) for i in range(random.randrange(3))]
        model = cluster.expected(apart, others)
        for key in cluster.keys:
            state = cluster.quotas.state(key, apart, others)
            above = len(cluster.tables) - 1
            for i, node in enumerate(state.path):
                _equals(node, model, above if i else 0)
            if state.exists:
                request = {"cpu": random.randrange(9)}
                more = cluster.expected(apart, others)
                more.pods.append((Place(0, key), request))
                _equals(state.with_request(request), more)
        total = cluster.quotas.total(apart, others)
        used = {
            name: sum(a.get(name, 0) for at, a in model.pods if at in model.grants)
            for name in RESOURCES
        }
        assert _without_zeros(total.used) == _without_zeros(used)
        counting = [p for p in model.grants if not cluster.caps or p not in model.parents]
        nominal = {n: sum(model.grant(p).nominal.get(n, 0) for p in counting) for n in RESOURCES}
        assert _without_zeros(total.nominal) == _without_zeros(nominal)


@pytest.mark.parametrize("seed", range(scaled(60)))
def test_fair_shares_are_those_of_the_water_that_is_poured(seed: int) -> None:
    """Queues were shared by what they use alone; who asked for nothing had a share, too."""
    cluster = Cluster(Random(seed))
    random = cluster.random
    for number in range(40):
        cluster.step(number)
    whole = random.random() < 0.5
    quotas = cluster.made(shares_cluster=whole)
    queued = {pod.uid: pod for pod in (cluster.new_pod(100 + i) for i in range(6))}
    for source, pods in ((BOUND, cluster.pods), (QUEUED, queued)):
        for pod in pods.values():
            quotas.wanted.come(source, pod, -1)
    for number in range(20):
        gone = random.choice([*queued])
        quotas.wanted.leave(QUEUED, gone)
        del queued[gone]
        comes = cluster.new_pod(200 + number)
        queued[comes.uid] = comes
        quotas.wanted.come(QUEUED, comes, -1)
        pods = [*cluster.pods.values()]
        apart = random.choice([*queued.values()])
        others: list[OtherPod] = [(-1, pod, -1) for pod in random.sample(pods, min(len(pods), 2))]
        others.append((1, random.choice([*queued.values()]), -1))
        victims = {pod.uid for sign, pod, _ in others if sign < 0}
        model = cluster.expected()
        for key in cluster.keys:
            state = quotas.state(key, apart, others)
            if not state.exists:
                continue
            request = {"cpu": random.randrange(9)}
            counted = [p for p in pods if p.uid not in victims]
            counted += [p for p in queued.values() if p.uid != apart.uid]
            model.pods = [(Place(0, p.namespace), p.requests) for p in counted]
            model.pods.append((Place(0, key), request))
            for i, node in enumerate(state.with_request(request).path):
                place = Place(len(cluster.tables) - 1 if i else 0, node.name)
                for name in RESOURCES:
                    assert node.demand.get(name, 0) == model.used(place, name)
                    fair = model.fair(place, name, CAPACITY if whole else None)
                    assert node.fair.get(name, 0) == fair
                parts = [
                    amount / node.fair[name] if node.fair.get(name) else float("inf")
                    for name, amount in node.used.items()
                    if amount
                ]
                assert node.saturation == max(parts, default=0)


def _quotas(grants: Mapping[str, Grant], told: dict[str, str], *, caps: bool = False) -> Quotas:
    table = InputTable()
    for key, grant in grants.items():
        table.put(key, grant)
    kind = QuotaKind("q", table, lambda record: record)
    quotas = Quotas(lambda pod: pod.namespace, [kind], lambda _: 0, caps=caps)
    quotas.tell = lambda _, key, why: told.update({key: why})
    return quotas


def test_a_circle_is_told_and_its_nodes_are_roots() -> None:
    """Three teams, each below the next, made every look-up of a quota run forever."""
    told: dict[str, str] = {}
    quotas = _quotas({"a": Grant(parent="b"), "d": Grant(parent="a"), "b": Grant()}, told)
    table = quotas.objects
    table.put("c", Grant(parent="a"))
    quotas.object_changed("q", "c")
    table.put("b", Grant(parent="c"))
    quotas.object_changed("q", "b")
    why = "its parents are a circle: a -> b -> c -> a; it counts as a root"
    assert told == {"a": why, "b": why, "c": why}
    assert [node.name for node in quotas.state("d").path] == ["d", "a"]
    table.remove("c")
    quotas.object_changed("q", "c")
    assert told["a"] == told["b"] == ""
    assert [node.name for node in quotas.state("d").path] == ["d", "a", "b", "c"]


def test_a_tree_of_too_many_levels_is_cut() -> None:
    """A chain of ten is a chain of eight below which another one begins."""
    told: dict[str, str] = {}
    chain = {f"n{i}": Grant(parent=f"n{i - 1}" if i else "") for i in range(10)}
    quotas = _quotas(chain, told)
    assert len(quotas.state("n7").path) == MAX_DEPTH
    assert [node.name for node in quotas.state("n9").path] == ["n9", "n8"]
    assert quotas.problems == {("q", "n8"): "it has more than 7 ancestors; it counts as a root"}


def test_quotas_beyond_the_most_wait_for_others_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects without number took memory and time without bound."""
    monkeypatch.setattr("policy_sched.cluster.tables.quotas.MAX_NODES", 2)
    told: dict[str, str] = {}
    quotas = _quotas({"a": Grant(), "b": Grant(), "c": Grant({"cpu": 1})}, told)
    assert not quotas.state("c").exists
    assert [*quotas.problems] == [("q", "c")]
    quotas.objects.remove("a")
    quotas.object_changed("q", "a")
    assert quotas.state("c").nominal == {"cpu": 1}
    assert told["c"] == ""
    assert not quotas.problems


def test_an_object_that_comes_counts_pods_that_were_there() -> None:
    """All pods of the cluster were asked for their key again, for each team that was made."""
    asked: list[str] = []
    table = InputTable()

    def key_of(pod: PodInfo) -> str:
        asked.append(pod.uid)
        return pod.namespace

    quotas = Quotas(key_of, [QuotaKind("q", table, lambda record: record)], lambda _: 0)
    for i in range(5):
        quotas.used.come(BOUND, PodInfo.of(make_pod(f"p{i}", namespace="a", cpu=1)), -1)
    table.put("a", Grant())
    quotas.object_changed("q", "a")
    assert quotas.state("a").used == {"cpu": 5000}
    assert quotas.total().used == {"cpu": 5000}
    table.remove("a")
    quotas.object_changed("q", "a")
    assert not quotas.state("a").exists
    assert not quotas.total().used
    assert len(asked) == 5


@pytest.mark.parametrize("parent", ["", "root"])
def test_a_quota_and_its_parent_use_what_is_read(parent: str) -> None:
    """Of more than 16 resources, and of sums that are cut off, no more is carried up."""
    random, table = Random(7), InputTable()
    table.put("root", Grant())
    table.put("a", Grant(parent=parent))
    kind = QuotaKind("0", table, lambda record: record)
    quotas = Quotas(lambda _pod: "a", [kind], lambda _: 1000)
    quotas.used.start({}, 0)
    names = [f"example.com/r{i:02}" for i in range(MAX_RESOURCES + 3)]
    pods: list[PodInfo] = []
    most = 0
    for number in range(200):
        if pods and random.random() < 0.45:
            quotas.used.leave(BOUND, pods.pop(random.randrange(len(pods))).uid)
        else:
            amounts = {name: str(random.randrange(1, 9)) for name in random.sample(names, 4)}
            if random.random() < 0.1:
                amounts["memory"] = str(MAX_SUM - random.randrange(9))
            pods.append(PodInfo.of(make_pod(f"p{number}", requests=amounts)))
            quotas.used.come(BOUND, pods[-1], -1)
        sums: Counter[str] = Counter()
        for pod in pods:
            sums.update(pod.requests)
        first = sorted(sums, key=lambda name: ("/" in name, name))[:MAX_RESOURCES]
        wanted = _without_zeros({name: min(MAX_SUM, sums[name]) for name in first})
        most = max(most, len(sums))
        assert quotas.state("a").used == quotas.total().used == wanted
        assert not parent or quotas.state(parent).used == wanted
    assert most > MAX_RESOURCES


def test_all_quotas_together_use_no_more_than_a_sum_can_be() -> None:
    """A rule that added a request to it failed with an overflow."""
    table = InputTable()
    for key in "abc":
        table.put(key, Grant())
    quotas = Quotas(
        lambda pod: pod.name, [QuotaKind("0", table, lambda record: record)], lambda _: 1000
    )
    quotas.used.start({}, 0)
    for key in "abc":
        pod = PodInfo.of(make_pod(key, requests={"memory": str(MAX_SUM)}))
        quotas.used.come(BOUND, pod, -1)
    assert quotas.total().used == {"memory": MAX_SUM}
