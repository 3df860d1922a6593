"""Steps that end in the middle of what takes long, under a timer that counts its readings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from policy_sched.instance.app.embedded_instance import EmbeddedInstance
from policy_sched.profiles.reload.store import Reload, Result
from policy_sched.queue.backoff import SECOND
from tests.instance.app.test_embedded_instance import World, pod

CROWD = 30
"""Pods that fit nowhere."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A policy that wants node a, and two nodes; pods that no node has room for, all tried once."""
    world = World(tmp_path)
    instance = world.start()
    readings = count()
    instance.metrics.attempts.timer = lambda: float(next(readings))
    instance.slice = 5.0  # a step ends after so many looks at the timer
    world.files(crowd="".join(pod(f"big{i:02}", cpu="4500m") for i in range(CROWD)))
    instance.apply(instance.read_manifests())
    steps(world, quiet(instance))
    assert instance.queue_lengths()["unschedulable"] == CROWD
    world.clock.ns += 60 * SECOND
    yield world
    instance.cluster.close()


def steps(world: World, until: Callable[[], bool], most: int = 5000) -> int:
    """Take steps until something is the case; return how many."""
    for number in range(most):
        world.instance.step()
        if until():
            return number + 1
    raise AssertionError("it does not become the case")


def quiet(instance: EmbeddedInstance) -> Callable[[], bool]:
    """Return what tells whether there is nothing to do."""

    def found() -> bool:
        wakeup = instance.next_wakeup()
        return not instance.half_done and (wakeup is None or wakeup > instance.now())

    return found


def node(name: str, cpu: str) -> str:
    """Return the manifest of a node."""
    status = f"{{allocatable: {{cpu: {cpu}, memory: 8Gi, pods: 10}}}}"
    return f"apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\nstatus: {status}\n---\n"


def wake_all(world: World) -> None:
    """Let a node come that has room for one, and step until it is half done who is woken."""
    world.files(more=node("c", "5"))
    world.instance.apply(world.instance.read_manifests())
    steps(world, lambda: world.instance.half_done)


def test_a_node_that_wakes_many_takes_many_steps(world: World) -> None:
    """In the middle each step goes on with it at once, and no pod is begun before its end."""
    instance = world.instance
    world.policy("true")
    world.reload()
    attempts = len(instance.log.last)
    wake_all(world)
    for _ in range(3):
        assert instance.step() == 0
        assert instance.half_done
        assert instance.next_wakeup() == instance.now()
    assert len(instance.log.last) == attempts
    steps(world, quiet(instance))
    assert [name for i in range(CROWD) if (name := world.node_of(f"big{i:02}"))] == ["c"]


def test_pods_have_their_turn_between_two_changes_that_take_long(world: World) -> None:
    """However many such changes there are, who fits is bound after the first of them."""
    instance = world.instance
    world.files(small=pod("small"), **{f"n{i}": node(f"n{i}", "1") for i in range(5)})
    instance.apply(instance.read_manifests())
    steps(world, lambda: world.node_of("small") == "a")
    assert instance.feed.behind
    steps(world, quiet(instance))


def test_a_reload_waits_for_its_turn_and_takes_several(world: World) -> None:
    """What was half done ends under the policies that it began with."""
    instance = world.instance
    wake_all(world)
    world.policy('node.name != "a"')
    reloads: list[Reload] = []
    instance.begin_reload(instance.read_policies(), "test", reloads.append)
    taken = steps(world, lambda: bool(reloads))
    assert taken > 3
    assert reloads[0].result is Result.LOADED
    steps(world, quiet(instance))
    placed = [name for i in range(CROWD) if (name := world.node_of(f"big{i:02}"))]
    assert placed == ["c"]


def test_the_end_waits_for_what_is_half_done(world: World) -> None:
    """Nothing is undone in the middle of something; then the instance has stopped."""
    instance = world.instance
    wake_all(world)
    instance.stop()
    assert not instance.stopped
    assert steps(world, lambda: instance.stopped) > 1
    assert not instance.half_done


def test_who_wants_to_see_the_scheduler_waits_until_it_is_settled(world: World) -> None:
    """An explanation never sees the middle of something."""
    instance = world.instance
    wake_all(world)
    seen: list[bool] = []

    async def look() -> None:
        asking = asyncio.create_task(instance.undisturbed(lambda: instance.scheduler.half_done))
        while not asking.done():
            instance.step()
            await asyncio.sleep(0)
        seen.append(asking.result())

    asyncio.run(look())
    assert seen == [False]
