"""Measures what the worst pods that we know leave to others: ``bench Hostile``.

Theory of operation. The processes are those of ``bench API``. 500 ordinary pods come in a second,
and beside them, case by case, pods that may take as much work as the API admits and fit nowhere: a
claim with more devices than have an attribute in common, one whose devices all differ, selectors
next to CEL's limit of cost, a rule of a policy that loops over an annotation, a group. The API
server notes when the lease is renewed, which the scheduler is to do five times in a second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

from policy_sched.bench import device_manifests as devices
from policy_sched.bench.api import CLOCKS, options_of
from policy_sched.bench.api_processes import (
    SchedulerProcess,
    ServerProcess,
    api_server,
    create,
    named,
    pending,
    scheduler,
    side_by_side,
)
from policy_sched.bench.event_loop_latency import RACK, RACK_SIZE, TOGETHER
from policy_sched.bench.in_process import Latency, machine
from policy_sched.bench.manifests import Manifest, node, pod
from policy_sched.client.apimachinery import DEVICE_CLAIM, NODE, POD
from policy_sched.client.kube.auth import load
from policy_sched.client.kube.rest import Api, Environment, Settings, collection_path
from policy_sched.errors import PolicySchedError
from policy_sched.report import Document

NAME: Final = "Hostile"
NODES: Final = 1_000
PODS: Final = 5_000
"""Ordinary pods beside each case."""
RATE: Final = 500
"""Ordinary pods that come in a second."""
COUNT: Final = 20
"""Hostile pods of each kind."""
GROUPED: Final = 2
"""The group has so many times as many pods as ordinary ones come: 10,000."""
MAY_TAKE: Final = 1.0
"""Seconds between two renewals of the lease."""
_MACHINES: Final = 8
"""Nodes with devices."""
_BATCH: Final = 25
_PATIENCE: Final = 600.0
"""Seconds after which what is not bound is taken not to be: on a busy machine all takes long."""
_WORDS: Final = 3_000
POLICIES: Final = f"""\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {{name: Wordy}}
spec:
  matchConditions:
  - '"words" in pod.annotations'
  filter:
  - expression: >-
      !pod.annotations["words"].split(",").all(x, pod.annotations["words"].split(",").all(y,
      x != "" || y != ""))
    message: no words
---
{TOGETHER}"""
_ELECTION: Final = {"leaderElection": {"retryPeriod": "200ms"}}
"""Renewals are to come five times in a second, so that a gap shows."""


@dataclass(frozen=True, slots=True)
class Case:
    """What others had beside ``hostile`` objects; in seconds.

    ``gap``: between two renewals of the lease, ``turn``: of the event loop, at most. ``latency``:
    of ordinary pods, from creation to binding, in us.
    """

    name: str
    hostile: int
    gap: float
    turn: float
    latency: Latency


@dataclass(frozen=True, slots=True)
class Result:
    """All cases, and how many ordinary pods were bound beside each."""

    nodes: int
    pods: int
    cases: tuple[Case, ...]

    @property
    def gap(self) -> float:
        """The longest time between two renewals of the lease, in seconds."""
        return max(case.gap for case in self.cases)

    def text_lines(self) -> Iterator[str]:
        """Yield the result for people."""
        yield (
            f"{NAME}: {self.nodes} nodes, {RATE} ordinary pods a second, {self.pods} beside each"
            " case; all of them were bound"
        )
        yield "  lease gap   turn   p50 ms   p99 ms   max ms  beside"
        for case in self.cases:
            p50, p99, longest = (
                one / 1e3 for one in (case.latency.p50_us, case.latency.p99_us, case.latency.max_us)
            )
            yield (
                f"  {case.gap:7.2f} s {case.turn:6.2f} {p50:8,.0f} {p99:8,.0f} {longest:8,.0f}"
                f"  {case.name}"
            )
        verdict = "below" if self.gap < MAY_TAKE else "NOT below"
        yield f"  the longest gap of lease renewal was {self.gap:.2f} s, {verdict} 1 s"

    def document(self) -> Document:
        """Return the result as plain data."""
        cases: dict[str, Any] = {
            case.name: {
                "hostile": case.hostile,
                "lease_gap_ms": round(case.gap * 1e3),
                "longest_block_ms": round(case.turn * 1e3, 1),
                "p50_ms": round(case.latency.p50_us / 1e3, 1),
                "p99_ms": round(case.latency.p99_us / 1e3, 1),
                "max_ms": round(case.latency.max_us / 1e3, 1),
            }
            for case in self.cases
        }
        return {
            "workload": NAME,
            "nodes": self.nodes,
            "pods": self.pods,
            "pods_per_second": RATE,
            "lease_gap_ms": round(self.gap * 1e3),
            "cases": cases,
            **machine(),
        }


async def run_hostile(nodes: int = NODES, pods: int = PODS, count: int = COUNT) -> Result:
    """Run all cases. Raises PolicySchedError if an ordinary pod is not bound."""
    with TemporaryDirectory() as name:
        directory = Path(name)
        async with api_server(directory, tls=False) as server:
            kubeconfig = directory / "kubeconfig"
            environment = Environment(CLOCKS, Random(0))  # noqa: S311 - jitter
            async with Api(load([kubeconfig], CLOCKS), environment, Settings(qps=0)) as api:
                await create(api, collection_path(NODE), map(_node, range(nodes)))
                await create(
                    api,
                    collection_path(("resource.k8s.io/v1", "DeviceClass")),
                    [named(devices.device_class())],
                )
                slices = (named(machine_slice(index)) for index in range(min(_MACHINES, nodes)))
                await create(api, collection_path(("resource.k8s.io/v1", "ResourceSlice")), slices)
                enabled = ["Wordy", "Together"]
                options = options_of(directory, kubeconfig, POLICIES, enabled, _ELECTION)
                async with scheduler(directory, options) as running:
                    await running.wait_for("Read the cluster")
                    made = HostilePods(pods, count)
                    run = _Run(api, server, running, made)
                    cases = [await run.case(name, make) for name, make in made.cases()]
    return Result(nodes, pods, tuple(cases))


def _node(index: int) -> Manifest:
    return named(node(index, **{RACK: f"rack-{index // RACK_SIZE}"}))


def machine_slice(index: int) -> Manifest:
    """Return a node's 32 devices: every other one has the same g, and no two the same u."""
    made: list[Manifest] = [
        {
            "name": f"device-{i:02d}",
            "attributes": {"g": {"int": i % 2}, "u": {"int": 32 * index + i}},
        }
        for i in range(32)
    ]
    return devices.node_slice(index, made)


def _claim(name: str, requests: Iterable[Manifest], constraints: list[Manifest]) -> Manifest:
    spec = {"devices": {"requests": list(requests), "constraints": constraints}}
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": spec,
    }


def _request(name: str, count: int, expression: str = "") -> Manifest:
    selectors = [{"cel": {"expression": expression}}] if expression else []
    asked = {"deviceClassName": devices.CLASS, "allocationMode": "ExactCount", "count": count}
    return {"name": name, "exactly": {**asked, "selectors": selectors}}


def _claiming(index: int, name: str) -> Manifest:
    entry: Manifest = {"name": "devices", "resourceClaimName": name}
    return named(pod("claiming", index, {"resourceClaims": [entry]}))


_MATCH: Final[Manifest] = {"matchAttribute": f"{devices.DRIVER}/g"}
_DIFFERS: Final[Manifest] = {"distinctAttribute": f"{devices.DRIVER}/u", "requests": ["r1"]}
Objects = list[tuple[str, Manifest]]
"""Objects with the path of their collection."""


class HostilePods:
    """The pods of each case, and what they claim; no two objects have one name."""

    def __init__(self, pods: int, count: int) -> None:
        self.pods = pods
        self._count = count
        self._made = 0

    def cases(self) -> Iterator[tuple[str, Callable[[], Objects]]]:
        """Yield the pods that come beside ordinary ones, in this order."""
        count = self._count
        yield "nothing else", list
        yield f"{count} claims of 17 devices, of which 16 match", partial(self._claims, [_MATCH])
        unequal = [_DIFFERS, _MATCH]
        yield f"{count} such claims where all devices differ", partial(self._claims, unequal)
        yield f"{count} claims with a selector of 900,000 units", self._selectors
        yield f"{count} pods whose rule loops 10,000,000 times", self._wordy
        yield (
            f"a group of {GROUPED * self.pods} pods, for one rack of {RACK_SIZE} nodes",
            self._group,
        )

    def _claims(self, constraints: list[Manifest]) -> Objects:
        """Return claims of which no two are alike, and their pods."""
        found: Objects = []
        for index in self.numbers(self._count):
            requests = [_request("r1", 9), _request("r2", 8), _request(f"own-{index}", 1)]
            found += self._with_pod(index, requests, constraints)
        return found

    def _selectors(self) -> Objects:
        found: Objects = []
        numbers = ",".join(map(str, range(1, 46)))
        loops = f"[{numbers}].all(a,[{numbers}].all(b,[{numbers}].all(c,a+b+c>0)))"
        for index in self.numbers(self._count):
            expression = f'{loops} && device.attributes["{devices.DRIVER}"].u == -{index + 1}'
            found += self._with_pod(index, [_request("r", 1, expression)], [])
        return found

    def _with_pod(
        self, index: int, requests: list[Manifest], constraints: list[Manifest]
    ) -> Objects:
        name = f"hostile-{index}"
        claim = collection_path(DEVICE_CLAIM, "default"), _claim(name, requests, constraints)
        return [claim, (_PODS, _claiming(index, name))]

    def _wordy(self) -> Objects:
        found: Objects = []
        for index in self.numbers(self._count):
            made = named(pod("wordy", index))
            metadata = made["metadata"]
            assert isinstance(metadata, dict)
            words = f"{index}," + ",".join("a" * _WORDS)
            found.append(
                (_PODS, {**made, "metadata": {**metadata, "annotations": {"words": words}}})
            )
        return found

    def _group(self) -> Objects:
        labels = {"scheduling.x-k8s.io/pod-group": "hostile"}
        wanted = {"cpu": "3900m", "memory": "1Gi"}
        resources: Manifest = {"requests": wanted, "limits": wanted}
        return [
            (_PODS, named(pod("member", index, labels=labels, resources=resources)))
            for index in self.numbers(GROUPED * self.pods)
        ]

    def numbers(self, count: int) -> range:
        """Return numbers that no other object has."""
        self._made += count
        return range(self._made - count, self._made)


class _Run:
    """A server and a scheduler that are up, and what comes."""

    def __init__(
        self, api: Api, server: ServerProcess, running: SchedulerProcess, made: HostilePods
    ) -> None:
        self._api = api
        self._server = server
        self._scheduler = running
        self._made = made
        self._pods = made.pods

    async def case(self, name: str, make: Callable[[], Objects]) -> Case:
        """Let them come beside ordinary pods, wait until all of those are bound, and clear up."""
        hostile = make()
        await self._scheduler.state()
        await self._server.request("begin")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(side_by_side(self._created(hostile)))
            tasks.create_task(self._ordinary())
        await self._bound()
        report, state = await self._server.request("report"), await self._scheduler.state()
        await side_by_side(self._deleted(hostile))
        latency = Latency.of(report["latencies"])
        gap, turn = float(report["lease_gap"]), float(state["longestTurnSeconds"])
        return Case(name, len(hostile), gap, turn, latency)

    def _created(self, objects: Objects) -> Iterator[Awaitable[object]]:
        return (self._api.request("POST", path, one) for path, one in objects)

    def _deleted(self, objects: Objects) -> Iterator[Awaitable[object]]:
        for path, one in reversed(objects):
            metadata = one["metadata"]
            assert isinstance(metadata, dict)
            yield self._api.request(
                "DELETE", f"{path}/{metadata['name']}", {"gracePeriodSeconds": 0}
            )

    async def _ordinary(self) -> None:
        """Create ordinary pods, so many in a second."""
        began = time.perf_counter()
        numbers = self._made.numbers(self._pods)
        for first in range(0, self._pods, _BATCH):
            late = began + first / RATE - time.perf_counter()
            if late > 0:
                await self._api.environment.sleep(late)
            some = min(_BATCH, self._pods - first)
            await create(self._api, _PODS, pending(numbers.start + first, some))

    async def _bound(self) -> None:
        until = time.perf_counter() + _PATIENCE
        while (found := await self._server.request("count"))["bound"] < self._pods:
            if time.perf_counter() > until:
                raise PolicySchedError(f"{found['bound']} of {self._pods} pods are bound")
            await self._api.environment.sleep(0.05)


_PODS: Final = collection_path(POD, "default")
