"""``policy-sched run --data`` is killed again and again while pods arrive.

The parent adds files of pods, reads the instance's log, and kills it (SIGKILL) after some
number of lines. After every kill the file must hold every object that was applied and every binding
that was logged, and no pod may have another node than before. In the end an undisturbed instance
binds all pods. Run by hand: python -m tests.instance.kill_run 50
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from policy_sched.client.apimachinery.resources import NODE, POD
from policy_sched.embedded.cluster import EmbeddedCluster
from policy_sched.testing import FakeClock

NODES, ROOM = 6, 400
"""Nodes, and pods that fit on each of them by their cpu."""
START = 1_800_000_000_000_000_000
BOUND = "Successfully bound pod to node"


@dataclass
class Tally:
    """The logged bindings, and the state of the file after a kill: ``nodes`` by UID."""

    kills: int = 0
    pods: int = 0
    reported: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, str] = field(default_factory=dict)
    found: set[str] = field(default_factory=set)

    @property
    def bound(self) -> int:
        """The number of pods known to be bound, from the log or the file."""
        return len(self.found | self.reported.keys())

    def note(self, line: str) -> str:
        """Read a line of the instance and return its message."""
        record: dict[str, Any] = json.loads(line)
        if record["msg"] == BOUND:
            known = self.reported.setdefault(record["pod"], record["node"])
            assert known == record["node"], f"{record['pod']} was bound twice"
        return str(record["msg"])


def write_nodes(folder: Path) -> None:
    """Write the nodes."""
    amount = {"cpu": str(ROOM), "memory": "1Ti", "pods": str(ROOM)}
    nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{i}"}}
        | {"status": {"allocatable": amount, "capacity": amount}}
        for i in range(NODES)
    ]
    _write(folder / "nodes.json", {"apiVersion": "v1", "kind": "List", "items": nodes})


def write_pods(folder: Path, tally: Tally, count: int) -> None:
    """Add a file of new pods, atomically."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    names = [f"p{tally.pods + i}" for i in range(count)]
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}}
        | {"spec": {"containers": [container]}}
        for name in names
    ]
    document = {"apiVersion": "v1", "kind": "List", "items": pods}
    _write(folder / f"pods-{tally.pods:06}.json", document)
    tally.pods += count


def _write(path: Path, document: object) -> None:
    beside = path.with_name(f".{path.name}")
    beside.write_text(json.dumps(document), encoding="utf-8")
    beside.rename(path)


def check(data: Path, tally: Tally) -> int:
    """Read the file; return the number of bound pods."""
    cluster = EmbeddedCluster.open(str(data), FakeClock(START))
    pods = cluster.store.select(POD)
    names = {"/".join(one.namespaced_name): one for one in pods}
    used: Counter[str] = Counter()
    for one in pods:
        node = one.data["spec"].get("nodeName", "")
        assert tally.nodes.get(one.uid, node) == node, f"{one.name} has another node now"
        if node:
            tally.nodes[one.uid] = node
            tally.found.add("/".join(one.namespaced_name))
            used[node] += 1
    assert tally.nodes.keys() <= {one.uid for one in pods}
    for name, node in tally.reported.items():
        assert names[name].data["spec"]["nodeName"] == node
    assert len(cluster.store.select(NODE)) in (0, NODES)
    assert max(used.values(), default=0) <= ROOM
    cluster.close()
    return sum(used.values())


def run(folder: Path, kills: int, seed: int) -> Tally:
    """Start and kill the instance so often, with a check after each kill; then let it finish."""
    environment, tally, data = Random(seed), Tally(), folder / "cluster.db"
    manifests = folder / "manifests"
    manifests.mkdir()
    write_nodes(manifests)
    command = [sys.executable, "-m", "policy_sched", "run"]
    command += ["--data", str(data), "--cluster", str(manifests)]
    for _ in range(kills):
        write_pods(manifests, tally, environment.randrange(1, 20))
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(environment.randrange(1, 30)):
                message = tally.note(process.stdout.readline())
                if message == "Running" and environment.random() < 0.5:
                    write_pods(manifests, tally, environment.randrange(1, 20))
                if tally.bound == tally.pods:
                    break
            process.kill()
            for line in process.stdout:  # written before the kill
                if line.endswith("\n"):
                    tally.note(line)
        tally.kills += 1
        check(data, tally)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        running = False
        # All pods may be bound already, and a signal before it runs ends any process.
        while not running or tally.bound < tally.pods:
            running |= tally.note(process.stdout.readline()) == "Running"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert check(data, tally) == tally.pods
    return tally


def main() -> None:
    """Kill an instance as often as the argument says."""
    with tempfile.TemporaryDirectory() as folder:
        tally = run(Path(folder), int(sys.argv[1]), seed=1)
    print(  # noqa: T201
        f"{tally.kills} kills, {tally.pods} pods, {len(tally.reported)} bindings logged:"
        " all there, none bound twice, all bound in the end"
    )


if __name__ == "__main__":
    main()
