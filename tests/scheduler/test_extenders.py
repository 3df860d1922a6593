"""Extenders in whole decisions: a configuration, a real server, and the chosen nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from random import Random
from typing import Any

import pytest

from policy_sched.client.memory import MemoryClient
from policy_sched.client.protocol import begun
from policy_sched.framework.status import Code
from policy_sched.model.cluster_event import ActionType, ClusterEvent, EventResource
from policy_sched.model.pod_info import PodInfo
from policy_sched.scheduler.attempt import Bind, Preempt, Reject
from policy_sched.scheduler.scheduler import Outcome, Scheduler
from policy_sched.scheduler.setup.factory import build
from policy_sched.testing import make_node, make_pod
from tests.plugins.extenders.server import CLOSE, HANG, Calls, extender

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
FAULTS = [500, b"garbage", CLOSE, HANG]
NAMES = ["status 500", "garbage", "closed", "slow"]
OPENED: list[Scheduler] = []

Entry = dict[str, Any]


def entry(calls: Calls, *verbs: str, **more: object) -> Entry:
    """Return an extender's entry in a configuration, with some of its verbs."""
    found: Entry = {"urlPrefix": calls.address, "httpTimeout": "5s", "nodeCacheCapable": True}
    found |= {f"{verb}Verb": verb for verb in verbs}
    return found | ({"weight": 1} if "prioritize" in verbs else {}) | more


def scheduler_of(*entries: Entry, nodes: int = 3, cpu: str = "4", **config: object) -> Scheduler:
    """Return a scheduler with extenders over nodes n0, n1, ... of the same size."""
    scheduler = build({**HEAD, "extenders": list(entries), **config})
    for i in range(nodes):
        resources = {"x.com/gpu": "2"} if i == 0 else {}
        scheduler.cache.add_node(make_node(f"n{i}", cpu=cpu, resources=resources))
    OPENED.append(scheduler)
    return scheduler


@pytest.fixture(autouse=True)
def _close_connections() -> Iterator[None]:
    yield
    while OPENED:
        for one in OPENED.pop().handle.extenders:
            one.close()


def run(scheduler: Scheduler, name: str = "p", **pod: object) -> Outcome:
    """Queue one pod of 1 cpu and schedule it."""
    chosen: dict[str, Any] = {"cpu": "1", **pod}
    assert scheduler.add_pod(PodInfo.of(make_pod(name, **chosen))) is None
    outcome = scheduler.schedule_one()
    assert outcome is not None
    return outcome


def keeping(*names: str, **failed: str) -> Callable[[Any], object]:
    """Return a filter that keeps these of the nodes it receives."""
    return lambda sent: {
        "NodeNames": [n for n in sent["NodeNames"] if n in names],
        "FailedNodes": failed,
    }


def client_of(scheduler: Scheduler) -> MemoryClient:
    client = scheduler.handle.client
    assert isinstance(client, MemoryClient)
    return client


class TestFiltering:
    """Extenders filter the nodes that pass the plugins."""

    @pytest.mark.parametrize("capable", [True, False])
    def test_an_extender_decides_with_and_without_a_node_cache(self, capable: bool) -> None:
        """The pod goes to the extender's node, whether nodes or names are exchanged."""

        def only_n1(sent: Any) -> object:
            if capable:
                return {"NodeNames": ["n1"]}
            items = sent["Nodes"]["items"]
            return {"Nodes": {"items": [n for n in items if n["metadata"]["name"] == "n1"]}}

        with extender({"filter": only_n1}) as calls:
            assert run(scheduler_of(entry(calls, "filter", nodeCacheCapable=capable))).node == "n1"

    def test_each_extender_sees_what_the_one_before_left(self) -> None:
        """Extenders are called in the order of the file, the ignorable ones last."""
        with (
            extender({"filter": keeping("n1", "n2")}) as first,
            extender({"filter": keeping("n0", "n1")}) as last,
        ):
            scheduler = scheduler_of(entry(last, "filter", ignorable=True), entry(first, "filter"))
            assert run(scheduler).node == "n1"
        assert [sent["NodeNames"] for _, sent in first.requested] == [["n0", "n1", "n2"]]
        assert [sent["NodeNames"] for _, sent in last.requested] == [["n1", "n2"]]

    def test_only_nodes_that_pass_the_plugins_are_sent(self) -> None:
        """A full node is not sent to an extender; without any feasible node it is not called."""
        with extender({"filter": keeping("n0", "n1", "n2")}) as calls:
            scheduler = scheduler_of(entry(calls, "filter"))
            scheduler.cache.assume(PodInfo.of(make_pod("big", cpu="4")), "n1")
            run(scheduler)
            run(scheduler, "q", cpu="5")
        assert [sent["NodeNames"] for _, sent in calls.requested] == [["n0", "n2"]]

    def test_rejections_are_reported_beside_those_of_plugins(self) -> None:
        """An extender's reasons count in the message; unresolvable ones come before others."""
        answer = {
            "NodeNames": [],
            "FailedNodes": {"n0": "no licence", "n2": "no licence"},
            "FailedAndUnresolvableNodes": {"n2": "no bridge"},
        }
        with extender({"filter": answer}) as calls:
            scheduler = scheduler_of(entry(calls, "filter"))
            scheduler.cache.assume(PodInfo.of(make_pod("big", cpu="4")), "n1")
            outcome = run(scheduler, preemption_policy="Never")
        assert isinstance(outcome.decision, Reject)
        assert outcome.message == (
            "0/3 nodes are available: 1 Insufficient cpu, 1 no bridge, 1 no licence. "
            "no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never."
        )
        diagnosis = outcome.decision.diagnosis
        assert diagnosis is not None
        assert {row: status.code for row, status in diagnosis.statuses.items()} == {
            0: Code.UNSCHEDULABLE,
            1: Code.UNSCHEDULABLE,
            2: Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        }

    def test_nodes_that_vanish_without_a_word(self) -> None:
        """A node that is neither kept nor failed has no reason, and preemption cannot help it."""
        with extender({"filter": {"NodeNames": []}}) as calls:
            outcome = run(scheduler_of(entry(calls, "filter")))
        assert outcome.message == (
            "0/3 nodes are available: no new claims to deallocate, "
            "preemption: 0/3 nodes are available: "
            "3 Preemption is not helpful for scheduling."
        )

    @pytest.mark.parametrize("fault", FAULTS, ids=NAMES)
    def test_a_failure_ends_the_attempt(self, fault: object) -> None:
        """The pod is not scheduled because of an unexpected error."""
        with extender({"filter": fault}) as calls:
            outcome = run(scheduler_of(entry(calls, "filter", httpTimeout="50ms")))
        assert outcome.status.code is Code.ERROR
        assert f"{calls.address}/filter" in outcome.message
        assert outcome.node == ""

    @pytest.mark.parametrize("fault", FAULTS, ids=NAMES)
    def test_a_failure_of_an_ignorable_extender_is_passed_over(self, fault: object) -> None:
        """The others decide."""
        with extender({"filter": fault}) as calls, extender({"filter": keeping("n2")}) as other:
            scheduler = scheduler_of(
                entry(calls, "filter", ignorable=True, httpTimeout="50ms"), entry(other, "filter")
            )
            assert run(scheduler).node == "n2"
        assert calls.verbs == ["filter"]


class TestComingBack:
    """Extenders register no events, so any event may help."""

    @pytest.mark.parametrize(("answer", "comes_back"), [([], True), (["n0", "n1", "n2"], False)])
    def test_an_event_that_concerns_no_plugin(self, answer: list[str], comes_back: bool) -> None:
        """It requeues a pod that an extender rejected, and none that is too large for all nodes."""
        event = ClusterEvent(EventResource.CSI_DRIVER, ActionType.ADD)
        with extender({"filter": {"NodeNames": answer}}) as calls:
            scheduler = scheduler_of(entry(calls, "filter"))
            run(scheduler, cpu="1" if comes_back else "5")
            assert len(scheduler.queue.unschedulable()) == 1
            scheduler.queue.move_all_to_active_or_backoff(event, None, None)
        assert len(scheduler.queue.backoff()) == int(comes_back)


class TestScoring:
    """Extenders add to the plugins' scores."""

    def test_scores_are_scaled_and_weighted(self) -> None:
        """10 times weight times score is added to a node's total, and reported under its name."""

        def scores(sent: Any) -> object:
            return [{"Host": name, "Score": int(name[1])} for name in sent["NodeNames"]]

        with extender({"prioritize": scores}) as calls:
            scheduler = scheduler_of(entry(calls, "prioritize", weight=3))
            outcome = run(scheduler)
        assert outcome.node == "n2"
        assert isinstance(outcome.decision, Bind)
        scoring = outcome.decision.evaluation.scoring
        assert scoring is not None
        rows = outcome.decision.evaluation.filtering.feasible_rows()
        assert scoring.weighted(rows)[calls.address] == [0, 30, 60]
        plain = run(scheduler_of(), "p").decision
        assert isinstance(plain, Bind)
        assert plain.evaluation.scoring is not None
        assert (scoring.total - plain.evaluation.scoring.total).tolist() == [0, 30, 60]

    def test_scores_of_two_extenders_add_up(self) -> None:
        """Two that score decide together; a score of a node that was not sent is ignored."""
        first = [
            {"Host": "n0", "Score": 10},
            {"Host": "n1", "Score": 8},
            {"Host": "n9", "Score": 1},
        ]
        second = [{"Host": "n1", "Score": 6}, {"Host": "n2", "Score": 10}]
        with extender({"prioritize": first}) as one, extender({"prioritize": second}) as two:
            assert (
                run(scheduler_of(entry(one, "prioritize"), entry(two, "prioritize"))).node == "n1"
            )

    def test_scores_below_zero_still_choose_a_feasible_node(self) -> None:
        """However low the totals, a node that does not fit is never the best."""

        def scores(sent: Any) -> object:
            return [{"Host": name, "Score": -1000 - int(name[1])} for name in sent["NodeNames"]]

        with extender({"prioritize": scores}) as calls:
            scheduler = scheduler_of(entry(calls, "prioritize"))
            scheduler.cache.assume(PodInfo.of(make_pod("big", cpu="4")), "n0")
            assert run(scheduler).node == "n1"

    def test_scores_beyond_all_bounds_wrap_as_in_go(self) -> None:
        """int64 arithmetic wraps: 2^62 times 10 is Go's result."""
        scores = [{"Host": "n0", "Score": 2**62}, {"Host": "n1", "Score": 10}]
        with extender({"prioritize": scores}) as calls:
            decision = run(scheduler_of(entry(calls, "prioritize"), nodes=2)).decision
        assert isinstance(decision, Bind)
        assert decision.evaluation.scoring is not None
        shares = decision.evaluation.scoring.shares[calls.address]
        assert shares.tolist() == [(2**62 * 10 + 2**63) % 2**64 - 2**63, 100]

    @pytest.mark.parametrize("fault", FAULTS, ids=NAMES)
    def test_a_failure_to_score_is_never_fatal(self, fault: object) -> None:
        """Plugins and other extenders decide, ignorable or not."""
        good = [{"Host": "n1", "Score": 10}]
        with extender({"prioritize": fault}) as calls, extender({"prioritize": good}) as other:
            scheduler = scheduler_of(
                entry(calls, "prioritize", httpTimeout="50ms"), entry(other, "prioritize")
            )
            assert run(scheduler).node == "n1"

    def test_one_node_needs_no_score(self) -> None:
        """A single remaining node is not scored."""
        with extender({"filter": keeping("n1"), "prioritize": []}) as calls:
            assert run(scheduler_of(entry(calls, "filter", "prioritize"))).node == "n1"
        assert calls.verbs == ["filter"]


class TestBinding:
    """An extender may bind."""

    def test_the_extender_binds_in_place_of_the_plugin(self) -> None:
        """The client does not bind; the pod counts on its node and the event is written."""
        with extender({"bind": {}}) as calls:
            scheduler = scheduler_of(entry(calls, "bind"), nodes=1)
            outcome = run(scheduler)
        assert outcome.node == "n0"
        assert calls.requested[0][1]["Node"] == "n0"
        assert not client_of(scheduler).bindings
        assert client_of(scheduler).events[-1].reason == "Scheduled"
        assert scheduler.cache.node_of(outcome.pod.uid) == "n0"

    @pytest.mark.parametrize("answer", [{"Error": "taken"}, *FAULTS], ids=["refusal", *NAMES])
    def test_a_failure_undoes_the_attempt(self, answer: object) -> None:
        """The pod no longer counts on the node, and the reason is reported."""
        with extender({"bind": answer}) as calls:
            scheduler = scheduler_of(entry(calls, "bind", httpTimeout="50ms"), nodes=1)
            outcome = run(scheduler)
        assert outcome.status.code is Code.ERROR
        assert scheduler.cache.node_of(outcome.pod.uid) == ""
        assert client_of(scheduler).events[-1].reason == "FailedScheduling"
        assert not client_of(scheduler).bindings

    def test_an_ignorable_extender_that_fails_leaves_it_to_the_plugin(self) -> None:
        """DefaultBinder binds then."""
        with extender({"bind": 500}) as calls:
            scheduler = scheduler_of(entry(calls, "bind", ignorable=True), nodes=1)
            outcome = run(scheduler)
        assert client_of(scheduler).bindings == {outcome.pod.uid: "n0"}


class TestConcern:
    """Extenders are called for the pods that they manage."""

    ALL = ("filter", "prioritize", "bind")
    VERBS: Mapping[str, object] = {"filter": keeping("n0", "n1"), "prioritize": [], "bind": {}}

    def test_a_selector_keeps_other_pods_away(self) -> None:
        """Pods that the selector does not match are scheduled without a call."""
        selector = {"matchExpressions": [{"key": "team", "operator": "In", "values": ["ml"]}]}
        with extender(self.VERBS) as calls:
            scheduler = scheduler_of(entry(calls, *self.ALL, podSelector=selector))
            assert run(scheduler, "web").node
            assert not calls.requested
            assert run(scheduler, "train", labels={"team": "ml"}).node in ("n0", "n1")
        assert calls.verbs == ["filter", "prioritize", "bind"]

    def test_managed_resources_keep_other_pods_away(self) -> None:
        """Pods without requests for its resources are scheduled without a call."""
        with extender(self.VERBS) as calls:
            scheduler = scheduler_of(
                entry(calls, *self.ALL, managedResources=[{"name": "x.com/gpu"}])
            )
            assert run(scheduler, "web").node
            assert not calls.requested
            assert run(scheduler, "train", requests={"x.com/gpu": "1"}).node == "n0"

    @pytest.mark.parametrize(("ignored", "node"), [(True, "n1"), (False, "")])
    def test_a_resource_that_the_scheduler_ignores(self, ignored: bool, node: str) -> None:
        """NodeResourcesFit leaves an ignored resource to its extender, and checks others."""
        managed = [{"name": "x.com/gpu", "ignoredByScheduler": ignored}]
        with extender({"filter": keeping("n1")}) as calls:
            scheduler = scheduler_of(entry(calls, "filter", managedResources=managed))
            assert run(scheduler, requests={"x.com/gpu": "1"}).node == node

    def test_equal_pods_are_sent_one_by_one(self) -> None:
        """An extender's result is for one pod: equal pods share the plugins' results only."""
        answers = iter(["n0", "n1", "n2", "n1"])
        with extender({"filter": lambda _: {"NodeNames": [next(answers)]}}) as calls:
            selector = {"matchLabels": {"ask": "yes"}}
            scheduler = scheduler_of(entry(calls, "filter", podSelector=selector))
            nodes = [run(scheduler, f"p{i}", labels={"ask": "yes"}).node for i in range(3)]
            assert nodes == ["n0", "n1", "n2"]
            decision = run(scheduler, "other").decision
            assert isinstance(decision, Bind)
            assert decision.evaluation.filtering.feasible_rows().size == 3
            assert run(scheduler, "p3", labels={"ask": "yes"}).node == "n1"


class TestPreempting:
    """Extenders take part in preemption."""

    def crowded(self, *entries: Entry) -> Scheduler:
        """Return a scheduler whose nodes are full of pods of rising priority."""
        scheduler = scheduler_of(*entries)
        for i in range(3):
            low = make_pod(f"low-{i}", cpu="4", node_name=f"n{i}", priority=i)
            scheduler.cache.add_pod(PodInfo.of(low))
        return scheduler

    def important(self, scheduler: Scheduler) -> Outcome:
        return run(scheduler, "high", cpu="2", priority=10)

    def test_an_extender_takes_candidates_away(self) -> None:
        """The best of the remaining ones is chosen."""

        def not_n0(sent: Any) -> object:
            victims = sent["NodeNameToMetaVictims"]
            return {"NodeNameToMetaVictims": {n: v for n, v in victims.items() if n != "n0"}}

        with extender({"preempt": not_n0}) as calls:
            outcome = self.important(self.crowded(entry(calls, "preempt")))
        assert isinstance(outcome.decision, Preempt)
        assert outcome.decision.node == "n1"
        assert [victim.name for victim in outcome.decision.victims] == ["low-1"]

    def test_extenders_are_called_in_order(self) -> None:
        """The second sees what the first left, and whole pods without a node cache."""
        left = {"NodeNameToMetaVictims": {"n2": {"Pods": [{"UID": "default/low-2"}]}}}
        back = {"NodeNameToMetaVictims": {"n2": {"Pods": [{"UID": "default/low-2"}]}}}
        with extender({"preempt": left}) as one, extender({"preempt": back}) as two:
            scheduler = self.crowded(
                entry(one, "preempt"), entry(two, "preempt", nodeCacheCapable=False)
            )
            outcome = self.important(scheduler)
        assert isinstance(outcome.decision, Preempt)
        assert outcome.decision.node == "n2"
        ((_, sent),) = two.requested
        victims = sent["NodeNameToVictims"]
        assert {n: [p["metadata"]["name"] for p in v["Pods"]] for n, v in victims.items()} == {
            "n2": ["low-2"]
        }

    def test_no_candidate_is_left(self) -> None:
        """The pod waits, and keeps its nomination."""
        with extender({"preempt": {}}) as calls:
            outcome = self.important(self.crowded(entry(calls, "preempt")))
        assert isinstance(outcome.decision, Reject)
        assert outcome.message.endswith(" preemption: no candidate node for preemption")

    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            (500, "code 500"),
            (b"garbage", "cannot read the response"),
            ({"NodeNameToMetaVictims": {"zz": {}}}, 'nodeinfo not found for node name "zz"'),
            (
                {"NodeNameToMetaVictims": {"n0": {"Pods": [{"UID": "u"}]}}},
                "claims to preempt pod (UID: u) on node: n0, but the pod is not found on that",
            ),
            (
                {"NodeNameToMetaVictims": {"n0": {}}},
                'expected at least one victim pod on node "n0"',
            ),
        ],
    )
    def test_no_pod_is_evicted_if_an_extender_failed(self, answer: object, words: str) -> None:
        """No pod is evicted if an extender failed; an ignorable one is skipped."""
        with extender({"preempt": answer}) as calls:
            outcome = self.important(self.crowded(entry(calls, "preempt")))
            assert isinstance(outcome.decision, Reject)
            assert outcome.status.code is Code.UNSCHEDULABLE  # as in kube-scheduler
            assert words in outcome.message
            outcome = self.important(self.crowded(entry(calls, "preempt", ignorable=True)))
        if answer == {"NodeNameToMetaVictims": {"n0": {}}}:
            assert outcome.message.endswith("no candidate node for preemption")
        else:
            assert isinstance(outcome.decision, Preempt)
            assert outcome.decision.node == "n0"


class TestNominated:
    """A pod's own nominated node comes first, if the extenders agree."""

    def nominated(self, calls: Calls, **more: object) -> Outcome:
        scheduler = scheduler_of(entry(calls, "filter", "prioritize", **more))
        return run(scheduler, nominated_node_name="n2")

    def test_the_extender_receives_that_node_alone(self) -> None:
        """It passes, so no other node is evaluated and no plugin scores."""
        with extender({"filter": keeping("n0", "n2"), "prioritize": []}) as calls:
            assert self.nominated(calls).node == "n2"
        assert [(verb, sent["NodeNames"]) for verb, sent in calls.requested] == [("filter", ["n2"])]

    def test_it_is_turned_down(self) -> None:
        """All nodes are evaluated then."""
        with extender({"filter": keeping("n0"), "prioritize": []}) as calls:
            assert self.nominated(calls).node == "n0"
        assert [sent["NodeNames"] for _, sent in calls.requested] == [["n2"], ["n0", "n1", "n2"]]

    def test_the_first_call_fails(self) -> None:
        """Only the shortcut is lost."""
        answers = iter([500, {"NodeNames": ["n1"]}])
        with extender({"filter": lambda _: next(answers), "prioritize": []}) as calls:
            assert self.nominated(calls).node == "n1"


class TestSetAside:
    """Decisions may run in a worker while extenders are called."""

    VERBS: Mapping[str, object] = {
        "filter": lambda sent: {
            "NodeNames": [
                n
                for n in sent["NodeNames"]
                if (len(sent["Pod"]["metadata"]["name"]) + int(n[1:])) % 3
            ]
        },
        "prioritize": lambda sent: [
            {"Host": n, "Score": (7 * int(n[1:]) + len(sent["Pod"]["metadata"]["name"])) % 4}
            for n in sent["NodeNames"]
        ],
        "preempt": lambda sent: {"NodeNameToMetaVictims": sent["NodeNameToMetaVictims"]},
        "bind": {},
    }

    def test_they_are_what_they_would_have_been(self) -> None:
        """In a worker thread or not: the same nodes, messages, victims and ties."""
        assert self.decided(threaded=True) == self.decided(threaded=False)

    def decided(self, *, threaded: bool) -> list[tuple[str, str, list[str]]]:
        """Decide some pods, more and more of them unschedulable; return the results."""
        random, found = Random(7), []
        with extender(self.VERBS) as calls:
            scheduler = scheduler_of(entry(calls, *self.VERBS), nodes=4, cpu="3")
            for i in range(14):
                pod = {"priority": random.choice((0, 10)), "cpu": random.choice(("1", "2"))}
                make = partial(run, scheduler, "p" * random.randrange(1, 9) + str(i), **pod)
                outcome = begun(make).result(60) if threaded else make()
                decision = outcome.decision
                victims = decision.victims if isinstance(decision, Preempt) else ()
                found.append((outcome.node, outcome.message, [one.name for one in victims]))
        assert len({node for node, _, _ in found}) > 3
        assert any(victims for _, _, victims in found)
        return found
