"""A scheduler among other clients: they bind, delete and steal the lease while it binds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from policy_sched.client.apimachinery.object import Key
from policy_sched.client.apimachinery.resources import NODE, POD
from policy_sched.client.kube.client import NotLeading
from policy_sched.client.kube.time.work_queue import SECOND, Clocks
from policy_sched.embedded.store.deletion import DeleteOptions
from policy_sched.instance.app.cluster_instance import ClusterInstance, LeaseLost
from policy_sched.model.pod_info import PodInfo
from policy_sched.profiles.reload.inputs import PolicyFiles
from tests.instance.app.test_cluster_instance import CLOCKS, World, acted, node, pod, until


def requested(instance: ClusterInstance, name: str) -> int:
    """Return the milli-cpu that the cache counts as used on a node."""
    table = instance.scheduler.cache.nodes
    return int(table.column(("requested", "cpu")).values[table.row_of[name]])


def known(instance: ClusterInstance) -> set[str]:
    """Return the names of the pods on nodes in the cache."""
    return {info.name for info in instance.scheduler.cache.pods.infos if info is not None}


def bind(world: World, name: str, to: str) -> None:
    """Bind a pod as another scheduler would."""
    world.cluster.store.bind("default", name, {"metadata": {"name": name}, "target": {"name": to}})


def once(world: World, path: str, act: Callable[[], None]) -> list[str]:
    """Act before the first POST to a path is handled; return all paths."""
    came: list[str] = []

    async def before(method: str, requests_seen: str) -> None:
        if method == "POST" and requests_seen.endswith(path):
            came.append(requests_seen)
            if len(came) == 1:
                act()

    world.before = before
    return came


def gone(world: World, name: str, kind: Any = POD) -> None:
    """Delete something at once."""
    key = Key(kind, "default" if kind == POD else "", name)
    world.cluster.store.delete(key, DeleteOptions(grace_seconds=0))


def sound(instance: ClusterInstance) -> bool:
    """Return whether nothing is under way and the cache is consistent."""
    quiet = not instance.scheduler.in_flight and not instance.client.lanes.busy
    return quiet and instance.scheduler.cache.check() == []


def alone(world: World, play: Callable[[ClusterInstance], Awaitable[None]]) -> Awaitable[None]:
    """Run a test with one scheduler that has listed the cluster."""

    async def whole() -> None:
        async with world.served(), world.scheduler() as instance:
            await until(lambda: instance.ready)
            await play(instance)

    return whole()


def test_pods_of_other_schedulers_use_their_resources() -> None:
    """They are not touched, but their resources count once they are bound."""

    async def play(world: World) -> None:
        world.apply(node("a"), pod("other", "3500m", schedulerName="other"))

        async def act(instance: ClusterInstance) -> None:
            world.apply(pod("small", "3000m"))
            await until(lambda: "small" in world.bound())
            assert "other" not in world.bound()
            gone(world, "small")
            bind(world, "other", "a")
            await until(lambda: requested(instance, "a") == 3500)
            world.apply(pod("late", "1000m"))
            await until(lambda: ("late", "FailedScheduling") in world.events())
            gone(world, "other")
            await until(lambda: "late" in world.bound())
            assert all(name != "other" for name, _ in world.events())

        await alone(world, act)

    acted(play)


def test_a_pod_bound_first_by_another_scheduler_stays_there() -> None:
    """The binding is rejected; the pod is read again, and counted on its real node."""

    async def play(world: World) -> None:
        world.apply(node("a"))
        came = once(world, "/web/binding", lambda: bind(world, "web", "z"))

        async def act(instance: ClusterInstance) -> None:
            world.apply(pod("web", "1000m"))
            await until(lambda: bool(came))
            await until(lambda: requested(instance, "a") == 0 and sound(instance))
            await until(lambda: instance.scheduler.queue.get(_uid(world, "web")) is None)
            world.apply(pod("next", "4000m"))
            await until(lambda: "next" in world.bound())
            assert world.bound()["web"] == "z"
            assert len(came) == 1
            assert ("web", "Scheduled") not in world.events()

        await alone(world, act)

    acted(play)


def _uid(world: World, name: str) -> str:
    return world.cluster.store.get(POD, "default", name).uid


def test_a_pod_that_the_kubelet_rejects_uses_nothing() -> None:
    """Two schedulers filled a node at once: OutOfcpu, and the cache is right again."""

    async def play(world: World) -> None:
        world.apply(node("a"), pod("theirs", "3000m", schedulerName="other"))
        once(world, "/ours/binding", lambda: bind(world, "theirs", "a"))

        async def act(instance: ClusterInstance) -> None:
            world.apply(pod("ours", "3000m"))
            await until(lambda: known(instance) == {"theirs"} and sound(instance))
            assert requested(instance, "a") == 3000
            failed = [
                one.data["status"]["reason"]
                for one in world.cluster.store.select(POD)
                if one.data["status"].get("phase") == "Failed"
            ]
            assert failed == ["OutOfcpu"]
            world.apply(pod("fits", "1000m"))
            await until(lambda: "fits" in world.bound())

        await alone(world, act)

    acted(play)


def test_a_pod_that_is_deleted_while_it_is_bound_is_forgotten() -> None:
    """Its resources are free, and it is not retried."""

    async def play(world: World) -> None:
        world.apply(node("a"))
        came = once(world, "/web/binding", lambda: gone(world, "web"))

        async def act(instance: ClusterInstance) -> None:
            world.apply(pod("web", "3000m"))
            uid = _uid(world, "web")
            await until(lambda: bool(came))
            await until(lambda: requested(instance, "a") == 0 and sound(instance))
            await until(lambda: instance.scheduler.queue.get(uid) is None)
            world.apply(pod("next", "4000m"))
            await until(lambda: "next" in world.bound())
            assert len(came) == 1

        await alone(world, act)

    acted(play)


def test_a_node_deleted_during_a_binding_to_it_is_gone() -> None:
    """The pod stays bound to it, as in the API; others go to existing nodes."""

    async def play(world: World) -> None:
        world.apply(node("a"))
        once(world, "/web/binding", lambda: gone(world, "a", NODE))

        async def act(instance: ClusterInstance) -> None:
            world.apply(pod("web", "3000m"))
            await until(lambda: instance.scheduler.cache.nodes.live_count == 0)
            await until(lambda: sound(instance))
            world.apply(pod("next", "3000m"))
            await until(lambda: ("next", "FailedScheduling") in world.events())
            world.apply(node("b"))
            await until(lambda: world.bound().get("next") == "b")
            await until(lambda: sound(instance))

        await alone(world, act)

    acted(play)


def test_a_lease_that_is_lost_stops_what_was_decided() -> None:
    """Between decision and write: nothing is written, and the instance ends."""

    async def play(world: World) -> None:
        world.apply(node("a"))
        later = [0]
        world.clocks = Clocks(CLOCKS.wall, lambda: CLOCKS.monotonic() + later[0])
        came = once(world, "/binding", lambda: None)
        async with world.served(), world.scheduler("one") as instance:
            await until(lambda: instance.may_begin)
            refused: list[Any] = []
            info = PodInfo.of(next(iter(_pods(world, instance, pod("web")))))
            later[0] = 60 * SECOND
            assert not instance.leads
            instance.client.bind(info, "a", refused.append)
            await until(lambda: bool(refused))
            assert isinstance(refused[0], NotLeading)
            await until(lambda: _ended(instance))
        assert came == []

    acted(play)


def _pods(world: World, _instance: ClusterInstance, *things: dict[str, Any]) -> list[Any]:
    """Create pods of an absent scheduler; return them."""
    for thing in things:
        thing["spec"]["schedulerName"] = "other"
    world.apply(*things)
    return [one.typed for one in world.cluster.store.select(POD)]


def _ended(instance: ClusterInstance) -> bool:
    try:
        instance.step()
    except LeaseLost:
        return True
    return False


POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata:
  name: site
spec:
  filter:
  - expression: node.name == "{name}"
    message: not here
"""


def test_a_standby_reloads_policies_as_well(tmp_path: Path) -> None:
    """When it becomes leader, the current files are in force."""

    async def play(world: World) -> None:
        file = tmp_path / "site.yaml"
        file.write_text(POLICY.format(name="a"), encoding="utf-8")
        world.policies = PolicyFiles(None, (str(file),))
        world.apply(node("a"), node("b"))
        async with world.served(), world.scheduler("two") as standby:
            async with world.scheduler("one") as leader:
                await until(lambda: leader.leads or standby.leads)
                idle = standby if leader.leads else leader
                await until(lambda: leader.ready and standby.ready)
                world.apply(pod("first"))
                await until(lambda: world.bound().get("first") == "a")
                file.write_text(POLICY.format(name="b"), encoding="utf-8")
                for instance in (leader, standby):
                    instance.reload(instance.reloader.store.prepare(), "test")
                assert not idle.leads
            await until(lambda: standby.leads)
            world.apply(pod("second"))
            await until(lambda: world.bound().get("second") == "b")

    acted(play)


def test_the_lease_is_released_though_events_wait() -> None:
    """At shutdown, bindings are awaited, events are not."""

    async def play(world: World) -> None:
        world.apply(node("a"))

        async def before(method: str, path: str) -> None:
            if method == "POST" and path.endswith("/events"):
                await asyncio.sleep(60)

        world.before = before
        async with world.served(), world.scheduler("one") as instance:
            await until(lambda: instance.may_begin)
            world.apply(pod("web"))
            await until(lambda: "web" in world.bound() and bool(instance.client.events.waiting))
            instance.stop()
            await until(lambda: instance.stopped)
            assert instance.client.events.waiting

    acted(play)


@pytest.mark.parametrize("kind", ["nodes", "pods"])
def test_nothing_is_decided_while_a_watch_of_nodes_or_pods_is_broken(kind: str) -> None:
    """A broken watch hides the bindings of others."""

    async def play(world: World) -> None:
        world.apply(node("a"))
        heard = asyncio.Event()

        async def before(method: str, path: str) -> None:
            if path == f"/api/v1/{kind}":
                await heard.wait()

        async with world.served():
            pass  # an address
        async with world.scheduler() as instance:
            async with world.served():
                await until(lambda: instance.may_begin)
            await until(lambda: not instance.may_begin)
            messages = "Watch failed"
            troubles = await until(lambda: [one for one in world.records if one["msg"] == messages])
            assert troubles[0]["level"] == "warning"
            assert troubles[0]["error"].startswith("GET /")
            world.before = before
            world.apply(pod("web"))
            async with world.served():
                reflectors = instance.informers.reflectors
                (other,) = (one for one in reflectors if one.selection.kind[1] == "Namespace")
                await until(lambda: other.following)
                for _ in range(20):
                    await asyncio.sleep(0.005)
                assert world.bound() == {}
                assert not instance.may_begin
                heard.set()
                await until(lambda: "web" in world.bound())

    acted(play)
