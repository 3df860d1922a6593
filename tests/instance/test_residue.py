"""Deleted objects leave nothing: no container keeps an entry for each of them."""

from __future__ import annotations

import asyncio
import gc
from collections import deque
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from policy_sched.client.kube.rest.streams import Stream
from policy_sched.instance.app.embedded_instance import EmbeddedInstance, Sources
from policy_sched.profiles.models.defaults import policies_directory
from policy_sched.profiles.reload.inputs import PolicyFiles
from policy_sched.testing import FakeClock
from tests.instance.app.test_cluster_instance import World, acted, node, pod, until

ROUNDS = 40
START = 1_800_000_000_000_000_000
CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {multiPoint: {enabled: [{name: Gang}]}}
"""
BOUNDED = {
    "_log": "the journal keeps 65,536 changes",
    "_ends": "as above, where its parts end",
    "_changes": "the history of the store keeps so many versions",
    "texts": "65,536 strings before unused ones are looked for: cluster/tables/test_interning",
    "_codes": "as above",
    "_columns": "1,024 columns before any is given up: test_column_eviction",
    "_image_columns": "as above",
    "_readers": "as above",
    "watched": "as above",
    "amounts": "as above",
    "by_match": "1,000 selectors: cluster/counts/selector_counts",
    "_pairs": "as above",
    "_terms": "those without a carrier go when they are many: cluster/carried_terms",
    "_kept": "books of terms with so many entries",
    "entries": "evaluations within 256 MiB, and what else an Lru has a limit for",
    "_resolved": "the terms of 8,192 pods: cluster/counts/existing_terms",
    "_own": "a book with so many entries",
    "_probation": "evaluations within 4 MiB",
    "_ghost": "4,096 signatures",
    "failures": "the last 10,000 pods that were rejected",
    "waited": "the last 10,000 pieces of work",
    "took": "as above",
    "_known": "the counts of 10,000 groups",
    "_heap": "those that are over go when their time has come",
    "evaluations": "folded into metrics after 4,096 attempts",
    "points": "as above",
    "plugins": "as above",
    "waits": "as above",
    "waiting": "as above",
    "_tries": "as above",
    "_took": "as above",
    "_waited": "as above",
    "last": "the last 50 decisions",
    "_series": "what was said in the last six minutes, 100,000 things at most",
    "_deadlines": "those of bindings that have ended go when their time has come",
}
"""Attributes that may have as many entries as there were rounds, and why they do not grow."""


def things(turn: int) -> Iterator[dict[str, Any]]:
    """Yield the new objects of each turn: a node, a namespace, and its contents."""
    node, space, group = f"n{turn}", f"ns{turn}", {"g": str(turn)}
    sizes = {"cpu": "64", "memory": "64Gi", "pods": "110"}
    yield _object("v1", "Node", node, status={"allocatable": sizes, "capacity": sizes})
    yield _object("v1", "Namespace", space)
    yield _object("storage.k8s.io/v1", "StorageClass", f"sc{turn}", provisioner="p")
    drivers = [{"name": "d", "nodeID": node, "allocatable": {"count": 5}}]
    yield _object("storage.k8s.io/v1", "CSINode", node, spec={"drivers": drivers})
    selector = {"selector": {"matchLabels": group}}
    budget = {"maxUnavailable": 1, **selector}
    yield _object("policy/v1", "PodDisruptionBudget", "b", space, spec=budget)
    service = {"selector": group, "ports": [{"port": 80}]}
    yield _object("v1", "Service", "s", space, spec=service)
    gang = "scheduling.x-k8s.io/pod-group"
    yield _object(
        f"{gang.partition('/')[0]}/v1alpha1", "PodGroup", "pg", space, spec={"minMember": 2}
    )
    for number in range(2):
        yield _pod(f"gang-{number}", space, {**group, gang: "pg"}, "1")
    terms = [{"labelSelector": {"matchLabels": group}, "topologyKey": "kubernetes.io/hostname"}]
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    yield _pod("apart", space, group, "1", affinity=apart)
    yield _pod("never", space, {gang: "never"}, "1000", priority=turn % 5)


def _object(version: str, kind: str, name: str, space: str = "", **rest: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": space} if space else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


def _pod(name: str, space: str, labels: dict[str, str], cpu: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": f"r/{name}", "resources": {"requests": {"cpu": cpu}}}
    found = _object("v1", "Pod", name, space)
    found["metadata"]["labels"] = labels
    found["spec"] = {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}
    return found


def large(root: object) -> Iterator[tuple[str, int]]:
    """Yield name and size of each container below an object with an entry for each round."""
    seen: set[int] = set()
    waiting: deque[tuple[object, str]] = deque([(root, "")])
    while waiting:
        thing, name = waiting.popleft()
        if id(thing) in seen or isinstance(thing, str | bytes | int | float | type):
            continue
        seen.add(id(thing))
        if isinstance(thing, dict | list | set | tuple | frozenset | deque):
            if len(thing) >= ROUNDS and not isinstance(thing, tuple | frozenset):
                yield name, len(thing)
            inside = thing.values() if isinstance(thing, dict) else thing
            waiting.extend((one, name) for one in inside)
            continue
        waiting.extend(_parts(thing))


def _parts(thing: object) -> Iterator[tuple[object, str]]:
    if isinstance(thing, BuiltinFunctionType | asyncio.AbstractEventLoop):
        return  # the loop refers to everything that runs in it, the server of a test included
    if isinstance(thing, MethodType):
        yield thing.__self__, "self"
    if isinstance(thing, FunctionType):
        yield from ((cell.cell_contents, "cell") for cell in thing.__closure__ or ())
        return
    yield from ((value, name) for name, value in getattr(thing, "__dict__", {}).items())
    for kind in type(thing).__mro__:
        slots = getattr(kind, "__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(thing, name):
                yield getattr(thing, name), name


def test_deleted_objects_leave_no_residue(tmp_path: Path) -> None:
    """Nodes, namespaces, groups, budgets, volumes and pods, bound and not, forty times."""
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    clock = FakeClock(START)
    files = PolicyFiles(str(config), (str(policies_directory() / "gang"),))
    instance = EmbeddedInstance(Sources(files), clock, lambda _record: None)

    def pass_time(seconds: int) -> None:
        clock.advance(seconds)
        while instance.next_wakeup() == clock():
            instance.step()
        instance.step()

    bound = 0
    before = set(large(instance))
    for turn in range(ROUNDS):
        made = [instance.cluster.apply(thing) for thing in things(turn)]
        pass_time(1)
        pass_time(1)
        bound += len(instance.scheduler.cache)
        for stored in reversed(made):
            instance.cluster.delete(stored.key)
        pass_time(1)
    for _ in range(5):
        pass_time(4000)
    assert bound >= 2 * ROUNDS
    assert not len(instance.scheduler.cache)
    kept = {name for name, size in large(instance)} - {name for name, _ in before}
    assert kept <= BOUNDED.keys(), sorted(kept - BOUNDED.keys())


def _is_bound(world: World, name: str) -> bool:
    return name in world.bound()


def cut() -> int:
    """Break the connections of all watches; return how many there were."""
    transports = [one._transport for one in gc.get_objects() if isinstance(one, Stream)]
    open_ones = [transport for transport in transports if transport is not None]
    for transport in open_ones:
        transport.abort()
    return len(open_ones)


def test_objects_watched_from_an_api_server_leave_no_residue_either() -> None:
    """Watches that are cut again and again, events, bindings and leases included."""
    found: set[str] = set()

    async def play(world: World) -> None:
        async with world.served(), world.scheduler("one") as instance:
            await until(lambda: instance.leads and instance.ready)
            cache, queue = instance.scheduler.cache, instance.scheduler.queue
            before = {name for name, _ in large(instance)}
            for turn in range(ROUNDS):
                name = f"p{turn}"
                made = [world.cluster.apply(thing) for thing in (node(f"n{turn}"), pod(name))]
                made.append(world.cluster.apply(pod(f"huge-{turn}", "64")))
                await until(partial(_is_bound, world, name))
                if turn % 8 == 7:
                    assert cut(), "nothing is watched"
                for stored in reversed(made):
                    world.cluster.delete(stored.key)
            await until(lambda: not (len(cache) or cache.nodes.live_count))
            await until(lambda: not any(queue.lengths().values()))
            events = instance.client.events
            await until(lambda: not (instance.client.lanes.busy or events.waiting or events._said))
            found.update({name for name, _ in large(instance)} - before)

    acted(play)
    assert found <= BOUNDED.keys(), sorted(found - BOUNDED.keys())
