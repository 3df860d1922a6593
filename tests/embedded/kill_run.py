"""A cluster in a file whose process is killed again and again, at moments that chance picks.

The child makes pods and binds them, lets its controllers work, and says what was acknowledged; the
parent kills it (SIGKILL) after some number of lines, while it goes on. After every kill the file
must hold all that was said. Run by hand: python -m tests.embedded.kill_run 50
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random

from policy_sched.client.apimachinery.resources import JOB, NODE, POD
from policy_sched.embedded.client import EmbeddedClient
from policy_sched.embedded.cluster import EmbeddedCluster
from policy_sched.embedded.store.watch_history import DELETED
from policy_sched.errors import ClusterError
from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import SECOND, FakeClock
from tests.embedded.world import START, node, pod, typed, workload

ROOT = Path(__file__).parents[2]
NODES = 5


def child(path: str) -> Iterator[str]:
    """Work on the cluster for ever; yield a line for whatever was acknowledged."""
    clock = FakeClock(START)
    cluster = EmbeddedCluster.open(path, clock)
    clock.ns = START + cluster.store.version * SECOND // 10
    client = EmbeddedClient(cluster)
    seen = cluster.store.watch(POD)
    for number in range(NODES):
        cluster.apply(node(f"n{number}", "1000"))
    job = workload("Job", "sum", completions=10_000, parallelism=3)
    job["spec"]["template"]["metadata"]["annotations"] = {"policysched.dev/duration": "2"}
    cluster.apply(job)
    for number in count(cluster.store.version):
        made = cluster.apply(pod(f"p{number}", duration="30"))
        yield f"object {made.name} {made.uid} {made.version}"
        clock.advance(0.5)
        cluster.step()
        for change in seen.drain():
            new = change.new
            waits = (
                cluster.store.find(POD, *new.namespaced_name) is new
                and not typed(new).spec.node_name
            )
            if change.type == DELETED or not waits:
                continue
            target = f"n{number % NODES}"
            client.bind(PodInfo.of(typed(new)), target, _must)
            yield f"bound {new.name} {new.uid} {target}"
        done = cluster.store.get(JOB, "default", "sum").data.get("status", {}).get("succeeded", 0)
        yield f"succeeded {done}"


def _must(error: ClusterError | None) -> None:
    assert error is None


@dataclass
class Tally:
    """What was acknowledged, and what to say of it."""

    kills: int = 0
    lines: int = 0
    versions: dict[str, int] = field(default_factory=dict)
    nodes: dict[str, str] = field(default_factory=dict)
    succeeded: int = 0

    def note(self, line: str) -> None:
        """Take a line of the child; no pod may be bound twice."""
        self.lines += 1
        match line.split():
            case "object", _, uid, version:
                assert uid not in self.versions
                self.versions[uid] = int(version)
            case "bound", name, uid, target:
                assert uid not in self.nodes, f"{name} was bound twice"
                self.nodes[uid] = target
            case "succeeded", done:
                assert int(done) >= self.succeeded
                self.succeeded = int(done)


def check(path: str, tally: Tally) -> None:
    """Look into the file: whatever was acknowledged must be there."""
    cluster = EmbeddedCluster.open(path, FakeClock(START))
    store = cluster.store
    pods = {other.uid: other for other in store.select(POD)}
    assert store.version >= max(tally.versions.values(), default=0)
    for uid, version in tally.versions.items():
        assert pods[uid].version >= version
    for uid, target in tally.nodes.items():
        assert typed(pods[uid]).spec.node_name == target
    assert len(store.select(NODE)) == NODES
    versions = [other.version for other in store.everything()]
    assert len(set(versions)) == len(versions)
    assert max(versions) <= store.version
    status = store.get(JOB, "default", "sum").data.get("status", {})
    counted = [
        other
        for other in pods.values()
        if typed(other).status.phase == "Succeeded"
        and other.name.startswith("sum-")
        and not other.data["metadata"].get("finalizers")
    ]
    assert status.get("succeeded", 0) == len(counted) >= tally.succeeded
    cluster.close()


def run(path: str, kills: int, seed: int) -> Tally:
    """Start and kill the child so often, with a look after each kill."""
    chance, tally = Random(seed), Tally()
    for _ in range(kills):
        command = [sys.executable, "-m", "tests.embedded.kill_run", "child", path]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(chance.randrange(1, 60)):
                tally.note(process.stdout.readline())
            process.kill()
            for line in process.stdout:  # said before the end came
                if line.endswith("\n"):
                    tally.note(line)
        tally.kills += 1
        check(path, tally)
    return tally


def main() -> None:
    """Be the child, or kill it as often as the argument says."""
    if sys.argv[1] == "child":
        for line in child(sys.argv[2]):
            print(line, flush=True)  # noqa: T201  # the way to the parent
    with tempfile.TemporaryDirectory() as folder:
        tally = run(f"{folder}/cluster.db", int(sys.argv[1]), seed=1)
    print(  # noqa: T201
        f"{tally.kills} kills, {len(tally.versions)} objects and {len(tally.nodes)} bindings"
        f" acknowledged, {tally.succeeded} pods of a job counted: all there"
    )


if __name__ == "__main__":
    main()
