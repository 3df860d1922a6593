"""A shadow on a live cluster: it watches another scheduler, and writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random

import msgspec
import pytest

from policy_sched.client.apimachinery.object import Key
from policy_sched.client.apimachinery.resources import POD
from policy_sched.client.kube.auth.credentials import ClusterAccess
from policy_sched.client.kube.rest.client import Api, WriteRefused
from policy_sched.client.kube.rest.settings import ClientEnvironment, Settings
from policy_sched.embedded.store.deletion import DeleteOptions
from policy_sched.errors import ClusterError, PolicySchedError
from policy_sched.instance.app.cluster_instance import ClusterInstance
from policy_sched.instance.http.status_pages import explained
from policy_sched.instance.observability.log import Record
from policy_sched.instance.shadow import log
from policy_sched.instance.shadow.instance import ShadowInstance, ShadowOptions, why
from policy_sched.profiles.reload.inputs import PolicyFiles
from policy_sched.profiles.reload.store import PolicyStore, ReloadResult
from tests.instance.app.test_cluster_instance import (
    CLOCKS,
    WATCHING,
    World,
    acted,
    node,
    pod,
    until,
)
from tests.instance.recording import Recording
from tests.instance.test_remote_races import bind
from tests.profiles.policy_texts import keeping

POLICY = keeping("Kept", 'node.name != "%s"', "node(s) were kept")


class Beside:
    """A shadow beside the schedulers of a world, through a recording proxy."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.records: list[Record] = []
        self.proxy = Recording(world.address.port)
        self.policy = folder / "policy.yaml"
        self.policy.write_text(POLICY % "a")
        self.file = folder / "shadow.jsonl"

    def instance(self, of: str = "default-scheduler", **limits: bool) -> ShadowInstance:
        """Return a shadow that decides by the policy."""
        settings = Settings(qps=0, read_only=limits.get("read_only", True))
        api = Api(
            ClusterAccess(f"http://127.0.0.1:{self.proxy.port}"),
            ClientEnvironment(CLOCKS, Random(1)),
            settings,
        )
        store = PolicyStore(PolicyFiles(None, (str(self.policy),)), CLOCKS.wall)
        options = ShadowOptions(of, str(self.file))
        return ShadowInstance(store, api, options, self.records.append, watching=WATCHING)

    @asynccontextmanager
    async def running(self, of: str = "default-scheduler") -> AsyncIterator[ShadowInstance]:
        """Run the shadow until the end."""
        async with self.proxy.served():
            instance = self.instance(of)
            tasks = [asyncio.create_task(work) for work in instance.beside()]
            tasks.append(asyncio.create_task(_drive(instance)))
            try:
                await until(lambda: instance.ready)
                yield instance
            finally:
                instance.stop()
                assert instance.stopped
                for task in reversed(tasks):
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                instance.close()

    def noted(self) -> list[log.ShadowRecord]:
        """Return the records of the file."""
        return msgspec.json.decode(
            b"[" + b",".join(self.file.read_bytes().splitlines()) + b"]",
            type=list[log.ShadowRecord],
        )

    def compared(self) -> dict[str, log.Comparison]:
        """Return the last comparison of each pod."""
        found = [one for one in self.noted() if isinstance(one, log.Comparison)]
        return {one.pod.removeprefix("default/"): one for one in found}


def _knows(instance: ClusterInstance, nodes: int) -> bool:
    return instance.scheduler.cache.nodes.live_count == nodes


async def _drive(instance: ShadowInstance) -> None:
    while True:
        instance.step()
        await asyncio.sleep(0.002)


def test_it_decides_beside_another_scheduler_and_writes_nothing(tmp_path: Path) -> None:
    """It sends only GETs; all pods are compared; the file has the usage of the nodes."""

    async def play(world: World) -> None:
        async with world.served():
            beside = Beside(world, tmp_path)
            world.apply(node("a"), pod("before", "1", nodeName="a"))
            async with beside.running() as instance, world.scheduler() as other:
                world.apply(*(pod(f"p{i}") for i in range(4)), pod("huge", "64"))
                await until(lambda: len(beside.compared()) == 5)
                world.apply(node("b"))  # pods may arrive sooner: they have a watch of their own
                for one in (instance, other):
                    await until(partial(_knows, one, 2))
                world.apply(pod("late", "2"))
                await until(lambda: "late" in beside.compared())
                world.cluster.delete(Key(POD, "default", "p0"), DeleteOptions(0))
                await until(lambda: any(isinstance(r, log.PodGone) for r in beside.noted()))
                text = instance.metrics.text()
            assert beside.proxy.requests
            assert beside.proxy.writes == []
            found = beside.compared()
            assert found["p1"].result is log.Agreement.UNSCHEDULABLE
            assert found["p1"].theirs.rejected_by == "Kept"
            assert found["huge"].result is log.Agreement.AGREE
            assert (found["late"].theirs.node, found["late"].ours.node) == ("b", "b")
            start, *rest = beside.noted()
            assert isinstance(start, log.Start)
            assert start.nodes[0].requested == {"cpu": 1000, "pods": 1}
            assert any(isinstance(one, log.NodeSeen) and one.node == "b" for one in rest)
            wanted = 'policy_sched_shadow_decisions_total{profile="default-scheduler",result='
            assert f'{wanted}"unschedulable"}} 4.0' in text
            assert f'{wanted}"error"}} 0.0' in text
            reported = [r for r in beside.records if r["msg"] == "Would have decided differently"]
            assert sorted(r["pod"] for r in reported) == [f"default/p{i}" for i in range(4)]

    acted(play)


def test_equal_policies_agree_about_every_pod(tmp_path: Path) -> None:
    """In bursts, with nodes that fill up, and some preemptions: the comparison is fair."""

    async def play(world: World) -> None:
        async with world.served():
            beside = Beside(world, tmp_path)
            beside.policy.write_text(POLICY % "nobody")
            world.apply(*(node(f"n{i}") for i in range(5)))
            sizes = Random(1)
            async with beside.running(), world.scheduler():
                for burst in range(4):
                    names = [f"p{burst}-{i}" for i in range(20)]
                    world.apply(*(pod(name, f"{sizes.randint(1, 5)}00m") for name in names))
                    await until(lambda names=names: set(names) <= set(beside.compared()))
                world.apply(pod("big", "3500m", priority=9))
                await until(lambda: "big" in beside.compared())
            found = beside.compared()
            big = found.pop("big")
            assert {one.result for one in found.values()} == {log.Agreement.AGREE}
            assert any(one.ours.node is None for one in found.values())
            # Victims depend on when pods were seen to start, too.
            assert big.theirs.preempts
            assert big.ours.preempts

    acted(play)


def test_policies_are_reloaded_while_it_watches(tmp_path: Path) -> None:
    """Pods after a reload are decided by the new policies, and the record has their generation."""

    async def play(world: World) -> None:
        async with world.served():
            beside = Beside(world, tmp_path)
            world.apply(node("a"))
            async with beside.running() as instance, world.scheduler():
                world.apply(pod("first"))
                await until(lambda: "first" in beside.compared())
                beside.policy.write_text(POLICY % "z")
                reload = instance.reload(instance.reloader.store.prepare(), "file")
                assert reload.result is ReloadResult.LOADED
                world.apply(pod("second"))
                await until(lambda: "second" in beside.compared())
            found = beside.compared()
            assert (found["first"].generation, found["first"].ours.node) == (1, None)
            assert (found["second"].generation, found["second"].ours.node) == (2, "a")
            assert found["first"].content_hash != found["second"].content_hash

    acted(play)


def test_a_pod_that_waits_for_the_other_scheduler_is_explained(tmp_path: Path) -> None:
    """By the profile that decides it here, whatever its name; until it has a node."""

    async def play(world: World) -> None:
        async with world.served():
            beside = Beside(world, tmp_path)
            world.apply(node("a"), pod("p", schedulerName="other"))
            async with beside.running("other") as instance:
                await until(lambda: len(instance.shadow) == 1)
                found = await explained(instance, "default", "p", detailed=True)
                reported = "\n".join(found.text_lines())
                assert "0/1 nodes are available: 1 node(s) were kept." in reported
                assert len(instance.shadow) == 1
                bind(world, "p", "a")
                await until(lambda: "p" in beside.compared())
                found = await explained(instance, "default", "p", detailed=True)
                assert next(iter(found.text_lines())) == "default/p has a node: a"
            assert beside.proxy.writes == []

    acted(play)


def test_pods_that_are_not_compared_are_noted_where_they_go(tmp_path: Path) -> None:
    """Another scheduler's pods fill nodes, too."""

    async def play(world: World) -> None:
        async with world.served():
            beside = Beside(world, tmp_path)
            world.apply(node("b"))
            async with beside.running():
                world.apply(pod("direct", "1", nodeName="b"))
                await until(lambda: any(isinstance(r, log.PodPlaced) for r in beside.noted()))
                beside.file.rename(tmp_path / "shadow.jsonl.1")
                world.apply(pod("next", "1", nodeName="b"))
                await until(lambda: beside.file.exists() and len(beside.noted()) > 1)
            start, placed = beside.noted()
            assert isinstance(start, log.Start)
            assert start.continues
            assert start.nodes[0].requested == {"cpu": 1000, "pods": 1}
            assert isinstance(placed, log.PodPlaced)
            assert (placed.node, placed.requests) == ("b", {"cpu": 1000})

    acted(play)


def test_a_log_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    """The shadow continues; a pod without a node leaves without a record."""

    async def play(world: World) -> None:
        async with world.served():
            beside = Beside(world, tmp_path)
            beside.file = tmp_path / "logs" / "shadow.jsonl"
            beside.file.parent.mkdir()
            world.apply(node("b"))
            async with beside.running() as instance:
                beside.file.unlink()
                beside.file.parent.rmdir()
                world.apply(pod("waits"), pod("direct", "1", nodeName="b"))
                lost = "policy_sched_shadow_log_lost_lines 1.0"
                await until(lambda: lost in instance.metrics.text())
                world.cluster.delete(Key(POD, "default", "waits"), DeleteOptions(0))
                await until(lambda: len(instance.shadow) == 0)
            texts = [str(record["msg"]) for record in beside.records]
            assert "The shadow's log cannot be written; lines are left out" in texts

    acted(play)


def test_changes_during_an_outage_are_not_compared(tmp_path: Path) -> None:
    """The changes arrived in no order: they are counted and recorded; later ones are compared."""

    async def play(world: World) -> None:
        beside = Beside(world, tmp_path)
        async with world.served():
            beside.proxy = Recording(world.address.port)
            world.apply(node("b"), pod("p", "1"))
            running = beside.running()
            instance = await running.__aenter__()
            await until(lambda: len(instance.shadow) == 1)
        try:
            await until(lambda: not instance.shadow.watching)
            bind(world, "p", "b")
            async with world.served():
                missed = "policy_sched_shadow_missed_pods_total 1.0"
                await until(lambda: missed in instance.metrics.text())
                await until(lambda: instance.shadow.watching)
                world.apply(pod("q", "1"))
                await until(lambda: len(instance.shadow) == 1)
                bind(world, "q", "b")
                await until(lambda: "q" in beside.compared())
        finally:
            await running.__aexit__(None, None, None)
        assert set(beside.compared()) == {"q"}
        placed = [one for one in beside.noted() if isinstance(one, log.PodPlaced)]
        assert [one.node for one in placed] == ["b"]

    acted(play)


def test_every_write_is_refused_by_the_client_itself(tmp_path: Path) -> None:
    """Whatever a bug attempts: no write is sent; reviews of callers are."""

    async def play(world: World) -> None:
        async with world.served():
            beside = Beside(world, tmp_path)
            async with beside.running() as instance:
                api = instance.client._api  # the access that a bug would have
                for method in ("POST", "PUT", "PATCH", "DELETE"):
                    with pytest.raises(WriteRefused, match="this client only reads"):
                        await api.request(method, "/api/v1/namespaces", {}, repeatable=True)
                assert beside.proxy.writes == []
                review = "/apis/authentication.k8s.io/v1/tokenreviews"
                body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
                with pytest.raises(ClusterError) as caught:
                    await api.request("POST", review, {**body, "spec": {"token": ""}})
                assert not isinstance(caught.value, WriteRefused)

    acted(play)


def test_a_shadow_requires_a_read_only_client(tmp_path: Path) -> None:
    """And the profile must be unambiguous."""

    async def play(world: World) -> None:
        async with world.served():
            beside = Beside(world, tmp_path)
            with pytest.raises(ClusterError, match="only reads"):
                beside.instance(read_only=False)

    acted(play)


def test_of_several_profiles_one_must_have_the_name(tmp_path: Path) -> None:
    """Otherwise the profile is ambiguous."""
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: one}, {schedulerName: two}]\n"
    )
    api = Api(
        ClusterAccess("http://x"), ClientEnvironment(CLOCKS, Random(1)), Settings(read_only=True)
    )
    store = PolicyStore(PolicyFiles(str(config), ()), CLOCKS.wall)
    with pytest.raises(PolicySchedError, match="and there are several: one, two"):
        ShadowInstance(store, api, ShadowOptions("other"), lambda _record: None)
    shadow = ShadowInstance(store, api, ShadowOptions("two"), lambda _record: None)
    assert shadow.shadow.profile[0] == "two"
    assert not shadow.leads
    assert shadow.next_wakeup() is None
    assert "policy_sched_shadow_log_lost_lines 0.0" in shadow.metrics.text()
    shadow.close()


HERE = log.LoggedDecision("a", score=10)
THERE = log.LoggedDecision("b", score=7)


@pytest.mark.parametrize(
    ("result", "theirs", "ours", "words"),
    [
        (log.Agreement.AGREE, HERE, HERE, "as the other scheduler decided"),
        (
            log.Agreement.UNDECIDED,
            log.LoggedDecision(),
            HERE,
            "the other scheduler has not decided",
        ),
        (log.Agreement.ERROR, HERE, log.LoggedDecision(None, "broken"), "broken"),
        (log.Agreement.UNSCHEDULABLE, HERE, log.LoggedDecision(None, "no room"), "no room"),
        (
            log.Agreement.SCHEDULABLE,
            log.LoggedDecision(None, "0/1 nodes"),
            HERE,
            "the other scheduler: 0/1 nodes",
        ),
        (
            log.Agreement.DIFFER,
            log.LoggedDecision("b", rejected_by="Kept", reasons=("kept",)),
            HERE,
            "Kept rejects b: kept",
        ),
        (
            log.Agreement.DIFFER,
            log.LoggedDecision("b"),
            HERE,
            "b was not among the evaluated nodes",
        ),
        (
            log.Agreement.UNSCHEDULABLE,
            HERE,
            log.LoggedDecision("b", "evicts", preempts=True),
            "evicts",
        ),
        (log.Agreement.DIFFER, THERE, HERE, "a has 10 points, b 7: Y -4, X +1"),
    ],
)
def test_why_is_one_sentence(
    result: log.Agreement, theirs: log.LoggedDecision, ours: log.LoggedDecision, words: str
) -> None:
    """The reason of a difference, the most important first."""
    found = log.Comparison(
        0, "p", "u", result, "them", "us", theirs, ours, difference={"X": 1, "Y": -4}
    )
    assert why(found) == words
