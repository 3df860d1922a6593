"""SIGUSR2 writes cache and queue in kube-scheduler's form, and reports true differences only."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from policy_sched.errors import ClusterError
from policy_sched.instance.app import cache_debugger as debugging
from policy_sched.instance.app.cache_debugger import Comparer, Seen, dump
from policy_sched.instance.observability.log import DecisionLog, Record
from policy_sched.model.pod import Pod
from policy_sched.scheduler.setup.factory import EPOCH
from policy_sched.testing import FakeClock, make_pod
from tests.instance.app import test_cluster_instance as remote
from tests.scheduler.world import pod_of, scheduler_of


class World:
    """A scheduler with two nodes, a bound and a pending pod; and its log."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.log = DecisionLog(self.records.append, FakeClock(EPOCH))
        self.scheduler = scheduler_of(nodes=2, cpu="1")
        self.scheduler.add_pod(pod_of("p"))
        self.scheduler.schedule_one()
        self.scheduler.add_pod(pod_of("q", cpu="5", nominated_node_name="n1"))
        self.scheduler.schedule_one()
        self.looks: list[Seen] = []

    async def look(self) -> Seen:
        """Return what there is at the next look."""
        if not self.looks:
            raise ClusterError("nobody there")
        return self.looks.pop(0)

    def compare(self, *looks: Seen) -> list[Record]:
        """Compare with what is seen, and return the records."""
        self.looks = list(looks)
        comparer = Comparer(self.scheduler, self.log, pause=0)
        asyncio.run(comparer.run(self.look))
        return self.records


NODES = ["n0", "n1"]
PODS = [make_pod("p", node_name="n0"), make_pod("q")]


def test_the_dump_has_kube_schedulers_fields() -> None:
    """Nodes with what is taken of them, and the queue with its summary."""
    world = World()
    asyncio.run(dump(world.scheduler, world.log))
    nodes, queue = world.records
    assert nodes["msg"] == "Dump of cached NodeInfo"
    first, second = nodes["nodes"]
    assert (first["name"], first["deleted"]) == ("n0", False)
    assert first["requested"]["milliCPU"] == 1000
    assert (first["allocatable"]["milliCPU"], first["allocatable"]["allowedPodNumber"]) == (
        1000,
        110,
    )
    (pod,) = first["pods"]
    assert pod == {"name": "p", "namespace": "default", "uid": "default/p", "phase": ""}
    assert second["pods"] == []
    assert queue["msg"] == "Dump of scheduling queue"
    assert queue["summary"] == "activeQ:0; backoffQ:1; unschedulablePods:0"
    assert [pod["name"] for pod in queue["pods"]] == ["q"]


def test_a_node_that_is_gone_is_dumped_while_it_has_pods() -> None:
    """As deleted, with what its pods ask for."""
    world = World()
    world.scheduler.cache.add_pod(pod_of("ghost", node_name="gone"))
    asyncio.run(dump(world.scheduler, world.log))
    (gone,) = [one for one in world.records[0]["nodes"] if one["name"] == "gone"]
    assert gone["deleted"]
    assert gone["requested"]["milliCPU"] == 1000


def test_a_long_dump_comes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that other tasks can run in between; an empty queue is dumped as well."""
    monkeypatch.setattr(debugging, "NODES", 1)
    world = World()
    world.scheduler.delete_pod("default/q")
    asyncio.run(dump(world.scheduler, world.log))
    assert [len(record.get("nodes", ())) for record in world.records] == [1, 1, 0]
    assert world.records[-1]["pods"] == []


def test_nothing_is_reported_where_nothing_differs() -> None:
    """One comparison is enough."""
    other = make_pod("theirs", scheduler_name="another")
    records = World().compare(Seen(NODES, [*PODS, other]))
    assert [record["msg"] for record in records] == [
        "Cache comparer started",
        "Cache comparer finished",
    ]


@pytest.mark.parametrize(
    ("nodes", "pods", "facts"),
    [
        (["n0", "n1", "n2"], PODS, {"missedNodes": ["n2"], "redundantNodes": []}),
        (["n0"], PODS, {"missedNodes": [], "redundantNodes": ["n1"]}),
        (NODES, PODS[:1], {"missedPods": [], "redundantPods": ["default/q"]}),
        (
            NODES,
            [*PODS, make_pod("r", node_name="n1")],
            {"missedPods": ["default/r"], "redundantPods": []},
        ),
    ],
)
def test_a_difference_found_twice_is_a_mismatch(
    nodes: Sequence[str], pods: Sequence[Pod], facts: dict[str, list[str]]
) -> None:
    """Nodes by name, pods by UID, in kube-scheduler's words."""
    seen = Seen(nodes, pods)
    records = World().compare(seen, seen)
    (record,) = [record for record in records if record["msg"] == "Cache mismatch"]
    assert facts.items() <= record.items()
    assert record["level"] == "warning"


def test_a_difference_found_once_is_no_mismatch() -> None:
    """A pod that was deleted between two comparisons is no mismatch."""
    records = World().compare(Seen(NODES, PODS[:1]), Seen(NODES, PODS))
    assert not [record for record in records if record["msg"] == "Cache mismatch"]


def test_a_cluster_that_cannot_be_read_is_reported() -> None:
    """And nothing is compared with it."""
    records = World().compare()
    assert records[-1]["msg"] == "Cannot compare the cache"
    assert records[-1]["error"] == "nobody there"


def test_the_cluster_is_read_through_its_api() -> None:
    """Not from the watch: a pod that the cache has lost is found there."""

    async def play(world: remote.World) -> None:
        world.apply(remote.node("n"), remote.pod("p"), remote.pod("q", "64"))
        async with world.served(), world.scheduler() as instance:
            pods = instance.scheduler.cache.pods
            # No event repairs it: a pod that the cache has lost does not come back.
            await remote.until(lambda: [i.pod.status.phase for i in pods.infos if i] == ["Running"])
            await remote.until(instance.scheduler.queue.unschedulable)
            comparer = Comparer(instance.scheduler, instance.log, pause=0)
            found = await comparer.run(instance.look)
            assert found is not None
            assert not found
            (lost,) = [info for info in pods.infos if info is not None]
            instance.scheduler.cache.remove_pod(lost)
            found = await comparer.run(instance.look)
            assert found is not None
            assert found["missedPods"] == {lost.uid}
            instance.scheduler.cache.add_pod(lost)
            await asyncio.gather(instance.debug(), instance.debug())
        messages = [record["msg"] for record in world.records]
        assert "Cache mismatch" in messages
        assert {"State", "Dump of cached NodeInfo", "Dump of scheduling queue"} <= set(messages)
        rounds = [text for text in messages if text in ("State", "Cache comparer finished")]
        assert rounds[-4:] == ["State", "Cache comparer finished"] * 2, "one after the other"

    remote.acted(play)
