"""The console over a live cluster and over a running scheduler: current numbers, and no write."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import aiohttp

from policy_sched.console import RunningSource, serving
from policy_sched.console.pages import Query, Results, overview, pods
from tests.console.browsing import Browser
from tests.instance.app.test_cluster_instance import World, acted, node, pod, until
from tests.instance.shadow.test_instance import POLICY, Beside

PAGES = ("/", "/pods", "/pods?by=reason", "/pods/default/huge", "/pods/default/p1", "/nodes/a")


def test_a_live_cluster_is_watched_and_never_written(tmp_path: Path) -> None:
    """Beside another scheduler: every page works, follows the cluster, and only GETs are sent."""

    async def play(world: World) -> None:
        async with world.served():
            beside = Beside(world, tmp_path)
            world.apply(node("a"), node("b"), pod("huge", "64"))
            async with beside.running() as instance, world.scheduler():
                source = RunningSource(instance, "a cluster")
                jar = aiohttp.CookieJar(unsafe=True)
                async with serving(source) as server, aiohttp.ClientSession(cookie_jar=jar) as s:
                    browser = await Browser(server, s).opened()
                    before = dict(source.versions())
                    world.apply(*(pod(f"p{i}") for i in range(4)))
                    await until(partial(_placed, source, 4))
                    await source.choose_all()
                    assert source.versions()["pods"] > before["pods"]
                    for path in PAGES:
                        status, text, _ = await browser.get(path)
                        assert status == 200, path
                        assert "live, read-only" in text
                    _, text, _ = await browser.get("/pods/default/huge")
                    assert "fits on none of 2 nodes" in text
                    assert "Insufficient cpu" in text
            assert beside.proxy.requests
            assert beside.proxy.writes == []

    acted(play)


def _placed(source: RunningSource, count: int) -> bool:
    return sum(bool(other.spec.node_name) for other in source.pods()) == count


def test_a_shadow_says_what_it_would_do_with_pods_that_wait(tmp_path: Path) -> None:
    """Its own policies decide: a pod that another scheduler left alone has a node or a reason."""

    async def play(world: World) -> None:
        async with world.served():
            beside = Beside(world, tmp_path)
            beside.policy.write_text(POLICY % "a")
            world.apply(node("a"), pod("small"), pod("huge", "64"))
            async with beside.running() as instance:
                source = RunningSource(instance, "a cluster")
                await until(lambda: len(source.waiting()) == 2)
                world.apply(node("b"))
                await until(lambda: instance.scheduler.cache.nodes.live_count == 2)
                await source.choose_all()
                by_key = {value.key: value for value in source.waiting().values()}
                assert by_key["default/small"].node == "b"
                assert by_key["default/huge"].reason == "Insufficient cpu"
                table = overview.view(source, Query("/", {}), Results())["sections"][0].blocks[0]
                assert [row[1] for row in table.rows] == ["1"]
                how = pods.view(source, Query("/pods", {}), Results())["how"]
                assert how.startswith("Each pod that waits is decided alone")
            assert beside.proxy.writes == []

    acted(play)


def test_a_running_scheduler_shows_its_queue_and_its_decisions() -> None:
    """Rejected pods have their reasons, decided pods their history, and samples become curves."""

    async def play(world: World) -> None:
        async with world.served():
            world.apply(node("a"), pod("huge", "64"), pod("small"))
            async with world.scheduler() as instance:
                source = RunningSource(instance, "a cluster")
                await until(lambda: "default/huge" in instance.log.failures)
                await until(partial(_placed, source, 1))
                await until(lambda: len(source.waiting()) == 1)  # the binding has ended, too
                source.sample()
                await until(lambda: instance.now() > source.history.samples[-1].time)
                source.sample()
                assert source.status.kind == "instance"
                (waiting,) = source.waiting().values()
                assert (waiting.queue, waiting.reason) == ("unschedulable", "Insufficient cpu")
                assert [other.node for other in source.decided("default/small")] == ["a"]
                values = overview.view(source, Query("/", {}), Results())
                assert [chart.name for chart in values["charts"]] == ["queues", "decisions"]
                listed = pods.view(source, Query("/pods", {"state": "pending"}), Results())
                assert listed["lead"] == "1 of 2 pods: 1 without one"
                wanted = next(other for other in source.pods() if other.metadata.name == "small")
                row = instance.scheduler.cache.nodes.row_of["a"]
                on = dict(instance.scheduler.cache.nodes.pods_on(row))
                assert source.explained(wanted, top=5).best == ["a"]
                assert dict(instance.scheduler.cache.nodes.pods_on(row)) == on
                assert instance.scheduler.cache.check() == []
                assert {other.kind for other in source.objects()} >= {"Pod", "Node"}

    acted(play)
