"""Promises of inputs in a running scheduler: which object counts, and what a change wakes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from policy_sched.cluster.inputs import InputProblem
from policy_sched.cluster.tables.aggregates import Contribute, Contribution
from policy_sched.model.meta import CustomObject, ObjectMeta, datetime_of
from policy_sched.model.pod_info import PodInfo
from policy_sched.plugins.rules.inputs import inputs_of
from policy_sched.scheduler import event_handlers
from policy_sched.scheduler.scheduler import Outcome, Scheduler
from policy_sched.scheduler.setup.factory import build
from policy_sched.testing import make_node, make_pod
from tests.scheduler.random_objects import INPUT_SCHEMA


def scheduler_of(folder: Path, **sections: object) -> Scheduler:
    """Return a scheduler of two nodes with a policy that reads loads, quotas and places."""
    kinds = {"schema": "inputs.json", "apiVersion": "example.com/v1", "most": 3}
    inputs = [
        {"name": "loads", "kind": "Load", "key": "object.name", **kinds},
        {"name": "quotas", "kind": "Quota", "key": "object.namespace", **kinds},
        {"name": "places", "kind": "Place", "key": 'object.spec.open ? "n1" : "n2"', **kinds},
    ]
    document = {
        "apiVersion": "policysched.dev/v1alpha1",
        "kind": "Policy",
        "metadata": {"name": "P"},
        "spec": {"inputs": inputs, **sections},
    }
    (folder / "inputs.json").write_text(INPUT_SCHEMA, encoding="utf-8")
    (folder / "p.yaml").write_text(json.dumps(document), encoding="utf-8")
    scheduler = build(policies=[str(folder / "p.yaml")])
    for name in ("n1", "n2"):
        event_handlers.node_seen(scheduler, make_node(name))
    return scheduler


def an_object(
    kind: str, name: str, namespace: str = "", age: int = 0, **spec: object
) -> CustomObject:
    """Return an object; of two the one of the greater age is older."""
    meta = ObjectMeta(
        name=name, namespace=namespace, creation_timestamp=datetime_of((100 - age) * 10**9)
    )
    return CustomObject(
        api_version="example.com/v1", kind=kind, metadata=meta, content={"spec": spec}
    )


def seen(scheduler: Scheduler, *objects: CustomObject) -> None:
    """Let objects come, or change."""
    for one in objects:
        event_handlers.object_seen(scheduler, None, one)


def run(scheduler: Scheduler) -> list[str]:
    """Schedule what is due; return the nodes that pods get, or why they get none."""
    ended: list[Outcome] = []
    while (outcome := scheduler.schedule_one()) is not None:
        ended.append(outcome)
    return [outcome.node or outcome.message for outcome in ended]


NOT_LOADED = [
    {
        "expression": "inputs.loads[?node.name].optMap(l, l.spec.level).orValue(0) < 60",
        "message": "loaded",
    }
]
OPEN = "inputs.quotas[?pod.namespace].optMap(q, q.spec.open).orValue(true)"


def test_a_pod_waits_for_the_object_of_its_node(tmp_path: Path) -> None:
    """A pod that every node refused slept on though a node's load went down."""
    scheduler = scheduler_of(tmp_path, filter=NOT_LOADED)
    seen(scheduler, an_object("Load", "n1", level=70), an_object("Load", "n2", level=80))
    event_handlers.pod_seen(scheduler, PodInfo.of(make_pod("p")))
    assert "2 loaded" in run(scheduler)[0]
    seen(scheduler, an_object("Load", "n1", level=65), an_object("Load", "elsewhere", level=1))
    assert len(scheduler.queue.unschedulable()) == 1
    seen(scheduler, an_object("Load", "n2", level=5))
    assert scheduler.queue.unschedulable() == []


def test_a_pod_waits_for_an_object_that_its_node_has_not(tmp_path: Path) -> None:
    """Only the key after the change names the node."""
    rule = NOT_LOADED[0]["expression"].replace("orValue(0)", "orValue(99)")
    scheduler = scheduler_of(tmp_path, filter=[{"expression": rule, "message": "unknown"}])
    event_handlers.pod_seen(scheduler, PodInfo.of(make_pod("p")))
    assert "2 unknown" in run(scheduler)[0]
    seen(scheduler, an_object("Load", "n1", level=5))
    assert scheduler.queue.unschedulable() == []


def test_an_object_that_gets_another_key_leaves_the_old_one(tmp_path: Path) -> None:
    """A pod that waits for the node of the old key tries again: the node has no object now."""
    rule = NOT_LOADED[0]["expression"].replace("loads", "places")
    scheduler = scheduler_of(tmp_path, filter=[{"expression": rule, "message": "taken"}])
    seen(
        scheduler,
        an_object("Place", "a", age=2, open=True, level=70),
        an_object("Place", "b", age=1, open=False, level=80),
    )
    event_handlers.pod_seen(scheduler, PodInfo.of(make_pod("p")))
    assert "2 taken" in run(scheduler)[0]
    seen(scheduler, an_object("Place", "a", age=2, open=False, level=75))
    assert scheduler.queue.unschedulable() == []
    assert told(scheduler) == ["a has the key 'n2', too, and is older"]


def test_an_object_changes_while_a_pod_is_decided(tmp_path: Path) -> None:
    """The pod does not wait for a change that has happened."""
    scheduler = scheduler_of(tmp_path, filter=NOT_LOADED)
    seen(scheduler, an_object("Load", "n1", level=70), an_object("Load", "n2", level=80))
    event_handlers.pod_seen(scheduler, PodInfo.of(make_pod("p")))
    attempt = scheduler.pop()
    assert attempt is not None
    chosen = scheduler.choose(attempt)
    seen(scheduler, an_object("Load", "n2", level=5))
    scheduler.execute(attempt, chosen)
    assert scheduler.queue.unschedulable() == []


def test_a_kind_that_is_not_read_any_more_raises_no_event(tmp_path: Path) -> None:
    """A reload dropped its input, and another input stayed."""
    scheduler = scheduler_of(tmp_path, filter=NOT_LOADED)
    load = an_object("Load", "n1", level=70)
    assert event_handlers.object_seen(scheduler, None, load) != ()
    _, *others = scheduler.cache.nodes.inputs
    scheduler.handle.shared(inputs_of).keep(others)
    assert event_handlers.object_seen(scheduler, load, load) == ()


def test_a_changed_object_concerns_the_row_of_its_node(tmp_path: Path) -> None:
    """The next decision evaluates that row alone, and none where no node has the key."""
    scheduler = scheduler_of(tmp_path, filter=NOT_LOADED)
    event_handlers.pod_seen(scheduler, PodInfo.of(make_pod("p")))
    run(scheduler)
    journal = scheduler.cache.nodes.journal
    for name, rows in ("elsewhere", []), ("n2", [scheduler.cache.nodes.row_of["n2"]]):
        version = journal.version
        seen(scheduler, an_object("Load", name, level=1))
        changes = journal.since(version)
        assert changes is not None
        assert changes.rows == rows


def test_a_gate_opens_for_the_next_equal_pod(tmp_path: Path) -> None:
    """A gate that depends on a quota was asked once for all pods that are alike."""
    scheduler = scheduler_of(tmp_path, preEnqueue=[{"expression": OPEN, "message": "shut"}])
    seen(scheduler, an_object("Quota", "q", "default", open=True))
    event_handlers.pod_seen(scheduler, PodInfo.of(make_pod("a")))
    assert run(scheduler) != []
    seen(scheduler, an_object("Quota", "q", "default", open=False))
    event_handlers.pod_seen(scheduler, PodInfo.of(make_pod("b")))
    assert run(scheduler) == []
    seen(scheduler, an_object("Quota", "q", "default", open=True))
    assert len(run(scheduler)) == 1


def test_the_older_of_two_objects_counts_until_it_goes(tmp_path: Path) -> None:
    """Which of two quotas of a namespace counted depended on which came last."""
    scheduler = scheduler_of(tmp_path, filter=[{"expression": OPEN, "message": "shut"}])
    shut, newer = (
        an_object("Quota", "z", "default", age=9, open=False),
        an_object("Quota", "a", "default", age=1, open=True),
    )
    seen(scheduler, newer, shut)
    (problem,) = scheduler.handle.shared(inputs_of).problems.values()
    assert problem.message == "default/z has the key 'default', too, and is older"
    again: list[InputProblem] = []
    scheduler.handle.shared(inputs_of).problems.tell = again.append
    seen(scheduler, newer)
    assert again == []
    event_handlers.pod_seen(scheduler, PodInfo.of(make_pod("p")))
    assert "shut" in run(scheduler)[0]
    event_handlers.object_gone(scheduler, shut)
    assert scheduler.queue.unschedulable() == []
    assert scheduler.handle.shared(inputs_of).problems == {}


def test_an_object_of_another_type_leaves_what_was_there(tmp_path: Path) -> None:
    """An object that changes its type is told of, and what is in force stays."""
    scheduler = scheduler_of(tmp_path, filter=[{"expression": OPEN, "message": "shut"}])
    seen(scheduler, an_object("Quota", "q", "default", open=False))
    seen(scheduler, an_object("Quota", "q", "default", open="maybe"))
    (problem,) = scheduler.handle.shared(inputs_of).problems.values()
    assert problem.message == "Expected `bool`, got `str` - at `$.spec.open`"
    event_handlers.pod_seen(scheduler, PodInfo.of(make_pod("p")))
    assert "shut" in run(scheduler)[0]
    seen(scheduler, an_object("Quota", "q", "default", open=True))
    assert scheduler.handle.shared(inputs_of).problems == {}


@pytest.mark.parametrize(("count", "fails"), [(3, False), (4, True)])
def test_more_objects_than_stated_fail_the_rule(tmp_path: Path, count: int, fails: bool) -> None:
    """A rule over all objects reads as many as the input states, else it is an error."""
    rule = "inputs.loads.all().size() > 0"
    scheduler = scheduler_of(
        tmp_path, filter=[{"expression": rule, "message": "no", "onError": "Reject"}]
    )
    seen(scheduler, *(an_object("Load", f"l{i}") for i in range(count)))
    event_handlers.pod_seen(scheduler, PodInfo.of(make_pod("p")))
    (said,) = run(scheduler)
    assert ("index out of range" in said) is fails


def json_quota(name: str, size: int = 0) -> CustomObject:
    """Return a quota whose content is JSON, as a watch brings it."""
    item = an_object("Quota", name, name)
    item.content = json.dumps({"spec": {"open": True, "note": "x" * size}}).encode()
    return item


def told(scheduler: Scheduler) -> list[str]:
    """Return the problems of objects, and how many objects there are."""
    inputs = scheduler.handle.shared(inputs_of)
    return [problem.message for problem in inputs.problems.values()]


def quotas(scheduler: Scheduler) -> int:
    """Return how many quotas the input has."""
    return scheduler.handle.shared(inputs_of).counts()["quotas"][0]


def test_objects_beyond_the_limit_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100,000 of them; here 3. When one goes, there is room for the next one that changes."""
    monkeypatch.setattr("policy_sched.cluster.inputs.MAX_OBJECTS", 3)
    scheduler = scheduler_of(tmp_path, preEnqueue=[{"expression": OPEN, "message": "closed"}])
    items = [json_quota(f"q{i}") for i in range(4)]
    seen(scheduler, *items)
    assert told(scheduler) == ["more than 3 objects"]
    assert quotas(scheduler) == 3
    seen(scheduler, json_quota("q0"))  # one that is there may change
    event_handlers.object_gone(scheduler, items[1])
    seen(scheduler, json_quota("q3"))
    assert (told(scheduler), quotas(scheduler)) == ([], 3)


def test_objects_have_so_many_bytes_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """256 MiB of JSON; here a few. What an object had does not count when it goes."""
    monkeypatch.setattr("policy_sched.cluster.inputs.MAX_BYTES", 3000)
    scheduler = scheduler_of(tmp_path, preEnqueue=[{"expression": OPEN, "message": "closed"}])
    first, second = json_quota("q0", 2000), json_quota("q1", 2000)
    seen(scheduler, first, second)
    assert quotas(scheduler) == 1
    assert "the objects have more than" in told(scheduler)[0]
    event_handlers.object_gone(scheduler, first)
    event_handlers.object_gone(scheduler, second)
    assert told(scheduler) == []
    seen(scheduler, json_quota("q1", 2000))
    assert (told(scheduler), quotas(scheduler)) == ([], 1)


def test_a_version_refused_for_bytes_leaves_those_of_the_one_that_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object that grew too large made room for others, though its old version still counted."""
    monkeypatch.setattr("policy_sched.cluster.inputs.MAX_BYTES", 3000)
    scheduler = scheduler_of(tmp_path, preEnqueue=[{"expression": OPEN, "message": "closed"}])
    seen(scheduler, json_quota("q0", 2000))
    seen(scheduler, json_quota("q0", 4000))
    seen(scheduler, json_quota("q1", 2000))
    assert (len(told(scheduler)), quotas(scheduler)) == (2, 1)
    seen(scheduler, json_quota("q0", 500))
    seen(scheduler, json_quota("q1", 2000))
    assert (told(scheduler), quotas(scheduler)) == ([], 2)


def test_holders_of_a_key_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """100 of them; here 2. The oldest counts, the others are told, each for its reason."""
    monkeypatch.setattr("policy_sched.cluster.inputs.MAX_SHARED", 2)
    scheduler = scheduler_of(tmp_path, preEnqueue=[{"expression": OPEN, "message": "closed"}])
    seen(scheduler, *(an_object("Quota", f"q{i}", "team", age=9 - i, open=True) for i in range(3)))
    assert told(scheduler) == [
        "team/q0 has the key 'team', too, and is older",
        "more than 2 objects have the key 'team'",
    ]
    assert quotas(scheduler) == 1


def test_so_many_problems_are_told_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100 at a time; here 2. The others are counted: thousands of events help nobody."""
    monkeypatch.setattr("policy_sched.cluster.inputs.TOLD", 2)
    scheduler = scheduler_of(tmp_path, preEnqueue=[{"expression": OPEN, "message": "closed"}])
    inputs, said = scheduler.handle.shared(inputs_of), []
    inputs.problems.tell = said.append
    seen(scheduler, *(an_object("Quota", f"q{i}", f"t{i}", open="much") for i in range(4)))
    assert (len(said), len(inputs.problems)) == (2, 4)


def test_an_object_that_changes_counts_those_pods_anew_that_read_it(tmp_path: Path) -> None:
    """All pods were counted anew, or none where the object was that of the pod's node."""
    aggregates = [
        {
            "name": "open",
            "by": "pod.namespace",
            "where": "inputs.quotas[?pod.namespace].optMap(q, q.spec.open).orValue(false)",
            "count": True,
        },
        {
            "name": "high",
            "by": "node.name",
            "where": "inputs.loads[?node.name].optMap(l, l.spec.level).orValue(0) > 5",
            "count": True,
        },
        {
            "name": "every",
            "by": "pod.namespace",
            "sum": "inputs.loads.all().map(l, l.spec.level).sum()",
        },
    ]
    rule = {"expression": "aggregates.high[node.name] < 1", "message": "high"}
    others = "aggregates.open[pod.namespace] + aggregates.every[pod.namespace] >= 0"
    scheduler = scheduler_of(tmp_path, aggregates=aggregates, filter=[rule], reserve=others)
    table = scheduler.handle.nodes.aggregates
    counted = {one.split("/")[1]: table[one] for one in table._by_name}
    calls: Counter[str] = Counter()
    for name, aggregate in counted.items():
        aggregate.contribute = _tallied(calls, name, aggregate.contribute)
    for i in range(6):
        pod = make_pod(f"p{i}", namespace=f"s{i % 3}", node_name=f"n{1 + i % 2}")
        event_handlers.pod_seen(scheduler, PodInfo.of(pod))
    calls.clear()
    seen(scheduler, an_object("Quota", "q", "s0", open=True))
    assert calls == {"open": 2}
    assert [counted["open"].value(f"s{i}") for i in range(3)] == [2, 0, 0]
    calls.clear()
    seen(scheduler, an_object("Load", "n1", level=9))
    assert calls == {"high": 3, "every": 6}
    assert [counted["high"].value(name) for name in ("n1", "n2")] == [3, 0]
    assert counted["every"].total() == 54
    scheduler.add_pod(PodInfo.of(make_pod("q")))
    assert run(scheduler) == ["n2"]
    calls.clear()
    event_handlers.object_gone(scheduler, an_object("Quota", "q", "s0", open=True))
    assert calls == {"open": 2}
    assert counted["open"].total() == 0


def test_a_moment_that_moves_touches_the_pods_that_it_passes(tmp_path: Path) -> None:
    """A rule over when a pod began counted all pods of the cluster anew after each poll."""
    aggregates = [
        {
            "name": "unseen",
            "by": "node.name",
            "since": "timestamp(inputs.loads[key].spec.level)",
            "count": True,
        },
        {
            "name": "late",
            "by": "pod.namespace",
            "since": 'timestamp(inputs.loads["n2"].spec.level)',
            "count": True,
        },
    ]
    rules = [
        {"expression": "aggregates.unseen[node.name] < 2", "message": "new pods"},
        {"expression": "aggregates.late[pod.namespace] < 4", "message": "late"},
    ]
    scheduler = scheduler_of(tmp_path, aggregates=aggregates, filter=rules)
    table = scheduler.handle.nodes.aggregates
    counted = {one.split("/")[1]: table[one] for one in table._by_name}
    for i in range(8):
        pod = make_pod(f"p{i}", node_name=f"n{1 + i % 2}", started=f"1970-01-01T00:00:0{i + 1}Z")
        event_handlers.pod_seen(scheduler, PodInfo.of(pod))
    calls: Counter[str] = Counter()
    for name, aggregate in counted.items():
        aggregate.contribute = _tallied(calls, name, aggregate.contribute)

    def values() -> list[int]:
        return [*map(counted["unseen"].value, ("n1", "n2")), counted["late"].total()]

    assert values() == [0, 0, 0], "without its object no pod of a key counts"
    seen(scheduler, an_object("Load", "n1", level=4), an_object("Load", "n2", level=5))
    assert values() == [2, 2, 4]
    event_handlers.pod_seen(scheduler, PodInfo.of(make_pod("q")))
    (why,) = run(scheduler)
    assert "2 new pods" in why
    seen(scheduler, an_object("Load", "n1", level=6))
    assert values() == [1, 2, 4]
    assert scheduler.queue.unschedulable() == [], "n1 may have room now"
    seen(scheduler, an_object("Load", "n2", level=7))
    assert values() == [1, 1, 2]
    assert not calls, "what a pod counts with is known"
    assert run(scheduler) != [why]
    event_handlers.object_gone(scheduler, an_object("Load", "n1", level=6))
    assert values()[0] == 0


def _tallied(calls: Counter[str], name: str, function: Contribute) -> Contribute:
    """Return a function that is counted when it is called."""

    def tallied(pod: PodInfo, row: int) -> Contribution | None:
        calls[name] += 1
        return function(pod, row)

    return tallied
