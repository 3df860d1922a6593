"""Lines of a log: when they are written, and files that are not writable.

An outage is logged in few lines.

kube-scheduler's log lines, at its levels, and without cost below them.
"""

from __future__ import annotations

import asyncio
import io
import resource
from pathlib import Path

import pytest

from policy_sched.client.apimachinery.object import Key
from policy_sched.client.apimachinery.resources import NODE, POD
from policy_sched.instance.app.embedded_instance import EmbeddedInstance, Sources
from policy_sched.instance.observability.log import (
    CAUSES,
    LEVELS,
    LineWriter,
    LogThrottle,
    Record,
    Verbosity,
)
from policy_sched.model.cluster_objects import Node
from policy_sched.profiles.reload.inputs import PolicyFiles
from policy_sched.testing import FakeClock
from tests.instance.app.test_cluster_instance import World, acted, node, pod, until


class File(io.BytesIO):
    """Counts its flushes; can be broken."""

    def __init__(self) -> None:
        super().__init__()
        self.flushed = 0
        self.broken = False

    def flush(self) -> None:
        """Count."""
        if self.broken:
            raise BrokenPipeError("nobody reads")
        self.flushed += 1


def test_lines_of_one_turn_are_handed_on_together() -> None:
    """They are written when the turn has ended."""
    file = File()
    write = LineWriter(file)

    async def turn() -> None:
        for number in range(3):
            write(b"%d\n" % number)
        assert file.flushed == 0
        await asyncio.sleep(0)
        assert file.flushed == 1
        write(b"3\n")
        await asyncio.sleep(0)

    asyncio.run(turn())
    assert file.flushed == 2
    assert file.getvalue() == b"0\n1\n2\n3\n"


def test_a_line_that_may_wait_is_written_with_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pod that came alone had a write of its own; what is urgent takes the others with it."""
    file = File()
    write = LineWriter(file)

    async def turns() -> None:
        write(b"a\n", may_wait=True)
        await asyncio.sleep(0)
        write(b"b\n", may_wait=True)
        await asyncio.sleep(0)
        assert file.flushed == 0
        write(b"urgent\n")
        await asyncio.sleep(0)
        assert file.getvalue() == b"a\nb\nurgent\n"
        monkeypatch.setattr("policy_sched.instance.observability.log.WAIT", 0.0)
        write(b"c\n", may_wait=True)
        while file.flushed < 2:
            await asyncio.sleep(0)
        write(b"d\n", may_wait=True)

    asyncio.run(turns())
    write.close()
    assert file.getvalue() == b"a\nb\nurgent\nc\nd\n"


def test_without_an_event_loop_each_line_is_written_at_once() -> None:
    """Lines before the loop runs, and after it, do not wait for a turn."""
    file = File()
    LineWriter(file)(b"Loaded policies\n")
    assert file.flushed == 1


def test_a_file_that_cannot_be_written_is_an_error_of_the_next_line() -> None:
    """A process does not write for long into a pipe without a reader."""
    file = File()
    write = LineWriter(file)

    async def turn() -> None:
        file.broken = True
        write(b"x\n")
        await asyncio.sleep(0)
        with pytest.raises(BrokenPipeError):
            write(b"x\n")

    asyncio.run(turn())


def test_a_full_disk_costs_lines_and_not_the_process(tmp_path: Path) -> None:
    """`run` ended when the disk that its log goes to was full."""
    path = tmp_path / "log"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with open(path, "wb") as file:
        write = LineWriter(file)
        write(b"first\n")
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
        try:
            write(b"second\n")
            write(b"third\n")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert (write.lost, write.writable) == (2, False)
        write(b"fourth\n")
        assert (write.lost, write.writable) == (2, True)
    assert path.read_bytes() == b"first\nseco\nfourth\n"


def test_a_repeated_cause_is_logged_at_intervals_with_its_count() -> None:
    """Seventeen rejected watches are one line; another cause is another line."""
    clock = FakeClock()
    troubles = LogThrottle(clock)
    paths = [f"GET /api/v1/{kind}" for kind in ("pods", "nodes", "services")]
    messages = [troubles.admit(f"{path}: connection refused") for path in paths]
    assert messages == [0, None, None]
    assert troubles.admit("GET /api/v1/pods: too old resource version: 1 (2)") == 0
    assert troubles.admit("no request at all") == 0
    clock.advance(59)
    assert troubles.admit("GET /x: connection refused") is None
    clock.advance(1)
    assert troubles.admit("GET /x: connection refused") == 3
    assert troubles.admit("GET /x: connection refused") is None


def test_causes_are_not_remembered_without_end() -> None:
    """Each expired resource version is another cause."""
    troubles = LogThrottle(FakeClock())
    for number in range(3 * CAUSES):
        assert troubles.admit(f"x: {number}") == 0
        assert len(troubles._causes) <= CAUSES


LABELS = {"x": "y"}
START = 1_800_000_000_000_000_000
BY_LEVEL = {
    0: set[str](),
    2: {"Successfully bound pod to node", "Unable to schedule pod; no fit; waiting"},
    3: {
        "Attempting to schedule pod",
        "Attempting to bind pod to node",
        "Handlers synced",
        "Add event for node",
        "Add event for unscheduled pod",
        "Add event for scheduled pod",
        "Delete event for node",
        "Delete event for scheduled pod",
        "Delete event for unscheduled pod",
    },
    4: {
        "Update event for node",
        "Update event for unscheduled pod",
        "Update event for scheduled pod",
    },
    5: {"Status after running PostFilter plugins for pod"},
    10: {"Plugin scored node for pod", "Calculated node's final score for pod"},
}
"""The lines of a usual sequence that each verbosity adds."""


def texts(records: list[Record], message: str) -> list[Record]:
    """Return the records of one message, without their times."""
    return [{k: v for k, v in r.items() if k != "ts"} for r in records if r["msg"] == message]


async def day(world: World, level: int) -> None:
    """Add, update and delete nodes and pods; one pod is bound, and one is unschedulable."""
    world.apply(node("a"), node("b"), pod("p"), pod("huge", "64"))
    async with world.served(), world.scheduler() as instance:
        instance.log.verbosity.set(level)
        queue, cache = instance.scheduler.queue, instance.scheduler.cache
        p, huge = (world.cluster.store.get(POD, "default", name).uid for name in ("p", "huge"))
        await until(lambda: len(world.events()) == 2)
        await until(lambda: not cache.assumed())
        for name, cpu in (("p", "500m"), ("huge", "64")):
            world.apply({**pod(name, cpu), "metadata": _labelled(name)})
        world.apply({**node("b"), "metadata": {"name": "b", "labels": LABELS}})
        await until(lambda: _labels_of(cache.nodes.nodes[cache.nodes.row_of["b"]]) == LABELS)
        await until(lambda: (found := cache.pod(p)) is not None and found.labels == LABELS)
        await until(lambda: (found := queue.get(huge)) is not None and found.info.labels == LABELS)
        world.cluster.delete(Key(POD, "default", "p"))
        world.cluster.delete(Key(POD, "default", "huge"))
        world.cluster.delete(Key(NODE, "", "a"))
        world.cluster.delete(Key(NODE, "", "b"))
        await until(lambda: not (cache.nodes.live_count or len(cache) or queue.get(huge)))
        await until(lambda: not instance.informers.behind)


def _labelled(name: str) -> dict[str, object]:
    return {"name": name, "namespace": "default", "labels": LABELS}


def _labels_of(node: Node | None) -> dict[str, str]:
    return {} if node is None else dict(node.metadata.labels)


@pytest.mark.parametrize("level", BY_LEVEL)
def test_each_verbosity_logs_its_lines(level: int) -> None:
    """The lines of the verbosity and of those below, and none of those above."""
    world = World()
    reported: list[Record] = world.records

    async def play(world: World) -> None:
        world.records = reported
        await day(world, level)

    acted(play)
    seen = {record["msg"] for record in reported}
    for lower, messages in BY_LEVEL.items():
        assert (messages <= seen) if lower <= level else not messages & seen, lower


def test_lines_have_upstreams_keys() -> None:
    """pod and node; plugin and score for single scores."""
    reported: list[Record] = []

    async def play(world: World) -> None:
        world.records = reported
        await day(world, 10)

    acted(play)
    attempt = texts(reported, "Attempting to schedule pod")[0]
    assert attempt == {"level": "info", "msg": attempt["msg"], "pod": attempt["pod"]}
    assert texts(reported, "Add event for node")[0]["node"] in ("a", "b")
    scored = texts(reported, "Plugin scored node for pod")[0]
    assert {"pod", "plugin", "node", "score"} <= scored.keys()


def test_below_verbosity_3_no_step_is_observed() -> None:
    """The scheduler calls nothing that would not log."""
    instance = EmbeddedInstance(
        Sources(PolicyFiles(None, ())), FakeClock(START), lambda _record: None
    )
    observers = instance.scheduler.observers
    counts = [(len(observers.deciding), len(observers.decided), len(observers.evicted))]
    for level in (3, 10, 2, 1):
        instance.log.verbosity.set(level)
        counts.append((len(observers.deciding), len(observers.decided), len(observers.evicted)))
    assert counts == [(0, 1, 2), (1, 2, 2), (1, 2, 2), (0, 1, 2), (0, 1, 1)]
    instance.close()


def test_every_message_has_its_level() -> None:
    """A message without one is always written."""
    for level in range(11):
        verbosity = Verbosity(level)
        assert {m for m in LEVELS if verbosity.enabled(m)} == {
            m for m, at in LEVELS.items() if at <= level
        }
        assert verbosity.enabled("Loaded policies")
