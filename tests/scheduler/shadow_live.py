"""The mixed load of `shadow_run` in real time, over an API server; and the share of agreement.

Four processes: an embedded cluster with its controllers, a scheduler of its API server, a shadow of
that scheduler, and this one, which creates and deletes the pods. What comes late, overtakes
or is seen by one scheduler only is what networks and watches make of it.

python -m tests.scheduler.shadow_live [PODS] [SEED] [PODS A SECOND]
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from subprocess import DEVNULL, Popen
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

from policy_sched.bench.api_processes import CLOCKS
from policy_sched.client.apimachinery import NODE, POD
from policy_sched.client.kube.auth import load
from policy_sched.client.kube.rest import Api, ClientEnvironment, Settings, collection_path
from policy_sched.errors import ClusterError
from policy_sched.instance.shadow.log import Agreement, Comparison, ShadowRecord
from tests.scheduler.shadow_run import (
    CLASS,
    DELETIONS,
    PODS_PER_NODE,
    PREEMPTORS,
    RATE,
    VOLUMES,
    agreement,
    claim,
    node,
    pod,
    preemptor,
)

THEIRS: Final = "theirs"
CONFIGURATION: Final = f"""\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{{schedulerName: {THEIRS}}}]
clientConnection: {{qps: 500, burst: 1000}}
"""
"""With 50 requests/s, the default, the bindings of 50 pods/s come long after the decisions."""
SETTLING: Final = 15.0
"""Seconds after the last pod; volumes take some."""


@contextmanager
def process(*options: object) -> Iterator[None]:
    """Run a scheduler as an operator would."""
    command = [sys.executable, "-m", "policy_sched", "run", *map(str, options)]
    with Popen(command, stdout=DEVNULL) as running:
        try:
            yield
        finally:
            running.terminate()


async def exists(file: Path) -> None:
    """Wait for a file."""
    while not file.exists():
        await asyncio.sleep(0.05)


async def load_on(api: Api, pods: int, seed: int, rate: int) -> None:
    """Create nodes, and pods at a rate; delete some."""
    random = Random(seed)
    for index in range(40 + pods // PODS_PER_NODE):
        await api.request("POST", collection_path(NODE), node(index))
    storage: dict[str, Any] = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"}
    storage |= {"metadata": {"name": CLASS}, "provisioner": "example.com/disk"}
    storage |= {"volumeBindingMode": "WaitForFirstConsumer"}
    await api.request("POST", "/apis/storage.k8s.io/v1/storageclasses", storage)
    await asyncio.sleep(3)
    there = collection_path(POD, "default")
    alive: list[str] = []
    loop = asyncio.get_running_loop()
    begun = loop.time()
    for number in range(pods):
        await asyncio.sleep(max(0.0, begun + number / rate - loop.time()))
        name, volume = f"p{number}", random.random() < VOLUMES
        if volume:
            path = "/api/v1/namespaces/default/persistentvolumeclaims"
            await api.request("POST", path, claim(name))
        evicts = not volume and random.random() < PREEMPTORS
        made = preemptor(name) if evicts else pod(random, name, volume=volume)
        made["spec"]["schedulerName"] = THEIRS
        await api.request("POST", there, made)
        alive.append(name)
        if random.random() < DELETIONS:
            gone = f"{there}/{alive.pop(random.randrange(len(alive)))}"
            with suppress(ClusterError):  # it was evicted
                await api.request("DELETE", gone)
    await asyncio.sleep(SETTLING)


async def watched(pods: int, seed: int, rate: int) -> list[Comparison]:
    """Return the comparisons of a load of so many pods."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        kubeconfig, log = folder / "kubeconfig", folder / "shadow.jsonl"
        (folder / "config.yaml").write_text(CONFIGURATION, encoding="utf-8")
        with process("--serve", "0", "--write-kubeconfig", kubeconfig):
            await exists(kubeconfig)
            theirs = "--kubeconfig", kubeconfig, "--config", folder / "config.yaml"
            shadow = *theirs, "--secure-port", 0, "--shadow", THEIRS, "--shadow-log", log
            with process(*theirs, "--secure-port", 0), process(*shadow):
                environment = ClientEnvironment(CLOCKS, Random(seed))
                async with Api(load([kubeconfig], CLOCKS), environment, Settings(qps=0)) as api:
                    await load_on(api, pods, seed, rate)
        lines = b"[" + b",".join(log.read_bytes().splitlines()) + b"]"
    records = msgspec.json.decode(lines, type=list[ShadowRecord])
    return [record for record in records if isinstance(record, Comparison)]


def main() -> None:
    """Run a load and print the share of agreement."""
    given = sys.argv[1:4]
    pods, seed, rate = (int(text) for text in (*given, *("2000", "0", str(RATE))[len(given) :]))
    recorded = asyncio.run(watched(pods, seed, rate))
    results, share = agreement(recorded)
    for comparison in recorded:
        if comparison.result is not Agreement.AGREE:
            print(comparison)  # noqa: T201 - a command
    print(f"{share:.2%} of {results.total()} comparisons agree: {dict(results)}")  # noqa: T201


if __name__ == "__main__":
    main()
