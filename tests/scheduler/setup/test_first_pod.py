"""The first pods after a start and after a reload: what they run was generated at policy time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

import numpy.ma  # noqa: F401 - np.unique imports it when it runs for the first time

from policy_sched.model import PodInfo
from policy_sched.scheduler import Scheduler, pod_seen
from policy_sched.testing import make_node, make_pod
from tests.scheduler.setup.test_reload import World

GENERATING: Final = ("/language/syntax/", "/language/check/", "/language/lower/")
ZONE: Final = "topology.kubernetes.io/zone"
LIKE_A: Final = {"matchLabels": {"app": "a"}}


class Profile:
    """The calls of Python functions, and those of them that generate code."""

    def __init__(self) -> None:
        self.calls = 0
        self.generating: list[str] = []

    def called(self, frame: FrameType, event: str, function: object) -> None:
        """Count a call; `sys.setprofile` takes this."""
        file = frame.f_code.co_filename
        if event == "call":
            self.calls += 1
            if any(folder in file for folder in GENERATING):
                self.generating.append(f"{file}: {frame.f_code.co_name}")
        elif event == "c_call" and function in (compile, exec, eval):
            self.generating.append(f"{file}: {frame.f_code.co_name} calls {function}")


@contextmanager
def profile() -> Iterator[Profile]:
    """Profile what runs in the context."""
    found, before = Profile(), sys.getprofile()
    sys.setprofile(found.called)
    try:
        yield found
    finally:
        sys.setprofile(before)


def decide(scheduler: Scheduler, number: int, cpu: str = "1m", **fields: object) -> Profile:
    """Let a pod come, and decide it; all are of one kind but for ``fields``."""
    pod = make_pod(f"p{number}", labels={"app": "a"}, cpu=cpu, scheduler_name="one", **fields)  # type: ignore[arg-type]  # of any kind
    pod_seen(scheduler, PodInfo.of(pod))
    with profile() as found:
        scheduler.schedule_one()
    return found


def small_nodes(world: World) -> None:
    """Give all nodes so little that some pods find no room."""
    for number, name in enumerate(("a", "b", "c")):
        node = make_node(name, cpu="2", labels={ZONE: f"z{number}"})
        world.scheduler.cache.update_node(node)


def test_no_pod_generates_code(tmp_path: Path) -> None:
    """After a start and after a reload a scheduler compiled functions while pods waited.

    Also for constraints that spread pods and keep them apart, and for pods that evict others.
    """
    world = World(tmp_path, profiles=("one",))
    small_nodes(world)
    apart = {"labelSelector": LIKE_A, "topologyKey": ZONE}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    spread = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **apart}
    for generation in range(2):
        for number in range(12):
            fields: dict[str, object] = {"priority": generation * 12 + number // 3}
            if number % 4 == 1:
                fields["affinity"] = anti
            if number % 4 == 2:
                fields["topology_spread_constraints"] = [spread]
            found = decide(world.scheduler, generation * 12 + number, "1", **fields)
            assert found.calls
            assert not found.generating
        world.put(profiles=("one",), ascending=True, nodes=frozenset("ab"))
        assert world.reloader.reload().policies.generation == 2
    assert world.client.deleted


def test_the_third_pod_costs_what_the_hundredth_costs(tmp_path: Path) -> None:
    """The first 50 pods after each reload ran plugins one by one."""
    world = World(tmp_path, profiles=("one",))
    for generation in range(2):
        calls = [decide(world.scheduler, generation * 120 + number).calls for number in range(120)]
        assert calls[2] == calls[99]
        world.put(profiles=("one",), ascending=True, nodes=frozenset("ab"))
        world.reloader.reload()
