"""Measures how long the event loop is held by what concerns thousands of pods at once.

Theory of operation. The processes are those of `api_processes`. So many pods come for which no node
has room, and then things happen that concern all of them. After each of them the scheduler logs, at
SIGUSR2, the longest turn of its event loop since the signal before; so each case has
beside it the work of SIGUSR2, the dump of cache and queue and the comparison with the cluster.
A case is over when no request has come to the API server for a while.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final

import msgspec

from policy_sched.bench import api_processes
from policy_sched.bench.manifests import Manifest, node_name, pod
from policy_sched.bench.result import Result
from policy_sched.client.apimachinery import NODE, POD
from policy_sched.client.kube.rest import collection_path, object_path

NAME: Final = "Turns"
NODES: Final = 5_000
PODS: Final = 10_000
EXISTING: Final = 30_000
GANG: Final = 300
MERGE: Final = "application/merge-patch+json"
MAY_BLOCK_MS: Final = 200
"""Milliseconds that a turn may take: leases and probes live for much longer."""


class TurnCase(msgspec.Struct, frozen=True):
    """One kind of event, and what it cost the event loop."""

    longest_ms: float
    """The longest turn of the event loop."""
    cpu_ms: float
    """The most processor time of a turn."""
    seconds: float
    """From the event until the scheduler was idle."""


class Turns(Result, frozen=True):
    """All cases, the cluster that they happened in, and the longest turn of all."""

    nodes: int
    existing: int
    pods: int
    longest_block_ms: float
    longest_block_cpu_ms: float
    cases: dict[str, TurnCase]

    def text_lines(self) -> Iterator[str]:
        """Yield the result for people."""
        yield (
            f"{NAME}: {self.nodes} nodes, {self.existing} pods there before; how long turns of the"
            " scheduler's event loop take at most, and how much of a processor they use"
        )
        for name, case in self.cases.items():
            took = f"{case.longest_ms:6.1f} ms {case.cpu_ms:6.1f} ms"
            yield f"  {took}  {name} ({case.seconds:.1f} s)"
        verdict = "below" if self.longest_block_ms < MAY_BLOCK_MS else "NOT below"
        yield (
            f"  the longest turn of all took {self.longest_block_ms:.0f} ms, {verdict}"
            f" {MAY_BLOCK_MS} ms, and none used more than {self.longest_block_cpu_ms:.0f} ms of a"
            " processor"
        )


async def run_turns(nodes: int = NODES, pods: int = PODS, existing: int = EXISTING) -> Turns:
    """Let everything happen. Raises PolicySchedError if something does not come to an end."""
    objects = api_processes.racked_nodes(nodes), api_processes.bound_pods(existing, nodes)
    async with api_processes.session(objects, api_processes.ONE_RACK, ["Together"]) as running:
        await running.scheduler.state()
        events = _Events(running, nodes, pods)
        cases = {name: await events.case(act) for name, act in events.cases()}
    longest = max(case.longest_ms for case in cases.values())
    busiest = max(case.cpu_ms for case in cases.values())
    return Turns(NAME, nodes, existing, pods, longest, busiest, cases)


class _Events:
    """The events of a cluster that are measured."""

    def __init__(self, running: api_processes.Session, nodes: int, pods: int) -> None:
        self._running = running
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

    async def case(self, act: Callable[[], Awaitable[None]]) -> TurnCase:
        """Let it happen, and wait until all is quiet."""
        began = time.perf_counter()
        await act()
        await self._running.quiet()
        took = time.perf_counter() - began - api_processes.QUIET
        state = await self._running.scheduler.state()
        longest, busiest = state["longestTurnSeconds"], state["busiestTurnSeconds"]
        return TurnCase(
            round(float(longest) * 1e3, 1), round(float(busiest) * 1e3, 1), round(took, 2)
        )

    # What happens.

    async def _crowd(self) -> None:
        await self._create(
            api_processes.POD_PATH,
            (api_processes.filling_pod("wide", i) for i in range(self._pods)),
        )

    async def _node_comes(self) -> None:
        await self._create(collection_path(NODE), [api_processes.racked(self._nodes)])

    async def _pod_goes(self) -> None:
        await self._delete("there-000000")

    async def _node_changes(self) -> None:
        await self._label(object_path(NODE, "", node_name(1)))

    async def _namespace_changes(self) -> None:
        await self._label(object_path(("v1", "Namespace"), "", "default"))

    async def _reload(self) -> None:
        scheduler = self._running.scheduler
        scheduler.forget_log()
        for enabled in ([], ["Together"]):
            self._running.configure(enabled)
            await scheduler.wait_for("Reloaded policies")

    async def _preempts(self) -> None:
        terms = [
            {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": api_processes.RACK}
        ]
        rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        for i in range(3):
            spec: Manifest = {"priority": 1000 + i, "affinity": rule}
            await self._create(
                api_processes.POD_PATH, [api_processes.filling_pod("vip", i, spec, {"app": "x"})]
            )

    async def _gang(self) -> None:
        labels = {"scheduling.x-k8s.io/pod-group": "gang"}
        pods = (api_processes.named(pod("member", i, labels=labels)) for i in range(GANG))
        await self._create(api_processes.POD_PATH, pods)

    async def _relist(self) -> None:
        await self._running.server.request("forget")

    async def _all_go(self) -> None:
        await api_processes.side_by_side(self._delete(f"wide-{i:06d}") for i in range(self._pods))

    async def _create(self, path: str, objects: Iterable[Manifest]) -> None:
        await api_processes.create(self._running.api, path, objects)

    async def _delete(self, name: str) -> None:
        grace = {"gracePeriodSeconds": 0}
        await self._running.api.request("DELETE", object_path(POD, "default", name), grace)

    async def _label(self, path: str) -> None:
        patch = {"metadata": {"labels": {"example.com/touched": "yes"}}}
        await self._running.api.request("PATCH", path, patch, content_type=MERGE)
