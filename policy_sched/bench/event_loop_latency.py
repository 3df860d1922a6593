"""Measures how long the event loop is held by what concerns thousands of pods at once.

Theory of operation. The processes are those of ``bench API``. So many pods come for which no node
has room, and then things happen that concern all of them. After each of them the scheduler logs, at
SIGUSR2, the longest turn of its event loop since the signal before; so each case has
beside it the work of SIGUSR2, the dump of cache and queue and the comparison with the cluster.
A case is over when no request has come to the API server for a while.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

from policy_sched.bench.api import CLOCKS, configure, options_of
from policy_sched.bench.api_processes import (
    PATIENCE,
    SchedulerProcess,
    ServerProcess,
    api_server,
    create,
    create_bound,
    named,
    scheduler,
    side_by_side,
)
from policy_sched.bench.in_process import machine
from policy_sched.bench.manifests import Manifest, node, node_name, pod
from policy_sched.client.apimachinery import NODE, POD
from policy_sched.client.kube.auth import load
from policy_sched.client.kube.rest import Api, Environment, Settings, collection_path, object_path
from policy_sched.errors import PolicySchedError
from policy_sched.report import Document

NAME: Final = "Turns"
NODES: Final = 5_000
PODS: Final = 10_000
EXISTING: Final = 30_000
GANG: Final = 300
MERGE: Final = "application/merge-patch+json"
RACK: Final = "example.com/rack"
RACK_SIZE: Final = 50
MAY_BLOCK: Final = 0.2
"""Seconds that a turn may take: leases and probes live for much longer."""
QUIET: Final = 1.0
"""Seconds without a request after which a case is over."""
TOGETHER: Final = f"""\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {{name: Together}}
spec:
  matchConditions:
  - pod.podGroup != ""
  placement:
    domain: node.labels["{RACK}"]
"""


@dataclass(frozen=True, slots=True)
class Case:
    """Something that happened; all in seconds.

    ``longest``: turn of the event loop, ``busiest``: the most processor time that one used.
    ``took``: until all was quiet.
    """

    name: str
    longest: float
    busiest: float
    took: float


@dataclass(frozen=True, slots=True)
class Result:
    """All cases, and the cluster that they happened in."""

    nodes: int
    existing: int
    pods: int
    cases: tuple[Case, ...]

    @property
    def longest(self) -> float:
        """The longest turn of all, in seconds."""
        return max(case.longest for case in self.cases)

    @property
    def busiest(self) -> float:
        """The most processor time that a turn used, in seconds."""
        return max(case.busiest for case in self.cases)

    def text_lines(self) -> Iterator[str]:
        """Yield the result for people."""
        yield (
            f"{NAME}: {self.nodes} nodes, {self.existing} pods there before; how long turns of the"
            " scheduler's event loop take at most, and how much of a processor they use"
        )
        for case in self.cases:
            longest, busiest = case.longest * 1e3, case.busiest * 1e3
            yield f"  {longest:6.1f} ms {busiest:6.1f} ms  {case.name} ({case.took:.1f} s)"
        verdict = "below" if self.longest < MAY_BLOCK else "NOT below"
        longest, busiest = self.longest * 1e3, self.busiest * 1e3
        yield (
            f"  the longest turn of all took {longest:.0f} ms, {verdict} 200 ms,"
            f" and none used more than {busiest:.0f} ms of a processor"
        )

    def document(self) -> Document:
        """Return the result as plain data."""
        cases: dict[str, Any] = {
            case.name: {
                "longest_ms": round(case.longest * 1e3, 1),
                "cpu_ms": round(case.busiest * 1e3, 1),
                "seconds": round(case.took, 2),
            }
            for case in self.cases
        }
        return {
            "workload": NAME,
            "nodes": self.nodes,
            "existing": self.existing,
            "pods": self.pods,
            "longest_block_ms": round(self.longest * 1e3, 1),
            "longest_block_cpu_ms": round(self.busiest * 1e3, 1),
            "cases": cases,
            **machine(),
        }


async def run_turns(nodes: int = NODES, pods: int = PODS, existing: int = EXISTING) -> Result:
    """Let everything happen. Raises PolicySchedError if something does not come to an end."""
    with TemporaryDirectory() as name:
        directory = Path(name)
        async with api_server(directory, tls=False) as server:
            kubeconfig = directory / "kubeconfig"
            environment = Environment(CLOCKS, Random(0))  # noqa: S311 - jitter
            async with Api(load([kubeconfig], CLOCKS), environment, Settings(qps=0)) as api:
                await create(api, collection_path(NODE), map(_node, range(nodes)))
                await create_bound(api, existing, nodes)
                options = options_of(directory, kubeconfig, TOGETHER, ["Together"])
                async with scheduler(directory, options) as running:
                    await running.wait_for("Read the cluster")
                    await running.state()
                    run = _Run(api, server, running, directory, nodes, pods)
                    cases = [await run.case(name, act) for name, act in run.cases()]
    return Result(nodes, existing, pods, tuple(cases))


def _node(index: int) -> Manifest:
    return named(node(index, **{RACK: f"rack-{index // RACK_SIZE}"}))


class _Run:
    """A server and a scheduler that are up, and what may happen."""

    def __init__(
        self,
        api: Api,
        server: ServerProcess,
        running: SchedulerProcess,
        directory: Path,
        nodes: int,
        pods: int,
    ) -> None:
        self._api = api
        self._server = server
        self._scheduler = running
        self._directory = directory
        self._nodes = nodes
        self._pods = pods

    def cases(self) -> Iterator[tuple[str, Callable[[], Awaitable[None]]]]:
        """Yield what happens, in this order."""
        yield f"{self._pods} pods come without room", self._crowd
        yield "a node comes, with room for one", self._node_comes
        yield "a pod is deleted", self._pod_goes
        yield "a node gets another label", self._node_changes
        yield "a namespace gets another label", self._namespace_changes
        yield "other policies, all pods are evaluated again", self._reload
        yield "a pod preempts, and keeps apart from others", self._preempts
        yield f"a gang of {GANG} goes to one rack", self._gang
        yield "all pods are listed anew", self._relist
        yield f"{self._pods} pods are deleted", self._all_go

    async def case(self, name: str, act: Callable[[], Awaitable[None]]) -> Case:
        """Let it happen, and wait until all is quiet."""
        began = time.perf_counter()
        await act()
        await self._quiet()
        took = time.perf_counter() - began - QUIET
        state = await self._scheduler.state()
        longest, busiest = state["longestTurnSeconds"], state["busiestTurnSeconds"]
        return Case(name, float(longest), float(busiest), took)

    async def _quiet(self) -> None:
        until = time.perf_counter() + PATIENCE
        last, since = -1, time.perf_counter()
        while time.perf_counter() - since < QUIET:
            count = (await self._server.request("requests"))["writes"]
            now = time.perf_counter()
            if count != last:
                last, since = count, now
            if now > until:
                raise PolicySchedError(f"requests do not end: {count} so far")
            await self._api.environment.sleep(0.1)

    # What happens.

    async def _crowd(self) -> None:
        await create(self._api, _PODS, (_wide("wide", i) for i in range(self._pods)))

    async def _node_comes(self) -> None:
        await create(self._api, collection_path(NODE), [_node(self._nodes)])

    async def _pod_goes(self) -> None:
        await self._delete("there-000000")

    async def _node_changes(self) -> None:
        await self._label(object_path(NODE, "", node_name(1)))

    async def _namespace_changes(self) -> None:
        await self._label(object_path(("v1", "Namespace"), "", "default"))

    async def _reload(self) -> None:
        self._scheduler.forget_log()
        configure(self._directory, [])
        await self._scheduler.wait_for("Reloaded policies")
        configure(self._directory, ["Together"])
        await self._scheduler.wait_for("Reloaded policies")

    async def _preempts(self) -> None:
        terms = [{"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": RACK}]
        rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        for i in range(3):
            spec: Manifest = {"priority": 1000 + i, "affinity": rule}
            await create(self._api, _PODS, [_wide("vip", i, spec, {"app": "x"})])

    async def _gang(self) -> None:
        labels = {"scheduling.x-k8s.io/pod-group": "gang"}
        pods = (named(pod("member", i, labels=labels)) for i in range(GANG))
        await create(self._api, _PODS, pods)

    async def _relist(self) -> None:
        await self._server.request("forget")

    async def _all_go(self) -> None:
        await side_by_side(self._delete(f"wide-{i:06d}") for i in range(self._pods))

    async def _delete(self, name: str) -> None:
        grace = {"gracePeriodSeconds": 0}
        await self._api.request("DELETE", object_path(POD, "default", name), grace)

    async def _label(self, path: str) -> None:
        patch = {"metadata": {"labels": {"example.com/touched": "yes"}}}
        await self._api.request("PATCH", path, patch, content_type=MERGE)


_PODS: Final = collection_path(POD, "default")


def _wide(
    prefix: str, index: int, spec: Manifest | None = None, labels: dict[str, str] | None = None
) -> Manifest:
    """Return a pod that wants a node for itself."""
    wanted = {"cpu": "3900m", "memory": "1Gi"}
    resources: Manifest = {"requests": wanted, "limits": wanted}
    return named(pod(prefix, index, spec, labels=labels, resources=resources))
