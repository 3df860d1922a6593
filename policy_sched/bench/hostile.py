"""Measures scheduling of ordinary pods beside the worst pods that we know: ``bench Hostile``.

Theory of operation. The processes are those of `api_processes`. 500 ordinary pods arrive per
second. Beside them, case by case, come unschedulable pods that cost as much work as the API admits:
a claim with more devices than share an attribute, a claim of distinct devices, selectors next to
CEL's limit of cost, a policy's rule with a loop over an annotation, a group. The API server notes
when the lease is renewed, which the scheduler is to do five times in a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import Final

import msgspec

from policy_sched.bench import api_processes, device_manifests as devices
from policy_sched.bench.manifests import Manifest, pod
from policy_sched.bench.result import Latency, Result
from policy_sched.client.apimachinery import DEVICE_CLAIM
from policy_sched.client.kube.rest import collection_path

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
MAY_TAKE_MS: Final = 1_000
"""Milliseconds between two renewals of the lease."""
_MACHINES: Final = 8
"""Nodes with devices."""
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
{api_processes.ONE_RACK}"""
_ELECTION: Final = {"leaderElection": {"retryPeriod": "200ms"}}
"""Renewals are to come five times in a second, so that a gap shows."""


class HostileCase(msgspec.Struct, frozen=True):
    """The latencies of ordinary pods beside ``hostile`` objects.

    Percentiles: of ordinary pods, from creation to binding.
    """

    hostile: int
    lease_gap_ms: int
    """The longest time between two renewals of the lease."""
    longest_block_ms: float
    """The longest turn of the event loop."""
    p50_ms: float
    p99_ms: float
    max_ms: float


class Beside(Result, frozen=True):
    """All cases, how many ordinary pods were bound beside each, and the longest gap of all."""

    nodes: int
    pods: int
    pods_per_second: int
    lease_gap_ms: int
    cases: dict[str, HostileCase]

    @staticmethod
    def of(nodes: int, pods: int, cases: dict[str, HostileCase]) -> Beside:
        """Return the result of all cases."""
        gap = max(case.lease_gap_ms for case in cases.values())
        return Beside(NAME, nodes, pods, RATE, gap, cases)

    def text_lines(self) -> Iterator[str]:
        """Yield the result for people."""
        yield (
            f"{NAME}: {self.nodes} nodes, {RATE} ordinary pods a second, {self.pods} beside each"
            " case; all of them were bound"
        )
        yield "  lease gap   turn   p50 ms   p99 ms   max ms  beside"
        for name, case in self.cases.items():
            times = (case.p50_ms, case.p99_ms, case.max_ms)
            yield (
                f"  {case.lease_gap_ms / 1e3:7.2f} s {case.longest_block_ms / 1e3:6.2f} "
                f"{' '.join(f'{ms:8,.0f}' for ms in times)}  {name}"
            )
        verdict = "below" if self.lease_gap_ms < MAY_TAKE_MS else "NOT below"
        gap = f"{self.lease_gap_ms / 1e3:.2f} s"
        yield f"  the longest gap of lease renewal was {gap}, {verdict} 1 s"


async def run_hostile(nodes: int = NODES, pods: int = PODS, count: int = COUNT) -> Beside:
    """Run all cases. Raises PolicySchedError if an ordinary pod is not bound."""
    made = HostilePods(pods, count)
    slices = (api_processes.named(machine_slice(index)) for index in range(min(_MACHINES, nodes)))
    objects = (
        api_processes.racked_nodes(nodes),
        (
            collection_path(("resource.k8s.io/v1", "DeviceClass")),
            [api_processes.named(devices.device_class())],
        ),
        (collection_path(("resource.k8s.io/v1", "ResourceSlice")), slices),
    )
    async with api_processes.session(
        objects, POLICIES, ["Wordy", "Together"], _ELECTION
    ) as running:
        cases = {name: await _case(running, made, make()) for name, make in made.cases()}
    return Beside.of(nodes, pods, cases)


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
    return api_processes.named(pod("claiming", index, {"resourceClaims": [entry]}))


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
        size = api_processes.RACK_SIZE
        yield f"a group of {GROUPED * self.pods} pods, for one rack of {size} nodes", self._group

    def _claims(self, constraints: list[Manifest]) -> Objects:
        """Return claims of which no two are alike, and their pods."""
        objects: Objects = []
        for index in self.numbers(self._count):
            requests = [_request("r1", 9), _request("r2", 8), _request(f"own-{index}", 1)]
            objects += self._with_pod(index, requests, constraints)
        return objects

    def _selectors(self) -> Objects:
        objects: Objects = []
        numbers = ",".join(map(str, range(1, 46)))
        loops = f"[{numbers}].all(a,[{numbers}].all(b,[{numbers}].all(c,a+b+c>0)))"
        for index in self.numbers(self._count):
            expression = f'{loops} && device.attributes["{devices.DRIVER}"].u == -{index + 1}'
            objects += self._with_pod(index, [_request("r", 1, expression)], [])
        return objects

    def _with_pod(
        self, index: int, requests: list[Manifest], constraints: list[Manifest]
    ) -> Objects:
        name = f"hostile-{index}"
        claim = collection_path(DEVICE_CLAIM, "default"), _claim(name, requests, constraints)
        return [claim, (api_processes.POD_PATH, _claiming(index, name))]

    def _wordy(self) -> Objects:
        objects: Objects = []
        for index in self.numbers(self._count):
            made = api_processes.named(pod("wordy", index))
            metadata = made["metadata"]
            assert isinstance(metadata, dict)
            words = f"{index}," + ",".join("a" * _WORDS)
            objects.append(
                (
                    api_processes.POD_PATH,
                    {**made, "metadata": {**metadata, "annotations": {"words": words}}},
                )
            )
        return objects

    def _group(self) -> Objects:
        labels = {"scheduling.x-k8s.io/pod-group": "hostile"}
        numbers = self.numbers(GROUPED * self.pods)
        return [
            (api_processes.POD_PATH, api_processes.filling_pod("member", index, labels=labels))
            for index in numbers
        ]

    def numbers(self, count: int) -> range:
        """Return numbers that no other object has."""
        self._made += count
        return range(self._made - count, self._made)


async def _case(running: api_processes.Session, made: HostilePods, hostile: Objects) -> HostileCase:
    """Let them come beside ordinary pods, wait until all of those are bound, and clear up."""
    await running.scheduler.state()
    await running.server.request("begin")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(api_processes.side_by_side(_created(running, hostile)))
        tasks.create_task(running.create_pods(made.numbers(made.pods), RATE))
    await running.bound(made.pods, _PATIENCE)
    report, state = await running.server.request("report"), await running.scheduler.state()
    await api_processes.side_by_side(_deleted(running, hostile))
    gap, turn = float(report["lease_gap"]), float(state["longestTurnSeconds"])
    percentiles = Latency.of(report["latencies"]).milliseconds
    return HostileCase(len(hostile), round(gap * 1e3), round(turn * 1e3, 1), *percentiles)


def _created(running: api_processes.Session, objects: Objects) -> Iterator[Awaitable[object]]:
    return (running.api.request("POST", path, manifest) for path, manifest in objects)


def _deleted(running: api_processes.Session, objects: Objects) -> Iterator[Awaitable[object]]:
    for path, manifest in reversed(objects):
        metadata = manifest["metadata"]
        assert isinstance(metadata, dict)
        at_once = {"gracePeriodSeconds": 0}
        yield running.api.request("DELETE", f"{path}/{metadata['name']}", at_once)
