"""Steps: the work of each, under a timer that counts its readings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from threading import current_thread, main_thread

import pytest

from policy_sched.instance.app.embedded_instance import EmbeddedInstance
from policy_sched.instance.app.instance import FURTHEST, LONG, LongTurns
from policy_sched.profiles.reload.store import ReloadResult
from policy_sched.queue.backoff import SECOND
from policy_sched.scheduler.attempt import Attempt
from tests.instance.app.test_embedded_instance import World, pod
from tests.profiles.policy_texts import keeping, write

CROWD = 30
"""Pods that fit nowhere."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A policy that selects node a, and two nodes; unschedulable pods, all tried once."""
    world = World(tmp_path)
    instance = world.start()
    readings = count()
    instance.metrics.attempts.timer = lambda: float(next(readings))
    instance.slice = 5.0  # a step begins nothing new after so many readings of the timer
    world.files(crowd="".join(pod(f"big{i:02}", cpu="4500m") for i in range(CROWD)))
    instance.apply(instance.manifests.read())
    steps(world, quiet(instance))
    assert instance.queue_lengths()["unschedulable"] == CROWD
    world.clock.ns += 60 * SECOND
    yield world
    instance.cluster.close()


def steps(world: World, until: Callable[[], bool], most: int = 5000) -> int:
    """Run steps until a condition holds; return their number."""
    for number in range(most):
        world.instance.step()
        if until():
            return number + 1
    raise AssertionError("it does not become the case")


def quiet(instance: EmbeddedInstance) -> Callable[[], bool]:
    """Return a function that returns whether nothing is due."""

    def found() -> bool:
        wakeup = instance.next_wakeup()
        return wakeup is None or wakeup > instance.now()

    return found


def node(name: str, cpu: str) -> str:
    """Return the manifest of a node."""
    status = f"{{allocatable: {{cpu: {cpu}, memory: 8Gi, pods: 10}}}}"
    return f"apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\nstatus: {status}\n---\n"


def test_one_event_is_applied_to_all_pods_before_the_next_pod(world: World) -> None:
    """A node that requeues many pods: all of them are ready when the next one is decided."""
    instance = world.instance
    world.policy("true")
    world.reload()
    world.files(more=node("c", "5"))
    instance.apply(instance.manifests.read())
    ready: list[int] = []

    def watched(_attempt: Attempt) -> None:
        ready.append(instance.queue_lengths()["active"])

    instance.scheduler.observers.deciding.append(watched)
    steps(world, quiet(instance))
    assert ready == list(range(CROWD - 1, -1, -1))
    assert [name for i in range(CROWD) if (name := world.node_of(f"big{i:02}"))] == ["c"]


def test_a_step_ends_between_two_pods_when_its_slice_is_over(world: World) -> None:
    """Leases and probes run in between; the next step follows at once."""
    instance = world.instance
    world.policy("true")
    world.reload()
    world.files(more=node("c", "5"))
    instance.apply(instance.manifests.read())
    decided = []
    while not quiet(instance)():
        decided.append(instance.step())
    assert sum(decided) >= CROWD
    assert max(decided) < CROWD


def test_pods_have_their_turn_between_two_changes_that_take_long(world: World) -> None:
    """With any number of such changes, a pod that fits is bound after the first of them."""
    instance = world.instance
    world.files(small=pod("small"), **{f"n{i}": node(f"n{i}", "1") for i in range(5)})
    instance.apply(instance.manifests.read())
    steps(world, lambda: world.node_of("small") == "a")
    assert instance.feed.behind
    steps(world, quiet(instance))


def test_a_reload_is_whole_when_it_returns(world: World) -> None:
    """All pods that may be schedulable now are ready, and the new policies decide the next one."""
    instance = world.instance
    world.policy('node.name != "a"')
    assert instance.reload(instance.reloader.store.prepare(), "test").result is ReloadResult.LOADED
    lengths = instance.queue_lengths()
    assert lengths["active"] + lengths["backoff"] + lengths["unschedulable"] == CROWD
    steps(world, quiet(instance))


def test_the_end_comes_between_two_steps(world: World) -> None:
    """No further pod is popped, however many are ready."""
    instance = world.instance
    world.files(more=node("c", "5"))
    instance.apply(instance.manifests.read())
    instance.stop()
    steps(world, lambda: instance.stopped)
    assert not [i for i in range(CROWD) if world.node_of(f"big{i:02}")]


def test_a_search_that_goes_node_by_node_is_made_in_the_worker(world: World) -> None:
    """For a preemptor with anti-affinity: the event loop continues meanwhile."""
    instance = world.instance
    high = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nvalue: 10\n"
    apart = "{labelSelector: {matchLabels: {app: x}}, topologyKey: kubernetes.io/hostname}"
    rule = f"{{requiredDuringSchedulingIgnoredDuringExecution: [{apart}]}}"
    more = f"spec: {{priorityClassName: high, affinity: {{podAntiAffinity: {rule}}}, "
    world.files(low=pod("low", cpu="3"), high=f"{high}metadata: {{name: high}}\n---\n")
    instance.apply(instance.manifests.read())
    steps(world, lambda: world.node_of("low") == "a")
    threads: list[bool] = []

    def watched(_attempt: Attempt) -> None:
        threads.append(current_thread() is main_thread())

    async def play() -> None:
        while not instance.deciding:
            instance.step()
        while instance.deciding:
            instance.step()
            await asyncio.sleep(0)

    instance.scheduler.observers.deciding.append(watched)
    world.files(vip=pod("vip", cpu="3").replace("spec: {", more))
    instance.apply(instance.manifests.read())
    asyncio.run(play())
    assert threads[-2:] == [True, False]
    assert instance.scheduler.handle.nominator.pods_on("a")


CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: a-slice}
spec:
  driver: gpu.example.com
  nodeName: a
  pool: {name: a, generation: 1, resourceSliceCount: 1}
  devices: [DEVICES]
"""
DEVICE = """{name: dNUMBER, attributes: {g: {string: gPARITY}, u: {int: NUMBER}}}"""
REQUEST = """{name: rCOUNT, exactly: {deviceClassName: gpu, count: COUNT}}"""
HOPELESS = f"""\
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: NAME, namespace: default}}
spec:
  devices:
    requests: [{REQUEST.replace("COUNT", "9")}, {REQUEST.replace("COUNT", "8")}]
    constraints:
    - {{matchAttribute: gpu.example.com/g}}
    - {{distinctAttribute: gpu.example.com/u, requests: [r9]}}
---
apiVersion: v1
kind: Pod
metadata: {{name: NAME, namespace: default}}
spec:
  containers: [{{name: c, image: i}}]
  resourceClaims: [{{name: c, resourceClaimName: NAME}}]
"""


def test_claims_that_take_long_leave_the_loop_and_the_others_time(world: World) -> None:
    """One pod with such a claim ended every replica of the scheduler, one after the other.

    Its search is made in the worker, ends, and is followed by as much time for other pods; the next
    such pod is put off meanwhile.
    """
    instance = world.instance
    devices = ", ".join(
        DEVICE.replace("NUMBER", str(i)).replace("PARITY", str(i % 2)) for i in range(32)
    )
    world.files(claims=CLAIM.replace("DEVICES", devices))
    instance.apply(instance.manifests.read())
    threads: list[tuple[str, bool]] = []

    def watched(attempt: Attempt) -> None:
        pod = attempt.queued.info
        threads.append((pod.name, current_thread() is main_thread()))
        if current_thread() is not main_thread():
            world.clock.ns += 3 * SECOND  # so long it takes

    async def play() -> None:
        instance.scheduler.handle.budget.units = 20_000
        while world.node_of("small") != "a":
            instance.step()
            await asyncio.sleep(0)

    instance.scheduler.observers.deciding.append(watched)
    # Of claims that are alike, the second one is known to be in vain.
    other = HOPELESS.replace("r9", "s9").replace("NAME", "second")
    both = HOPELESS.replace("NAME", "first") + other
    world.files(hopeless=both)
    instance.apply(instance.manifests.read())
    world.files(small=pod("small"))
    instance.apply(instance.manifests.read())
    asyncio.run(play())
    names = [name for name, _ in threads if not name.startswith("big")]
    assert names == ["first", "first", "second", "small"]
    assert [main for name, main in threads if name == "first"] == [True, False]
    queued = {one.info.name: one for one in instance.scheduler.queue.backoff()}
    assert queued["first"].consecutive_errors == 1
    assert (queued["second"].attempts, queued["second"].consecutive_errors) == (0, 0)
    assert queued["second"].backoff_until >= world.clock.ns


def test_rules_that_take_long_are_evaluated_in_the_worker(world: World) -> None:
    """Loops over a pod's annotation, 10,000,000 steps, held the event loop for 2 s a pod."""
    instance = world.instance
    words = 'pod.annotations["words"].split(",")'
    rule = f'{words}.all(x, {words}.all(y, x != "" || y != ""))'
    world.policy(f'node.name == "b" && (!("words" in pod.annotations) || {rule})')
    world.reload()
    threads: list[bool] = []

    def watched(attempt: Attempt) -> None:
        if attempt.queued.info.name == "wordy":
            threads.append(current_thread() is main_thread())

    async def play() -> None:
        while world.node_of("wordy") != "b":
            instance.step()
            await asyncio.sleep(0)

    instance.scheduler.observers.deciding.append(watched)
    annotation = ", annotations: {words: '" + ",".join("a" * 700) + "'}}"
    wordy = pod("wordy").replace("name: wordy", "name: wordy" + annotation[:-1], 1)
    world.files(wordy=wordy)
    instance.apply(instance.manifests.read())
    asyncio.run(play())
    assert threads == [True, False]


def test_pods_that_are_put_off_get_turns_one_after_the_other() -> None:
    """A thousand hopeless pods took turns until all were tried, and other pods had none."""
    gone: set[str] = set()
    turns = LongTurns(lambda uid: uid not in gone)
    assert turns.next(0, "first", apart=True) == 0
    turns.begin(10 * SECOND)
    turns.end(12 * SECOND, in_vain=True)
    at = 12 * SECOND
    put = [turns.next(at, f"p{i}", apart=True) for i in range(40)]
    assert put[:3] == [14 * SECOND, 18 * SECOND, 22 * SECOND]
    assert put[-1] == at + FURTHEST
    assert turns.next(at, "group", apart=False) == 14 * SECOND  # it takes nothing to see that
    gone |= {f"p{i}" for i in range(1, 40)}
    assert turns.next(at, "next", apart=True) == 18 * SECOND  # turns of deleted pods are free
    assert turns.next(14 * SECOND, "p0", apart=True) == 0


@pytest.mark.parametrize(("took", "in_vain"), [(LONG - 1, True), (9 * SECOND, False)])
def test_what_is_short_or_found_puts_nothing_off(took: int, in_vain: bool) -> None:
    """Gangs that find their nodes follow one another at once."""
    turns = LongTurns(lambda _: True)
    turns.begin(SECOND)
    turns.end(SECOND + took, in_vain=in_vain)
    assert turns.next(SECOND + took, "p", apart=True) == 0


def test_a_group_is_executed_in_slices(world: World) -> None:
    """The outcomes of 10,000 pods of a group held the event loop for 2 s."""
    instance = world.instance
    together = "  placement:\n    domain: node.name\n"
    write(world.folder / "policies" / "keep.yaml", keeping("Keep", "true") + together)
    world.reload()
    label = ", labels: {scheduling.x-k8s.io/pod-group: ring}}"
    members = "".join(
        pod(f"m{i:02}", "9").replace(f"name: m{i:02}}}", f"name: m{i:02}{label}") for i in range(20)
    )
    world.files(members=members)
    instance.apply(instance.manifests.read())
    left: list[int] = []

    def waiting() -> int:
        return sum(bool(one.info.pod_group) for one in instance.scheduler.queue.unschedulable())

    async def play() -> None:
        while instance.feed.behind or waiting() < 20:
            instance.step()
            if instance.executing:
                assert instance.next_wakeup() == instance.now()
                assert instance.deciding
                left.append(len(instance.scheduler.queue.in_flight()))
            await asyncio.sleep(0)

    asyncio.run(play())
    assert len(set(left)) > 2
