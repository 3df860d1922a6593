"""Measures replays: an hour of a cluster, recorded, and decided again.

The traffic is that of the bench Recording. Its nodes are those that the default policies choose, so
that almost all decisions agree. Measured are reading alone, the recorded decisions made again, and
the traffic decided anew; each in CPU of one process, set-up of the nodes included.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final, TypeVar

from msgspec.structs import replace

from policy_sched.bench import recording
from policy_sched.bench.in_process import quiet_collector
from policy_sched.bench.result import Result
from policy_sched.instance.shadow import Agreement
from policy_sched.model import SECOND, Pod
from policy_sched.profiles.reload import PolicyFiles
from policy_sched.recording import Decided, RecordedPolicies, Recorder, Recording
from policy_sched.replay import agreement, compiled, replay
from policy_sched.simulate import Traffic, traffic_of

NAME: Final = "Replay"
NODES: Final = recording.NODES
PODS: Final = recording.PODS
T = TypeVar("T")


class ReplayFigures(Result, frozen=True):
    """What it takes to read an hour, to make its decisions again, and to decide it anew."""

    nodes: int
    pods: int
    seconds: float
    decisions: int
    agree: int
    read_seconds: float
    agreement_seconds: float
    traffic_seconds: float
    replay_seconds: float

    def text_lines(self) -> Iterator[str]:
        """Yield the result for people."""
        yield (
            f"{NAME}: {self.nodes:,} nodes, {self.pods:,} pods in {self.seconds:,.0f} s of"
            f" virtual time; {self.agree:,} of {self.decisions:,} decisions agree"
        )
        for name, seconds in (
            ("read", self.read_seconds),
            ("decisions made again, reading included", self.agreement_seconds),
            ("traffic read", self.traffic_seconds),
            ("traffic decided anew", self.replay_seconds),
        ):
            micros = seconds / self.pods * 1e6
            times = self.seconds / seconds
            yield f"  {name:<40} {seconds:6.2f} s  {micros:6.1f} us a pod  {times:8,.0f} times"


def run_replay(nodes: int, pods: int) -> ReplayFigures:
    """Record so many pods on so many nodes, and decide them again."""
    default = compiled(PolicyFiles())
    with TemporaryDirectory() as directory, quiet_collector():
        first = _written(Path(directory, "first"), nodes, pods, {})
        chosen = replay(_traffic(first), default.plans).lives
        second = {uid: life.node for uid, life in chosen.items()}
        recorded = _written(Path(directory, "second"), nodes, pods, second)
        span = recorded.began, recorded.ended + 1
        _, read = _timed(lambda: sum(1 for _ in recorded.events()))
        sets = {"0" * 64: default}
        held, again = _timed(lambda: agreement(recorded, sets, default, span))
        traffic, of_traffic = _timed(lambda: _traffic(recorded))
        _, anew = _timed(lambda: replay(traffic, default.plans))
    return ReplayFigures(
        NAME,
        nodes,
        pods,
        (span[1] - span[0]) / SECOND,
        held.tally.decisions,
        held.tally.results[Agreement.AGREE],
        *(round(seconds, 6) for seconds in (read, again, of_traffic, anew)),
    )


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    begin = time.process_time()
    done = work()
    return done, max(time.process_time() - begin, 1e-6)


def _traffic(recorded: Recording) -> Traffic:
    span = recorded.began, recorded.ended + 1
    return traffic_of(recorded.events(*span), *span)


def _written(folder: Path, nodes: int, pods: int, chosen: Mapping[str, str]) -> Recording:
    """Record an hour whose pods go to the chosen nodes, by UID."""
    random = Random(1)  # noqa: S311 - a seed makes it repeatable
    recorder, began = Recorder(folder), recording.BEGAN
    recorder.policies(began, RecordedPolicies("0" * 64))
    recorder.begin(began, map(recording.node, range(nodes)))
    uids: dict[str, str] = {}
    last = began
    for at, what in recording.history(random, nodes, pods):
        last = at
        if isinstance(what, Pod):
            meta = what.metadata
            uids[f"{meta.namespace}/{meta.name}"] = meta.uid
            node = what.spec.node_name and chosen.get(meta.uid, what.spec.node_name)
            recorder.put(at, replace(what, spec=replace(what.spec, node_name=node)))
        elif isinstance(what, Decided):
            recorder.decided(replace(what, node=chosen.get(uids[what.pod], what.node)))
        elif isinstance(what, recording.Gone):
            recorder.remove(at, what.pod)
    recorder.close(last)
    return Recording.open(folder)
