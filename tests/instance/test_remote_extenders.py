"""A scheduler with slow extenders: only the pod they are called for waits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import pytest

from policy_sched.client.kube.auth.credentials import ClusterAccess
from policy_sched.client.kube.leaderelection.lease_lock import LEASE
from policy_sched.client.kube.rest.client import Api
from policy_sched.client.kube.rest.settings import ClientEnvironment, Settings
from policy_sched.instance.app.cluster_instance import ClusterInstance, LeaseLost
from policy_sched.instance.shadow.instance import ShadowInstance, ShadowOptions
from policy_sched.profiles.reload.inputs import PolicyFiles
from policy_sched.profiles.reload.store import PolicyStore, ReloadResult
from tests.instance.app.test_cluster_instance import (
    CLOCKS,
    LIMIT,
    WATCHING,
    World,
    _drive,
    acted,
    node,
    pod,
    until,
)
from tests.instance.test_remote_races import bind, gone, requested, sound
from tests.plugins.extenders.server import Calls, extender

Plain = dict[str, Any]
HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
SLOW = {"slow": "yes"}
FITS: Plain = {"NodeNames": ["a"]}


class Gate:
    """Delays an extender's response until it is opened."""

    def __init__(self) -> None:
        self.requested = Event()
        self.opened = Event()

    def before(self, response: Plain) -> Callable[[Plain], Plain]:
        """Return the response once the gate is open."""

        def answered(_sent: Plain) -> Plain:
            self.requested.set()
            self.opened.wait(LIMIT)
            return response

        return answered


@contextmanager
def gated(verbs: Mapping[str, Plain], slow: str) -> Iterator[tuple[Gate, Calls]]:
    """Serve an extender one of whose verbs waits at a gate."""
    gate = Gate()
    served = {
        verb: gate.before(response) if verb == slow else response
        for verb, response in verbs.items()
    }
    with extender(served) as calls:
        try:
            yield gate, calls
        finally:
            gate.opened.set()


def configured(calls: Calls, *verbs: str, **more: object) -> Plain:
    """Return a configuration with an extender for pods labelled as slow."""
    entry: Plain = {"urlPrefix": calls.address, "httpTimeout": "60s", "nodeCacheCapable": True}
    entry |= {f"{verb}Verb": verb for verb in verbs} | {"podSelector": {"matchLabels": SLOW}}
    return {**HEAD, "extenders": [entry | ({"weight": 1} if "prioritize" in verbs else {}) | more]}


def slow(name: str, **more: Any) -> Plain:
    """Return a pod for the extender."""
    made = pod(name, **more)
    made["metadata"]["labels"] = SLOW
    return made


@asynccontextmanager
async def scheduling(world: World, name: str = "") -> AsyncIterator[ClusterInstance]:
    """Serve the cluster, and schedule on it; with a name as a candidate that leads."""
    async with world.served(), world.scheduler(name) as instance:
        await until(lambda: instance.ready and instance.leads)
        yield instance
        instance.close()


def renewed(world: World) -> str:
    """Return when the lease was renewed."""
    stored = world.cluster.store.find(LEASE, "kube-system", "policy-sched")
    assert stored is not None
    return str(stored.data["spec"]["renewTime"])


@pytest.mark.parametrize("verb", ["filter", "prioritize", "bind"])
def test_the_lease_is_renewed_during_an_extender_call(verb: str) -> None:
    """Again and again; the pod is bound after the extender has answered."""
    response: Mapping[str, Any] = {
        "filter": {"NodeNames": ["a", "b"]},
        "prioritize": [],
        "bind": {},
    }

    async def play(world: World) -> None:
        with gated(response, verb) as (gate, calls):
            world.policies = PolicyFiles(configured(calls, *response), ())
            world.apply(node("a"), node("b"))
            async with scheduling(world, "one") as instance:
                world.apply(slow("p"))
                await until(gate.requested.is_set)
                for _ in range(3):
                    last = renewed(world)
                    await until(lambda: renewed(world) != last)  # noqa: B023
                assert instance.leads
                assert ("p", "Scheduled") not in world.events()
                gate.opened.set()
                await until(lambda: ("p", "Scheduled") in world.events())

    acted(play)


def test_changes_wait_until_the_decision_is_made() -> None:
    """Watches are read, but nothing changes during a decision: a new node comes too late."""

    async def play(world: World) -> None:
        with gated({"filter": {"NodeNames": ["a", "b"]}}, "filter") as (gate, calls):
            world.policies = PolicyFiles(configured(calls, "filter"), ())
            world.apply(node("a"))
            async with scheduling(world) as instance:
                world.apply(slow("p"))
                await until(gate.requested.is_set)
                world.apply(node("b"))
                await until(lambda: instance.informers.behind)
                assert instance.deciding
                assert instance.scheduler.cache.nodes.live_count == 1
                gate.opened.set()
                await until(lambda: instance.scheduler.cache.nodes.live_count == 2)
        ((_, sent),) = calls.requested
        assert sent["NodeNames"] == ["a"]

    acted(play)


def test_bindings_are_sent_during_an_extender_call() -> None:
    """The request continues; its result is applied after the decision."""

    async def play(world: World) -> None:
        with gated({"filter": FITS}, "filter") as (gate, calls):
            world.policies = PolicyFiles(configured(calls, "filter"), ())
            world.apply(node("a"))
            binding, go = held(world)
            async with scheduling(world) as instance:
                world.apply(pod("quick"))
                await binding.wait()
                world.apply(slow("p"))
                await until(gate.requested.is_set)
                assert instance.scheduler.in_flight == 1
                go.set()
                await until(lambda: "quick" in world.bound())
                assert instance.deciding
                gate.opened.set()
                await until(lambda: ("quick", "Scheduled") in world.events())
                await until(lambda: "p" in world.bound() and sound(instance))

    acted(play)


def test_a_binding_that_fails_meanwhile_is_undone_afterwards() -> None:
    """Its node is unchanged for the decision under way, and free for the next."""

    async def play(world: World) -> None:
        with gated({"filter": FITS}, "filter") as (gate, calls):
            world.policies = PolicyFiles(configured(calls, "filter"), ())
            world.apply(node("a"))
            binding, go = held(world)
            async with scheduling(world) as instance:
                world.apply(pod("quick", "3"))
                await binding.wait()
                world.apply(slow("p"))
                await until(gate.requested.is_set)
                gone(world, "quick")
                go.set()
                await until(lambda: instance.client.lanes.busy == 0)
                instance.step()
                assert (instance.scheduler.in_flight, requested(instance, "a")) == (1, 3000)
                gate.opened.set()
                await until(lambda: "p" in world.bound() and sound(instance))
                assert requested(instance, "a") == 500

    acted(play)


def held(world: World) -> tuple[asyncio.Event, asyncio.Event]:
    """Hold the first binding until the second event; the first is set when it arrives."""
    come, go = asyncio.Event(), asyncio.Event()

    async def before(method: str, path: str) -> None:
        if method == "POST" and path.endswith("/binding") and not come.is_set():
            come.set()
            await go.wait()

    world.before = before
    return come, go


def test_others_are_bound_while_an_extender_binds() -> None:
    """However long it takes; its own pod holds the node meanwhile."""

    async def play(world: World) -> None:
        with gated({"bind": {}}, "bind") as (gate, calls):
            world.policies = PolicyFiles(configured(calls, "bind"), ())
            world.apply(node("a"))
            async with scheduling(world) as instance:
                world.apply(slow("p"))
                await until(gate.requested.is_set)
                world.apply(*(pod(f"q{i}") for i in range(3)))
                await until(lambda: len(world.bound()) == 3)
                await until(lambda: instance.scheduler.in_flight == 1)
                assert requested(instance, "a") == 2000
                assert not instance.deciding
                gate.opened.set()
                await until(lambda: ("p", "Scheduled") in world.events())

    acted(play)


def test_a_slow_extender_takes_part_in_preemption() -> None:
    """The pod preempts after the extender has agreed."""

    async def play(world: World) -> None:
        answers: list[Plain] = [{}]
        with gated({"preempt": answers[0]}, "preempt") as (gate, calls):
            world.policies = PolicyFiles(configured(calls, "preempt"), ())
            high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 10}
            world.apply(high | {"metadata": {"name": "high"}})
            world.apply(node("a"), pod("low", "3", terminationGracePeriodSeconds=0))
            async with scheduling(world, "one") as instance:
                await until(lambda: "low" in world.bound())
                world.apply(slow("p", cpu="3", priorityClassName="high"))
                await until(gate.requested.is_set)
                ((_, sent),) = calls.requested
                answers[0]["NodeNameToMetaVictims"] = sent["NodeNameToMetaVictims"]
                last = renewed(world)
                await until(lambda: renewed(world) != last)
                assert instance.deciding
                gate.opened.set()
                await until(lambda: "p" in world.bound())
        assert "low" not in world.bound()

    acted(play)


def test_a_lost_lease_ends_it_during_an_extender_call() -> None:
    """It does not wait for the response, whose result is never written."""

    async def play(world: World) -> None:
        with gated({"filter": FITS}, "filter") as (gate, calls):
            world.policies = PolicyFiles(configured(calls, "filter"), ())
            world.apply(node("a"))
            async with scheduling(world, "one") as instance:
                world.apply(slow("p"))
                await until(gate.requested.is_set)
                steal(world)
                await until(lambda: not instance.leads)
                with pytest.raises(LeaseLost):
                    instance.step()
                assert instance._deciding is not None
                decision = instance._deciding[1]
                gate.opened.set()
                await until(lambda: decision.done() and not instance.client.lanes.busy)
        assert world.bound() == {}

    acted(play)


def steal(world: World) -> None:
    """Steal the lease."""
    stored = world.cluster.store.find(LEASE, "kube-system", "policy-sched")
    assert stored is not None
    data = stored.data
    world.cluster.store.revise(stored, {**data, "spec": {**data["spec"], "holderIdentity": "two"}})


def test_the_end_waits_for_an_extender() -> None:
    """No other pod is popped; the decision is made and executed."""

    async def play(world: World) -> None:
        with gated({"filter": FITS}, "filter") as (gate, calls):
            world.policies = PolicyFiles(configured(calls, "filter"), ())
            world.apply(node("a"))
            async with scheduling(world) as instance:
                world.apply(slow("p"))
                await until(gate.requested.is_set)
                instance.stop()
                world.apply(pod("late"))
                assert not instance.stopped
                gate.opened.set()
                await until(lambda: instance.stopped)
        assert world.bound() == {"p": "a"}

    acted(play)


def test_abandoned_calls_do_not_delay_the_exit() -> None:
    """An extender without a response in time is not awaited."""

    async def play(world: World) -> None:
        with gated({"filter": FITS}, "filter") as (gate, calls):
            world.policies = PolicyFiles(configured(calls, "filter"), ())
            world.apply(node("a"))
            async with scheduling(world):
                world.apply(slow("p"))
                await until(gate.requested.is_set)
        assert world.bound() == {}

    acted(play)


def test_a_reload_adds_extenders_and_removes_them(tmp_path: Path) -> None:
    """It takes effect between two decisions, and the next one calls the new extenders."""
    file = tmp_path / "config.yaml"

    def write(config: Plain) -> None:
        file.write_text(json.dumps(config), encoding="utf-8")

    async def play(world: World) -> None:
        with gated({"filter": FITS}, "filter") as (gate, calls):
            write(HEAD)
            world.policies = PolicyFiles(str(file), ())
            world.apply(node("a"))
            async with scheduling(world) as instance:
                world.apply(slow("first"))
                await until(lambda: "first" in world.bound())
                write(configured(calls, "filter"))
                await reloaded(instance)
                world.apply(slow("second"))
                await until(gate.requested.is_set)
                write(HEAD)
                reloading = asyncio.create_task(reloaded(instance))
                gate.opened.set()
                await reloading
                world.apply(slow("third"))
                await until(lambda: len(world.bound()) == 3)
        assert [sent["Pod"]["metadata"]["name"] for _, sent in calls.requested] == ["second"]

    acted(play)


async def reloaded(instance: ClusterInstance) -> None:
    """Reload when no decision is under way."""
    found = instance.reloader.store.prepare()
    await instance.settled()
    assert instance.reload(found, "test").result is ReloadResult.LOADED


@asynccontextmanager
async def shadowing(world: World) -> AsyncIterator[ShadowInstance]:
    """Run a shadow of the default scheduler."""
    access, settings = (
        ClusterAccess(f"http://{world.address.text}"),
        Settings(qps=0, read_only=True),
    )
    instance = ShadowInstance(
        PolicyStore(world.policies, CLOCKS.wall),
        Api(access, ClientEnvironment(CLOCKS, Random(1)), settings),
        ShadowOptions("default-scheduler"),
        world.records.append,
        watching=WATCHING,
    )
    tasks = [asyncio.create_task(work) for work in (*instance.beside(), _drive(instance))]
    try:
        yield instance
    finally:
        for task in reversed(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        instance.close()


def test_a_shadow_calls_extenders_without_blocking() -> None:
    """A comparison waits for the answer, and so does what comes after it; nothing else does."""

    async def play(world: World) -> None:
        with gated({"filter": {"NodeNames": ["b"]}}, "filter") as (gate, calls):
            world.policies = PolicyFiles(configured(calls, "filter"), ())
            world.apply(node("a"), node("b"))
            async with world.served(), shadowing(world) as instance:
                await until(lambda: instance.ready)
                world.apply(slow("p"))
                bind(world, "p", "a")
                await until(gate.requested.is_set)
                world.apply(node("c"))
                await until(lambda: instance.informers.behind)
                assert instance.deciding
                gate.opened.set()
                await until(lambda: instance.scheduler.cache.nodes.live_count == 3)
                (record,) = (r for r in world.records if "differently" in r["msg"])
                assert (record["theirs"], record["ours"]) == ("a", "b")

    acted(play)


def test_extenders_score_side_by_side_while_the_lease_is_renewed() -> None:
    """All of them are called before any responds."""

    async def play(world: World) -> None:
        with (
            gated({"prioritize": {}}, "prioritize") as one,
            gated({"prioritize": {}}, "prioritize") as two,
        ):
            both = [configured(calls, "prioritize")["extenders"][0] for _, calls in (one, two)]
            world.policies = PolicyFiles({**HEAD, "extenders": both}, ())
            world.apply(node("a"), node("b"))
            async with scheduling(world, "one") as instance:
                world.apply(slow("p"))
                await until(lambda: all(gate.requested.is_set() for gate, _ in (one, two)))
                last = renewed(world)
                await until(lambda: renewed(world) != last)
                assert instance.deciding
                for gate, _ in (one, two):
                    gate.opened.set()
                await until(lambda: "p" in world.bound())

    acted(play)
